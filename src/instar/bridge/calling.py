"""Tools of Python plugins, called by opencode: `ToolContext` over the protocol."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

from instar import wire
from instar.bridge.opening import Opened
from instar.jshost.peer import JavaScriptError
from instar.message import FilePart, WithParts
from instar.plugin import Ask, Client, PermissionDenied, Tool, ToolContext, ToolFailure, ToolResult, points
from instar.plugin.patience import kept
from instar.tool.schema import validate, without_nulls
from instar.wire import Plain

Request = Callable[[str, Plain], Awaitable[Any]]
Notify = Callable[[str, Plain], None]


class Calling:
    """A call that runs, and the context that its tool gets."""

    def __init__(
        self, opened: Opened, call: Plain, history: list[WithParts], request: Request, notify: Notify
    ) -> None:
        told = call["context"]
        self._opened, self._request, self._notify = opened, request, notify
        self._number = call["call"]
        self.session_id: str = told["sessionID"]
        self.message_id: str = told["messageID"]
        self.call_id: str = told.get("callID") or ""
        self.agent: str = told["agent"]
        self.abort = asyncio.Event()
        self.messages = history
        self.directory = Path(told["directory"])
        self.worktree = Path(told["worktree"])
        self.client = cast("Client", opened.client)
        self.process = opened.children

    def metadata(self, *, title: str | None = None, metadata: Plain | None = None) -> None:
        """Show people how the call gets on."""
        self._notify(
            "metadata", {"call": self._number, "title": title, "metadata": wire.to_plain(metadata or {})}
        )

    async def ask(self, ask: Ask) -> None:
        """Ask for a permission, as opencode's own tools do. Raises `PermissionDenied`."""
        asked = {
            "call": self._number,
            "permission": ask.permission,
            "patterns": list(ask.patterns),
            "always": list(ask.always),
            "metadata": wire.to_plain(dict(ask.metadata)),
        }
        try:
            await self._request("ask", asked)
        except JavaScriptError as error:
            raise PermissionDenied(str(error)) from error

    async def environment(self, cwd: Path) -> dict[str, str]:
        """Return the environment of a child for the model: without secrets, and with what the plugins here add."""
        given = points.ShellEnvInput(cwd=str(cwd), session_id=self.session_id, call_id=self.call_id)
        added = await self._opened.plugins.trigger(points.SHELL_ENV, given, points.ShellEnvOutput(env={}))
        return {**self._opened.children.environment(self._opened.environment), **added.env}

    async def tools(self) -> Mapping[str, Tool]:
        """Return no tool: opencode offers plugins none of its own."""
        return {}

    async def invoke(self, name: str, args: Plain) -> ToolResult:
        """Raise `ToolFailure`: opencode lets no tool call another."""
        raise ToolFailure(f"opencode lets no tool call another, so {name} was not called.")


async def run(tool: Tool, name: str, args: Plain, context: Calling) -> Plain:
    """Check a call, ask for what it needs, run it, and return its result as the protocol says it.

    Raises `ToolFailure` and `PermissionDenied` with what the model reads.
    """
    problem = validate(args, tool.parameters)
    if problem is not None:
        raise ToolFailure(f"The {name} tool was called with invalid arguments: {problem}")
    args = without_nulls(args, tool.parameters)
    given = cast("ToolContext", context)
    asks = [Ask(name, ["*"], ["*"])] if tool.permissions is None else tool.permissions(args, given)
    for ask in asks:
        await context.ask(ask)
    working = asyncio.ensure_future(kept(tool.execute(args, given)))
    try:
        found = await asyncio.shield(working)
    except asyncio.CancelledError:
        # Before it is cancelled, so that it can tell.
        context.abort.set()
        working.cancel()
        await asyncio.wait([working])
        raise
    result = ToolResult(output=found) if isinstance(found, str) else found
    return {
        "title": result.title or "",
        "output": result.output,
        "metadata": wire.to_plain(dict(result.metadata or {})),
        "attachments": [_attachment(one) for one in result.attachments or ()],
    }


def _attachment(part: FilePart) -> Plain:
    plain: Plain = wire.to_plain(part)
    return plain
