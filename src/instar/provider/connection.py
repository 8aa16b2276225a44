"""Model calls over HTTP: what the adapters that use httpx2 share.

`HTTPAdapter` makes the calls and keeps the connections, `ResponseReader` reads the answers. Only an adapter imports
this module, when its first model is called: httpx2 takes 0.1 s to import.

Options of a provider block that are read here, with opencode's names and in milliseconds: ``chunkTimeout`` (longest
silence, 300000), ``headerTimeout`` (longest wait for the first byte of an answer, 300000), ``timeout`` (the whole call,
none); `false` means no limit.

With ``INSTAR_LOG_REQUESTS=FILE`` each call is appended to FILE as a line of JSON: ``time`` (ms, when it was sent),
``took`` (ms), ``protocol``, ``url``, ``model``, ``session``, ``purpose``, ``body`` (the request's own bytes), and
``tokens`` as the provider counted them or ``error``. Headers, and keys with them, are left out. The conversation is
not, so that only the file's owner may read it. ``python -m bench.caching FILE`` replays it.
"""

import asyncio
import logging
import os
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from instar.message import Tokens
from instar.plugin.interface import Fetch, FetchFailed, FetchRequest
from instar.provider.catalogue import vendor_wanting_key
from instar.provider.failure import MAX_BODY, ProviderEndpoint, secrets_in
from instar.provider.protocol import (
    Delta,
    Finish,
    Model,
    ModelRequest,
    ProviderError,
    length,
)
from instar.wire import Plain
from instar.wire.pattern import late_pattern
from instar.wire.sse import EventParser, EventTooLongError

log = logging.getLogger("instar.provider")

IDLE_TIMEOUT: Final = 300.0
IDLE_CONNECTIONS: Final = 64
"""Connections of a server that are kept for the next calls."""
_KEPT: Final = 60.0
"""Seconds for which a connection is kept."""
MAX_CALLS: Final = 256
"""Tool calls of one answer: they run together, and each may be a process."""
MAX_WHOLE: Final = 32 << 20
"""Bytes of an answer that does not stream."""
MAX_STREAM: Final = 256 << 20
"""Bytes of an answer that streams: no model says so much, and a server that never ends must not fill memory."""
PER_TOKEN: Final = 4
"""Bytes of a request, and characters of an answer, that are taken for a token if the server does not count."""
FILE_TOKENS: Final = 1_500
"""Tokens that an attached picture or document is taken for: a model does not read its base64 text."""
_CONNECT_TIMEOUT: Final = 10.0
_WRITE_TIMEOUT: Final = 60.0
_DRAIN: Final = 0.25
_BASE64: Final = late_pattern(rb'"(?:data:[^",]{0,100},)?[A-Za-z0-9+/=]{2000,}"')
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_CONNECTION_HEADERS: Final = frozenset({"host", "connection", "content-length", "transfer-encoding"})
"""Headers of a request that whoever makes the connection sets."""
_UNPACKED_HEADERS: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers of an answer that do not hold for its decompressed body."""

Event = TypeVar("Event")


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds to wait: for the headers, between two chunks, for the whole call. None is for ever.

    `deadline` is when the whole call must be over, on the event loop's clock.
    """

    header: float | None
    idle: float | None
    whole: float | None
    deadline: float | None

    @property
    def first(self) -> float:
        """How long the first byte of an answer may take."""
        return min(wait for wait in (self.header, self.idle, IDLE_TIMEOUT) if wait is not None)

    @classmethod
    def of(cls, settings: Plain) -> "Timeouts":
        """Read a provider block's options; the call begins now."""
        whole = _seconds(settings.get("timeout"), None)
        header = _seconds(settings.get("headerTimeout"), IDLE_TIMEOUT)
        return cls(
            header=whole if header is None else min(header, whole or header),
            idle=_seconds(settings.get("chunkTimeout"), IDLE_TIMEOUT),
            whole=whole,
            deadline=None if whole is None else asyncio.get_running_loop().time() + whole,
        )


