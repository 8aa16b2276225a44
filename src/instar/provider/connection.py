"""HTTP to providers: kept connections, how long to wait, and what a broken call is called.

What every adapter over httpx2 shares. Provider block options that it reads, with opencode's names and
milliseconds: ``chunkTimeout`` (longest silence, 300000), ``headerTimeout`` (longest wait for the first
byte of an answer, 300000), ``timeout`` (the whole call, none), each `false` for no limit.
"""

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

import msgspec

from instar.plugin.fetch import Fetch, FetchFailed
from instar.provider import estimate
from instar.provider.catalogue import vendor_wanting_key
from instar.provider.failure import MAX_BODY, Endpoint, secrets_in
from instar.provider.protocol import Delta, Finish, Model, ProviderError, Request
from instar.wire import Plain

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT: Final = 10.0
IDLE_TIMEOUT: Final = 300.0
IDLE_CONNECTIONS: Final = 16
"""So many are kept for the next calls: before each call httpcore2 asks the system whether one of them broke."""
_DRAIN: Final = 0.25


class Call(msgspec.Struct, frozen=True):
    """One request to send: `endpoint` is what errors may say of `url`; `fetch` sends it, a connection otherwise."""

    endpoint: Endpoint
    url: str
    headers: dict[str, str]
    content: bytes
    fetch: Fetch | None = None


class Patience(msgspec.Struct, frozen=True):
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
    def of(cls, settings: Plain) -> "Patience":
        """Read a provider block's options; the call begins now."""
        whole = _seconds(settings.get("timeout"), None)
        header = _seconds(settings.get("headerTimeout"), IDLE_TIMEOUT)
        return cls(
            header=whole if header is None else min(header, whole or header),
            idle=_seconds(settings.get("chunkTimeout"), IDLE_TIMEOUT),
            whole=whole,
            deadline=None if whole is None else asyncio.get_running_loop().time() + whole,
        )


class Reading(Protocol):
    """An answer as it is read: bytes in, deltas out; `done` once the provider has said that it is whole."""

    done: bool

    def feed(self, data: bytes) -> list[Delta]:
        """Return the deltas that `data` completes. Raises `ProviderError`."""
        ...

    def close(self) -> list[Delta]:
        """Return what is left, with the `Finish` last. Raises `ProviderError`."""
        ...


class Connections:
    """One client for a scheme and host: connections are kept and used again between calls."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, Fetch | None], httpx2.AsyncClient] = {}

    @asynccontextmanager
    async def opened(self, call: Call, patience: Patience) -> AsyncIterator["httpx2.Response"]:
        """Send the request; yields a response whose status is good and whose body is still to come."""
        http = _http()
        endpoint = call.endpoint
        try:
            client = self._client(call)
            sent = client.build_request(
                "POST",
                call.url,
                content=call.content,
                headers=call.headers,
                timeout=http.Timeout(patience.idle, connect=CONNECT_TIMEOUT, write=60.0, pool=None),
            )
            async with asyncio.timeout(patience.header):
                response = await client.send(sent, stream=True)
        except (TimeoutError, http.ReadTimeout):
            raise endpoint.network(f"no answer began within {patience.first:g} s") from None
        except (http.TransportError, http.InvalidURL, http.TooManyRedirects) as error:
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

    async def exchange(self, call: Call, patience: Patience, answer: Reading) -> AsyncGenerator[Delta, None]:
        """Make the call and yield the deltas that `answer` reads. Raises `ProviderError`.

        Close it (`contextlib.aclosing`) where it may be left early: that closes the connection.
        """
        said = 0
        async with self.opened(call, patience) as response:
            pieces = chunks(response, call.endpoint, patience)
            async for data in pieces:
                for delta in answer.feed(data):
                    said += estimate.size(delta)
                    yield delta
                if answer.done:
                    await drain(pieces)
                    break
        for delta in answer.close():
            said += estimate.size(delta)
            yield estimate.counted(delta, call.content, said) if isinstance(delta, Finish) else delta

    async def close(self) -> None:
        """Close every kept connection."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()

    def _client(self, call: Call) -> "httpx2.AsyncClient":
        """One client for a scheme and host; without TLS none of its 0.15 s of set-up is spent."""
        parts = urlsplit(call.url)
        key = f"{parts.scheme}://{parts.netloc}", call.fetch
        client = self._clients.get(key)
        if client is None or client.is_closed:
            http = _http()
            limits = http.Limits(
                max_connections=None, max_keepalive_connections=IDLE_CONNECTIONS, keepalive_expiry=60
            )
            client = http.AsyncClient(
                verify=parts.scheme != "http", limits=limits, transport=_transport(call.fetch)
            )
            self._clients[key] = client
        return client


