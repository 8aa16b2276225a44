"""A program that misbehaves in the way of its first argument; `tests.campaign.faults` has the table.

It is a command rule, a hook script or an MCP server, by its second argument. Only the standard library is used, and
what it answers where nothing is wrong is `well`.
"""

import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any


def out(data: bytes) -> None:
    """Print it as it stands."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _endless() -> None:
    while True:
        out(b"x" * 65536)


def _memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))
    bytearray(1 << 30)


def _descriptors() -> None:
    kept = []
    while True:
        kept.append(os.open(os.devnull, os.O_RDONLY))


def _full() -> None:
    with open("/dev/full", "wb", buffering=0) as file:
        file.write(b"x" * 65536)


def _daemon() -> None:
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)


def _own_file() -> None:
    # Behind a sandbox it may not.
    with contextlib.suppress(OSError), open(__file__, "ab") as file:
        file.write(b"# more\n")


def _folder() -> None:
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


KINDS: dict[str, Callable[[], Any]] = {
    "exit 1": lambda: os._exit(1),
    "exit 2": lambda: os._exit(2),
    "exit 127": lambda: os._exit(127),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hangs": lambda: time.sleep(60),
    "endless output": _endless,
    "prose": lambda: out(b"all is well\n"),
    "wrong shape": lambda: out(b'{"decision": 7, "result": {"a": 1}, "jsonrpc": "2.0", "id": "what"}\n'),
    "huge": lambda: out(b'{"decision": "deny", "result": "' + b"x" * (11 << 20) + b'"}\n'),
    "not UTF-8": lambda: out(b"\xff\xfe\x80\n"),
    "stdin closed": lambda: os.close(0),
    "stderr only": lambda: print("something is wrong", file=sys.stderr),
    "nothing": lambda: None,
    "daemon": _daemon,
    "slow": lambda: time.sleep(0.5),
    "no memory": _memory,
    "no descriptors": _descriptors,
    "disk full": _full,
    "own file": _own_file,
    "folder gone": _folder,
    "full stderr": lambda: print("x" * (4 << 20), file=sys.stderr),
    "deep JSON": lambda: out(b"[" * 100_000 + b"\n"),
}
"""What a program does in place of an answer; two more kinds are of programs that do not start."""


def script(kind: str) -> None:
    """A hook script of evolve with the tool `t`, which misbehaves when it is called."""
    if sys.argv[-1] == "discover":
        print(json.dumps({"tools": [{"name": "t", "description": "Do it."}]}))
    elif sys.argv[-1] == "execute_tool":
        KINDS[kind]()
        if kind in ("slow", "daemon", "own file", "folder gone", "full stderr", "stdin closed"):
            out(b'{"result": "well"}\n')
    else:
        print("unknown hook: " + sys.argv[-1], file=sys.stderr)
        sys.exit(1)


def server(kind: str) -> None:
    """An MCP server with the tool `do`, which misbehaves when it is called."""
    for line in sys.stdin:
        request = json.loads(line)
        params = request.get("params", {})
        result: Any = {}
        if request["method"] == "initialize":
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
            result["serverInfo"] = {"name": "raw", "version": "1"}
        elif request["method"] == "tools/list":
            result = {"tools": [{"name": "do", "description": "Do it.", "inputSchema": {"type": "object"}}]}
        elif request["method"] == "tools/call":
            KINDS[kind]()
            if kind == "nothing":
                continue
            result = {"content": [{"type": "text", "text": "well"}]}
        if "id" in request:
            out(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\n")


if __name__ == "__main__":
    how, given = sys.argv[2], sys.argv[1]
    {"script": script, "server": server, "rule": lambda kind: KINDS[kind]()}[how](given)
