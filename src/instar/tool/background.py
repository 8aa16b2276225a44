"""The `background` tool: starts shell commands that keep running while the model goes on.

They belong to the session: they end when it is deleted and when the runtime ends, not with the turn.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from weakref import WeakKeyDictionary

from instar.plugin.tool import Ask, Tool, ToolContext, ToolFailure, ToolResult
from instar.process import Output, Processes
from instar.tool import bash, description, files, parameters
from instar.wire import Plain

MOST: Final = 8
"""Commands of one session that may run at once."""
REMEMBERED: Final = 32
"""Commands of one session that are remembered, ended ones included."""
KEPT: Final = 256 << 10
"""Bytes of output that wait to be read; beyond, the oldest are dropped and the next read says so."""
LONGEST_WAIT: Final = 120_000
"""Milliseconds that one read may wait."""

PARAMETERS: Final[Plain] = parameters(
    {
        "action": {
            "type": "string",
            "enum": ["start", "read", "stop", "list"],
            "description": "What to do: start a command, read its new output, stop it, or list all",
        }
    },
    {
        "command": "The command to start (start)",
        "workdir": "The folder to run it in (start; default: the working directory)",
        "id": "Which command, as start named it (read, stop)",
        "wait": {
            "type": "integer",
            "minimum": 0,
            "maximum": LONGEST_WAIT,
            "description": "Milliseconds to wait for new output or the command's end (read; default 0)",
        },
    },
)


def permissions(
    args: Plain, ctx: ToolContext, options: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> Sequence[Ask]:
    """Return what a call needs: starting is `bash`; looking after what was started needs nothing."""
    starts = args["action"] == "start" and args.get("command")
    return bash.permissions(args, ctx, options) if starts else []


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Start, read, stop or list. Raises `ToolFailure` for a command that is not there or cannot start."""
    shells = _of(ctx.process, ctx.session_id)
    if args["action"] == "start":
        return await _start(args, ctx, shells)
    if args["action"] == "list":
        lines = [f"{name}: {shell.state()}: {shell.command}" for name, shell in shells.items()]
        return ToolResult("\n".join(lines) or "No command was started.", "list")
    shell = shells.get(args.get("id") or "")
    if shell is None:
        there = ", ".join(shells) or "none was started"
        raise ToolFailure(f"There is no background command {args.get('id')!r}; there are: {there}.")
    if args["action"] == "stop":
        await shell.stop()
    else:
        await shell.wait((args.get("wait") or 0) / 1000)
    metadata = {"id": args["id"], "state": shell.state()}
    return ToolResult(
        f"{shell.take()}\n({args['id']}: {shell.state()})".lstrip("\n"), shell.command, metadata
    )


def sessions(process: Processes) -> list[str]:
    """Return the ids of the sessions that have started commands, ended ones included."""
    return list(_SHELLS.get(process, {}))


async def end(process: Processes, session_id: str) -> None:
    """End every command of a session that is going away."""
    shells = _SHELLS.get(process, {}).pop(session_id, {})
    await asyncio.gather(*(shell.stop() for shell in shells.values()))


TOOL: Final = Tool(
    description("background"), PARAMETERS, execute, permissions, permission="bash", repeatable=True
)


class _BackgroundCommand:
    """A command that runs, and its output that nobody has read yet."""

    def __init__(self, command: str) -> None:
        self.command = command
        self._unread = bytearray()
        self._dropped = 0
        self._started = time.monotonic()
        self._news = asyncio.Event()
        self._task: asyncio.Task[Output] | None = None

    def start(self, ctx: ToolContext, cwd: Path, env: dict[str, str]) -> None:
        """Start it. What goes wrong shows in `state`."""
        run = ctx.process.run(
            bash.argv(self.command, env), cwd=cwd, env=env, limit=0, merge=True, on_output=self._add
        )
        self._task = asyncio.create_task(run)
        self._task.add_done_callback(self._ended)

    def runs(self) -> bool:
        """True if it still runs."""
        return self._task is not None and not self._task.done()

    def state(self) -> str:
        """Return in a few words what it does."""
        if self._task is None or not self._task.done():
            return f"running for {time.monotonic() - self._started:.0f} s"
        if self._task.cancelled():
            return "stopped"
        error = self._task.exception()
        if error is not None:
            return f"failed: {error}"
        output = self._task.result()
        return (
            f"ended with exit code {output.code}"
            if output.signal is None
            else f"ended by signal {output.signal}"
        )

    async def wait(self, seconds: float) -> None:
        """Wait until there is output to read, or it ended, for at most `seconds`."""
        if self._unread or not self.runs():
            return
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return

    async def stop(self) -> None:
        """End it with all that it started."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    def take(self) -> str:
        """Return the output since the last time."""
        text, dropped = self._unread.decode(errors="replace"), self._dropped
        self._unread, self._dropped = bytearray(), 0
        note = f"... {dropped} bytes left out ...\n" if dropped else ""
        return note + (text.rstrip("\n") or "(no new output)")

    def _add(self, data: bytes) -> None:
        self._unread += data
        if len(self._unread) > KEPT:
            self._dropped += len(self._unread) - KEPT
            del self._unread[:-KEPT]
        self._news.set()

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        if not task.cancelled():
            task.exception()  # seen here; `state` tells
        self._news.set()


async def _start(args: Plain, ctx: ToolContext, shells: dict[str, _BackgroundCommand]) -> ToolResult:
    if not (args.get("command") or "").strip():
        raise ToolFailure("start needs a command.")
    running = [name for name, shell in shells.items() if shell.runs()]
    if len(running) >= MOST:
        raise ToolFailure(f"{MOST} background commands run already ({', '.join(running)}); stop one first.")
    cwd = files.locate(args.get("workdir") or ".", ctx)
    if not cwd.is_dir():
        raise ToolFailure(f"Not a folder: {cwd}")
    env = await ctx.environment(cwd)
    ended = [name for name, shell in shells.items() if not shell.runs()]
    for name in ended[: max(0, len(shells) + 1 - REMEMBERED)]:
        del shells[name]
    name = f"bg{max((int(known[2:]) for known in shells), default=0) + 1}"
    shell = shells[name] = _BackgroundCommand(args["command"])
    shell.start(ctx, cwd, env)
    return ToolResult(
        f"Started {name}. Read its output with action read and id {name}.", args["command"], {"id": name}
    )


def _of(process: Processes, session_id: str) -> dict[str, _BackgroundCommand]:
    return _SHELLS.setdefault(process, {}).setdefault(session_id, {})


_SHELLS: Final[WeakKeyDictionary[Processes, dict[str, dict[str, _BackgroundCommand]]]] = WeakKeyDictionary()
"""By the runtime's children: what lives exactly as long as the runtime."""
