"""instar as an MCP server, of ``instar mcp serve`` and at ``/instar/mcp``: sessions as tools, evolution as resources.

Importing it costs a second.
"""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Final, Literal, NamedTuple, cast, get_type_hints
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import msgspec
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
)
from msgspec import Meta
from starlette.requests import Request
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from instar import __version__, wire
from instar.api.session import PermissionBody, ToolCallBody
from instar.approval.permissions import KEEP
from instar.cli.stdio import Lines
from instar.client import ApiError, AsyncClient, Invalid, NotFound, PromptBody, SessionBody, Unreachable
from instar.event import PermissionAsked
from instar.message import (
    Assistant,
    ModelRef,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPart,
    WithParts,
    error_text,
)
from instar.runtime import Runtime
from instar.server.app import application
from instar.server.call import Call
from instar.server.errors import answer_for, refusal
from instar.server.instances import Instances
from instar.server.within import Transport
from instar.settings.config import McpServerConfig

_PATIENCE: Final = 30.0
"""Seconds that a tool waits for an answer; clients give up after a minute."""
_PAUSE: Final = 0.1
_STEERS: Final = (KEEP, "mcp", "self", "evolve")
"""Permissions by which instar itself becomes another; those of evolve's tools begin with its name."""
_LOG: Final = "instar://evolve/log"
_INSTRUCTIONS: Final = (
    "instar is an agent that works in the folder in which this server runs. `start` gives it a task; a long one goes"
    " on when the tool has returned, and `result` has its answer later."
)

Wait = Annotated[float, Meta(ge=0, le=600, description="How many seconds to wait for the answer.")]
SessionID = Annotated[str, Meta(description="The id that `start` returned.")]


class WaitingCall(msgspec.Struct):
    """A tool call of the session that waits for a permission; `shown` is the whole command or change."""

    request: str
    permission: str
    wants: list[str]
    shown: str


class SessionReport(msgspec.Struct):
    """How a session stands: its answer once it is idle, and what it waits for."""

    session: str
    state: Literal["idle", "busy"]
    answer: str | None = None
    error: str | None = None
    waits_for: list[WaitingCall] = []


