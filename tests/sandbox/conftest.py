"""A person's home with a workspace, what is guarded in it, and children that are started as the model's are."""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.running import arguments, pids
from tests.waiting import SOON

from instar.process import Output, Processes
from instar.sandbox.box import Limits, Sandbox
from instar.sandbox.level import Level
from instar.sandbox.place import Copy, copy_of, remove
from instar.sandbox.probe import find_level
from instar.sandbox.shield import Shield

KEY = "sk-this-is-the-key-4711"
"""What stands in hidden files and in the environment of the process outside."""


async def _found() -> Level:
    made = Processes()
    try:
        return await find_level(made, os.environ)
    finally:
        await made.close()


BEST = asyncio.run(_found())
REACHED = ["bubblewrap", "landlock", "none"][["bubblewrap", "landlock", "none"].index(BEST.name) : 2]
"""The levels of this machine; what needs a higher one is not collected, and the summary says so."""
collect_ignore_glob = {
    "bubblewrap": [] if BEST.overlay else ["test_copies.py"],
    "landlock": ["test_probe.py", "test_box.py", "test_copies.py", "test_mounts.py", "test_seccomp.py"],
    "none": ["test_*.py"],
}[BEST.name]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what this machine could not show."""
    if collect_ignore_glob:
        terminalreporter.write_line(
            f"sandbox: this machine reaches {BEST.name}: {BEST.missing}; {BEST.todo}. Not collected:"
            f" {', '.join(collect_ignore_glob)}"
        )


NAP = f"61.{os.getpid()}"
"""How long a child that is left behind sleeps: by it the test finds its own."""


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    made = Processes()
    yield made
    await made.close()


@pytest.fixture(params=REACHED)
async def level(request: pytest.FixtureRequest, processes: Processes) -> Level:
    """Each level that this machine reaches, in turn."""
    return await find_level(processes, os.environ, request.param)


def state_of(path: Path) -> dict[str, str]:
    """What stands below `path`: kinds, modes, owners and contents."""
    found = {}
    for one in [path, *sorted(path.rglob("*"))]:
        if not os.path.lexists(one):
            continue
        status = one.lstat()
        content = ""
        if stat.S_ISLNK(status.st_mode):
            content = str(one.readlink())
        elif stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(one.read_bytes()).hexdigest()
        time = "" if stat.S_ISDIR(status.st_mode) else str(status.st_mtime_ns)
        attributes = [] if stat.S_ISLNK(status.st_mode) else os.listxattr(one)
        found[str(one)] = f"{oct(status.st_mode)} {status.st_uid} {time} {attributes} {content}"
    return found


class Home:
    """``code/ws`` is the workspace; ``.local/share/instar`` is hidden, and ``.config/instar``, which is missing."""

    def __init__(self, root: Path) -> None:
        self.path = root / "home"
        self.workspace = self.path / "code/ws"
        self.data = self.path / ".local/share/instar"
        self.config = self.path / ".config/instar"
        for folder in ("hooks", "tests", "src", "notes"):
            (self.workspace / folder).mkdir(parents=True)
        (self.workspace / "hooks/a.py").write_text("print('as it was')\n")
        (self.workspace / "tests/t.py").write_text("assert True\n")
        (self.workspace / "src/main.py").write_text("code\n")
        self.data.mkdir(parents=True)
        (self.path / ".config").mkdir()
        (self.data / "auth.json").write_text(KEY)
        git = ("git", "-c", "init.defaultBranch=main", "init", "-q")
        subprocess.run(git, cwd=self.workspace, check=True)
        self.hidden = (self.data, self.config)
        self.readonly = tuple(
            self.workspace / one for one in ("hooks", "prompts", "tests", "evals", "config", ".git")
        )

    def guarded(self) -> dict[str, str]:
        """The state of all that is guarded; an empty folder that was missing counts as missing."""
        found: dict[str, str] = {}
        for path in (*self.hidden, *self.readonly):
            below = state_of(path)
            found |= {} if len(below) == 1 and path.is_dir() and not path.is_symlink() else below
        return found

    def shield(self, level: Level, *, inside: bool = True) -> Shield:
        return Shield(level, self.hidden, self.readonly, inside=inside)

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path),
            "WS": str(self.workspace),
            "DATA": str(self.data),
            "CONFIG": str(self.config),
            "PY": sys.executable,
            "NAP": NAP,
            **more,
        }


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


QUIET = Path(f"/var/tmp/instar-tests-{os.getuid()}")
SLOTS = 32


@pytest.fixture(scope="session")
def quiet_folder() -> Iterator[Path]:
    """A folder of this test process, with nobody who makes or removes files in the folders above it.

    Landlock alone names the entries of each folder above a guarded path. A file that comes or goes there is a changed
    confinement, for which another process is started, and in the temporary folder that never stops. So these folders
    stay after the tests.
    """
    for number in range(SLOTS):
        (QUIET / str(number)).mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(SLOTS):
        held = os.open(QUIET / str(number), os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            continue
        yield QUIET / str(number)
        os.close(held)
        return
    pytest.fail(f"{SLOTS} test processes hold all folders of {QUIET}")


@pytest.fixture
def quiet_home(quiet_folder: Path) -> Iterator[Home]:
    # An earlier process may have been killed.
    for left in quiet_folder.iterdir():
        remove(left)
    made = Home(quiet_folder)
    yield made
    remove(made.path)


@contextlib.contextmanager
def neighbour(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same person outside: it has a key in its environment and a hidden file open."""
    with (home.data / "auth.json").open() as file:
        child = subprocess.Popen(
            ["sleep", "60"],
            stdin=file,
            cwd=home.workspace / "hooks",
            env={"PATH": os.environ["PATH"], "API_KEY": KEY},
        )
    try:
        yield child
    finally:
        child.kill()
        child.wait()


