"""The fault matrix: every kind of failure at every place that calls out, each with the outcome that is expected of it.

`EXPECTED` is the table. A cell is a session: the model asks for a call, something that the call goes by fails, and the
turn must come to the expected end in time, without a traceback; then the session answers the next prompt.

- ``runs``: the call is made; the failure stands in nobody's way;
- ``denied``: the call is not made, and the model reads why;
- ``told``: what failed is the call itself; the model reads the error and goes on;
- ``answers``: the call, or the answer of the model, comes all the same;
- ``ends``: the turn ends with an error that a person reads.

``python -m tests.campaign.faults`` plays all cells; ``--place "command rule"`` those of one place.
"""

import argparse
import contextlib
import json
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from tests import started
from tests.campaign import faulty

import instar
from instar.testing import Machine

PACKAGE = Path(instar.__file__).parent
IN_TIME = 20.0
"""Seconds within which a turn has come to its end, whatever failed: the time limits of the cells are 1 to 3 seconds."""

PLACES = (
    "hook script",
    "command rule",
    "prompt rule",
    "agent rule",
    "Python plugin",
    "JavaScript plugin",
    "tool",
    "MCP server",
    "provider",
)
EXPECTED: dict[str, tuple[str, ...]] = {
    # what fails:      script     command    prompt    agent     Python    JavaScript tool      MCP       provider
    "missing": ("told", "denied", "denied", "denied", "runs", "runs", "told", "told", ""),
    "not executable": ("told", "denied", "", "", "", "", "", "told", ""),
    "exit 1": ("told", "runs", "denied", "denied", "denied", "denied", "told", "told", "answers"),
    "exit 2": ("told", "denied", "denied", "denied", "denied", "denied", "told", "told", "ends"),
    "exit 127": ("told", "denied", "denied", "denied", "denied", "denied", "told", "told", "ends"),
    "killed": ("told", "denied", "denied", "denied", "", "denied", "", "told", "answers"),
    "crash": ("told", "denied", "denied", "denied", "", "denied", "", "told", "answers"),
    "hangs": ("told", "denied", "denied", "denied", "denied", "denied", "", "told", "answers"),
    "endless output": ("told", "denied", "denied", "denied", "", "", "", "told", "ends"),
    "prose": ("told", "runs", "denied", "denied", "denied", "denied", "answers", "answers", "answers"),
    "wrong shape": ("answers", "denied", "denied", "denied", "denied", "denied", "told", "answers", "ends"),
    "huge": ("told", "denied", "denied", "denied", "", "", "answers", "answers", "ends"),
    "not UTF-8": ("told", "runs", "denied", "denied", "", "denied", "answers", "answers", "ends"),
    "stdin closed": ("answers", "runs", "", "", "", "runs", "", "answers", "answers"),
    "stderr only": ("answers", "runs", "denied", "denied", "runs", "runs", "answers", "answers", "answers"),
    "nothing": ("answers", "runs", "denied", "denied", "runs", "runs", "told", "told", "answers"),
    "daemon": ("answers", "runs", "", "", "runs", "runs", "answers", "answers", "answers"),
    "slow": ("answers", "runs", "runs", "runs", "runs", "runs", "answers", "answers", "answers"),
    "no memory": ("told", "runs", "denied", "denied", "denied", "denied", "told", "told", "answers"),
    "no descriptors": ("told", "runs", "denied", "denied", "denied", "denied", "told", "told", "answers"),
    "disk full": ("told", "runs", "", "", "denied", "denied", "told", "told", ""),
    "own file": ("answers", "runs", "", "", "runs", "runs", "answers", "answers", ""),
    "folder gone": ("answers", "runs", "", "", "", "", "", "answers", ""),
    "full stderr": ("answers", "runs", "", "", "runs", "runs", "answers", "answers", ""),
    "deep JSON": ("told", "runs", "denied", "denied", "denied", "denied", "told", "answers", "ends"),
    "interrupt": ("", "", "", "", "denied", "", "told", "", ""),
}
"""The outcome by kind and place; empty where the place cannot fail so."""

ASKS = """
== when "^go" once
tool: {call}

== when "^again"
text: said again

== when ""
text: done
"""
"""The model asks for one call, and is done whatever it reads of it."""


