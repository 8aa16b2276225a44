"""``instar mcp serve``: sessions as tools, evolution as resources, for other agents. Importing it costs a second."""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Final, Literal, ParamSpec, TypeVar, cast

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.server.stdio import stdio_server
from pydantic import Field
from typing_extensions import TypedDict

from instar import __version__, wire
from instar.api.session import PermissionBody
from instar.approval.permissions import KEEP
from instar.cli.stdio import Lines
from instar.client import ApiError, AsyncClient, Invalid, NotFound, PromptBody, SessionBody, Unreachable
from instar.event import PermissionAsked
from instar.message import Assistant, ModelRef, TextPart, WithParts, error_text

P = ParamSpec("P")
T = TypeVar("T")

_PATIENCE: Final = 30.0
"""Seconds that a tool waits for an answer; clients give up after a minute."""
_PAUSE: Final = 0.1
_STEERS: Final = (KEEP, "mcp", "self", "evolve")
"""Permissions by which instar itself becomes another; those of evolve's tools begin with its name."""
_INSTRUCTIONS: Final = (
    "instar is an agent that works in the folder in which this server runs. `start` gives it a task; a long one goes"
    " on when the tool has returned, and `result` has its answer later."
)

Wait = Annotated[float, Field(ge=0, le=600, description="How many seconds to wait for the answer.")]
SessionID = Annotated[str, Field(description="The id that `start` returned.")]


class WaitingCall(TypedDict):
    """A tool call of the session that waits for a permission; `shown` is the whole command or change."""

    request: str
    permission: str
    wants: list[str]
    shown: str


class SessionReport(TypedDict):
    """How a session stands: its answer once it is idle, and what it waits for."""

    session: str
    state: Literal["idle", "busy"]
    answer: str | None
    error: str | None
    waits_for: list[WaitingCall]


class SessionTools:
    """The sessions of one folder, as tools see them."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._turns: dict[str, asyncio.Task[WithParts]] = {}

    async def start(
        self,
        prompt: Annotated[str, Field(description="The task, in words.")],
        agent: Annotated[str | None, Field(description="The agent that answers.")] = None,
        model: Annotated[str | None, Field(description="The model that answers: PROVIDER/MODEL.")] = None,
        wait: Wait = _PATIENCE,
    ) -> SessionReport:
        """Begin a session with a task. Returns its answer, or how it stands if it takes longer."""
        provider, _, name = (model or "").partition("/")
        if model and not name:
            raise ToolError(f"model {model}: say PROVIDER/MODEL")
        session = await self._client.session.create(SessionBody(agent=agent))
        reference = ModelRef(provider_id=provider, model_id=name) if model else None
        self._prompt(session.id, PromptBody.text(prompt, agent=agent, model=reference))
        return await self._told(session.id, wait)

    async def go_on(
        self,
        session: SessionID,
        prompt: Annotated[str, Field(description="What to say next.")],
        wait: Wait = _PATIENCE,
    ) -> SessionReport:
        """Say something more in a session; while it works, it is told once that is possible."""
        await self._known(session)
        self._prompt(session, PromptBody.text(prompt))
        return await self._told(session, wait)

    async def status(self, session: SessionID) -> SessionReport:
        """Tell how a session stands, and what it waits for."""
        return await self._told(session, 0)

    async def result(self, session: SessionID, wait: Wait = _PATIENCE) -> SessionReport:
        """Wait for a session's answer."""
        return await self._told(session, wait)

    async def abort(self, session: SessionID) -> SessionReport:
        """End what a session does."""
        await self._known(session)
        await self._client.session.abort(session)
        return await self._told(session, _PATIENCE)

    async def answer(
        self,
        request: Annotated[str, Field(description="The id of what waits, as `status` tells it.")],
        allow: Annotated[bool, Field(description="Whether the call may run, this once.")],
        message: Annotated[str | None, Field(description="Why not, for the agent.")] = None,
    ) -> str:
        """Answer a tool call that waits for a permission."""
        asked = next((one for one in await self._client.permission.list() if one.id == request), None)
        if asked is None:
            raise ToolError(f"nothing waits under {request}: it was answered, or its call has ended")
        await self._known(asked.session_id)
        if asked.permission.startswith(_STEERS):
            raise ToolError(f"{asked.permission} changes what steers instar: only a person answers it")
        body = PermissionBody(reply="once" if allow else "reject", message=message)
        await self._client.permission.reply(request, body)
        return "allowed once" if allow else "rejected"

    async def close(self) -> None:
        """End the turns that were begun here."""
        running = [session for session, turn in self._turns.items() if not turn.done()]
        await asyncio.gather(*map(self._client.session.abort, running), return_exceptions=True)

    def _prompt(self, session: str, body: PromptBody) -> None:
        turn = asyncio.create_task(self._client.session.prompt(session, body))
        # What it raises is told by `_told`, if somebody asks.
        turn.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._turns[session] = turn

    async def _told(self, session: str, wait: float) -> SessionReport:
        """Wait until a session is idle, or waits for a permission, and tell how it stands."""
        await self._known(session)
        until = time.monotonic() + wait
        while (busy := await self._is_busy(session)) and time.monotonic() < until:
            if await self._asks(session):
                break
            await asyncio.sleep(_PAUSE)
        told = SessionReport(
            session=session, state="busy" if busy else "idle", answer=None, error=None, waits_for=[]
        )
        if busy:
            told["waits_for"] = [
                WaitingCall(
                    request=one.id,
                    permission=one.permission,
                    wants=one.patterns,
                    shown=str(one.metadata.get("command") or one.metadata.get("diff") or ""),
                )
                for one in await self._asks(session)
            ]
            return told
        if (turn := self._turns.pop(session, None)) is not None:
            # What the server refused is raised.
            await turn
        if messages := await self._client.session.messages(session, limit=1):
            info, parts = messages[-1].info, messages[-1].parts
            told["answer"] = "\n".join(one.text for one in parts if isinstance(one, TextPart)) or None
            if isinstance(info, Assistant) and info.error is not None:
                told["error"] = error_text(info.error)
        return told

    async def _is_busy(self, session: str) -> bool:
        turn = self._turns.get(session)
        return (turn is not None and not turn.done()) or session in await self._client.session.status()

    async def _asks(self, session: str) -> list[PermissionAsked]:
        """What waits in a session, or in those of its sub-agents."""
        waiting, family = await self._client.permission.list(), [session]
        if waiting:
            for one in family:
                family += [child.id for child in await self._client.session.children(one)]
        return [one for one in waiting if one.session_id in family]

    async def _known(self, session: str) -> None:
        """Raise `ToolError` for a session of another folder."""
        found, here = await self._client.session.get(session), await self._client.path.get()
        if found.directory != here.directory:
            raise ToolError(f"session {session} is one of {found.directory}, not of {here.directory}")


