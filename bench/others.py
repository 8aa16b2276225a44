"""nanobot and the OpenHands SDK beside instar: what all three can be asked, with the model of `bench.loopback`.

Each runs in a virtual environment of its own, as its documentation starts it, with a home of its own. nanobot answers
over HTTP (`nanobot serve`), the SDK in a host's process, so its turns are without HTTP; it is given a folder to save
to, as the other two save.
"""

import json
import socket
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import contender
from bench.contender import House, end, resident, tree, used
from bench.program import Cost, environment, timed

NAMES: Final = ("instar", "nanobot", "openhands")
FOLDER: Final = Path(".venv/contenders")
CALLS: Final = 10
"""Calls of one turn, one after another."""
WARMING: Final = 2
RAN: Final = {
    "instar": "`instar run hi` cold; a session of `instar serve` over HTTP; the tool `read`",
    "nanobot": "`nanobot agent -m hi` cold; a session of `nanobot serve` over HTTP; the tool `read_file`",
    "openhands": "a host of `openhands-sdk` with `TerminalTool` and `FileEditorTool`, cold with one word; "
    "a `Conversation` in its process, without HTTP; the tool `file_editor`, command `view`",
}
"""What exactly ran, by program."""
LACKS: Final = {
    "an answer to 50 clients": {
        "nanobot": "`serve` streams to the one who asked",
        "openhands": "the SDK calls back in its own process; its server was not measured",
    },
    "a validated hook write": {
        "nanobot": "changes of itself have no gate",
        "openhands": "it does not change its own hooks",
    },
}
"""What they have not, though instar and opencode have it, and why there is no figure."""
HOST: Final = """
import json, sys, time
from pydantic import SecretStr
from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.terminal import TerminalTool

url, folder, kept, *once = sys.argv[1:]
llm = LLM(model="openai/m", base_url=url, api_key=SecretStr("none"), usage_id="agent")
agent = Agent(llm=llm, tools=[Tool(name=TerminalTool.name), Tool(name=FileEditorTool.name)])

def begin():
    return Conversation(agent=agent, workspace=folder, persistence_dir=kept, visualizer=None)

conversations = {}
for line in once or sys.stdin:
    session, _, text = line.rstrip("\\n").partition(" ")
    if session not in conversations:
        conversations[session] = begin()
    one = conversations[session]
    started = time.perf_counter()
    one.send_message(text.replace("\\t", "\\n"))
    one.run()
    took = time.perf_counter() - started
    results = sum(type(event).__name__ == "ObservationEvent" for event in one.state.events)
    print("bench: " + json.dumps([took, results]), flush=True)
for one in conversations.values():
    one.close()
"""
"""A host of the SDK: a line is a session and a text; `bench:` lines say the seconds and the results of tools so far."""


class Measured(NamedTuple):
    """A row: what was measured in which unit, by program; None where there is no figure."""

    what: str
    unit: str
    values: Mapping[str, float | None]

    def line(self) -> str:
        """The row as it is printed."""
        said = "".join(
            f"{'-' if (value := self.values.get(name)) is None else f'{value:.2f}':>12}" for name in NAMES
        )
        return f"{self.what:<40}{said} {self.unit}"


class Session(NamedTuple):
    """What runs turns: `turn` takes a session's name and a text, and gives seconds; `results` those of tools so far."""

    pid: int
    turn: Callable[[str, str], float]
    results: Callable[[str], int | None]


class Other(NamedTuple):
    """A program: how it answers one word and ends, how it serves, and the call that reads a file."""

    name: str
    cold: Callable[[], Cost]
    serving: Callable[[], Any]
    call: str


def measure(
    folder: Path, url: str, installed: Path, runs: int, show: Callable[[Measured], None]
) -> dict[str, str]:
    """Measure instar and those of the others that are installed; return why the rest is missing, by program."""
    others, missing = found(folder, url, installed)
    for row in (*cold(others, runs), *turns(others, runs)):
        show(row)
    return missing