class Cell:
    """One kind of failure at one place, on a machine of its own."""

    def __init__(self, folder: Path, kind: str, place: str, port: int) -> None:
        self.kind, self.place = kind, place
        self.machine = Machine(folder)
        self.settings: dict[str, Any] = {"model": "scripted/x", "provider": providers(port, kind)}
        self.call = 'bash {"command": "echo ran > ran.txt"}'
        _PREPARE[place](self)
        self.machine.says(ASKS.format(call=self.call))
        self.machine.settings(**self.settings)

    def program(self, path: Path, how: str) -> list[str]:
        """Write the program that misbehaves to `path`; how it is called."""
        if self.kind != "missing":
            text = Path(faulty.__file__).read_text()
            first = f"#!{sys.executable}\nimport sys\nsys.argv[1:1] = [{self.kind!r}, {how!r}]\n"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(first + text)
            path.chmod(0o644 if self.kind == "not executable" else 0o755)
        return [str(path)]

    def play(self) -> Iterator[str]:
        """Yield what is not as expected."""
        begun = time.monotonic()
        try:
            code, out, err = self._run("go")
        except subprocess.TimeoutExpired as error:
            yield f"it has no end: {error.stdout[-600:]} {error.stderr[-600:]}"
            return
        took = time.monotonic() - begun
        outcome = self._outcome(code, out)
        expected = EXPECTED[self.kind][PLACES.index(self.place)]
        if outcome != expected:
            yield f"{outcome}, not {expected}: {out[-300:]!r} {err[-900:]!r}"
        if took > IN_TIME:
            yield f"it took {took:.0f} s"
        if str(PACKAGE) in err:
            yield f"a traceback: {err[-900:]}"
        code, out, err = self._run("--continue", "again")
        if self.place != "provider" and (code, "said again" in out) != (0, True):
            yield f"the session does not answer afterwards: {code} {out[-300:]} {err[-600:]}"

    def _run(self, *words: str) -> tuple[int, str, str]:
        machine = self.machine
        done = started.run(
            ["run", "--format", "json", *words],
            cwd=machine.folder,
            environment=machine.environment,
            timeout=60.0,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def _outcome(self, code: int, out: str) -> str:
        found = [json.loads(line) for line in out.splitlines()]
        calls = [line["part"] for line in found if line["type"] == "tool_use"]
        if code or any(line["type"] == "error" for line in found):
            return "ends"
        if self.place == "provider":
            return "answers" if "done" in out else f"an answer without a word: {out}"
        (part,) = calls
        state = part["state"]
        if self.call.startswith("bash"):
            ran = (self.machine.folder / "ran.txt").exists()
            return {(True, "completed"): "runs", (False, "error"): "denied"}.get(
                (ran, state["status"]), f"odd: {ran} {state}"
            )
        # `invalid` tells the model that there is no such tool.
        return "answers" if state["status"] == "completed" and part["tool"] != "invalid" else "told"


def _script(cell: Cell) -> None:
    path = cell.machine.workspace({"hooks/.keep": ""}) / "hooks" / "bot.py"
    cell.program(path, "script")
    (path.parent.parent / "config").mkdir()
    (path.parent.parent / "config" / "evolve.jsonc").write_text('{"hook_timeout": 2000}')
    cell.call = "bot_t {}"


def _rule(cell: Cell, **rule: Any) -> None:
    hooks = {"PreToolUse": [{"matcher": "bash", "hooks": [rule]}]}
    cell.machine.write(".instar/hooks.json", json.dumps(hooks))


def _command(cell: Cell) -> None:
    _rule(cell, command=" ".join(cell.program(cell.machine.folder / "rule.py", "rule")), timeout=2)


def _judge(cell: Cell) -> None:
    kind = cell.place.removesuffix(" rule")
    seconds = 3 if cell.kind in ("hangs", "endless output") else 15
    _rule(cell, type=kind, prompt="Deny what is bad.", model="local/m", timeout=seconds)
    cell.settings["hook_settings"] = {"agent_pre_tool_use": True}


def _server(cell: Cell) -> None:
    command = cell.program(cell.machine.folder / "server.py", "server")
    cell.settings["mcp"] = {"m": {"type": "local", "command": command, "timeout": 3000}}
    cell.call = "m_do {}"


def _provider(cell: Cell) -> None:
    cell.settings["model"] = "local/m"


IN_PYTHON = {
    "exit 1": "raise SystemExit(1)",
    "exit 2": "raise RuntimeError('what is wrong')",
    "exit 127": "import not_there",
    "hangs": "await asyncio.sleep(60)",
    "stderr only": "print('something is wrong', file=sys.stderr)",
    "nothing": "return None",
    "daemon": "subprocess.Popen(['sleep', '60'], start_new_session=True, stdout=-3, stderr=-3)",
    "slow": "await asyncio.sleep(0.5)",
    "no memory": "raise MemoryError",
    "no descriptors": "raise OSError(errno.EMFILE, 'Too many open files')",
    "disk full": "open('/dev/full', 'wb', 0).write(b'x')",
    "own file": "open(__file__, 'a').write('\\n# more')",
    "full stderr": "print('x' * (1 << 20), file=sys.stderr)",
    "interrupt": "raise KeyboardInterrupt",
}
IMPORTS = "import asyncio, errno, os, subprocess, sys\n\n"


def _python(cell: Cell) -> None:
    wrong = {
        "prose": "output.args = 'well'",
        "wrong shape": "output.args = {1: object()}",
        "deep JSON": _DEEP,
    }
    body = {**IN_PYTHON, **wrong}.get(cell.kind, "pass")
    text = (
        f"{IMPORTS}async def plugin(input, options):\n    async def before(given, output):\n        {body}\n\n"
        "    return {'tool.execute.before': before, 'timeout': 2}\n"
    )
    if cell.kind != "missing":
        cell.machine.plugin(text)
    cell.settings["plugin"] = [str(cell.machine.folder / ".instar/plugins/mine.py")]


_DEEP = "output.args = functools.reduce(lambda inner, _: [inner], range(100_000), [])"


def _tool(cell: Cell) -> None:
    wrong = {
        "prose": "return 'well'",
        "wrong shape": "return {'a': 7}",
        "huge": "return 'x' * (11 << 20)",
        "not UTF-8": "return '\\udcff'",
        "deep JSON": "raise RecursionError",
    }
    body = {**IN_PYTHON, **wrong}.get(cell.kind, "pass")
    rest = "" if cell.kind == "nothing" else "    return 'well'\n"
    text = f"{IMPORTS}description = 'Do it.'\n\n\nasync def execute(args, ctx):\n    {body}\n{rest}"
    if cell.kind != "missing":
        cell.machine.write(".instar/tools/faulty.py", text)
    cell.call = "faulty {}"


IN_JAVASCRIPT = {
    "exit 1": "process.exit(1)",
    "exit 2": "throw new Error('what is wrong')",
    "exit 127": "await import('not-there')",
    "killed": "process.kill(process.pid, 'SIGKILL')",
    "crash": "process.abort()",
    "hangs": "await new Promise(() => {})",
    "prose": "output.args = 'well'",
    "wrong shape": "output.args = 7",
    "not UTF-8": "process.stdout.write(Buffer.from([255, 254, 10])); throw new Error('x')",
    "stdin closed": "process.stdin.destroy()",
    "stderr only": "console.error('something is wrong')",
    "daemon": "cp.spawn('sleep', ['60'], { detached: true, stdio: 'inherit' })",
    "slow": "await new Promise((done) => setTimeout(done, 500))",
    "no memory": "new Array(1e6).fill(0).map(() => Buffer.alloc(1e12))",
    "no descriptors": "for (;;) fs.openSync('/dev/null')",
    "disk full": "fs.writeFileSync('/dev/full', 'x')",
    "own file": "fs.appendFileSync(new URL(import.meta.url), '// more')",
    "full stderr": "console.error('x'.repeat(1 << 20))",
    "deep JSON": "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; output.args = a",
}


def _javascript(cell: Cell) -> None:
    body = IN_JAVASCRIPT.get(cell.kind, "")
    text = (
        "import fs from 'node:fs'\nimport cp from 'node:child_process'\n"
        f"const before = async (input, output) => {{ {body} }}\n"
        "export const P = async () => ({ timeout: 3, 'tool.execute.before': before })\n"
    )
    path = cell.machine.folder / "own" / "plugin.js"
    if cell.kind != "missing":
        cell.machine.write("own/plugin.js", text)
    cell.settings["plugin"] = [str(path)]


_PREPARE: dict[str, Callable[[Cell], None]] = {
    "hook script": _script,
    "command rule": _command,
    "prompt rule": _judge,
    "agent rule": _judge,
    "Python plugin": _python,
    "JavaScript plugin": _javascript,
    "tool": _tool,
    "MCP server": _server,
    "provider": _provider,
}


def providers(port: int, kind: str) -> dict[str, Any]:
    """The settings of a provider whose answers are of one kind of failure; nobody listens at port 9."""
    path = kind.replace(" ", "-")
    options = {
        "baseURL": f"http://127.0.0.1:{9 if kind == 'missing' else port}/{path}",
        "apiKey": "k",
        "chunkTimeout": 1500,
        "headerTimeout": 1500,
    }
    return {"local": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {}}}}


