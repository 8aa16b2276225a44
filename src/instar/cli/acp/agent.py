"""The protocol's requests, carried out with instar's client."""

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Final, ParamSpec, TypeVar, cast

from acp import helpers, schema
from acp.core import AgentSideConnection
from acp.exceptions import RequestError
from acp.helpers import ContentBlock
from acp.interfaces import Agent, Client
from acp.meta import PROTOCOL_VERSION

from instar import __version__
from instar.cli.acp import convert
from instar.cli.acp.choices import SessionChoices
from instar.cli.acp.session import OpenSession
from instar.cli.attach import heard
from instar.cli.stdio import ClientOf, Lines
from instar.client import ApiError, AsyncClient, Busy, Invalid, NotFound, SessionBody, Unreachable
from instar.event import Event, SessionCreated
from instar.message import Session
from instar.tool import files

P = ParamSpec("P")
T = TypeVar("T")

_PAGE: Final = 50
"""Sessions in one answer of a list."""
_NO_MODEL: Final = (
    "no model can be called: keep a provider's key with `instar auth login PROVIDER` in a terminal, or name a model"
    " in your instar.json; then authenticate"
)


class Messages:
    """The protocol's messages, one a line (the library's ``Transport``); what is none is answered as JSON-RPC says."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message; before anything is waited for, so that an answer comes before what follows from it."""
        await self._lines.write(written(message))

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, None at the end."""
        while (line := await self._lines.line()) is not None:
            try:
                return read(line)
            except RequestError as error:
                await self.send(refused(error))
        return None

    async def close(self) -> None:
        """Wait a moment until what was written is read."""
        await self._lines.close()


def written(message: dict[str, Any]) -> bytes:
    """Return a message as JSON on one line."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode(errors="replace")


def read(text: bytes | str) -> dict[str, Any]:
    """Return the message that a text holds. Raises `RequestError` for a text that holds none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise RequestError(-32700, "Parse error") from None
    is_message = (
        isinstance(found, dict)
        and isinstance(found.get("id"), str | int | None)
        and isinstance(found.get("method", ""), str)
    )
    if not is_message:
        raise RequestError(-32600, "Invalid request")
    return found  # type: ignore[no-any-return]


def refused(error: RequestError) -> dict[str, Any]:
    """Return the answer to a text that holds no message."""
    return {"jsonrpc": "2.0", "id": None, "error": error.to_error_obj()}


def _told(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make what instar's client raises an error of the protocol."""

    @functools.wraps(method)
    async def asked(*args: P.args, **given: P.kwargs) -> T:
        try:
            return await method(*args, **given)
        except NotFound as error:
            raise RequestError(-32002, str(error)) from error
        except Invalid as error:
            raise RequestError(-32603 if isinstance(error, Busy) else -32602, str(error)) from error
        except (ApiError, Unreachable) as error:
            raise RequestError(-32603, str(error)) from error

    return asked