class ResponseReader(ABC):
    """Reads an answer from bytes as they come, in any pieces: bytes in, deltas out.

    It reads a stream of events, and also the one JSON object of a server that does not stream. `done` is true once the
    provider said that the answer is complete, `heard` if the last bytes were more than comments. `feed` and `close`
    raise `ProviderError` for an error object, for what is not the protocol's JSON, and for an answer that broke off.
    """

    def __init__(self, endpoint: ProviderEndpoint) -> None:
        self.done = False
        self.heard = True
        self._endpoint = endpoint
        self._events = EventParser()
        self._start: bytes | None = b""
        self._whole: bytearray | None = None
        self._size = 0
        self._reason: str | None = None
        self._usage: Plain = {}

    @abstractmethod
    def read(self, data: bytes) -> list[Delta]:
        """Return the deltas of one event, or of the whole object."""

    @abstractmethod
    def finish(self) -> Finish:
        """Return the end of the answer. Raises `ProviderError` if it is not complete."""

    def feed(self, data: bytes) -> list[Delta]:
        """Return the deltas that `data` completes."""
        self._size += len(data)
        if self._size > MAX_STREAM:
            raise self._endpoint.malformed(data, f"more than {MAX_STREAM} bytes")
        if self._start is not None:
            data = self._sniff(self._start + data)
        if self._whole is not None:
            self._whole += data
            if len(self._whole) > MAX_WHOLE:
                raise self._endpoint.malformed(bytes(self._whole), f"more than {MAX_WHOLE} bytes")
            return []
        try:
            events = self._events.feed(data)
        except EventTooLongError as error:
            raise self._endpoint.malformed(data, str(error)) from None
        self.heard = bool(events) or self._events.midway
        return self._read_all(events)

    def close(self) -> list[Delta]:
        """Return what is left, with the `Finish` last."""
        whole = self._whole
        found = self._read_all(self._events.close()) if whole is None else self.read(bytes(whole))
        return [*found, self.finish()]

    def _read_all(self, events: list[bytes]) -> list[Delta]:
        found: list[Delta] = []
        for data in events:
            if data and not data.isspace():
                found += self.read(data)
        return found

    def _sniff(self, data: bytes) -> bytes:
        """Decide by the first byte whether this is a stream, one JSON object or a page."""
        first = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        self._start = None if first else data
        if first and first in b"{[<":
            self._whole = bytearray()
        return data if first else b""

    def _decoded(self, decoder: "msgspec.json.Decoder[Event]", data: bytes) -> Event:
        try:
            return decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if "truncated" in str(error):
                raise self._endpoint.network("the answer broke off before its end") from None
            raise self._endpoint.malformed(data, str(error)) from None

    def _too_many_calls(self) -> ProviderError:
        return self._endpoint.error(f"the model asked for more than {MAX_CALLS} tools in one answer")