def joined(model: Model, path: str) -> str:
    """Return the model's base URL, its query kept, with `path` at its end unless it ends so already."""
    base, mark, query = model.url.partition("?")
    base = base.rstrip("/")
    return base + ("" if base.endswith(path) else path) + mark + query


def check_key(request: Request, endpoint: Endpoint) -> None:
    """Raise `ProviderError` for a call that its vendor is sure to refuse: no key, and no header in its place."""
    model = request.model
    vendor = vendor_wanting_key(model.provider_id, model.url)
    if vendor is None or model.api_key or model.fetch or secrets_in(model.headers | request.headers):
        return
    how = f"instar auth login {model.provider_id}, or set {vendor.env[0]}"
    raise endpoint.error(f"{model.provider_id} has no key: {how}", kind="auth")


def merged(own: dict[str, str], *more: dict[str, str]) -> dict[str, str]:
    """Return headers by their small-letter names; the last of a name counts."""
    found = dict(own)
    for headers in more:
        found |= {name.lower(): value for name, value in headers.items()}
    return found


async def chunks(response: "httpx2.Response", endpoint: Endpoint, patience: Patience) -> AsyncIterator[bytes]:
    """Yield the body as it comes; a silence, a broken connection or the end of time is a `ProviderError`."""
    http = _http()
    pieces = response.aiter_bytes()
    try:
        while True:
            if patience.deadline is None:
                data = await anext(pieces, None)
            else:
                async with asyncio.timeout_at(patience.deadline):
                    data = await anext(pieces, None)
            if data is None:
                return
            yield data
    except TimeoutError:
        raise endpoint.network(f"the whole call took longer than {patience.whole:g} s") from None
    except http.ReadTimeout:
        raise endpoint.network(f"the answer fell silent for {patience.idle:g} s") from None
    except (http.TransportError, http.DecodingError) as error:
        what = f"the connection broke in the middle of the answer: {_reason(error)}"
        raise endpoint.network(what) from None


async def drain(pieces: AsyncIterator[bytes]) -> None:
    """Read what follows an answer's end, for a moment: a body read to its end leaves a connection to use again."""
    try:
        async with asyncio.timeout(_DRAIN):
            async for _ in pieces:
                pass
    except (TimeoutError, ProviderError):
        return


async def _refusal(response: "httpx2.Response", endpoint: Endpoint) -> ProviderError:
    """Read a refusal's body, up to 64 KiB and 10 seconds of it."""
    http = _http()
    data = b""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) >= MAX_BODY:
                    break
    except (TimeoutError, http.HTTPError):
        data = data or b"(its text did not arrive)"
    if response.status_code < 400:
        where = response.headers.get("location", "nowhere")
        return endpoint.error(
            f"{endpoint.url} redirects to {where}: set the provider's baseURL to the address itself",
            status=response.status_code,
        )
    return endpoint.refused(response.status_code, dict(response.headers), data)


def _unreachable(endpoint: Endpoint, error: Exception) -> ProviderError:
    http = _http()
    if isinstance(error, http.UnsupportedProtocol | http.InvalidURL | http.LocalProtocolError):
        return endpoint.error(f"cannot call {endpoint.url}: {error}. baseURL must be an http(s) address.")
    what = "timed out" if isinstance(error, http.TimeoutException) else _reason(error)
    return endpoint.network(f"cannot reach the model's server: {what}")


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _seconds(value: Any, default: float | None) -> float | None:
    """A time-out option, in milliseconds there: false is for ever, what is no positive number the default."""
    if value is False:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return value / 1000
    return default


def _transport(fetch: Fetch | None) -> Any:
    """What sends in the place of a connection, None for nothing; imported where a plugin's login needs it."""
    return None if fetch is None else importlib.import_module("instar.provider.fetched").Fetched(fetch)


def _http() -> Any:
    """Import httpx2 at the first call: 0.1 s that a command without a model call does not spend."""
    import httpx2

    return httpx2
