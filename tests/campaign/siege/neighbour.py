"""Another user of the machine, beside a server that works for a person: only root can play them.

The person's home is open to all, which is the worst; what instar writes there must not be. Each attempt is a fork that
becomes the other user, and each that changes nothing is made as the person first: what fails then shows nothing.
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.campaign.siege.case import Case, Ended, judged
from tests.running import pids
from tests.server.conftest import LOGIN, Served, environment_in
from tests.waiting import wait_until

SECRET: Final = "sk-of-the-person-4714"
USER: Final = 65534
LIBC: Final = ctypes.CDLL(None, use_errno=True)
SCRIPT: Final = """\
== turn
tool: bash {"command": "echo SECRET > note; head -c 200000 /dev/zero | tr '\\\\0' x; echo SECRET"}
tool: background {"action": "start", "command": "exec sleep 600"}
== turn
text: SECRET
"""


class Target(NamedTuple):
    """What stands on the machine: instar's folders and processes, its port, and the folder for temporary files."""

    root: Path
    server: int
    children: Sequence[int]
    port: int
    socket: Path
    temporary: Path
    sockets: Sequence[str]

    @property
    def processes(self) -> list[int]:
        return [self.server, *self.children]


Attempt = Callable[[Target], object]
"""Something true where it got through; an `OSError` where it did not."""


def holds_secret(path: Path) -> bool:
    return SECRET.encode() in path.read_bytes()


def below(*folders: Path) -> Iterator[Path]:
    for folder in folders:
        for place, _, files in os.walk(folder):
            yield from (Path(place, name) for name in files)


def any_of(attempt: Callable[[int], object], of: Sequence[int]) -> bool:
    """Whether an attempt got through at one of these processes."""
    for one in of:
        with contextlib.suppress(OSError):
            if attempt(one):
                return True
    return False


def called(result: int) -> bool:
    """Whether a call of the C library did not fail."""
    return result >= 0


