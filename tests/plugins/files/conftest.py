"""Machines whose PATH has the programs of the environment that the tests run in, and a language server."""

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from instar.testing import Machine, RuntimeUnderTest, calls_of, clean_environment, results

Machines = Callable[..., Machine]

SERVER = """
import json, os, pathlib, sys, time

mode, notes = sys.argv[1], pathlib.Path(sys.argv[2])

def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n%b" % (len(body), body))
    sys.stdout.buffer.flush()

def publish(uri, text, version):
    if mode == "mute":
        return
    place = {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 5}}
    found = [{"range": place, "message": f"bad word {n}", "severity": 1} for n in range(text.count("bad"))]
    found += [{"range": place, "message": "a hint", "severity": 4}]
    params = {"uri": uri, "version": version, "diagnostics": found}
    send({"method": "textDocument/publishDiagnostics", "params": params})

while True:
    length = 0
    while (line := sys.stdin.buffer.readline().strip()):
        length = int(line.partition(b":")[2])
    if not length:
        break
    message = json.loads(sys.stdin.buffer.read(length))
    method, params = message.get("method"), message.get("params")
    with notes.open("a") as file:
        file.write(json.dumps({"pid": os.getpid(), "method": method, **message}) + "\\n")
    if mode == "dies" and method == "textDocument/didOpen":
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(3)
    if mode == "prints":
        print("Starting language server...", flush=True)
        time.sleep(60)
    if mode == "floods" and method == "textDocument/didOpen":
        sys.stdout.buffer.write(b"Content-Length: 99999999\\r\\n\\r\\n")
        sys.stdout.buffer.flush()
    if method == "initialize":
        send({"id": message["id"], "result": {"capabilities": {}}})
        send({"id": "own", "method": "workspace/configuration", "params": {"items": [{"section": "toy.level"}, {}]}})
        send({"id": "odd", "method": "workspace/applyEdit", "params": {}})
        send({"method": "exit"})
    if method == "textDocument/didOpen":
        document = params["textDocument"]
        publish(document["uri"], document["text"], document["version"])
    if method == "textDocument/didChange":
        document = params["textDocument"]
        publish(document["uri"], params["contentChanges"][0]["text"], document["version"])
    if method == "shutdown":
        send({"id": message["id"], "result": None})
    if method == "exit":
        break
"""
"""A language server that finds the word "bad"; its first argument says how it misbehaves, its second where it notes."""


class Played(NamedTuple):
    """A session that ended: its runtime, what the model read of its calls, and their metadata."""

    runtime: RuntimeUnderTest
    read: list[str]
    metadata: list[dict[str, Any]]


Play = Callable[..., Any]


def _turn(tool: str, args: Mapping[str, Any]) -> str:
    return f"== turn\ntool: {tool} {json.dumps(args)}\n"


async def _play(machine: Machine, *calls: tuple[str, Mapping[str, Any]], **opened: Any) -> Played:
    turns = [*(_turn(*call) for call in calls), "== turn\ntext: done\n"]
    machine.says("\n".join(turns))
    runtime = await machine.open(**opened)
    session = await runtime.session()
    await runtime.ask(session, "go")
    stored = await runtime.stored(session)
    states: list[Any] = [call.state for message in stored for call in calls_of(message)]
    return Played(runtime, results(stored), [state.metadata for state in states])


@pytest.fixture
def play() -> Play:
    """Let the model make these calls, one in each step, each a tool with its arguments."""
    return _play


@pytest.fixture
async def machines(tmp_path: Path) -> AsyncIterator[Machines]:
    """Make machines, each in a folder of its own; `variables` are added to its environment."""
    made: list[Machine] = []

    def make(variables: Mapping[str, str] = {}, *, trusted: bool = True) -> Machine:
        root = tmp_path / f"machine{len(made)}"
        environment = clean_environment(root / "home")
        path = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
        machine = Machine(root, {**environment, "PATH": path, **variables}, trusted=trusted)
        made.append(machine)
        return machine

    yield make
    for machine in made:
        await machine.close()


@pytest.fixture
def machine(machines: Machines) -> Machine:
    """A trusted one."""
    return machines()


class Toy:
    """The language server: a `command` for settings, and the messages that it was sent."""

    def __init__(self, folder: Path) -> None:
        self._script, self._notes = folder / "server.py", folder / "notes.jsonl"
        self._script.write_text(SERVER)

    def command(self, mode: str = "well") -> list[str]:
        return [sys.executable, str(self._script), mode, str(self._notes)]

    def said(self, method: str = "") -> list[dict[str, Any]]:
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        return [one for line in lines if (one := json.loads(line))["method"] == method or not method]


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    (tmp_path / "toy").mkdir()
    return Toy(tmp_path / "toy")