class HTTPAdapter(ABC):
    """Calls models by one wire protocol at any address. Connections are kept and used again between calls."""

    speaks: ClassVar[str]
    """The protocol's name, for error texts."""
    reader: ClassVar[type[ResponseReader]]
    """Reads one answer."""

    def __init__(self, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        file = environment.get("INSTAR_LOG_REQUESTS")
        self._record = Path(file).expanduser() if file else None
        self._clients: set[httpx2.AsyncClient] = set()
        self._idle: dict[tuple[str, Fetch | None], list[tuple[float, httpx2.AsyncClient]]] = {}
        """By scheme and host, the clients that no call uses, and since when: used last, it stands last."""

    @abstractmethod
    def url(self, model: Model) -> str:
        """Return the address of a call."""

    @abstractmethod
    def headers(self, request: ModelRequest) -> dict[str, str]:
        """Return the headers that the protocol needs, by their small-letter names."""

    @abstractmethod
    def body(self, request: ModelRequest) -> bytes:
        """Return the request's JSON, the same bytes for the same request, and call `ModelRequest.sent`."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Make the call and yield its deltas. Raises `ProviderError`, never with the key in it."""
        model = request.model
        secrets = secrets_in(model.headers | request.headers)
        known = [*secrets, model.api_key]
        endpoint = ProviderEndpoint(self.url(model), known, speaks=self.speaks, key_from=model.key_from)
        vendor = vendor_wanting_key(model.provider_id, model.url)
        if vendor is not None and not (model.api_key or model.fetch or secrets):
            how = f"instar auth login {model.provider_id}, or set {vendor.env[0]}"
            raise endpoint.error(f"{model.provider_id} has no key: {how}", kind="auth")
        body = self.body(request)
        outcome: Tokens | str = "the call was cut short"
        began, clock = time.time_ns() // 1_000_000, time.monotonic()
        try:
            async with aclosing(self._exchange(request, endpoint, body)) as deltas:
                async for delta in deltas:
                    if isinstance(delta, Finish):
                        outcome = delta.tokens
                    yield delta
        except ProviderError as error:
            outcome = str(error)
            raise
        finally:
            if self._record is not None:
                took = int((time.monotonic() - clock) * 1000)
                _record(self._record, request, body, {"time": began, "took": took}, outcome)

    async def close(self) -> None:
        """Close every connection."""
        clients, self._clients, self._idle = self._clients, set(), {}
        for client in clients:
            await client.aclose()

    async def _exchange(
        self, request: ModelRequest, endpoint: ProviderEndpoint, body: bytes
    ) -> AsyncGenerator[Delta, None]:
        timeouts = Timeouts.of(request.model.settings)
        reader = self.reader(endpoint)
        characters = 0
        clock = asyncio.get_running_loop().time
        async with (
            self._client(request.model) as client,
            self._response(client, request, endpoint, body, timeouts) as response,
        ):
            chunks, last = _chunks(response, endpoint, timeouts), clock()
            async for data in chunks:
                for delta in reader.feed(data):
                    characters += length(delta)
                    yield delta
                if reader.heard:
                    last = clock()
                elif timeouts.idle is not None and clock() - last > timeouts.idle:
                    raise endpoint.network(f"the answer held nothing but comments for {timeouts.idle:g} s")
                if reader.done:
                    await _drain(chunks)
                    break
        for delta in reader.close():
            characters += length(delta)
            yield _estimated(delta, body, characters) if isinstance(delta, Finish) else delta

    @asynccontextmanager
    async def _response(
        self,
        client: httpx2.AsyncClient,
        request: ModelRequest,
        endpoint: ProviderEndpoint,
        body: bytes,
        timeouts: Timeouts,
    ) -> AsyncIterator[httpx2.Response]:
        """Send the request; yields a successful response whose body is not yet read."""
        try:
            waits = {
                "read": timeouts.idle,
                "connect": _CONNECT_TIMEOUT,
                "write": _WRITE_TIMEOUT,
                "pool": None,
            }
            sending = httpx2.Request(
                "POST",
                _address(self.url(request.model)),
                content=body,
                headers=self._all_headers(request),
                extensions={"timeout": waits},
            )
            async with asyncio.timeout(timeouts.header):
                response = await _sent(client, sending)
        except (TimeoutError, httpx2.ReadTimeout):
            raise endpoint.network(f"no answer began within {timeouts.first:g} s") from None
        except (httpx2.TransportError, httpx2.InvalidURL, httpx2.TooManyRedirects) as error:
            raise _unreachable(endpoint, error) from None
        except FetchFailed as error:
            raise endpoint.error(f"the plugin whose login calls {endpoint.url} failed: {error}") from None
        except UnicodeEncodeError as error:
            what = "a header or the key holds a character that HTTP cannot send"
            raise endpoint.error(f"{what}: {error.reason}") from None
        try:
            if response.status_code >= 300:
                raise await _refusal(response, endpoint)
            yield response
        finally:
            await response.aclose()

    def _all_headers(self, request: ModelRequest) -> dict[str, str]:
        """Return the headers of the call: ours, then the model's, then the request's; the last of a name counts."""
        found = {
            "accept": "text/event-stream, application/json",
            # A compressed stream is held back by proxies until there is enough of it.
            "accept-encoding": "identity",
            "connection": "keep-alive",
            "content-type": "application/json",
            "user-agent": "instar",
            **self.headers(request),
        }
        for headers in (request.model.headers, request.headers):
            found |= {name.lower(): value for name, value in headers.items()}
        return found

    @asynccontextmanager
    async def _client(self, model: Model) -> AsyncIterator[httpx2.AsyncClient]:
        """Give a call a client of its own, which has one connection and is kept for later calls of the host.

        One client for all would look at each of its connections, and ask the system whether it broke, twice a call.
        """
        parts = urlsplit(self.url(model))
        idle = self._idle.setdefault((f"{parts.scheme}://{parts.netloc}", model.fetch), [])
        client = idle.pop()[1] if idle else self._new_client(parts.scheme, model.fetch)
        try:
            yield client
        finally:
            if client in self._clients:
                now = time.monotonic()
                idle.append((now, client))
                if len(idle) > IDLE_CONNECTIONS or now - idle[0][0] > _KEPT:
                    oldest = idle.pop(0)[1]
                    self._clients.discard(oldest)
                    await oldest.aclose()

    def _new_client(self, scheme: str, fetch: Fetch | None) -> httpx2.AsyncClient:
        client = httpx2.AsyncClient(
            verify=False if scheme == "http" else _tls(),
            limits=httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_KEPT),
            transport=None if fetch is None else _FetchTransport(fetch),
        )
        self._clients.add(client)
        return client


