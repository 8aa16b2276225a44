"""A tool, as plugins and the core define it, and what its code is given when it runs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from instar.message import FilePart, WithParts
from instar.plugin.points import HookPoint, I, O
from instar.wire import Plain

if TYPE_CHECKING:
    from instar.plugin.client import Client
    from instar.sandbox.model_process import Children


class Ask(msgspec.Struct, frozen=True):
    """A permission that a call needs.

    `permission` is the rule name, `patterns` what is touched, `always` what an `always` answer will
    cover, `metadata` what a person is shown. `aliases` are other names of the same permission. `anew`: an `always`
    answer that was given earlier does not answer it, since a hook wants a person to see this very call.
    `possible` is what the call may come to and `texts` what it hands to programs that may run it: they only tighten
    (`instar.settings.permission.restricted`).
    """

    permission: str
    patterns: Sequence[str] = ("*",)
    always: Sequence[str] = ("*",)
    metadata: Plain = msgspec.field(default_factory=dict)
    aliases: Sequence[str] = ()
    anew: bool = False
    possible: Sequence[str] = ()
    texts: Sequence[str] = ()


class ToolResult(msgspec.Struct):
    """A tool's answer: `output` for the model; `title`, `metadata` and `attachments` for people.

    `truncate` False says that the tool kept its output short itself.
    """

    output: str
    title: str = ""
    metadata: Plain = msgspec.field(default_factory=dict)
    attachments: list[FilePart] = msgspec.field(default_factory=list)
    truncate: bool = True


class ToolFailure(Exception):
    """A call that failed for a reason that the model can act on: the text is what it reads."""


class PermissionDenied(ToolFailure):
    """A call that was not allowed; `stop` says that the person wants the turn to end."""

    def __init__(self, message: str, *, stop: bool = False) -> None:
        super().__init__(message)
        self.stop = stop


class ToolContext(Protocol):
    """What a running tool may use: opencode's keys, plus `name`, `client`, `process` and `trigger`."""

    name: str
    """The tool, as it is registered."""
    session_id: str
    message_id: str
    call_id: str
    agent: str
    abort: asyncio.Event
    """Set when the turn is being ended; most tools need not look, since they are cancelled too."""
    messages: list[WithParts]
    """The session's history at this step; read only."""
    directory: Path
    worktree: Path
    client: "Client"
    process: "Children"

    def trigger(self, point: HookPoint[I, O], given: I, output: O, /) -> Awaitable[O]:
        """Run a hook point, and return its output as plugins left it."""

    def metadata(self, *, title: str | None = None, metadata: Plain | None = None) -> None:
        """Show the call's progress: merged into the running part and published."""

    async def ask(self, ask: Ask) -> None:
        """Ask for one more permission. Raises `PermissionDenied` when it is not given."""

    async def environment(self, cwd: Path) -> dict[str, str]:
        """Return the environment of a child for the model, after `shell.env`."""

    async def tools(self) -> "Mapping[str, Tool]":
        """Return the tools that `invoke` takes, by name: all that this agent may have now, but this tool itself.

        Those that came up since the step began are among them. Descriptions and parameters are as `tool.definition`
        left them.
        """

    async def invoke(self, name: str, args: Plain) -> ToolResult:
        """Call another tool as the model would: schema, hooks, loops and permissions count under that tool's name.

        Hooks are told a call id of its own: this call's, a dot and a number. People see it in this call's part: what
        the tool shows while it runs, and in the metadata `invoked` a list of `tool`, `callID` and `input`. The
        result is cut already. A tool that was invoked cannot invoke. Raises `ToolFailure` with what the model would
        have read, `PermissionDenied` where it was not allowed: let that through, since the person may want
        the turn to end.
        """


Execute = Callable[[Plain, ToolContext], Awaitable[ToolResult | str]]
Permissions = Callable[[Plain, ToolContext], Sequence[Ask]]


class Tool(msgspec.Struct):
    """A tool that the model can call.

    `parameters` is a JSON Schema (draft 2020-12) of an object; arguments are validated against it before
    anything runs. `permissions` says what a call with these arguments needs; without it the call asks
    for the tool's own name with the pattern ``*``. `aliases` are other names that a call or a
    permission rule may use; the model is shown the tool once, under its registered name. `permission` is
    the rule name that takes the tool away when it is denied outright (default: the tool's name). With
    `exact_first`, in a map of rules for this tool an exact pattern beats a wildcard whichever stands first.
    `repeatable` says that the same call is
    made again and again for good reason, as polling is: it never counts as a loop. `ordered` says that a call changes
    what later calls of the same answer see: those begin when it has ended. `idempotent` says that a second call does
    nothing that the first one did not: one that was lost with its server is made again. `former` maps names that
    arguments had in an earlier version to those that they have now; a call may still use them.
    """

    description: str
    parameters: Plain
    execute: Execute
    permissions: Permissions | None = None
    aliases: tuple[str, ...] = ()
    permission: str | None = None
    exact_first: bool = False
    repeatable: bool = False
    ordered: bool = False
    idempotent: bool = False
    former: Mapping[str, str] = {}