def finds(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return holds_secret(path)
    return False


def writable(folder: Path) -> bool:
    """Whether something can be written below a folder, in it or in place of one of its files."""
    for place, folders, files in os.walk(folder):
        if any(os.access(Path(place, one), os.W_OK) for one in (*folders, *files, ".")):
            return True
    return os.access(folder, os.W_OK) or os.access(folder.parent, os.W_OK)


def memory(pid: int) -> bool:
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as file:
        for line in maps:
            if "[stack]" in line:
                file.seek(int(line.split("-")[0], 16))
                return bool(file.read(16))
    return False


def answered(port: int, line: str, header: str = "X: y") -> bool:
    with socket.create_connection(("127.0.0.1", port), 5) as joined:
        joined.settimeout(10)
        joined.sendall(
            f"{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{header}\r\nConnection: close\r\n\r\n".encode()
        )
        return joined.recv(64).startswith(b"HTTP/1.1 2")


def listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as joined:
        joined.connect(path)
        return True


def held(path: Path) -> bool:
    """Whether a lock can be taken on a file."""
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True


def read_of(pid: int) -> bool:
    """Whether another's memory can be read by a system call."""
    with open(f"/proc/{pid}/maps") as maps:
        start = int(maps.readline().split("-")[0], 16)
    here = (ctypes.c_char * 16)()
    local = (ctypes.c_void_p * 2)(ctypes.addressof(here), 16)
    there = (ctypes.c_void_p * 2)(start, 16)
    return LIBC.process_vm_readv(pid, local, 1, there, 1, 0) > 0


def descriptor_of(pid: int) -> bool:
    return called(LIBC.syscall(438, os.pidfd_open(pid), 0, 0))


def names_of_sockets(of: Sequence[int]) -> list[str]:
    """Return the names of the Unix sockets that these processes have open, abstract ones too."""
    open_ = {os.path.basename(os.path.realpath(fd)) for pid in of for fd in Path(f"/proc/{pid}/fd").iterdir()}
    with open("/proc/net/unix") as file:
        rows = [line.split() for line in file]
    return [row[7].replace("@", "\0", 1) for row in rows if len(row) == 8 and f"socket:[{row[6]}]" in open_]


READS: Final[dict[str, dict[str, Attempt]]] = {
    "file": {
        "the logins": lambda at: holds_secret(at.root / "data/auth.json"),
        "the database": lambda at: (
            holds_secret(at.root / "data/instar.db") or holds_secret(at.root / "data/instar.db-wal")
        ),
        "the database by its library": lambda at: (
            sqlite3.connect(f"file:{at.root}/data/instar.db?mode=ro", uri=True)
            .execute("select count(*) from session")
            .fetchone()
        ),
        "the database's write-ahead log": lambda at: (at.root / "data/instar.db-wal").read_bytes(),
        "the server's password": lambda at: (at.root / "data/server-password").read_text(),
        "long outputs of tools": lambda at: list((at.root / "data/tool-output").iterdir()),
        "the log": lambda at: [one.read_text() for one in (at.root / "state").rglob("*.log")],
        "the names of the data folder": lambda at: os.listdir(at.root / "data"),
        "anything in the data folder with the secret": lambda at: any(map(finds, below(at.root / "data"))),
        "anything in the data folder": lambda at: any(
            os.access(one, os.R_OK) for one in below(at.root / "data")
        ),
        "anything that logs say": lambda at: any(os.access(one, os.R_OK) for one in below(at.root / "state")),
        "a lock on the database": lambda at: held(at.root / "data/instar.db"),
    },
    "process": {
        "the environment": lambda at: any_of(
            lambda pid: Path(f"/proc/{pid}/environ").read_bytes(), at.processes
        ),
        "the memory": lambda at: any_of(memory, at.processes),
        "the memory by a system call": lambda at: any_of(read_of, at.processes),
        "the addresses": lambda at: any_of(lambda pid: Path(f"/proc/{pid}/maps").read_bytes(), at.processes),
        "the list of open files": lambda at: any_of(lambda pid: os.listdir(f"/proc/{pid}/fd"), at.processes),
        "an open file": lambda at: any_of(
            lambda pid: os.open(f"/proc/{pid}/fd/0", os.O_RDONLY), at.processes
        ),
        "the folder it works in": lambda at: any_of(
            lambda pid: os.readlink(f"/proc/{pid}/cwd"), at.processes
        ),
        "the root": lambda at: any_of(lambda pid: os.listdir(f"/proc/{pid}/root/"), at.processes),
        "the program": lambda at: any_of(lambda pid: os.readlink(f"/proc/{pid}/exe"), at.processes),
        "the counts of reads and writes": lambda at: any_of(
            lambda pid: Path(f"/proc/{pid}/io").read_bytes(), at.processes
        ),
        "the system call": lambda at: any_of(
            lambda pid: Path(f"/proc/{pid}/syscall").read_bytes(), at.processes
        ),
        "a descriptor": lambda at: any_of(descriptor_of, at.processes),
        "tracing": lambda at: any_of(lambda pid: called(LIBC.ptrace(0x4206, pid, 0, 0)), at.children[-1:]),
        "a signal that does nothing": lambda at: any_of(lambda pid: os.kill(pid, 0) is None, at.processes),
        "its limits": lambda at: any_of(
            lambda pid: called(LIBC.prlimit(pid, 7, 0, (ctypes.c_ulong * 2)())), at.processes
        ),
        "its priority": lambda at: any_of(
            lambda pid: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)) is None,
            at.processes,
        ),
        "its processors": lambda at: any_of(
            lambda pid: os.sched_setaffinity(pid, os.sched_getaffinity(pid)) is None, at.processes
        ),
    },
    "socket": {
        "the server's socket": lambda at: listens(str(at.socket)),
    },
}
"""What the person can do, and the other user must not be able to."""

ENDS: Final = (
    signal.SIGTERM,
    signal.SIGKILL,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGSTOP,
    signal.SIGUSR1,
    signal.SIGCHLD,
)
FILES: Final = (
    "auth.json",
    "trust.json",
    "instar.db",
    "instar.db-wal",
    "server-password",
    "accepted",
    "tool-output",
)