def found(folder: Path, url: str, installed: Path) -> tuple[list[Other], dict[str, str]]:
    """The programs that are there, and why each other one is not."""
    others, missing = [instar(folder / "instar", url)], {}
    for name, make, program in (("nanobot", nanobot, "nanobot"), ("openhands", openhands, "python")):
        path = installed.absolute() / name / "bin" / program
        if path.exists():
            others.append(make(folder / name, url, path))
        else:
            missing[name] = f"{path.parent.parent} is not there; `make beside` installs it"
    return others, missing


def cold(others: Sequence[Other], runs: int) -> Iterator[Measured]:
    """One word by the command line, by turns."""
    costs: dict[str, list[Cost]] = {one.name: [] for one in others}
    for number in range(runs + 1):
        for one in others:
            cost = one.cold()
            if number:
                costs[one.name].append(cost)
    for what, unit, pick in (
        ("cold: one word", "ms", lambda cost: cost.wall * 1000),
        ("cold: one word, processor time", "ms", lambda cost: cost.cpu * 1000),
    ):
        yield Measured(what, unit, {name: statistics.median(map(pick, some)) for name, some in costs.items()})


def turns(others: Sequence[Other], runs: int) -> Iterator[Measured]:
    """Warm turns and calls of the tool that reads a file, then memory; one program after the other."""
    figures: dict[tuple[str, str], dict[str, float | None]] = {}
    for one in others:
        with one.serving() as session:
            for what, unit, value in served(one, session, runs):
                figures.setdefault((what, unit), {})[one.name] = value
    for (what, unit), values in figures.items():
        yield Measured(what, unit, values)


def served(one: Other, session: Session, runs: int) -> Iterator[tuple[str, str, float]]:
    """The figures of one program that serves."""

    def cpu() -> float:
        return sum(used(pid) for pid in tree(session.pid))

    for _ in range(WARMING):
        session.turn("warm", "go")
    before = cpu()
    times = [session.turn("warm", "go") for _ in range(runs * 10)]
    yield "a warm turn", "ms", statistics.median(times) * 1000
    yield "a warm turn, processor time", "ms", (cpu() - before) * 1000 / len(times)
    calls = "\n".join(one.call.replace("NUMBER", str(number + 1)) for number in range(CALLS))
    before, times = cpu(), []
    for number in range(runs + 1):
        times.append(session.turn(f"calls{number}", calls))
        if (results := session.results(f"calls{number}")) not in (None, CALLS):
            raise RuntimeError(f"{one.name}: {results} of {CALLS} calls came back")
    yield "a call of reading a file", "ms", statistics.median(times[1:]) * 1000 / CALLS
    yield "a call of reading a file, processor time", "ms", (cpu() - before) * 1000 / CALLS / len(times)
    time.sleep(1)
    yield "memory after", "MB", sum(resident(pid) for pid in tree(session.pid)) / 1024


def instar(folder: Path, url: str) -> Other:
    """This checkout's, as shipped."""
    house = House(folder, contender.instar(), contender.settings(url, snapshot=True))

    @contextmanager
    def serving() -> Iterator[Session]:
        with house.serving() as server:
            ids: dict[str, str] = {}

            def turn(name: str, text: str) -> float:
                if name not in ids:
                    ids[name] = server.session()
                return server.turn(ids[name], text)

            yield Session(server.pid, turn, lambda name: server.states(ids[name]).count("completed"))

    def cold() -> Cost:
        return timed(["run", "hi"], house.project, house.environment, house.program.command)

    return Other("instar", cold, serving, 'call read {"filePath": "part0/file0.txt", "limit": NUMBER}')