HEAD = b"HTTP/1.1 %d X\r\nconnection: close\r\ncontent-type: %s\r\n\r\n"
STREAM = HEAD % (200, b"text/event-stream")


def _chunk(**choice: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


VERDICT = '{"decision": "allow", "reason": "well, done"}'
WELL = _chunk(delta={"content": VERDICT}, finish_reason="stop") + b"data: [DONE]\n\n"
ANSWERS: dict[str, bytes] = {
    "exit 1": HEAD % (500, b"text/plain") + b"an error",
    "exit 2": HEAD % (401, b"application/json") + b'{"error": {"message": "no such key"}}',
    "exit 127": HEAD % (404, b"text/plain") + b"not found",
    "killed": STREAM + _chunk(delta={"content": "we"}),
    "crash": b"",
    "prose": HEAD % (200, b"text/plain") + b"all is well",
    "wrong shape": STREAM + b'data: {"choices": 7}\n\n',
    "huge": STREAM + _chunk(delta={"content": "x" * (4 << 20)}) + WELL,
    "not UTF-8": STREAM + b'data: {"choices": [{"delta": {"content": "\xff\xfe"}}]}\n\n' + WELL,
    "stdin closed": STREAM + WELL,
    "stderr only": STREAM,
    "nothing": STREAM + b"data: [DONE]\n\n",
    "daemon": STREAM + WELL,
    "slow": STREAM + WELL,
    "no memory": HEAD % (503, b"text/plain") + b"overloaded",
    "no descriptors": HEAD % (429, b"text/plain") + b"too many requests",
    "deep JSON": STREAM + b"data: " + b"[" * 100_000 + b"\n\n",
}
"""What the provider answers each request with; what the others do stands in `Provider`."""
ONCE = (
    *("exit 1", "killed", "crash", "hangs", "prose"),
    *("stderr only", "nothing", "no memory", "no descriptors"),
)
"""What a provider does once, and answers well when it is asked again."""


class Provider:
    """A provider that misbehaves: its requests name the kind in their path."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.once = True
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            kind = re.findall(rb"POST /([^/]+)/", head)[0].decode()
            kind = next(one for one in EXPECTED if one.replace(" ", "-") == kind)
            if kind != "stdin closed":
                length = int(re.findall(rb"content-length: (\d+)", head.lower())[0])
                body = head.partition(b"\r\n\r\n")[2]
                while len(body) < length:
                    body += connection.recv(65536)
            self._asked[kind] += 1
            if self.once and kind in ONCE and self._asked[kind] > 1:
                connection.sendall(STREAM + WELL)
                return
            if kind == "hangs":
                time.sleep(8)
                return
            if kind == "slow":
                time.sleep(0.5)
            while kind == "endless output":
                connection.sendall(
                    (STREAM if self._asked[kind] else b"") + _chunk(delta={"content": "x" * 65536})
                )
                self._asked[kind] = 0
            connection.sendall(ANSWERS[kind])
            if kind == "daemon":
                time.sleep(3)
            if kind in ("killed", "crash"):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def play(place: str, folder: Path, kinds: Collection[str] = EXPECTED) -> dict[str, list[str]]:
    """Play the cells of a place; what is not as expected, by the kind of failure."""
    provider = Provider()
    provider.once = place == "provider"
    found = {}
    for kind in kinds:
        if EXPECTED[kind][PLACES.index(place)]:
            here = folder / f"{place} {kind}".replace(" ", "-")
            found[kind] = list(Cell(here, kind, place, provider.port).play())
            for text in found[kind]:
                print(f"faults: {place}, {kind}: {text}", file=sys.stderr, flush=True)
            shutil.rmtree(here, ignore_errors=True)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Play the matrix and print what is not as expected; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.faults")
    parser.add_argument("--place", choices=PLACES, action="append", help="only this place")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    begun, report = time.monotonic(), dict[str, dict[str, list[str]]]()
    with tempfile.TemporaryDirectory() as folder:
        for place in options.place or PLACES:
            report[place] = play(place, Path(folder))
            print(f"faults: {place}: {len(report[place])} cells", file=sys.stderr, flush=True)
    started.close()
    cells = [texts for found in report.values() for texts in found.values()]
    wrong = sum(map(bool, cells))
    said = f"faults: {len(cells)} cells in {time.monotonic() - begun:.0f} s, {wrong} not as expected"
    print(json.dumps(report) if options.json else said)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
