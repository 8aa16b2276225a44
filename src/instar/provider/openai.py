"""The adapter for OpenAI Chat Completions and everything that speaks it, streaming over httpx2.

Provider block options that it reads, with opencode's names and milliseconds: ``chunkTimeout`` (longest
silence, 300000), ``headerTimeout`` (longest wait for the first byte of an answer, 300000), ``timeout``
(the whole call, none), each `false` for no limit; ``setCacheKey`` (send the session as
``prompt_cache_key``); ``includeUsage`` (false leaves ``stream_options`` out).
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from instar.provider.answer import Answer
from instar.provider.convert import Converter, reasoning_field, tool_list
from instar.provider.failure import MAX_BODY, Endpoint, secrets_in
from instar.provider.protocol import Delta, Model, ProviderError, Request
from instar.wire import Plain

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT: Final = 10.0
IDLE_TIMEOUT: Final = 300.0
_DRAIN: Final = 0.25
_NEW_LIMIT_NAME: Final = re.compile(r"^(?:o\d|gpt-[5-9])")
_BODY_NAMES: Final = {
    "reasoningEffort": "reasoning_effort",
    "textVerbosity": "verbosity",
    "parallelToolCalls": "parallel_tool_calls",
    "serviceTier": "service_tier",
    "promptCacheKey": "prompt_cache_key",
    "logitBias": "logit_bias",
    "maxCompletionTokens": "max_completion_tokens",
    "frequencyPenalty": "frequency_penalty",
    "presencePenalty": "presence_penalty",
    "topK": "top_k",
}
"""opencode's option names whose wire name differs; any other option goes into the body as it stands."""


class OpenAI:
    """One adapter for every base URL: connections are kept and used again between calls."""

    def __init__(self) -> None:
        self._clients: dict[str, httpx2.AsyncClient] = {}
        self._converters: dict[tuple[bool, str | None], Converter] = {}

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Make the call and yield its deltas. Raises `ProviderError`, never with the key in it."""
        endpoint = _endpoint(request)
        patience = Patience.of(request.model.settings)
        answer = Answer(endpoint)
        async with self._opened(request, endpoint, patience) as response:
            chunks = _chunks(response, endpoint, patience)
            async for data in chunks:
                for delta in answer.feed(data):
                    yield delta
                if answer.done:
                    await _drain(chunks)
                    break
        for delta in answer.close():
            yield delta

    async def close(self) -> None:
        """Close every kept connection."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()

    def body(self, request: Request) -> bytes:
        """Return the request's JSON: the same bytes for the same request."""
        return body(request, self._converter(request.model))

    def _converter(self, model: Model) -> Converter:
        key = (model.attachment, reasoning_field(model))
        if key not in self._converters:
            self._converters[key] = Converter(attachment=key[0], reasoning_field=key[1])
        return self._converters[key]

    @asynccontextmanager
    async def _opened(
        self, request: Request, endpoint: Endpoint, patience: "Patience"
    ) -> AsyncIterator["httpx2.Response"]:
        """Send the request; yields a response whose status is good and whose body is still to come."""
        http = _http()
        try:
            client = self._client(request.model.url)
            sent = client.build_request(
                "POST",
                _url(request.model),
                content=self.body(request),
                headers=_headers(request),
                timeout=http.Timeout(patience.idle, connect=CONNECT_TIMEOUT, write=60.0, pool=None),
            )
            async with asyncio.timeout(patience.header):
                response = await client.send(sent, stream=True)
        except (TimeoutError, http.ReadTimeout):
            raise endpoint.network(f"no answer began within {patience.first:g} s") from None
        except (http.TransportError, http.InvalidURL, http.TooManyRedirects) as error:
            raise _unreachable(endpoint, error) from None
        except UnicodeEncodeError as error:
            what = "a header or the key holds a character that HTTP cannot send"
            raise endpoint.error(f"{what}: {error.reason}") from None
        try:
            if response.status_code >= 300:
                raise await _refusal(response, endpoint)
            yield response
        finally:
            await response.aclose()

    def _client(self, url: str) -> "httpx2.AsyncClient":
        """One client for a scheme and host; without TLS none of its 0.15 s of set-up is spent."""
        parts = urlsplit(url)
        key = f"{parts.scheme}://{parts.netloc}"
        client = self._clients.get(key)
        if client is None or client.is_closed:
            http = _http()
            limits = http.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=60)
            client = http.AsyncClient(verify=parts.scheme != "http", limits=limits)
            self._clients[key] = client
        return client


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