class AgentSide:
    """The agent's side of a connection (`acp.interfaces.Agent`); the library checks what comes and calls it."""

    def __init__(self, client_of: ClientOf, agent: str | None, *, here: bool, alone: bool) -> None:
        """`here`: turns run in this process; `alone`: for this client only. New sessions begin with `agent`."""
        self._client_of, self._agent, self._alone, self._reads = client_of, agent, alone, here
        self._latest: OpenSession | None = None
        self._editor: Client
        self._sessions: dict[str, OpenSession] = {}
        self._roots: dict[str, str] = {}
        self._refused: AsyncClient | None = None
        self._later: set[asyncio.Task[None]] = set()

    def on_connect(self, editor: Client) -> None:
        """Learn how the client is asked."""
        self._editor = editor

    async def listen(self, events: AsyncIterator[Event]) -> None:
        """Hand events to the sessions that are open. Raises `Unreachable` when there are no more."""
        async for event in events:
            match event.properties:
                case SessionCreated(info=Session(id=child, parent_id=str(parent))):
                    self._roots[child] = self._roots.get(parent, parent)
                    if (editor := files.EDITORS.get(parent)) is not None:
                        files.EDITORS[child] = editor
            if (session := self._concerned(event.session_id)) is not None:
                await session.take(event)
        raise Unreachable("the server ended the stream of events: what it does is not seen here any more")

    def _concerned(self, session_id: str | None) -> OpenSession | None:
        """The open session of an event: its own, or a sub-agent's. What is of none is told in the last one used."""
        if session_id is None:
            return self._latest if self._alone else None
        return self._sessions.get(session_id) or self._sessions.get(self._roots.get(session_id, ""))

    async def close(self) -> None:
        """End the turns that the client began, and what it is asked."""
        for session in self._sessions.values():
            await session.close()
        await asyncio.gather(*(one.cancel() for one in self._sessions.values()), return_exceptions=True)

    # -- the connection ------------------------------------------------------------------------------

    async def initialize(
        self, client_capabilities: schema.ClientCapabilities | None = None, **_: Any
    ) -> schema.InitializeResponse:
        """Say what instar can do, and learn what the client can."""
        can = client_capabilities.fs if client_capabilities is not None else None
        self._reads = self._reads and bool(can is not None and can.read_text_file)
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="instar", title="instar", version=__version__),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[schema.AuthMethodAgent(id="key", name="A provider's key", description=_NO_MODEL)],
        )

    @_told
    async def authenticate(self, method_id: str, **_: Any) -> None:
        """Look again for a model that can be called. Raises `RequestError` while there is none."""
        client = self._refused
        if client is None:
            return
        # Keys are read when an instance is opened.
        await client.instance.dispose()
        if (await SessionChoices.of(client)).model(self._agent, None) is None:
            raise RequestError(-32000, _NO_MODEL)
        self._refused = None

    # -- sessions ------------------------------------------------------------------------------------

    @_told
    async def new_session(
        self, cwd: str, mcp_servers: list[convert.McpServer] | None = None, **_: Any
    ) -> schema.NewSessionResponse:
        """Begin a session. Raises `RequestError` where no model can be called."""
        client = self._client_of(cwd)
        if (await SessionChoices.of(client)).model(self._agent, None) is None:
            self._refused = client
            raise RequestError(-32000, _NO_MODEL)
        session = await client.session.create(SessionBody(agent=self._agent))
        opened = await self._opened(client, session, mcp_servers)
        return schema.NewSessionResponse(session_id=opened.id, **await self._state(opened))

    @_told
    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: list[convert.McpServer] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Go on with a session, and tell the client what was said in it."""
        opened = await self._found(cwd, session_id, mcp_servers)
        await opened.replay()
        return schema.LoadSessionResponse(**await self._state(opened))

    @_told
    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: list[convert.McpServer] | None = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        """Go on with a session of which the client knows what was said."""
        opened = await self._found(cwd, session_id, mcp_servers)
        return schema.ResumeSessionResponse(**await self._state(opened))

    @_told
    async def fork_session(
        self, session_id: str, cwd: str, mcp_servers: list[convert.McpServer] | None = None, **_: Any
    ) -> schema.ForkSessionResponse:
        """Begin a session with copies of another one's messages."""
        client = self._client_of(cwd)
        session = await client.session.fork(session_id)
        opened = await self._opened(client, session, mcp_servers)
        return schema.ForkSessionResponse(session_id=opened.id, **await self._state(opened))

    @_told
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """List sessions, last changed first: those of a folder, or all."""
        try:
            until = float(cursor) if cursor else None
        except ValueError:
            raise RequestError(-32602, f"{cursor!r} is no cursor of a list of sessions") from None
        found = await self._client_of(cwd).experimental.session.list(
            roots=True, directory=cwd, cursor=until, limit=_PAGE
        )
        sessions = [
            schema.SessionInfo(
                session_id=one.id,
                cwd=one.directory,
                title=one.title,
                updated_at=datetime.fromtimestamp(one.time.updated / 1000, UTC).isoformat(),
            )
            for one in found
        ]
        more = str(found[-1].time.updated) if len(found) == _PAGE else None
        return schema.ListSessionsResponse(sessions=sessions, next_cursor=more)

    @_told
    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        """End a session's turn, and tell the client nothing of it any more."""
        session = self._open(session_id)
        await session.close()
        await session.cancel()
        self._sessions.pop(session_id, None)
        return schema.CloseSessionResponse()

    # -- a session -----------------------------------------------------------------------------------

    @_told
    async def prompt(self, session_id: str, prompt: list[ContentBlock], **_: Any) -> schema.PromptResponse:
        """Send a prompt; answers when its turn is over."""
        self._latest = self._open(session_id)
        return await self._latest.prompt(convert.parts(prompt))

    @_told
    async def cancel(self, session_id: str, **_: Any) -> None:
        """End a session's turn."""
        await self._open(session_id).cancel()

    @_told
    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> None:
        """Choose the agent that answers."""
        options = await self._choose(session_id, "mode", mode_id)
        changed = schema.ConfigOptionUpdate(session_update="config_option_update", config_options=[*options])
        await self._open(session_id).update(changed)

    @_told
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Choose the agent, the model or its variant."""
        options = await self._choose(session_id, config_id, str(value))
        if config_id == "mode":
            await self._open(session_id).update(helpers.update_current_mode(str(value)))
        return schema.SetSessionConfigOptionResponse(config_options=[*options])

    async def _choose(
        self, session_id: str, option: str, value: str
    ) -> list[schema.SessionConfigOptionSelect]:
        session = self._open(session_id)
        choices = await SessionChoices.of(session.client)
        session.agent, session.model = choices.chosen(session.agent, session.model, option, value)
        return choices.options(session.agent, session.model)

    def _open(self, session_id: str) -> OpenSession:
        if session_id not in self._sessions:
            raise RequestError(-32002, f"session {session_id} is not open here: load or resume it")
        return self._sessions[session_id]

    async def _found(self, cwd: str, session_id: str, servers: list[convert.McpServer] | None) -> OpenSession:
        client = self._client_of(cwd)
        session = await client.session.get(session_id)
        # Its files are those of the folder that it was begun in.
        return await self._opened(self._client_of(session.directory), session, servers)

    async def _opened(
        self, client: AsyncClient, session: Session, servers: list[convert.McpServer] | None
    ) -> OpenSession:
        bodies = [convert.mcp_body(server) for server in servers or []]
        if session.id in self._sessions:
            await self._sessions[session.id].close()
        opened = OpenSession(self._editor, client, session)
        opened.reads = self._reads
        self._sessions[session.id] = opened
        await opened.open(bodies)
        return opened

    async def _state(self, session: OpenSession) -> dict[str, Any]:
        """What the client is told of a session that it opens; of its commands it is told once it knows the session."""
        choices = await SessionChoices.of(session.client)
        session.windows = {name: model.limit.context for name, model in choices.models.items()}
        state = {
            "modes": choices.modes(session.agent),
            "config_options": choices.options(session.agent, session.model),
        }
        task = asyncio.create_task(session.tell_commands())
        self._later.add(task)
        task.add_done_callback(self._later.discard)
        return state


async def converse(side: AgentSide, client_of: ClientOf, messages: object) -> None:
    """Speak with a client until it is gone; `messages` is a ``Transport`` of the library's.

    Raises what instar's client raises when there are no more events.
    """
    async with client_of(None) as everywhere:
        # Of each directory: sessions of the client may be in several.
        everywhere.directory = None
        async with heard(everywhere) as events:
            connection = AgentSideConnection(
                cast("Agent", side), messages, listening=False, use_unstable_protocol=True
            )
            try:
                await until_one_ends(connection.listen(), side.listen(events))
            finally:
                await side.close()
                await connection.close()


async def until_one_ends(*works: Coroutine[Any, Any, None]) -> None:
    """Do all this until one of it is done, or fails, and cancel the rest."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
