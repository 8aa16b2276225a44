"""The adapter for OpenAI Chat Completions and everything that speaks it, streaming over httpx2.

Provider block options that it reads beside the times of `connection`, with opencode's names:
``setCacheKey`` (send the session as ``prompt_cache_key``); ``includeUsage`` (false leaves
``stream_options`` out).
"""

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final
from urllib.parse import urlsplit

import msgspec

from instar.provider.answer import Answer
from instar.provider.connection import Call, Connections, Patience, check_key, joined, merged
from instar.provider.convert import Converter, conversation, reasoning_field, sent, tool_list
from instar.provider.failure import Endpoint, secrets_in
from instar.provider.protocol import Delta, Model, Request
from instar.wire import Plain, encode

_REASONING_NAME: Final = re.compile(r"^(?:o\d|gpt-[5-9])(?!.*-chat)")
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
        self._connections = Connections()
        self._converters: dict[tuple[bool, str | None], Converter] = {}

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Make the call and yield its deltas. Raises `ProviderError`, never with the key in it."""
        endpoint = _endpoint(request)
        check_key(request, endpoint)
        patience = Patience.of(request.model.settings)
        call = Call(endpoint, _url(request.model), _headers(request), self.body(request), request.model.fetch)
        async with aclosing(self._connections.exchange(call, patience, Answer(endpoint))) as deltas:
            async for delta in deltas:
                yield delta

    async def close(self) -> None:
        """Close every kept connection."""
        await self._connections.close()

    def body(self, request: Request) -> bytes:
        """Return the request's JSON: the same bytes for the same request."""
        return body(request, self._converter(request.model))

    def _converter(self, model: Model) -> Converter:
        key = (model.attachment, reasoning_field(model))
        if key not in self._converters:
            self._converters[key] = Converter(attachment=key[0], reasoning_field=key[1])
        return self._converters[key]


def body(request: Request, converter: Converter) -> bytes:
    """Return the request's JSON, as `converter` turns its messages, and tell `Request.sent` of it."""
    model = request.model
    messages = converter.kept(request.messages)
    wire: Plain = {
        "model": model.wire_id or model.id,
        "messages": msgspec.Raw(conversation(request.system, messages)),
    }
    if request.tools:
        wire["tools"] = msgspec.Raw(tool_list(request.tools))
        if request.tool_choice == "required":
            wire["tool_choice"] = "required"
    wire["stream"] = True
    if model.settings.get("includeUsage") is not False:
        wire["stream_options"] = {"include_usage": True}
    wire |= _parameters(request)
    for name, value in (model.options | request.options).items():
        wire[_BODY_NAMES.get(name, name)] = value
    data = encode({key: value for key, value in wire.items() if value is not None})
    if request.sent is not None:
        request.sent(sent(request, messages, data))
    return data


def _parameters(request: Request) -> Plain:
    model = request.model
    found: Plain = {}
    reasons = _reasons(model)
    if model.temperature and not reasons:
        found |= {"temperature": request.temperature, "top_p": request.top_p}
    if request.max_output_tokens:
        found["max_completion_tokens" if reasons else "max_tokens"] = request.max_output_tokens
    cached = model.settings.get("setCacheKey", _is_openai(model))
    if cached and request.session_id:
        found["prompt_cache_key"] = request.session_id
    if _is_claude_at_openrouter(model):
        # Claude caches nothing without a mark; OpenRouter sets one on the last block of each request for this.
        found["cache_control"] = {"type": "ephemeral"}
    return found


def _reasons(model: Model) -> bool:
    """Whether this is one of OpenAI's reasoning models.

    They refuse ``max_tokens``, ``temperature`` and ``top_p``; many compatible servers know nothing else.
    """
    openai = _is_openai(model) or model.provider_id in ("openai", "azure")
    return openai and bool(model.reasoning or _REASONING_NAME.match(model.wire_id or model.id))


def _is_openai(model: Model) -> bool:
    return (urlsplit(model.url).hostname or "").endswith("api.openai.com")


def _is_claude_at_openrouter(model: Model) -> bool:
    host = urlsplit(model.url).hostname or ""
    return f".{host}".endswith(".openrouter.ai") and (model.wire_id or model.id).startswith("anthropic/")


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
    return merged(found, request.model.headers, request.headers)


def _endpoint(request: Request) -> Endpoint:
    secrets = secrets_in(request.model.headers | request.headers)
    key = request.model.api_key
    return Endpoint(_url(request.model), [*secrets, key] if key else secrets)


def _url(model: Model) -> str:
    """The address of the call: the base URL, its query kept, with ``/chat/completions``."""
    return joined(model, "/chat/completions")