def body(request: Request, converter: Converter) -> bytes:
    """Return the request's JSON, as `converter` turns its messages."""
    model = request.model
    wire: Plain = {
        "model": model.wire_id or model.id,
        "messages": msgspec.Raw(converter.json(request.system, request.messages)),
    }
    if request.tools:
        wire["tools"] = tool_list(request.tools)
    wire["stream"] = True
    if model.settings.get("includeUsage") is not False:
        wire["stream_options"] = {"include_usage": True}
    wire |= _parameters(request)
    for name, value in (model.options | request.options).items():
        wire[_BODY_NAMES.get(name, name)] = value
    return msgspec.json.encode({key: value for key, value in wire.items() if value is not None})


def _parameters(request: Request) -> Plain:
    model = request.model
    found: Plain = {}
    if model.temperature:
        found |= {"temperature": request.temperature, "top_p": request.top_p}
    if request.max_output_tokens:
        found[_limit_name(model)] = request.max_output_tokens
    cached = model.settings.get("setCacheKey", _is_openai(model))
    if cached and request.session_id:
        found["prompt_cache_key"] = request.session_id
    return found


def _limit_name(model: Model) -> str:
    """OpenAI's reasoning models refuse ``max_tokens``; many compatible servers know nothing else."""
    openai = _is_openai(model) or model.provider_id in ("openai", "azure")
    reasons = model.reasoning or _NEW_LIMIT_NAME.match(model.wire_id or model.id)
    return "max_completion_tokens" if openai and reasons else "max_tokens"


def _is_openai(model: Model) -> bool:
    return (urlsplit(model.url).hostname or "").endswith("api.openai.com")


def _headers(request: Request) -> dict[str, str]:
    """The request's headers: ours, then the model's, then the call's; the last of a name counts."""
    key = request.model.api_key
    found = {
        "accept": "text/event-stream, application/json",
        # A compressed stream is held back by proxies until there is enough of it.
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": "instar",
    }
    if key:
        found["authorization"] = f"Bearer {key.reveal()}"
    for more in (request.model.headers, request.headers):
        found |= {name.lower(): value for name, value in more.items()}
    return found


def _endpoint(request: Request) -> Endpoint:
    secrets = secrets_in(request.model.headers | request.headers)
    key = request.model.api_key
    return Endpoint(_url(request.model), [*secrets, key] if key else secrets)


def _url(model: Model) -> str:
    """The address of the call: the base URL, its query kept, with ``/chat/completions``."""
    base, mark, query = model.url.partition("?")
    base = base.rstrip("/")
    if not base.endswith("/chat/completions"):
        base += "/chat/completions"
    return base + mark + query


async def _chunks(
    response: "httpx2.Response", endpoint: Endpoint, patience: Patience
) -> AsyncIterator[bytes]:
    """Yield the body as it comes; a silence, a broken connection or the end of time is a `ProviderError`."""
    http = _http()
    chunks = response.aiter_bytes()
    try:
        while True:
            if patience.deadline is None:
                data = await anext(chunks, None)
            else:
                async with asyncio.timeout_at(patience.deadline):
                    data = await anext(chunks, None)
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


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read what follows ``[DONE]``, for a moment: a body read to its end leaves a connection to use again."""
    try:
        async with asyncio.timeout(_DRAIN):
            async for _ in chunks:
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


def _http() -> Any:
    """Import httpx2 at the first call: 0.1 s that a command without a model call does not spend."""
    import httpx2

    return httpx2
