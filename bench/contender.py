"""instar and the real opencode, started alike: a home, settings, a git repository and a server each.

A contender is driven over HTTP alone, through the routes that both have. The model that both ask is started here too.
"""

import http.client
import json
import os
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from bench.program import environment

FILES: Final = 50
"""Files of the project, unless another number is named."""
PATIENCE: Final = 300.0
"""Seconds after which a start or an answer is given up."""
RESTS: Final = 2
REST: Final = 0.2
"""So many times so many seconds without work after which a program is at rest."""
BUSY: Final = 0.1
"""The share of a processor from which on it works: ticks of the system's clock are coarse."""
LONGEST_REST: Final = 5.0
"""Seconds after which it is measured all the same."""
ANNOUNCED: Final = b"server listening on "


class Program(NamedTuple):
    """A program that serves: its name, and the command before `serve`."""

    name: str
    command: Sequence[str]


def instar() -> Program:
    """This checkout's."""
    return Program("instar", [sys.executable, "-m", "instar"])


def opencode(folder: Path) -> Program:
    """The one that npm installed into `folder`. Raises `FileNotFoundError` where there is none."""
    path = folder.absolute() / "node_modules" / ".bin" / "opencode"
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no opencode; `make beside` installs it")
    return Program("opencode", [str(path)])


def settings(url: str, *, snapshot: bool) -> dict[str, Any]:
    """A person's settings for both: the model at `url`, every tool allowed, and as shipped but for `snapshot`."""
    fake = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Fake",
        "options": {"baseURL": url, "apiKey": "none"},
        "models": {"m": {"name": "M", "limit": {"context": 1_000_000, "output": 8_000}}},
    }
    return {
        "provider": {"fake": fake},
        "model": "fake/m",
        "small_model": "fake/m",
        "permission": {"*": "allow", "external_directory": "allow"},
        **({} if snapshot else {"snapshot": False}),
    }


class House:
    """A program's own folder: `project`, a git repository of `files` files, and a home with the person's settings.

    `variables` are further ones of its environment.
    """

    def __init__(
        self,
        folder: Path,
        program: Program,
        given: Mapping[str, Any],
        files: int = FILES,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.program = program
        self._folder = folder
        self.project = folder / "project"
        home = folder / "home"
        places = {f"XDG_{one}_HOME": str(home / one.lower()) for one in ("CONFIG", "DATA", "STATE", "CACHE")}
        self.environment = environment(
            home,
            **places,
            # opencode takes its directory from here, not from the system.
            PWD=str(self.project),
            OPENCODE_DISABLE_AUTOUPDATE="1",
            OPENCODE_DISABLE_MODELS_FETCH="1",
            **variables,
        )
        path = home / "config" / program.name / f"{program.name}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(given))
        self._furnish(files)

    @contextmanager
    def serving(self, *arguments: str) -> "Iterator[Contender]":
        """Start it, wait for its first health answer, and end it and whatever it started afterwards.

        `arguments` are further ones of `serve`.
        """
        complaints = (self._folder / "errors.log").open("wb")
        started = time.perf_counter()
        # `instar serve` makes a password of its own unless told; opencode has none unless told.
        open_door = ["--no-auth"] if self.program.name == "instar" else []
        process = subprocess.Popen(
            [*self.program.command, "serve", "--port", "0", *open_door, *arguments],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            # A line that waits in a buffer is one that `select` does not see.
            bufsize=0,
            # opencode starts children that outlive it.
            start_new_session=True,
        )
        try:
            contender = Contender(self.program.name, process, self._address(process))
            contender.call("GET", "/global/health")
            contender.ready = time.perf_counter() - started
            try:
                yield contender
            finally:
                contender.close()
        finally:
            end(process)
            complaints.close()

    def _address(self, process: "subprocess.Popen[bytes]") -> str:
        try:
            return address(process)
        except RuntimeError as error:
            said = (self._folder / "errors.log").read_text(errors="replace")
            raise RuntimeError(f"{self.program.name}: {error}{said[-2000:]}") from None

    def _furnish(self, files: int) -> None:
        for number in range(files):
            path = self.project / f"part{number % 5}" / f"file{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"line of file {number}\n" * 20)
        author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "one"]):
            subprocess.run(["git", *command], cwd=self.project, env=self.environment, check=True)


