"""A connection to a server, through the official SDK. Importing this costs a second: `servers` does it when needed.

A local server is a child of `instar.process`, which speaks in lines of JSON. The SDK's own transport ends only the
child itself once it has gone by its own will; this one leaves nothing of its process group behind, whether the
connection is closed, cancelled, or the runtime ends.
"""

import asyncio
import json
import logging
import math
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import anyio
import httpx2
from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]
from jsonschema.validators import validator_for  # type: ignore[import-untyped]
from mcp.client.auth import OAuthFlowError, OAuthTokenError
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    ErrorData,
    Implementation,
    JSONRPCError,
    ServerNotification,
    jsonrpc_message_adapter,
)

from instar import __version__
from instar.mcp import oauth
from instar.mcp.login import Login
from instar.mcp.server import LaunchContext, Link, LinkError, McpTool, Progress, first_of
from instar.process import Output, ProcessError
from instar.provider.keys import Keys
from instar.settings.config import McpConfig
from instar.wire import Plain

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions

# instar reports SDK errors in one line: without a handler Python would print them, with their tracebacks.
for _name in ("mcp", "client", "mcp.client.auth"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

# What it logs quotes what authorization servers answer: tokens among it.
logging.getLogger("mcp.client.auth").propagate = False

LONGEST: Final = 64 * 1024 * 1024
"""Bytes of one message; a server that sends a longer one is ended."""
_FAREWELL: Final = 0.5
"""Seconds that a server gets to end by itself once its stdin is closed."""
_STDERR: Final = 16 * 1024
"""Bytes of stderr that are kept to say why a server ended."""
_VERSION_HEADER: Final = "mcp-protocol-version"
_TERMINATED: Final = "Session terminated"
"""The SDK's error when a remote server has forgotten the session (HTTP 404)."""


class SdkLink:
    """A connection (`instar.mcp.server.Link`).

    Results are taken as they came, not as the SDK's models: one tool with a mistake must not cost its neighbours.
    """

    def __init__(
        self, session: ClientSession, dispatcher: JSONRPCDispatcher[Any], lost: "asyncio.Future[str]"
    ) -> None:
        self._dispatcher = dispatcher
        self._headers = {_VERSION_HEADER: session.protocol_version or ""}
        capabilities = session.server_capabilities
        self.capabilities: Plain = capabilities.model_dump(exclude_none=True) if capabilities else {}
        self.lost = lost

    async def request(self, method: str, params: Plain, progress: Progress | None = None) -> Any:
        """Send a request and return its result. Raises `LinkError`."""
        options: CallOptions = {"headers": self._headers}
        if progress is not None:
            options["on_progress"] = progress
        try:
            return await self._dispatcher.send_raw_request(method, params, options)
        except MCPError as error:
            gone = error.message == _TERMINATED
            if gone and not self.lost.done():
                self.lost.set_result("the server has forgotten the session")
            raise LinkError(error.message, lost=gone or error.code == CONNECTION_CLOSED) from error

    def check(self, definition: McpTool) -> None:
        """Raise `ValueError` if a tool's parameters are not a JSON Schema."""
        schema = definition.parameters
        draft = Draft202012Validator
        if isinstance(schema.get("$schema"), str):
            draft = validator_for(schema, default=draft)
        try:
            draft.check_schema(schema)
        except SchemaError as error:
            fault = f"{error.json_path}: {error.message}"
            raise ValueError(f"{definition.tool}: its inputSchema is wrong: {fault}") from None


@asynccontextmanager
async def connected(
    name: str,
    config: McpConfig,
    context: LaunchContext,
    on_notification: Callable[[str], None],
    login: Login | None = None,
) -> AsyncIterator[Link]:
    """Open a connection to a server; `on_notification` is called with the methods of its notifications.

    With a `login` a person is logging in. Raises `LinkError`, or a group of it.
    """
    if config.type == "local":
        async with _started(config, context) as child:
            try:
                async with (
                    _ungrouped(),
                    _session(child.messages, child.sink, on_notification, child.lost) as link,
                ):
                    yield link
            except LinkError as error:
                if error.lost and child.lost.done():
                    raise LinkError(
                        child.lost.result(), final="cannot start" in child.lost.result()
                    ) from error
                raise
            except asyncio.CancelledError:
                if child.garbage is None:
                    raise
                # Still a cancellation; its text becomes the cause of a time-out.
                said = f"it printed what is no message of the protocol: {child.garbage!r}"
                raise asyncio.CancelledError(said) from None
        return
    async with AsyncExitStack() as stack:
        login = login or Login(name, config, Keys(context.logins))
        yield await _remote(stack, _Remote(config, login, on_notification))


@asynccontextmanager
async def _ungrouped() -> AsyncIterator[None]:
    """Raise the first of a group of exceptions alone: the SDK's task groups wrap whatever ends them."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise first_of(group) from group


class _Remote:
    """A remote server that is being connected; `status` are the refusals of its own address, oldest first."""

    def __init__(self, config: McpConfig, login: Login, on_notification: Callable[[str], None]) -> None:
        """Raises `KeysError`."""
        self._config, self._login, self._on_notification = config, login, on_notification
        self._auth = None if config.oauth is False else oauth.provider(login)
        self.url = config.url or ""
        self.status: list[int] = []

    @asynccontextmanager
    async def streamable(self) -> AsyncGenerator[Link]:
        """Connect by streamable HTTP."""
        timeout = httpx2.Timeout(30.0, read=300.0)
        async with (
            _ungrouped(),
            httpx2.AsyncClient(
                headers=self._config.headers,
                timeout=timeout,
                auth=self._auth,
                event_hooks={"response": [self._heard]},
            ) as client,
            streamable_http_client(self.url, http_client=client, max_sse_event_size=LONGEST) as (read, write),
            _session(read, write, self._on_notification) as link,
        ):
            yield link

    @asynccontextmanager
    async def events(self) -> AsyncGenerator[Link]:
        """Connect by server-sent events."""
        async with (
            _ungrouped(),
            sse_client(self.url, headers=dict(self._config.headers), auth=self._auth) as (read, write),
            _session(read, write, self._on_notification) as link,
        ):
            yield link

    def refused(self, error: LinkError | OAuthFlowError) -> LinkError:
        """Return what to say of a failure."""
        last = self.status[-1] if self.status else None
        if isinstance(error, OAuthTokenError):
            # Its text quotes the answer, and that may hold a token.
            return LinkError("its authorization server gave no token that can be used")
        if self._login.attended:
            return LinkError(str(error))
        if last == 401 and self._config.oauth is not False:
            return LinkError(f"somebody has to log in: instar mcp auth {self._login.name}", login=True)
        if last in (401, 403):
            return LinkError(f"it asks for authorization (HTTP {last}): give it in the headers of its block")
        return LinkError(f"{error} (HTTP {last})" if last else str(error))

    async def _heard(self, response: httpx2.Response) -> None:
        if response.status_code >= 400 and str(response.request.url) == self.url:
            self.status.append(response.status_code)
        if "json" in response.headers.get("content-type", ""):
            response.stream = _Bounded(response.stream)


async def _remote(stack: AsyncExitStack, server: _Remote) -> Link:
    """Connect by streamable HTTP, else by server-sent events, as older servers do and opencode tries."""
    try:
        return await stack.enter_async_context(server.streamable())
    except (LinkError, OAuthFlowError) as error:
        if not server.status or server.status[-1] not in (400, 404, 405):
            raise server.refused(error) from error
        first = error
    try:
        return await stack.enter_async_context(server.events())
    except Exception as error:
        raise server.refused(first) from error


class _Bounded(httpx2.AsyncByteStream):
    """A body that may not be longer than one message."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > LONGEST:
                raise httpx2.StreamError(f"the server sent a message of more than {LONGEST >> 20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def _session(
    read: Any, write: Any, on_notification: Callable[[str], None], lost: "asyncio.Future[str] | None" = None
) -> AsyncGenerator[Link]:
    async def listen(message: ServerNotification | Exception) -> None:
        if not isinstance(message, Exception):
            on_notification(message.method)

    dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(read, write)
    session = ClientSession(
        dispatcher=dispatcher,
        message_handler=listen,
        client_info=Implementation(name="instar", version=__version__),
    )
    async with session:
        try:
            await session.initialize()
        except MCPError as error:
            raise LinkError(error.message, lost=error.code == CONNECTION_CLOSED) from error
        except (RuntimeError, ValueError) as error:
            raise LinkError(f"its answer to initialize is wrong: {str(error).splitlines()[0]}") from error
        yield SdkLink(session, dispatcher, lost or asyncio.get_running_loop().create_future())


class _ServerProcess:
    """A running server: its streams, what it printed that was no message, and why it ended."""

    def __init__(self) -> None:
        # Without bounds, so that neither the child's reader nor an aborted call ever waits for the other side.
        self._arrived, self.messages = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        self.sink, self._outgoing = anyio.create_memory_object_stream[SessionMessage](math.inf)
        self._buffer = bytearray()
        self._searched = 0
        self.garbage: str | None = None
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def feed(self, data: bytes) -> None:
        """Take what the child printed. Raises `LinkError` when a message is longer than `LONGEST`."""
        self._buffer += data
        while (end := self._buffer.find(b"\n", self._searched)) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            self._line(line)
        self._searched = len(self._buffer)
        if self._searched > LONGEST:
            raise LinkError(f"it sent a message of more than {LONGEST >> 20} MiB")

    async def write(self, file: BinaryIO) -> None:
        """Write what is sent to the child's stdin, until the stream or the child ends."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        try:
            async for item in self._outgoing:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode() + b"\n")
                await writer.drain()
        except OSError:
            # The child has closed its stdin; that it has ended is said by `ended`.
            return
        finally:
            transport.abort()

    def ended(self, reason: str) -> None:
        """Note why the child ended, and fail the pending requests."""
        if not self.lost.done():
            self.lost.set_result(reason)
        self._arrived.close()

    def close(self) -> None:
        """Close every stream."""
        for stream in (self._arrived, self.messages, self.sink, self._outgoing):
            stream.close()

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self.garbage = self.garbage or line[:120].decode(errors="replace")
            refusal = _refusal(line)
            if refusal is None:
                return
            message = refusal
        if not self.lost.done():
            self._arrived.send_nowait(SessionMessage(message))


@asynccontextmanager
async def _started(config: McpConfig, context: LaunchContext) -> AsyncIterator[_ServerProcess]:
    """Run a local server while the context is open; afterwards nothing of its process group is left."""
    child = _ServerProcess()
    reading, descriptor = os.pipe()
    writing = os.fdopen(descriptor, "wb", 0)
    running = asyncio.create_task(_run(config, context, child, reading))
    feeding = asyncio.create_task(child.write(writing))
    try:
        yield child
    finally:
        feeding.cancel()
        try:
            await asyncio.wait([feeding])
            writing.close()
            await asyncio.wait([running], timeout=_FAREWELL)
        finally:
            # Also when this is cancelled a second time: the child's group ends with its task.
            running.cancel()
            try:
                await asyncio.wait([running])
            finally:
                child.close()


async def _run(config: McpConfig, context: LaunchContext, child: _ServerProcess, stdin: int) -> None:
    try:
        output = await context.processes.run(
            config.command,
            cwd=context.directory / (config.cwd or "."),
            env={**context.environment, **config.environment},
            stdin=stdin,
            limit=_STDERR,
            on_output=child.feed,
        )
        child.ended(_ending(output))
    except (ProcessError, LinkError) as error:
        child.ended(str(error))
    finally:
        os.close(stdin)
        child.ended("it was ended")


def _refusal(line: bytes) -> JSONRPCError | None:
    """Return an error in place of a malformed answer, so that nobody waits for it; None for other lines."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    answered = found.get("id") if isinstance(found, dict) and "method" not in found else None
    if isinstance(answered, bool) or not isinstance(answered, int | str):
        return None
    data = ErrorData(code=INTERNAL_ERROR, message="an answer that is no message of the protocol")
    return JSONRPCError(jsonrpc="2.0", id=answered, error=data)


def _ending(output: Output) -> str:
    how = f"by signal {output.signal}" if output.signal else f"with exit code {output.code}"
    lines = output.stderr.decode(errors="replace").strip().splitlines()
    return f"it ended {how}" + (f": {lines[-1][:300]}" if lines else "")
