"""A connection to a server, through the official SDK. Importing this costs a second: `server` does it when needed."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import httpx2
from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.types import CONNECTION_CLOSED, Implementation, ServerNotification

from instar import __version__
from instar.config import McpConfig
from instar.mcp.protocol import Link, LinkError, Place, Progress, first_of
from instar.mcp.stdio import LONGEST, started
from instar.wire import Plain

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions

# What it says is said by us, in one line: without a handler Python would print it, with its tracebacks.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

_MOST_PAGES: Final = 100
_VERSION_HEADER: Final = "mcp-protocol-version"
_TERMINATED: Final = "Session terminated"
"""What the SDK says when a remote server has forgotten the session (HTTP 404)."""


class SdkLink:
    """A connection (`instar.mcp.protocol.Link`).

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
            options["on_progress"] = _heard(progress)
        try:
            return await self._dispatcher.send_raw_request(method, params, options)
        except MCPError as error:
            gone = error.message == _TERMINATED
            if gone and not self.lost.done():
                self.lost.set_result("the server has forgotten the session")
            raise LinkError(error.message, lost=gone or error.code == CONNECTION_CLOSED) from error

    async def pages(self, method: str, key: str) -> list[Any]:
        """Return all entries of a list, page by page. Raises `LinkError`."""
        found: list[Any] = []
        params: Plain = {}
        for _ in range(_MOST_PAGES):
            page = await self.request(method, params)
            entries = page.get(key) if isinstance(page, dict) else None
            if not isinstance(entries, list):
                raise LinkError(f"its answer to {method} holds no list of {key}")
            found += entries
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return found
            params = {"cursor": cursor}
        raise LinkError(f"its answer to {method} does not end after {_MOST_PAGES} pages")

    def schema_fault(self, schema: Plain) -> str | None:
        """Say what is wrong with a JSON Schema."""
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            return f"{error.json_path}: {error.message}"
        return None


@asynccontextmanager
async def connected(config: McpConfig, place: Place, heard: Callable[[str], None]) -> AsyncIterator[Link]:
    """Open a connection; `heard` is given the method of each notification. Raises `LinkError`, or a group of it."""
    if config.type == "local":
        async with started(config, place) as child:
            try:
                async with _ungrouped(), _session(child.messages, child.sink, heard, child.lost) as link:
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
                raise asyncio.CancelledError(_garbage(child.garbage)) from None
        return
    async with AsyncExitStack() as stack:
        yield await _remote(stack, config, heard)


def _heard(told: Progress) -> Any:
    # The SDK's protocol names its parameters and wants a coroutine function.
    async def heard(progress: float, total: float | None, message: str | None) -> None:
        await told(progress, total, message)

    return heard


@asynccontextmanager
async def _ungrouped() -> AsyncIterator[None]:
    """Raise the first of a group of exceptions alone: the SDK's task groups wrap whatever ends them."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise first_of(group) from group


def _garbage(text: str) -> str:
    return f"it printed what is no message of the protocol: {text!r}"


async def _remote(stack: AsyncExitStack, config: McpConfig, heard: Callable[[str], None]) -> Link:
    """Connect by streamable HTTP, else by server-sent events, as older servers do and opencode tries."""
    status: list[int] = []
    try:
        return await stack.enter_async_context(_streamable(config, heard, status))
    except LinkError as error:
        if not status or status[-1] not in (400, 404, 405):
            raise LinkError(_refused(status, error)) from error
        first = error
    try:
        return await stack.enter_async_context(_events(config, heard))
    except Exception as error:
        raise LinkError(_refused(status, first)) from error


@asynccontextmanager
async def _streamable(
    config: McpConfig, heard: Callable[[str], None], status: list[int]
) -> AsyncGenerator[Link]:
    async def bounded(response: httpx2.Response) -> None:
        if response.status_code >= 400:
            status.append(response.status_code)
        if "json" in response.headers.get("content-type", ""):
            response.stream = _Bounded(response.stream)

    timeout = httpx2.Timeout(30.0, read=300.0)
    async with (
        _ungrouped(),
        httpx2.AsyncClient(
            headers=config.headers, timeout=timeout, event_hooks={"response": [bounded]}
        ) as client,
        streamable_http_client(config.url or "", http_client=client, max_sse_event_size=LONGEST) as (
            read,
            write,
        ),
        _session(read, write, heard) as link,
    ):
        yield link


@asynccontextmanager
async def _events(config: McpConfig, heard: Callable[[str], None]) -> AsyncGenerator[Link]:
    async with (
        _ungrouped(),
        sse_client(config.url or "", headers=dict(config.headers)) as (read, write),
        _session(read, write, heard) as link,
    ):
        yield link


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
    read: Any, write: Any, heard: Callable[[str], None], lost: "asyncio.Future[str] | None" = None
) -> AsyncGenerator[Link]:
    async def listen(message: ServerNotification | Exception) -> None:
        if not isinstance(message, Exception):
            heard(message.method)

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


def _refused(status: list[int], error: LinkError) -> str:
    if status and status[-1] in (401, 403):
        return f"it asks for authorization (HTTP {status[-1]}): give it in the headers of its block"
    return f"{error} (HTTP {status[-1]})" if status else str(error)
