"""The protocol over HTTP and over web sockets: what `instar serve` has at ``/acp``.

As the protocol's draft has it (https://agentclientprotocol.com/rfds/streamable-http-websocket-transport): a web socket
has a message in each text. Over HTTP the client's ``initialize`` is answered with the id of a connection, its other
messages with 202; it hears the agent over a stream of server-sent events for the connection, and one for each session.

The library's own server (0.12.1) is not used: over HTTP it knows a session only where it was begun, so that none can be
loaded; it carries out no close, fork and resume; and who is behind it is not told that a client has gone.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from acp.exceptions import RequestError
from acp.http.protocol import CONNECTION_ID_HEADER, SESSION_ID_HEADER, is_initialize_request
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from instar.cli.acp.agent import AgentSide, converse, read, refused, until_one_ends, written
from instar.client import ApiError, AsyncClient, NotFound, Unreachable
from instar.server.app import application
from instar.server.call import Call
from instar.server.errors import BadRequest, answer_for, refusal, reply
from instar.server.instances import Instances
from instar.server.within import Transport

_MOST_WAITING: Final = 1000
"""Messages that may wait for a client before who writes waits too."""
_BEAT: Final = 15.0
"""Seconds after which a quiet stream says that it is alive: proxies end those that are not."""


class EditorConnection:
    """The messages of one client (the library's ``Transport``)."""

    def __init__(self) -> None:
        self.id = uuid4().hex
        self._given: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._streams: dict[str | None, asyncio.Queue[dict[str, Any] | None]] = {}
        self._asked: dict[object, str | None] = {}
        self._open(None)

    def give(self, message: dict[str, Any] | None) -> None:
        """Take a message of the client's; None when it has gone."""
        if message is not None and "method" in message and "id" in message:
            self._asked[message["id"]] = _session_of(message)
        self._given.put_nowait(message)

    async def receive(self) -> dict[str, Any] | None:
        """Return the client's next message, None at the end."""
        return await self._given.get()

    async def send(self, message: dict[str, Any]) -> None:
        """Let the client hear a message: over its session's stream, if it has opened that."""
        about = _session_of(message) if "method" in message else self._asked.pop(message["id"], None)
        await self._streams.get(about, self._streams[None]).put(message)

    async def close(self) -> None:
        """End the streams; what nobody has heard yet is heard by nobody."""
        for stream in self._streams.values():
            while not stream.empty():
                stream.get_nowait()
            stream.put_nowait(None)

    async def heard(self, session_id: str | None = None) -> AsyncIterator[bytes | None]:
        """Yield the messages of a session's stream, or of the connection's; None now and then while there are none."""
        stream = self._open(session_id)
        while True:
            try:
                message = await asyncio.wait_for(stream.get(), _BEAT)
            except TimeoutError:
                yield None
                continue
            if message is None:
                return
            yield written(message)

    def leave(self, session_id: str | None) -> None:
        """Close a stream that nobody hears any more; the connection's is the last one."""
        if session_id is None:
            self.give(None)
        else:
            self._streams.pop(session_id, None)

    def _open(self, session_id: str | None) -> "asyncio.Queue[dict[str, Any] | None]":
        return self._streams.setdefault(session_id, asyncio.Queue(_MOST_WAITING))


def _session_of(message: dict[str, Any]) -> str | None:
    params = message.get("params")
    found = params.get("sessionId") if isinstance(params, dict) else None
    return found if isinstance(found, str) else None


class _Events(StreamingResponse):
    """One stream of a connection."""

    def __init__(self, connection: EditorConnection, session_id: str | None) -> None:
        self._connection, self._session_id = connection, session_id
        super().__init__(
            self._chunks(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send messages until the client has gone (ASGI)."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._connection.leave(self._session_id)

    async def _chunks(self) -> AsyncIterator[bytes]:
        async for message in self._connection.heard(self._session_id):
            yield b": alive\n\n" if message is None else b"data: " + message + b"\n\n"


class EditorsDoor:
    """The clients of the protocol that came over the net."""

    def __init__(self, instances: Instances) -> None:
        self._instances = instances
        self._transport = Transport(application(instances))
        self._connections: dict[str, EditorConnection] = {}
        self._speaking: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request or a web socket (ASGI)."""
        if scope["type"] == "websocket":
            await self._converse(WebSocket(scope, receive, send))
            return
        request = Request(scope, receive, send)
        try:
            answer = await self._answer(request)
        except RequestError as error:
            answer = reply(refused(error), 400)
        except BadRequest as error:
            answer = answer_for(error, request.url.path)
        await answer(scope, receive, send)

    async def _converse(self, socket: WebSocket) -> None:
        connection = EditorConnection()
        await socket.accept(headers=[(CONNECTION_ID_HEADER.lower().encode(), connection.id.encode())])
        await until_one_ends(self._speak(connection), _take(socket, connection), _tell(socket, connection))
        with suppress(RuntimeError):  # the client has closed it
            await socket.close()

    async def _answer(self, request: Request) -> Response:
        connection_id = request.headers.get(CONNECTION_ID_HEADER)
        message = read(await Call(request, self._instances).bytes()) if request.method == "POST" else {}
        if is_initialize_request(message):
            return await self._begin(message)
        if connection_id is None:
            return refusal(400, "BadRequest", f"begin with initialize, then name its {CONNECTION_ID_HEADER}")
        connection = self._connections.get(connection_id)
        if connection is None:
            return refusal(404, "NotFoundError", "that connection has ended: begin another with initialize")
        match request.method:
            case "POST":
                connection.give(message)
                return Response(status_code=202)
            case "GET":
                return _Events(connection, request.headers.get(SESSION_ID_HEADER))
            case "DELETE":
                connection.give(None)
                return Response(status_code=202)
            case _:
                answer = refusal(
                    405, "BadRequest", f"{request.method} /acp: it is asked for by DELETE, GET, POST"
                )
                answer.headers["Allow"] = "DELETE, GET, POST"
                return answer

    async def _begin(self, message: dict[str, Any]) -> Response:
        connection = EditorConnection()
        self._connections[connection.id] = connection
        task = asyncio.create_task(self._speak(connection), name=f"acp {connection.id}")
        self._speaking.add(task)
        task.add_done_callback(self._speaking.discard)
        connection.give(message)
        async for answer in connection.heard():
            if answer is not None:
                headers = {CONNECTION_ID_HEADER: connection.id}
                return Response(answer, media_type="application/json", headers=headers)
        return refusal(503, "ServiceUnavailableError", "the server is stopping")

    async def _speak(self, connection: EditorConnection) -> None:
        try:
            # The server's end is told by the end of the connection.
            with suppress(ApiError, NotFound, Unreachable):
                side = AgentSide(self._client, None, here=True, alone=False)
                await converse(side, self._client, connection)
        finally:
            self._connections.pop(connection.id, None)
            await connection.close()

    def _client(self, folder: str | None) -> AsyncClient:
        return AsyncClient("http://instar", transport=self._transport, directory=folder)


async def _take(socket: WebSocket, connection: EditorConnection) -> None:
    while (given := await socket.receive())["type"] != "websocket.disconnect":
        try:
            connection.give(read(given.get("text") or given.get("bytes") or b""))
        except RequestError as error:
            await connection.send(refused(error))
    connection.give(None)


async def _tell(socket: WebSocket, connection: EditorConnection) -> None:
    with suppress(WebSocketDisconnect):
        async for message in connection.heard():
            if message is not None:
                await socket.send_text(message.decode())