@pytest.fixture
def outside(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    with neighbour(home) as child:
        yield child


class Listeners:
    """Services outside: TCP, a socket with a path in the runtime folder, and one with an abstract name."""

    def __init__(self, root: Path) -> None:
        self.runtime = root / "runtime"
        self.runtime.mkdir(mode=0o700)
        self.abstract = f"instar-test-{os.getpid()}-{root.name}"
        self.sockets = [socket.socket(), *(socket.socket(socket.AF_UNIX) for _ in range(3))]
        self.sockets[0].bind(("127.0.0.1", 0))
        self.sockets[1].bind(str(self.runtime / "bus"))
        self.sockets[2].bind("\0" + self.abstract)
        self.sockets[3].bind(str(self.runtime / "agent"))
        for one in self.sockets:
            one.listen()

    def close(self) -> None:
        for one in self.sockets:
            one.close()

    def environment(self) -> dict[str, str]:
        return {
            "XDG_RUNTIME_DIR": str(self.runtime),
            "SSH_AUTH_SOCK": str(self.runtime / "agent"),
            "ABSTRACT": self.abstract,
            "PORT": str(self.sockets[0].getsockname()[1]),
        }


@pytest.fixture
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    # A socket's path holds 107 bytes.
    made = Listeners(tmp_path_factory.mktemp("s"))
    yield made
    made.close()


@pytest.fixture
def copied(home: Home, level: Level) -> Iterator[Copy]:
    with copy_of(home.workspace, level) as made:
        yield made


async def shielded(processes: Processes, home: Home, level: Level, script: str, **env: str) -> Output:
    """Run `script` as the model's bash."""
    return await processes.run(
        ["/bin/bash", "-c", script],
        cwd=home.workspace,
        env=home.environment(**env),
        timeout=20,
        merge=True,
        confine=home.shield(level),
    )


LIMITS = Limits(cpu=1, memory=512 << 20, processes=32, file=1 << 20, temporary=4 << 20)


async def sandboxed(
    processes: Processes, home: Home, copy: Copy, level: Level, script: str, timeout: float = 20, **env: str
) -> Output:
    """Run `script` as a candidate."""
    return await processes.run(
        ["/bin/bash", "-c", script],
        cwd=home.workspace,
        env=home.environment(API_KEY=KEY, **env),
        timeout=timeout,
        merge=True,
        limit=1 << 16,
        confine=Sandbox(
            level, copy, LIMITS, keep=frozenset(("PY", "NAP", "WS", "DATA", "PID", "PORT", "ABSTRACT", *env))
        ),
    )


def assert_nothing_runs(command: str) -> None:
    """Killed is not yet gone: the kernel may take a moment."""
    until = time.monotonic() + SOON
    while running := running_as(command):
        assert time.monotonic() < until, running
        time.sleep(0.005)


def running_as(command: str) -> list[int]:
    words = command.replace(" ", "\0").encode() + b"\0"
    return [pid for pid in pids() if arguments(pid) == words]