TRIES: Final[dict[str, dict[str, Attempt]]] = {
    "file": {
        **{f"write {name}": lambda at, name=name: writable(at.root / "data" / name) for name in FILES},
        **{
            f"add to {name}": lambda at, name=name: (at.root / name / "evil").write_text("x")
            for name in ("data", "state", "cache", "config", "project")
        },
        "change modes of the data folder": lambda at: os.chmod(at.root / "data", 0o777) is None,
        "rename the data folder": lambda at: os.rename(at.root / "data", at.root / "old") is None,
        "write anything in the data folder": lambda at: writable(at.root / "data"),
        "write anything of the cache": lambda at: writable(at.root / "cache"),
        "write anything of the logs": lambda at: writable(at.root / "state"),
        "link the logins": lambda at: os.link(at.root / "data/auth.json", at.temporary / "hard") is None,
    },
    "process": {
        **{
            f"send {one.name}": lambda at, one=one: any_of(
                lambda pid: os.kill(pid, one) is None, at.processes
            )
            for one in ENDS
        },
        **{
            f"send {one.name} to the group": lambda at, one=one: any_of(
                lambda pid: os.killpg(os.getpgid(pid), one) is None, at.processes
            )
            for one in ENDS
        },
        "send by a descriptor": lambda at: any_of(
            lambda pid: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGTERM) is None, at.processes
        ),
        "attach": lambda at: any_of(lambda pid: called(LIBC.ptrace(16, pid, 0, 0)), at.processes),
        "write the memory": lambda at: any_of(
            lambda pid: os.open(f"/proc/{pid}/mem", os.O_WRONLY), at.processes
        ),
        "prefer it to be ended": lambda at: any_of(
            lambda pid: Path(f"/proc/{pid}/oom_score_adj").write_text("1000"), at.processes
        ),
        "enter its namespaces": lambda at: any_of(
            lambda pid: called(LIBC.setns(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY), 0)), at.processes
        ),
        "see a secret in the command lines": lambda at: any_of(
            lambda pid: SECRET in (words := Path(f"/proc/{pid}/cmdline").read_text()) or LOGIN[1] in words,
            at.processes,
        ),
    },
    "port": {
        **{
            f"{line} without a password": lambda at, line=line: answered(at.port, line)
            for line in (
                "GET /session",
                "POST /session",
                "GET /event",
                "GET /config",
                "GET /pty",
                "POST /pty",
                "GET /path",
                "GET /doc",
                "GET /instar/trust",
                "POST /instance/dispose",
                "POST /global/dispose",
                "GET /global/health",
                "GET /file/content?path=note",
            )
        },
        "take the port over": lambda at: (
            socket.create_server(("127.0.0.1", at.port), reuse_port=True).listen() is None
        ),
        "take the port of all addresses": lambda at: (
            socket.create_server(("0.0.0.0", at.port), reuse_port=True).listen() is None
        ),
    },
    "socket": {
        "any socket of instar's": lambda at: any(_joins(one) for one in at.sockets),
        "replace the server's socket": lambda at: os.unlink(at.socket) is None,
        "a socket beside the server's": lambda at: (
            socket.socket(socket.AF_UNIX).bind(str(at.socket) + "2") is None
        ),
    },
    "temporary folder": {
        "read what instar puts there": lambda at: any(map(finds, below(at.temporary))),
        "read anything that instar puts there": lambda at: any(
            os.access(one, os.R_OK) for one in below(at.temporary)
        ),
        "write anything that instar puts there": lambda at: any(
            os.access(one, os.W_OK) for one in below(at.temporary)
        ),
        "list a folder that instar puts there": lambda at: any(
            os.access(one, os.R_OK | os.X_OK) for one in at.temporary.iterdir() if one.is_dir()
        ),
        "replace what instar puts there": lambda at: any(_renamed(one) for one in at.temporary.iterdir()),
    },
}
"""What the other user must not be able to do; it is not tried as the person, whom it would harm."""
RACED: Final = "read while instar works"


def _joins(path: str) -> bool:
    with contextlib.suppress(OSError):
        return listens(path)
    return False


def _renamed(path: Path) -> bool:
    with contextlib.suppress(OSError):
        path.rename(path.with_suffix(".evil"))
        return True
    return False