@lru_cache
def _address(url: str) -> httpx2.URL:
    """Return a URL in httpx2's form. Raises `httpx2.InvalidURL`."""
    found = httpx2.URL(url)
    if not found.host:
        raise httpx2.InvalidURL("it names no host")
    return found


@cache
def _tls() -> ssl.SSLContext:
    """Return what all clients know of TLS: to set it up takes 0.15 s."""
    return httpx2.create_ssl_context()


def joined(model: Model, path: str) -> str:
    """Return the model's base URL, its query kept, with `path` at its end unless it ends so already."""
    base, mark, query = model.url.partition("?")
    base = base.rstrip("/")
    return base + ("" if base.endswith(path) else path) + mark + query


def count(usage: Plain, key: str) -> int:
    """Return a number of tokens; at most 2^53, which every program that reads JSON holds exactly."""
    found = usage.get(key)
    return max(0, int(min(found, 1 << 53))) if isinstance(found, int | float) else 0


class _FetchTransport(httpx2.AsyncBaseTransport):
    """Sends requests through the ``fetch`` of a plugin's login in place of a connection."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {name: value for name, value in request.headers.items() if name not in _CONNECTION_HEADERS}
        asked = FetchRequest(str(request.url), request.method, headers, await request.aread())
        try:
            answer = await self._fetch(asked)
        except OSError as error:
            raise httpx2.ConnectError(_reason(error), request=request) from error
        except Exception as error:
            raise FetchFailed(_reason(error)) from error
        found = [(name, value) for name, value in answer.headers if name.lower() not in _UNPACKED_HEADERS]
        wait = request.extensions.get("timeout", {}).get("read")
        return httpx2.Response(answer.status, headers=found, stream=_FetchBody(answer.body, wait))


class _FetchBody(httpx2.AsyncByteStream):
    """The body of an answer; a silence of `wait` seconds ends it."""

    def __init__(self, chunks: AsyncGenerator[bytes, None], wait: float | None) -> None:
        self._chunks, self._wait = chunks, wait

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(self._wait):
                    chunk = await anext(self._chunks, None)
            except TimeoutError:
                raise httpx2.ReadTimeout("the answer fell silent") from None
            except Exception as error:
                raise httpx2.ReadError(_reason(error)) from error
            if chunk is None:
                return
            yield chunk

    async def aclose(self) -> None:
        await self._chunks.aclose()


async def _sent(client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
    """Send a request; at once again where a connection that was kept from an earlier call broke before an answer.

    A server may close a kept connection while the request is under way: llama.cpp's does after each streamed answer,
    though it says that it keeps it. What breaks a new connection is raised.
    """
    connected = False

    async def trace(event: str, _: Mapping[str, Any]) -> None:
        nonlocal connected
        connected = connected or event == "connection.connect_tcp.started"

    request.extensions["trace"] = trace
    while True:
        try:
            return await client.send(request, stream=True)
        except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
            if connected:
                raise


async def _chunks(
    response: httpx2.Response, endpoint: ProviderEndpoint, timeouts: Timeouts
) -> AsyncIterator[bytes]:
    """Yield the body as it comes; a silence, a broken connection or the end of time is a `ProviderError`."""
    chunks = response.aiter_bytes()
    try:
        while True:
            async with asyncio.timeout_at(timeouts.deadline):
                data = await anext(chunks, None)
            if data is None:
                return
            yield data
    except TimeoutError:
        raise endpoint.network(f"the whole call took longer than {timeouts.whole:g} s") from None
    except httpx2.ReadTimeout:
        raise endpoint.network(f"the answer fell silent for {timeouts.idle:g} s") from None
    except (httpx2.TransportError, httpx2.DecodingError) as error:
        what = f"the connection broke in the middle of the answer: {_reason(error)}"
        raise endpoint.network(what) from None


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read what follows an answer's end, for a moment: a connection is reusable after the whole body was read."""
    try:
        async with asyncio.timeout(_DRAIN):
            async for _ in chunks:
                pass
    except (TimeoutError, ProviderError):
        return