def nanobot(folder: Path, url: str, program: Path) -> Other:
    """nanobot of PyPI, with a workspace of its own."""
    workspace, env = folder / "workspace", environment(folder / "home")
    furnished(workspace)
    config = folder / "config.json"
    defaults = {"workspace": str(workspace), "model": "m", "provider": "custom"}
    providers = {"custom": {"apiBase": url, "apiKey": "none"}}
    config.write_text(json.dumps({"agents": {"defaults": defaults}, "providers": providers}))

    @contextmanager
    def serving() -> Iterator[Session]:
        port = free_port()
        command = [str(program), "serve", "--port", str(port), "--config", str(config)]
        with started(command, workspace, env, folder / "errors.log") as process:
            address = f"http://127.0.0.1:{port}"
            healthy(f"{address}/health", process, folder / "errors.log")

            def turn(name: str, text: str) -> float:
                body = {"messages": [{"role": "user", "content": text}], "session_id": name}
                request = urllib.request.Request(
                    f"{address}/v1/chat/completions",
                    json.dumps(body).encode(),
                    {"Content-Type": "application/json"},
                )
                begun = time.perf_counter()
                with urllib.request.urlopen(request, timeout=contender.PATIENCE) as answer:
                    answer.read()
                return time.perf_counter() - begun

            # It says nothing of its calls: the model answers the last one only after all of them.
            yield Session(process.pid, turn, lambda name: None)

    def cold() -> Cost:
        words = ["agent", "-m", "hi", "--no-markdown", "--config", str(config)]
        return timed(words, workspace, env, [str(program)])

    return Other("nanobot", cold, serving, 'call read_file {"path": "part0/file0.txt", "limit": NUMBER}')


def openhands(folder: Path, url: str, python: Path) -> Other:
    """The OpenHands SDK in a host of its own."""
    workspace = folder / "workspace"
    furnished(workspace)
    # Without a network it would ask for prices three times before it begins.
    quiet = {"OPENHANDS_SUPPRESS_BANNER": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    env = environment(folder / "home", **quiet)
    host = folder / "host.py"
    host.write_text(HOST)
    command = [str(python), str(host), url, str(workspace), str(folder / "kept")]

    @contextmanager
    def serving() -> Iterator[Session]:
        with started(command, workspace, env, folder / "errors.log", piped=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            stdin, stdout = process.stdin, process.stdout
            counts: dict[str, int] = {}

            def turn(name: str, text: str) -> float:
                stdin.write(f"{name} {text.replace(chr(10), chr(9))}\n".encode())
                stdin.flush()
                for line in stdout:
                    if line.startswith(b"bench: "):
                        took, counts[name] = json.loads(line[7:])
                        return float(took)
                raise RuntimeError(
                    f"openhands: the host ended: {(folder / 'errors.log').read_text()[-2000:]}"
                )

            yield Session(process.pid, turn, counts.get)
            # It closes its conversations and what they started.
            stdin.close()
            stdout.read()

    def cold() -> Cost:
        return timed(["cold hi"], workspace, env, command)

    path = workspace / "part0" / "file0.txt"
    view = f'call file_editor {{"command": "view", "path": "{path}", "view_range": [1, NUMBER]}}'
    return Other("openhands", cold, serving, view)


def furnished(workspace: Path) -> None:
    """Make a workspace with the file that is read."""
    path = workspace / "part0" / "file0.txt"
    path.parent.mkdir(parents=True)
    path.write_text("line of file 0\n" * 20)


@contextmanager
def started(
    command: Sequence[str], folder: Path, env: Mapping[str, str], log: Path, *, piped: bool = False
) -> "Iterator[subprocess.Popen[bytes]]":
    """Start a program, and end it and its group afterwards. What it prints goes to `log`; `piped`: to the caller."""
    with log.open("wb") as complaints:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(env),
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else complaints,
            stderr=complaints,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            end(process)


def healthy(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until a server answers. Raises `RuntimeError` with what it said when it ended, or when it takes too long."""
    until = time.perf_counter() + contender.PATIENCE
    while process.poll() is None and time.perf_counter() < until:
        try:
            urllib.request.urlopen(url, timeout=10).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"{url} does not answer: {log.read_text(errors='replace')[-2000:]}")


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def versions(installed: Path) -> dict[str, str]:
    """The versions of the packages that are installed, by program."""
    found = {}
    for name, package in (("nanobot", "nanobot_ai"), ("openhands", "openhands_sdk")):
        for path in (installed / name).glob(f"lib/python3*/site-packages/{package}-*.dist-info"):
            found[name] = path.name.removeprefix(f"{package}-").removesuffix(".dist-info")
    return found
