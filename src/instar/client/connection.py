"""Connections to a server: one that is awaited (`AsyncConnection`) and one that waits (`Connection`)."""

import asyncio
import base64
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from instar.api.session import Invalid
from instar.client.request import ApiError, Request, Unreachable, decoded, event, refused
from instar.event import Event
from instar.wire.secret import Secret
from instar.wire.sse import EventParser, EventTooLongError

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

_CONNECT: Final = 10.0
"""Seconds that connecting may take; an answer may take as long as its turn."""
_SILENCE: Final = 60.0
"""Seconds without a heartbeat after which an event stream counts as broken: six of them are due in it."""


class AsyncConnection:
    """Asks a server; use it in one event loop, and as ``async with`` or with `aclose`.

    `url` is ``http://HOST:PORT``; `socket` is the path of a unix socket to reach it by. `password` None logs in as
    nobody. `directory` is what requests are about; None leaves that to the server.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:4096",
        *,
        password: Secret | str | None = None,
        username: str = "opencode",
        directory: str | None = None,
        socket: str | None = None,
        transport: "httpx2.AsyncBaseTransport | None" = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.directory = directory
        self._password = Secret(password) if isinstance(password, str) else password
        self._username = username
        self._socket = socket
        self._transport = transport
        self._made: httpx2.AsyncClient | None = None

    def _login(self) -> dict[str, str]:
        if self._password is None:
            return {}
        encoded = base64.b64encode(f"{self._username}:{self._password.reveal()}".encode()).decode()
        return {"authorization": f"Basic {encoded}"}

    def _sent(self, request: Request) -> dict[str, Any]:
        """A request in httpx' words, which are the same for both of its clients."""
        return {
            "method": request.method,
            "url": request.target(),
            "params": request.parameters(self.directory),
            "headers": request.headers(self.directory),
            "content": request.content(),
        }

    def _unreachable(self, error: Exception) -> Unreachable:
        where = self._socket or self.url
        return Unreachable(
            f"no answer from {where}: {error or type(error).__name__}; is `instar serve` running there?"
        )

    def _http(self) -> "httpx2.AsyncClient":
        # Start-up time: only who connects pays for it.
        import httpx2

        if self._made is None:
            transport = self._transport or httpx2.AsyncHTTPTransport(uds=self._socket)
            timeout = httpx2.Timeout(None, connect=_CONNECT)
            self._made = httpx2.AsyncClient(
                base_url=self.url, headers=self._login(), transport=transport, timeout=timeout
            )
        return self._made

    async def ask(self, request: Request, kind: Any) -> Any:
        """Send a request and return its answer as `kind` (None: it has none; str: its text).

        Raises `NotFound`, `Invalid`, `Busy`, `ApiError`, and `Unreachable`.
        """
        import httpx2

        try:
            answer = await self._http().request(**self._sent(request))
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error
        return _result(answer.status_code, answer.content, kind)

    async def carry(
        self, method: str, path: str, headers: Mapping[str, str], body: str
    ) -> tuple[int, str, str]:
        """Send somebody else's request as it is; return its answer's status, media type and text, whatever they are.

        `path` has the query. Raises `Unreachable`, and `Invalid` for a stream.
        """
        import httpx2

        sent = self._http().stream(method, path, headers=dict(headers), content=body.encode() or None)
        try:
            async with sent as answer:
                media = answer.headers.get("content-type", "")
                if media.startswith("text/event-stream"):
                    raise Invalid(f"{path} is a stream of events: open it where its events can be read")
                return answer.status_code, media, (await answer.aread()).decode("utf-8", "replace")
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error

    async def events(self, request: Request) -> AsyncIterator[Event]:
        """Yield the events of a stream from now on until it ends; those of types not known here are passed over."""
        async with self.listening(request) as heard:
            async for one in heard:
                yield one

    @asynccontextmanager
    async def listening(self, request: Request) -> AsyncIterator[AsyncIterator[Event]]:
        """Open a stream of events: inside, nothing that is published from then on is missed. Raises as `ask`."""
        import httpx2

        try:
            async with self._http().stream(
                **self._sent(request), timeout=httpx2.Timeout(_SILENCE, connect=_CONNECT)
            ) as answer:
                if answer.status_code != 200:
                    raise refused(answer.status_code, await answer.aread())
                _check_stream(answer.headers.get("content-type", ""))
                yield self._read(answer)
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error

    async def _read(self, answer: "httpx2.Response") -> AsyncIterator[Event]:
        import httpx2

        reader = EventParser()
        try:
            async for chunk in answer.aiter_bytes():
                for one in _events(reader, chunk):
                    yield one
                # A stream that has much to say must not keep the reader's other tasks from running.
                await asyncio.sleep(0)
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error

    async def aclose(self) -> None:
        """Let go of the connections."""
        if self._made is not None:
            await self._made.aclose()
            self._made = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Connection:
    """Asks a server as `AsyncConnection`, whose arguments it takes, and waits; use it as ``with`` or with `close`.

    What it asks runs in an event loop of its own, in a thread.
    """

    def __init__(self, url: str = "http://127.0.0.1:4096", **how: Any) -> None:
        self._awaited = AsyncConnection(url, **how)
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def ask(self, request: Request, kind: Any) -> Any:
        """Send a request and return its answer as `kind`, as `AsyncConnection.ask`."""
        return self._wait(self._awaited.ask(request, kind))

    def events(self, request: Request) -> Iterator[Event]:
        """Yield the events of a stream from now on until it ends; those of types not known here are passed over."""
        with self.listening(request) as heard:
            yield from heard

    @contextmanager
    def listening(self, request: Request) -> Iterator[Iterator[Event]]:
        """Open a stream of events: inside, nothing that is published from then on is missed. Raises as `ask`."""
        stream = self._awaited.listening(request)
        heard = self._wait(stream.__aenter__())
        try:
            yield self._each(heard)
        except BaseException as error:
            if not self._wait(stream.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._wait(stream.__aexit__(None, None, None))

    def close(self) -> None:
        """Let go of the connections."""
        if self._loop is not None and self._thread is not None:
            self._wait(self._awaited.aclose())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _each(self, heard: AsyncIterator[Event]) -> Iterator[Event]:
        while (one := self._wait(_next(heard))) is not None:
            yield one

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        asked = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return asked.result()
        finally:
            # Whoever is interrupted while it waits, by Ctrl-C for one, asks for nothing any more.
            asked.cancel()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
                self._thread.start()
            return self._loop


async def _next(heard: AsyncIterator[Event]) -> Event | None:
    return await anext(heard, None)


def _events(reader: EventParser, chunk: bytes) -> Iterator[Event]:
    try:
        heard = reader.feed(chunk)
    except EventTooLongError as error:
        raise ApiError(200, "MalformedAnswer", str(error)) from None
    for data in heard:
        found = event(data)
        if found is not None:
            yield found


def _check_stream(media: str) -> None:
    if not media.startswith("text/event-stream"):
        raise ApiError(
            200, "MalformedAnswer", f"the server answered with {media or 'nothing'}, not with events"
        )


def _result(status: int, data: bytes, kind: Any) -> Any:
    if status >= 400:
        raise refused(status, data)
    if status >= 300:
        raise ApiError(status, "Redirected", "the server sends elsewhere; its address is another")
    if kind is None:
        return None
    return data.decode("utf-8", "replace") if kind is str else decoded(data, kind)