class Contender:
    """A running server without a password, on loopback, at `url`. `ready`: seconds to its first health answer."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]", url: str) -> None:
        self.name = name
        self.ready = 0.0
        self._process = process
        self.url = url
        self.pid = process.pid
        self._place = urllib.parse.urlsplit(url).netloc
        self._connections = threading.local()
        self._opened: list[http.client.HTTPConnection] = []

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._opened:
            connection.close()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Ask over this thread's connection. Raises `RuntimeError` with the answer unless it is 200."""
        return json.loads(self.fetch(method, path, body))

    def session(self) -> str:
        """Make a session and return its id; it has a title, so that neither program asks the model for one."""
        return str(self.call("POST", "/session", {"title": "beside"})["id"])

    def turn(self, session: str, text: str = "go") -> float:
        """Prompt and return the seconds until the answer. Raises `RuntimeError` when the answer is an error."""
        started = time.perf_counter()
        answer = self.fetch(
            "POST", f"/session/{session}/message", {"parts": [{"type": "text", "text": text}]}
        )
        took = time.perf_counter() - started
        if "error" in (info := json.loads(answer)["info"]):
            raise RuntimeError(f"{self.name}: the turn failed: {info['error']}")
        return took

    def states(self, session: str) -> list[str]:
        """The states of a session's tool calls, oldest first."""
        messages = self.call("GET", f"/session/{session}/message")
        parts = [part for message in messages for part in message["parts"]]
        return [part["state"]["status"] for part in parts if part["type"] == "tool"]

    def memory(self) -> float:
        """Resident memory in MB of its process and of all that this one started."""
        return sum(resident(pid) for pid in tree(self._process.pid)) / 1024

    def rest(self) -> None:
        """Wait until it and all that it started have used next to no processor for `RESTS` times `REST` seconds.

        A program that goes on after it has answered would otherwise be paid for by whoever is measured next.
        """
        until = time.perf_counter() + LONGEST_REST
        before, quiet = self.cpu(), 0
        while quiet < RESTS and time.perf_counter() < until:
            time.sleep(REST)
            quiet = quiet + 1 if (now := self.cpu()) - before < REST * BUSY else 0
            before = now

    def cpu(self) -> float:
        """Processor seconds that its process and all that this one started have used so far."""
        return sum(used(pid) for pid in tree(self._process.pid))

    def fetch(self, method: str, path: str, body: Any = None) -> bytes:
        """Ask as `call` does; the answer as it came."""
        connection = getattr(self._connections, "one", None)
        if connection is None or gone(connection):
            connection = http.client.HTTPConnection(self._place, timeout=PATIENCE)
            self._connections.one = connection
            self._opened.append(connection)
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        read: bytes = answer.read()
        if answer.status != 200:
            raise RuntimeError(
                f"{self.name}: {method} {path} answered {answer.status}: {read.decode()[:500]}"
            )
        return read


def gone(connection: http.client.HTTPConnection) -> bool:
    """Whether the other side has closed a connection that waits for a request, as a server does after some seconds."""
    return connection.sock is None or bool(select.select([connection.sock], [], [], 0)[0])


def address(process: "subprocess.Popen[bytes]") -> str:
    """Read what a server prints up to its address. Raises `RuntimeError` with it when none comes."""
    assert process.stdout is not None
    printed = []
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(PATIENCE) and (line := process.stdout.readline()):
            printed.append(line)
            if ANNOUNCED in line:
                return line.split()[-1].decode()
    raise RuntimeError(f"the server announced no address: {b''.join(printed).decode()}")


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a process that leads a session of its own, and its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
    if process.stdout is not None:
        process.stdout.close()


def tree(root: int, proc: Path = Path("/proc")) -> set[int]:
    """The ids of a process and of all below it, as `proc` has them."""
    below: dict[int, list[int]] = {}
    for path in proc.glob("[0-9]*/stat"):
        with suppress(OSError):
            # The second field, the name, may hold anything; what follows its last bracket does not.
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            below.setdefault(parent, []).append(int(path.parent.name))
    found, new = set[int](), {root}
    while new:
        found |= new
        new = {child for one in new for child in below.get(one, [])} - found
    return found


def resident(pid: int, proc: Path = Path("/proc")) -> int:
    """Resident memory of a process in KB; 0 for one that has ended."""
    with suppress(OSError):
        for line in (proc / str(pid) / "status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1])
    return 0


def used(pid: int, proc: Path = Path("/proc")) -> float:
    """Processor seconds of a process and of its children that have ended; 0 for one that has ended itself."""
    with suppress(OSError):
        # The second field, the name, may hold anything; what follows its last bracket does not.
        fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def model_alone(url: str, runs: int = 20) -> float:
    """The least of the seconds that the model takes for the request that came to it last, asked again."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc)
    connection.request("GET", "/last")
    body = connection.getresponse().read()
    took = []
    for _ in range(runs):
        started = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", body)
        connection.getresponse().read()
        took.append(time.perf_counter() - started)
    connection.close()
    return min(took)


@contextmanager
def modelled() -> Iterator[str]:
    """Run the model in a process of its own; yields its address."""
    process = subprocess.Popen([sys.executable, "-m", "bench.loopback"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
