"""The `bash` tool: runs a shell command, its output shown while it runs."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from instar.plugin.tool import Ask, Tool, ToolContext, ToolFailure, ToolResult
from instar.process import Output, ProcessError
from instar.tool import description, files, parameters
from instar.wire import Plain

DEFAULT_TIMEOUT: Final = 120_000
"""Milliseconds that a command may run when the call does not say."""
MAX_TIMEOUT: Final = 600_000
"""Milliseconds that a command may run at most."""
HEAD: Final = 1 << 20
"""Bytes from the start of the output that are kept."""
TAIL: Final = 256 << 10
"""Bytes from its end that are kept beyond `HEAD`; what lies between is left out."""
SHOWN: Final = 30_000
"""Characters from the end of the output in the metadata."""
INTERVAL: Final = 0.1
"""Seconds between two updates of the metadata while the command runs."""
SETTLED: Final = ("HOME", "TMPDIR", "USER", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables that a path in a command may begin with; others count as unknown until the command sets them."""

PARAMETERS: Final[Plain] = parameters(
    {"command": "The command to run"},
    {
        "timeout": {
            "type": "integer",
            "exclusiveMinimum": 0,
            "maximum": 9007199254740991,
            "description": "Milliseconds that it may run (default 120000, at most 600000)",
        },
        "workdir": "The folder to run it in (default: the working directory)",
    },
)


def permissions(
    args: Plain, ctx: ToolContext, options: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> list[Ask]:
    """Return what this command needs: `bash` for each simple command in it, and leave for places outside.

    `options` are those of the setting ``permission_options``. Raises `ToolFailure` for a command that no
    shell can be given, or that names a loop of symlinks.
    """
    # Start-up time, here and below: many turns run no command.
    import shutil

    from instar.tool.command import judge
    from instar.tool.shell.programs import with_options

    text = args["command"]
    if "\0" in text:
        raise ToolFailure("The command holds a NUL character, with which nothing can be started.")
    cwd = files.locate(args.get("workdir") or ".", ctx)
    environment = {name: os.environ[name] for name in SETTLED if name in os.environ}
    bash, table = shutil.which("bash") is not None, with_options(options)
    judged = judge(text, cwd, environment, bash=bash, options=table)
    about = {"command": text, "workdir": str(cwd)}
    asks = files.outside_all([cwd, *judged.places], ctx)
    if judged.unknown:
        asks.append(Ask("external_directory", judged.unknown, [], about, possible=judged.unknown))
    ask = Ask("bash", judged.patterns, judged.always, about, possible=judged.possible, texts=judged.texts)
    return [*asks, ask]


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Run it. An exit code is not a failure. Raises `ToolFailure` when it cannot be started."""
    cwd = files.locate(args.get("workdir") or ".", ctx)
    milliseconds = min(args.get("timeout") or DEFAULT_TIMEOUT, MAX_TIMEOUT)
    env = await ctx.environment(cwd)
    live = _Live(ctx)
    try:
        output = await ctx.process.run(
            argv(args["command"], env),
            cwd=cwd,
            env=env,
            timeout=milliseconds / 1000,
            limit=HEAD,
            merge=True,
            on_output=live.add,
        )
    except ProcessError as error:
        raise ToolFailure(f"The command could not be started: {error}") from None
    finally:
        live.close()
    text = "\n\n".join(filter(None, [live.whole(output), _remark(output, milliseconds)]))
    metadata = {"output": live.shown(), "exit": output.code}
    if isinstance(args.get("description"), str):
        metadata["description"] = args["description"]
    return ToolResult(text or "(no output)", args.get("description") or args["command"], metadata)


def argv(command: str, env: Mapping[str, str]) -> list[str]:
    """Return how a command is started: by bash where there is one."""
    import shutil

    return [shutil.which("bash", path=env.get("PATH", os.defpath)) or "/bin/sh", "-c", command]


TOOL: Final = Tool(description("bash"), PARAMETERS, execute, permissions)


class _Live:
    """The end of the output as it grows, shown to people at most every `INTERVAL`."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._tail = bytearray()
        self._size = 0
        self._due: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        self._size += len(data)
        self._tail += data
        if len(self._tail) > 2 * TAIL:
            del self._tail[:-TAIL]
        if self._due is None:
            self._show()

    def close(self) -> None:
        if self._due is not None:
            self._due.cancel()

    def shown(self) -> str:
        text = self._tail[-4 * SHOWN :].decode(errors="replace")
        return text if self._size <= SHOWN else f"...\n\n{text[-SHOWN:]}"

    def whole(self, output: Output) -> str:
        head = output.stdout.decode(errors="replace")
        beyond = self._size - len(output.stdout)
        if not beyond:
            return head
        tail = bytes(self._tail[-min(beyond, TAIL) :])
        gap = f"\n\n... {beyond - len(tail)} bytes left out ...\n\n" if beyond > len(tail) else ""
        return head + gap + tail.decode(errors="replace")

    def _show(self) -> None:
        self._ctx.metadata(metadata={"output": self.shown()})
        self._due = asyncio.get_running_loop().call_later(INTERVAL, self._show_more, self._size)

    def _show_more(self, size: int) -> None:
        self._due = None
        if self._size > size:
            self._show()


def _remark(output: Output, milliseconds: int) -> str:
    """A note for the model if the command timed out or was ended by a signal."""
    if output.timed_out:
        longest = (
            ""
            if milliseconds == MAX_TIMEOUT
            else f"; with a larger timeout (up to {MAX_TIMEOUT}) it may run longer"
        )
        said = f"The command timed out after {milliseconds} ms and was ended{longest}."
    elif output.signal is not None:
        said = f"The command was ended by signal {output.signal} ({signal.strsignal(output.signal)})."
    else:
        return ""
    return f"<shell_metadata>\n{said}\n</shell_metadata>"