class SessionTools:
    """The sessions of one folder, as tools see them."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self._turns: dict[str, asyncio.Future[WithParts]] = {}

    async def start(
        self,
        prompt: Annotated[str, Meta(description="The task, in words.")],
        agent: Annotated[str | None, Meta(description="The agent that answers.")] = None,
        model: Annotated[str | None, Meta(description="The model that answers: PROVIDER/MODEL.")] = None,
        wait: Wait = _PATIENCE,
    ) -> SessionReport:
        """Begin a session with a task. Returns its answer, or how it stands if it takes longer."""
        provider, _, name = (model or "").partition("/")
        if model and not name:
            raise Invalid(f"model {model}: say PROVIDER/MODEL")
        session = await self.client.session.create(SessionBody(agent=agent))
        reference = ModelRef(provider_id=provider, model_id=name) if model else None
        body = PromptBody.text(prompt, agent=agent, model=reference)
        self._begin(session.id, self.client.session.prompt(session.id, body))
        return await self._told(session.id, wait)

    async def go_on(
        self,
        session: SessionID,
        prompt: Annotated[str, Meta(description="What to say next.")],
        wait: Wait = _PATIENCE,
    ) -> SessionReport:
        """Say something more in a session; while it works, it is told once that is possible."""
        await self._known(session)
        self._begin(session, self.client.session.prompt(session, PromptBody.text(prompt)))
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
        await self.client.session.abort(session)
        return await self._told(session, _PATIENCE)

    async def answer(
        self,
        request: Annotated[str, Meta(description="The id of what waits, as `status` tells it.")],
        allow: Annotated[bool, Meta(description="Whether the call may run, this once.")],
        message: Annotated[str | None, Meta(description="Why not, for the agent.")] = None,
    ) -> str:
        """Answer a tool call that waits for a permission."""
        asked = next((one for one in await self.client.permission.list() if one.id == request), None)
        if asked is None:
            raise Invalid(f"nothing waits under {request}: it was answered, or its call has ended")
        await self._known(asked.session_id)
        if asked.permission.startswith(_STEERS):
            raise Invalid(f"{asked.permission} changes what steers instar: only a person answers it")
        body = PermissionBody(reply="once" if allow else "reject", message=message)
        await self.client.permission.reply(request, body)
        return "allowed once" if allow else "rejected"

    async def offered(self) -> list[Tool]:
        """Return the tools of the evolve workspace's scripts; none where evolve is off."""
        try:
            status = await self.client.instar.evolve.status()
        except NotFound:
            return []
        names = {name for script in status.scripts for name in script.tools}
        listed = await self.client.tool.list(provider="", model="")
        return [
            Tool(name=one.id, description=one.description, input_schema=one.parameters)
            for one in listed
            if one.id in names
        ]

    async def call(self, tool: str, arguments: wire.Plain) -> SessionReport:
        """Call a tool of the workspace, in a session of its own."""
        session = await self.client.session.create(SessionBody(title=f"A call of {tool}"))
        body = ToolCallBody(tool=tool, arguments=arguments)
        self._begin(session.id, self.client.instar.tool(session.id, body))
        return await self._told(session.id, _PATIENCE)

    async def close(self) -> None:
        """End the turns that were begun here."""
        running = [session for session, turn in self._turns.items() if not turn.done()]
        await asyncio.gather(*map(self.client.session.abort, running), return_exceptions=True)

    def _begin(self, session: str, asked: Awaitable[WithParts]) -> None:
        def ended(done: asyncio.Future[WithParts]) -> None:
            # What it raised is told by `_told`, if somebody asks; what it answered stands in the session.
            if not done.cancelled() and done.exception() is None and self._turns.get(session) is done:
                del self._turns[session]

        self._turns[session] = turn = asyncio.ensure_future(asked)
        turn.add_done_callback(ended)

    async def _told(self, session: str, wait: float) -> SessionReport:
        """Wait until a session is idle, or waits for a permission, and tell how it stands."""
        await self._known(session)
        until = time.monotonic() + wait
        while (busy := await self._is_busy(session)) and time.monotonic() < until:
            if await self._asks(session):
                break
            await asyncio.sleep(_PAUSE)
        told = SessionReport(session, "busy" if busy else "idle")
        if busy:
            told.waits_for = [
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
        if messages := await self.client.session.messages(session, limit=1):
            info, parts = messages[-1].info, messages[-1].parts
            told.answer = "\n".join(one.text for one in parts if isinstance(one, TextPart)) or None
            for part in parts:
                # No model says anything after a call that was made here.
                if isinstance(part, ToolPart) and isinstance(info, Assistant) and info.finish == "stop":
                    told.answer = part.state.output if isinstance(part.state, ToolCompleted) else None
                    told.error = part.state.error if isinstance(part.state, ToolError) else None
            if isinstance(info, Assistant) and info.error is not None:
                told.error = error_text(info.error)
        return told

    async def _is_busy(self, session: str) -> bool:
        turn = self._turns.get(session)
        return (turn is not None and not turn.done()) or session in await self.client.session.status()

    async def _asks(self, session: str) -> list[PermissionAsked]:
        """What waits in a session, or in those of its sub-agents."""
        waiting, family = await self.client.permission.list(), [session]
        if waiting:
            for one in family:
                family += [child.id for child in await self.client.session.children(one)]
        return [one for one in waiting if one.session_id in family]

    async def _known(self, session: str) -> None:
        """Raise `Invalid` for a session of another folder."""
        found, here = await self.client.session.get(session), await self.client.path.get()
        if found.directory != here.directory:
            raise Invalid(f"session {session} is one of {found.directory}, not of {here.directory}")


class OfferedTool(NamedTuple):
    """A method of `SessionTools` as a tool."""

    method: Callable[..., Awaitable[Any]]
    arguments: type[msgspec.Struct]
    definition: Tool


def _offered(name: str, method: Callable[..., Awaitable[Any]]) -> OfferedTool:
    """Make a tool of a method: its arguments' types are what the tool takes."""
    hints = get_type_hints(method, include_extras=True)
    _, *taken = inspect.signature(method).parameters.values()
    fields: list[Any] = [
        (one.name, hints[one.name], *([] if one.default is one.empty else [one.default])) for one in taken
    ]
    arguments = msgspec.defstruct(name, fields, forbid_unknown_fields=True)
    definition = Tool(
        name=name,
        description=inspect.getdoc(method),
        input_schema=_schema(arguments),
        output_schema=_schema(hints["return"]) if hints["return"] is SessionReport else None,
    )
    return OfferedTool(method, arguments, definition)


def _schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of an object, which stands at its top."""
    found = msgspec.json.schema(kind)
    definitions = found.pop("$defs")
    return {**definitions.pop(kind.__name__), **({"$defs": definitions} if definitions else {})}


_ANSWER: Final = "answer"
_TOOLS: Final = {
    name: _offered(name, method)
    for name, method in (
        ("start", SessionTools.start),
        ("continue", SessionTools.go_on),
        ("status", SessionTools.status),
        ("result", SessionTools.result),
        ("abort", SessionTools.abort),
        (_ANSWER, SessionTools.answer),
    )
}


class McpServer(Server[Any]):
    """What another agent is offered of these sessions, as far as the settings allow."""

    def __init__(self, sessions: SessionTools, settings: McpServerConfig) -> None:
        self._sessions = sessions
        self._tools = {name: tool for name, tool in _TOOLS.items() if settings.answers or name != _ANSWER}
        self._offers = settings.tools
        super().__init__(
            "instar",
            title="instar",
            version=__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_list_resources=self._resources,
            on_list_resource_templates=self._templates,
            on_read_resource=self._read,
        )

    async def _list(
        self, context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        tools = [tool.definition for tool in self._tools.values()]
        return ListToolsResult(tools=[*tools, *await self._workspace()])

    async def _call(
        self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult:
        try:
            found = await self._result(params.name, params.arguments or {})
        except (ApiError, Invalid, NotFound, Unreachable, msgspec.ValidationError) as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)
        if isinstance(found, str):
            return CallToolResult(content=[TextContent(text=found)])
        text = TextContent(text=wire.encode(found).decode())
        return CallToolResult(content=[text], structured_content=msgspec.to_builtins(found))

    async def _result(self, name: str, given: wire.Plain) -> SessionReport | str:
        if (tool := self._tools.get(name)) is not None:
            arguments = msgspec.structs.asdict(msgspec.convert(given, tool.arguments))
            return cast("SessionReport | str", await tool.method(self._sessions, **arguments))
        if name in [one.name for one in await self._workspace()]:
            report = await self._sessions.call(name, given)
            if report.error is not None:
                raise Invalid(report.error)
            return report if report.answer is None else report.answer
        raise Invalid(f"there is no tool {name!r}")

    async def _workspace(self) -> list[Tool]:
        return await self._sessions.offered() if self._offers else []

    async def _resources(
        self, context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        log = Resource(
            uri=_LOG,
            name="log",
            description="What evolved: changes, refusals and orders, newest first.",
            mime_type="application/json",
        )
        return ListResourcesResult(resources=[log])

    async def _templates(
        self, context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        change = ResourceTemplate(
            uri_template=f"{_LOG}/{{ref}}",
            name="change",
            description="One change with its diff, by its epoch (@12) or the start of its commit's id.",
            mime_type="application/json",
        )
        return ListResourceTemplatesResult(resource_templates=[change])

    async def _read(
        self, context: ServerRequestContext[Any, Any], params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        ref = params.uri.removeprefix(f"{_LOG}/")
        evolve = self._sessions.client.instar.evolve
        try:
            if params.uri == _LOG:
                text = wire.encode(await evolve.log())
            elif ref and ref != params.uri:
                text = wire.encode(await evolve.show(unquote(ref)))
            else:
                raise NotFound(f"there is no resource {params.uri}")
        except (ApiError, Invalid, NotFound, Unreachable) as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        content = TextResourceContents(uri=params.uri, text=text.decode(), mime_type="application/json")
        return ReadResourceResult(contents=[content])


class McpDoor:
    """The MCP server by streamable HTTP (ASGI): the sessions of a request's directory are its tools."""

    def __init__(self, instances: Instances) -> None:
        self._instances = instances
        self._transport = Transport(application(instances))
        self._sessions: WeakKeyDictionary[Runtime, SessionTools] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Each stands for itself, so nothing is kept of an agent that leaves."""
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).close()
            return
        request = Request(scope, receive, send)
        if request.method != "POST":
            # So the protocol has it: nothing is sent here that was not asked for.
            answer = refusal(
                405, "BadRequest", f"{request.method} {request.url.path}: it is asked for by POST"
            )
            answer.headers["Allow"] = "POST"
            await answer(scope, receive, send)
            return
        call = Call(request, self._instances)
        try:
            runtime = await call.runtime()
        except Exception as error:
            await answer_for(call.explained(error), request.url.path)(scope, receive, send)
            return
        server = McpServer(self._sessions_of(runtime), runtime.instance.config.mcp_server)
        manager = StreamableHTTPSessionManager(server, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    def _sessions_of(self, runtime: Runtime) -> SessionTools:
        if runtime not in self._sessions:
            # By way of the server: what is kept here must not hold the runtime.
            directory = str(runtime.instance.directory)
            client = AsyncClient("http://instar", transport=self._transport, directory=directory)
            self._sessions[runtime] = SessionTools(client)
        return self._sessions[runtime]


async def serve(client: AsyncClient, lines: Lines, settings: McpServerConfig) -> None:
    """Serve until there is no more to read; then the turns that were begun here end."""
    sessions = SessionTools(client)
    server = McpServer(sessions, settings)
    text = cast("Any", TextLines(lines))
    try:
        async with stdio_server(text, text) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
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