def cases() -> list[Case]:
    """Return the cases of this attacker."""
    found = []
    for door, tried in TRIES.items():
        names = [*READS.get(door, {}), *tried, *([RACED] if door == "temporary folder" else [])]
        found += [Case("local user", door, "any", name) for name in names]
    return found


def as_user(attempt: Attempt, target: Target, user: int) -> str:
    """Make an attempt in a fork that has become a user; return ``through``, or why not."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setsid()
            if user:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            signal.alarm(20)
            try:
                said = "through" if attempt(target) else "nothing"
            except (OSError, sqlite3.Error) as error:
                said = repr(error)
            os.write(theirs, said.encode())
        os._exit(0)
    os.close(theirs)
    with open(ours) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def play(chosen: Sequence[Case], root: Path) -> list[Ended]:
    """Play cases of one door beside servers that work."""
    old = os.umask(0o022)
    try:
        with _at_work(root) as (target, served):
            found = [judged(case, _tried(case, target, served)) for case in chosen]
            lives = served.process.poll() is None and served.http.get("/session").status_code == 200
            return (
                found if lives else [Ended(one.case, "the server does not answer any more") for one in found]
            )
    finally:
        os.umask(old)


def _tried(case: Case, target: Target, served: Served) -> str:
    if case.what == RACED:
        return _raced(target, served)
    attempt = READS.get(case.door, {}).get(case.what)
    if attempt is not None and (said := as_user(attempt, target, 0)) != "through":
        return f"the person cannot do it either, so it shows nothing: {said}"
    said = as_user(attempt or TRIES[case.door][case.what], target, USER)
    return "it got through" if said in ("through", "") else ""


def _raced(target: Target, served: Served) -> str:
    """Look for readable files all the time while a turn runs programs."""
    found: list[str] = []

    def look(at: Target) -> object:
        while not (at.root / "stop").exists():
            if any(map(finds, below(at.temporary))):
                return True
        return False

    watcher = threading.Thread(target=lambda: found.append(as_user(look, target, USER)))
    watcher.start()
    for _ in range(5):
        _work(served)
    (target.root / "stop").touch()
    watcher.join()
    return "" if found == ["nothing"] else "it read the secret"


def _work(served: Served) -> None:
    allowed = [{"permission": "*", "pattern": "*", "action": "allow"}]
    answer = served.ask(served.session(title=SECRET, permission=allowed), SECRET)
    assert answer.status_code == 200, answer.text


@contextlib.contextmanager
def _at_work(root: Path) -> Iterator[tuple[Target, Served]]:
    """Two servers that have run a turn whose child goes on: one at a port, one at a socket."""
    for name in ("project", "config", "cache", "tmp"):
        (root / name).mkdir()
    (root / "tmp").chmod(stat.S_ISVTX | 0o777)
    (root / "script.txt").write_text(SCRIPT.replace("SECRET", SECRET))
    given = {**environment_in(root), "TMPDIR": str(root / "tmp"), "XDG_CACHE_HOME": str(root / "cache")}
    kept = {**given, "INSTAR_SERVER_PASSWORD": ""}
    at = root / "run/instar.sock"
    command = [sys.executable, "-m", "instar", "serve", "--grace", "0", "--socket", str(at)]
    served = Served([], root / "project", given)
    beside = subprocess.Popen(
        command, cwd=root / "project", env={k: v for k, v in kept.items() if v}, stdout=-3, stderr=-3
    )
    try:
        login = {"type": "api", "key": SECRET}
        assert served.http.put("/auth/openai", json=login).status_code == 200
        _work(served)
        wait_until(lambda: at.exists() and (root / "data/server-password").exists())
        children = sorted(_below(served.process.pid))
        assert children, "a background command of the model's runs"
        number = int(served.url.rpartition(":")[2])
        names = names_of_sockets([served.process.pid, beside.pid])
        assert str(at) in names
        yield Target(root, served.process.pid, children, number, at, root / "tmp", names), served
    finally:
        beside.kill()
        beside.wait()
        served.stop()


def _below(pid: int) -> set[int]:
    parents: Mapping[int, int] = {one: _parent(one) for one in pids()}
    found = {pid}
    while more := {one for one, above in parents.items() if above in found} - found:
        found |= more
    return found - {pid}


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