async def _refusal(response: httpx2.Response, endpoint: ProviderEndpoint) -> ProviderError:
    """Read a refusal's body, up to 64 KiB and 10 seconds of it."""
    data = b""
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) >= MAX_BODY:
                    break
    except (TimeoutError, httpx2.HTTPError):
        data = data or b"(its text did not arrive)"
    if response.status_code < 400:
        where = response.headers.get("location", "nowhere")
        return endpoint.error(
            f"{endpoint.url} redirects to {where}: set the provider's baseURL to the address itself",
            status=response.status_code,
        )
    return endpoint.refused(response.status_code, dict(response.headers), data)


def _unreachable(endpoint: ProviderEndpoint, error: Exception) -> ProviderError:
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL | httpx2.LocalProtocolError):
        return endpoint.error(f"cannot call {endpoint.url}: {error}. baseURL must be an http(s) address.")
    what = "timed out" if isinstance(error, httpx2.TimeoutException) else _reason(error)
    if isinstance(error, httpx2.ConnectError) and urlsplit(endpoint.url).hostname in _LOOPBACK:
        what += "; is it running?"
    return endpoint.network(f"cannot reach the model's server: {what}")


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _seconds(value: Any, default: float | None) -> float | None:
    """Return a time-out option in seconds: false means none, an invalid value the default."""
    if value is False:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return value / 1000
    return default


def _estimated(finish: Finish, body: bytes, characters: int) -> Finish:
    """Return the end of an answer, its tokens estimated if the server gave none: limits and summaries need a number."""
    given = finish.tokens
    if given.input or given.output or given.reasoning or given.cache.read or given.cache.write:
        return finish
    text, files = _BASE64.subn(b"", body)
    inputs, outputs = len(text) // PER_TOKEN + files * FILE_TOKENS, -(-characters // PER_TOKEN)
    return Finish(finish.reason, Tokens.of(inputs, outputs, total=inputs + outputs))


def _record(
    file: Path, request: ModelRequest, body: bytes, times: dict[str, int], outcome: Tokens | str
) -> None:
    model = request.model
    # A user name, a password or a query may stand in the address; they are keys too.
    parts = urlsplit(model.url)
    line = {
        **times,
        "protocol": model.protocol,
        "url": f"{parts.scheme}://{parts.hostname}{parts.path}",
        "model": model.wire_id or model.id,
        "session": request.session_id,
        "purpose": request.purpose,
        "body": msgspec.Raw(body),
        "error" if isinstance(outcome, str) else "tokens": outcome,
    }
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(file, flags, 0o600)
        with os.fdopen(handle, "wb") as out:
            os.fchmod(handle, 0o600)
            out.write(msgspec.json.encode(line) + b"\n")
    except OSError as error:
        # An observer fails open: the call was made and its answer counts.
        log.error("request not recorded file=%s error=%s", file, error.strerror)