async def serve(client: AsyncClient, lines: Lines, *, answers: bool) -> None:
    """Serve until there is no more to read. `answers`: permissions may be answered by a tool."""
    sessions = SessionTools(client)
    server = MCPServer("instar", title="instar", version=__version__, instructions=_INSTRUCTIONS)
    tools: dict[str, Callable[..., Awaitable[SessionReport | str]]] = {
        "start": sessions.start,
        "continue": sessions.go_on,
        "status": sessions.status,
        "result": sessions.result,
        "abort": sessions.abort,
    }
    for name, tool in (tools | ({"answer": sessions.answer} if answers else {})).items():
        server.add_tool(_said(tool, ToolError), name)

    async def log() -> str:
        """What evolved: changes, refusals and orders, newest first."""
        return wire.encode(await client.instar.evolve.log()).decode()

    async def change(ref: str) -> str:
        """One change with its diff, by its epoch (@12) or the start of its commit's id."""
        return wire.encode(await client.instar.evolve.show(ref)).decode()

    for uri, read in (("instar://evolve/log", log), ("instar://evolve/log/{ref}", change)):
        server.resource(uri, mime_type="application/json")(_said(read, ResourceError))
    text = cast("Any", TextLines(lines))
    try:
        async with stdio_server(text, text) as (incoming, outgoing):
            # The SDK's own method runs on stdin itself, and waits for its next line when it is cancelled.
            low = server._lowlevel_server
            await low.run(incoming, outgoing, low.create_initialization_options())
    finally:
        await sessions.close()


class TextLines:
    """The lines as the SDK reads and writes files."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._lines.line()) is not None:
            yield line.decode(errors="replace")

    async def write(self, text: str) -> None:
        """Write a line, which comes with its end."""
        await self._lines.write(text.removesuffix("\n").encode(errors="replace"))

    async def flush(self) -> None:
        """Wait for nothing: a line is on its way."""


def _said(method: Callable[P, Awaitable[T]], kind: type[Exception]) -> Callable[P, Awaitable[T]]:
    """Make what instar's client raises an error that the other agent reads."""

    @functools.wraps(method)
    async def said(*args: P.args, **given: P.kwargs) -> T:
        try:
            return await method(*args, **given)
        except (ApiError, Invalid, NotFound, Unreachable) as error:
            raise kind(str(error)) from error

    return said
