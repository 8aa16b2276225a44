"""A person's machine in a folder: their home, their project, and the command line run as a process."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyte
import pytest
from tests import started
from tests.running import arguments, pids
from tests.server.conftest import Served, environment_in
from tests.waiting import PATIENCE

ROWS = 300
"""Of the terminals that tests look at."""
COMMAND = [sys.executable, "-m", "instar"]


class Machine:
    """A home and a project folder, and `instar` in them."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self.home = Path(environment["HOME"])
        self.project = root / "project"
        self.project.mkdir()
        self.environment = dict(environment)

    def script(self, text: str) -> None:
        """Give the scripted model this script."""
        path = self.home / "script.txt"
        path.write_text(text)
        self.environment["INSTAR_SCRIPT"] = str(path)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def write_home(self, name: str, text: str) -> Path:
        """Write a file of the home configuration."""
        path = Path(self.environment["XDG_CONFIG_HOME"]) / "instar" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def runs(self, needle: str) -> bool:
        """Whether a process runs whose command line holds `needle`."""
        return any(needle.encode() in arguments(pid).replace(b"\0", b" ") for pid in pids())

    def instar(
        self, *arguments: str, stdin: bytes | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; without `stdin` there is none."""
        done = started.run(
            [*arguments],
            cwd=cwd or self.project,
            environment=self.environment,
            stdin=stdin,
            timeout=PATIENCE,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def fresh(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        """Run a command to its end in an interpreter of its own, whose command line names it."""
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
        )

    def run(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
        """Run `instar run` with the scripted model."""
        return self.instar("run", "-m", "scripted/test", *arguments, stdin=stdin)


class Screen:
    """A process on a terminal of its own; with `ROWS` rows nothing scrolls away."""

    def __init__(
        self, argv: list[str], cwd: Path, environment: Mapping[str, str], columns: int, height: int
    ) -> None:
        self.raw = b""
        self.code: int | None = None
        self._height = height
        self._emulated = pyte.Screen(columns, height)
        self._emulator = pyte.ByteStream(self._emulated)
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            termios.tcsetwinsize(0, (height, columns))
            os.chdir(cwd)
            os.execve(argv[0], argv, dict(environment))

    @property
    def rows(self) -> list[str]:
        """What a person sees now: the rows of the terminal, without empty ones at the end."""
        found = [row.rstrip() for row in self._emulated.display]
        while found and not found[-1]:
            found.pop()
        return found

    def style(self, text: str) -> "pyte.screens.Char":
        """How the first character of a text is shown."""
        for y, row in enumerate(self._emulated.display):
            if text in row:
                return self._emulated.buffer[y][row.index(text)]
        raise AssertionError(f"{text!r} is not on the screen:\n" + "\n".join(self.rows))

    def resize(self, columns: int) -> None:
        """Give the terminal another width, as a window's border does. Rows that stand there are cut, not wrapped."""
        termios.tcsetwinsize(self._terminal, (self._height, columns))
        self._emulated.resize(self._height, columns)
        os.kill(self.pid, signal.SIGWINCH)

    @property
    def text(self) -> str:
        """What was printed so far, without control sequences."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw.decode(errors="replace")).replace("\r", "")

    def wait_for(self, text: str) -> None:
        """Read until `text` was printed."""
        self._read(lambda: text in self.text, text)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Read until something else has come to pass."""
        self._read(condition, "something else")

    def type(self, text: str) -> None:
        """Type on the terminal's keyboard."""
        os.write(self._terminal, text.encode())

    def end(self) -> int:
        """Read to the end and return the exit code."""
        self._read(lambda: False, None)
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    @property
    def is_raw(self) -> bool:
        """Whether the program has each key at once, and the terminal shows none by itself."""
        return not termios.tcgetattr(self._terminal)[3] & (termios.ECHO | termios.ICANON)

    def hang_up(self) -> int:
        """Close the terminal, as its window is closed, and return the exit code."""
        os.close(self._terminal)
        self._terminal = os.open(os.devnull, os.O_RDONLY)
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def close(self) -> None:
        """End the process, if it still runs."""
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._terminal)

    def _read(self, is_enough: Callable[[], bool], wanted: str | None) -> None:
        until = time.monotonic() + PATIENCE
        while not is_enough():
            assert time.monotonic() < until, f"{wanted!r} was not printed:\n{self.text}"
            if not select.select([self._terminal], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self._terminal, 65536)
            except OSError:  # Linux says so when the last process has closed its end
                data = b""
            if not data:
                assert wanted is None, f"ended before {wanted!r} was printed:\n{self.text}"
                return
            self.raw += data
            self._emulator.feed(data)


@pytest.fixture
def machine(tmp_path: Path, clean_environment: Mapping[str, str]) -> Machine:
    """A machine on which nothing was ever run."""
    return Machine(tmp_path, clean_environment)


@pytest.fixture
def screen(machine: Machine) -> Iterator[Callable[..., Screen]]:
    """Start `instar`, or another program (`argv`), on a terminal with colours."""
    started: list[Screen] = []

    def start(
        *arguments: str,
        columns: int = 100,
        height: int = ROWS,
        argv: Sequence[str] = COMMAND,
        **variables: str,
    ) -> Screen:
        environment = {**machine.environment, "TERM": "xterm-256color", **variables}
        if "NO_COLOR" not in variables:
            environment.pop("NO_COLOR")
        started.append(Screen([*argv, *arguments], machine.project, environment, columns, height))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start a server in a folder of its own; `script` is what its scripted model says."""
    started: list[Served] = []
    root = tmp_path / "server"
    (root / "project").mkdir(parents=True)

    def start(*arguments: str, script: str = "== turn\ntext: hello\n") -> Served:
        (root / "script.txt").write_text(script)
        started.append(Served(list(arguments), root / "project", environment_in(root)))
        return started[-1]

    yield start
    for one in started:
        one.stop()
