"""Providers with a protocol of their own, through pydantic-ai: the extra ``instar[providers]``.

Gemini, Vertex, Bedrock, Mistral, Cohere, Groq and xAI. Nothing of it is imported before such a model is
called (1.4 s). Of a provider block's options it reads, with opencode's names, ``baseURL``, ``chunkTimeout``,
``timeout``, for Bedrock ``region``, ``profile``, ``accessKeyId``, ``secretAccessKey``, ``sessionToken``, and
for Vertex ``project`` and ``location``; what is not given there those libraries look for as their own
documents say. A model's options go to the library's model settings under their own names.
"""

import asyncio
import importlib
import importlib.util
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from instar.message import CacheTokens, Tokens
from instar.provider.connection import Patience
from instar.provider.convert import Converter, sent
from instar.provider.failure import Endpoint, secrets_in
from instar.provider.library_convert import history, metadata_of
from instar.provider.protocol import (
    Delta,
    Finish,
    Model,
    ProviderError,
    ReasoningDelta,
    ReasoningStart,
    Request,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from instar.secret import Secret
from instar.wire import Plain

INSTALL: Final = "pip install 'instar[providers]'"
KINDS: Final = {
    "google": ("google", "GoogleModel", "google", "GoogleProvider"),
    "google-vertex": ("google", "GoogleModel", "google_cloud", "GoogleCloudProvider"),
    "bedrock": ("bedrock", "BedrockConverseModel", "bedrock", "BedrockProvider"),
    "mistral": ("mistral", "MistralModel", "mistral", "MistralProvider"),
    "cohere": ("cohere", "CohereModel", "cohere", "CohereProvider"),
    "groq": ("groq", "GroqModel", "groq", "GroqProvider"),
    "xai": ("xai", "XaiModel", "xai", "XaiProvider"),
}
"""Each protocol: the library's module and class of its models, and of its providers."""
_REASONS: Final = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_call": "tool-calls",
}
_SETTINGS: Final = {"topK": "top_k", "serviceTier": "service_tier", "reasoningEffort": "thinking"}
_SECRET_SETTINGS: Final = ("accessKeyId", "secretAccessKey", "sessionToken")


def is_installed() -> bool:
    """Whether the extra is there."""
    return importlib.util.find_spec("pydantic_ai") is not None


class Library:
    """One adapter for all of the library's protocols; its models are made once and kept."""

    def __init__(self) -> None:
        self._models: dict[str, tuple[Model, Any]] = {}
        self._converter = Converter(attachment=True)
        self._opened = AsyncExitStack()

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Make the call and yield its deltas. Raises `ProviderError`, never with a key in it."""
        endpoint = _endpoint(request)
        patience = Patience.of(request.model.settings)
        answer = Answer()
        if request.sent is not None:
            # The library writes the body; our own form of the same messages changes where theirs does.
            request.sent(sent(request, self._converter.kept(request.messages)))
        events = self._events(request, endpoint, patience)
        try:
            while True:
                event = await _next(events, endpoint, patience)
                if event is None:
                    break
                for delta in answer.take(event):
                    yield delta
        finally:
            await events.aclose()

    async def close(self) -> None:
        """Let go of every model's connections."""
        self._models = {}
        await self._opened.aclose()

    async def _events(self, request: Request, endpoint: Endpoint, patience: Patience) -> Any:
        """Yield the library's events and at last its whole response; what it raises becomes ours."""
        try:
            direct = importlib.import_module("pydantic_ai.direct")
            words = importlib.import_module("pydantic_ai.messages")
            call = direct.model_request_stream(
                await self._model(request.model),
                history(words, request),
                model_settings=settings(request, patience),
                model_request_parameters=_parameters(request),
                instrument=False,
            )
            async with call as response:
                async for event in response:
                    yield event
                yield response.get()
        except ProviderError:
            raise
        except Exception as error:
            # Seven vendors' libraries raise their own families; each failure is this one call's.
            raise failure(endpoint, error) from None

    async def _model(self, model: Model) -> Any:
        kept = self._models.get(model.ref)
        if kept is None or kept[0] != model:
            given = _arguments(model)
            if model.protocol == "cohere" and model.url:
                given = {"cohere_client": await self._cohere(model, given.get("api_key"))}
            made = await self._opened.enter_async_context(_made(model, given))
            self._models[model.ref] = kept = (model, made)
        return kept[1]

    async def _cohere(self, model: Model, key: str | None) -> Any:
        """Cohere's client: the library gives it another address by the environment alone."""
        client = importlib.import_module("httpx").AsyncClient(timeout=None)
        await self._opened.enter_async_context(client)
        cohere = importlib.import_module("cohere")
        return cohere.AsyncClientV2(api_key=key, base_url=model.url, httpx_client=client)


class Answer:
    """From the library's events to deltas; a tool call is told once it is whole."""

    def __init__(self) -> None:
        self._calls = 0

    def take(self, event: Any) -> list[Delta]:
        """Return the deltas of one event, or of the whole response, which comes last."""
        match getattr(event, "event_kind", None):
            case "part_start":
                return _begun(event.part)
            case "part_delta":
                return _grown(event.delta)
            case "part_end":
                return self._ended(event.part)
        if getattr(event, "kind", None) == "response":
            reason = "tool-calls" if self._calls else _REASONS.get(event.finish_reason or "", "unknown")
            return [Finish(reason, tokens(event.usage))]
        # The library's own notes, as its FinalResultEvent, say nothing about the answer.
        return []

    def _ended(self, part: Any) -> list[Delta]:
        if part.part_kind == "thinking":
            return [ReasoningDelta("", metadata)] if (metadata := metadata_of(part)) else []
        if part.part_kind != "tool-call":
            return []
        self._calls += 1
        index = self._calls - 1
        start = ToolCallStart(index, part.tool_call_id, part.tool_name, metadata_of(part))
        return [start, ToolCallDelta(index, part.args_as_json_str())]


def tokens(usage: Any) -> Tokens:
    """Return our count: the library's input holds what caches held too, and its output the thinking."""
    read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    details = usage.details or {}
    thought = int(details.get("reasoning_tokens") or details.get("thoughts_tokens") or 0)
    given, made = usage.input_tokens or 0, usage.output_tokens or 0
    return Tokens(
        total=(given + made) or None,
        input=max(0, given - read - write),
        output=max(0, made - thought),
        reasoning=thought,
        cache=CacheTokens(read=read, write=write),
    )


def settings(request: Request, patience: Patience) -> Plain:
    """Return the library's model settings for a request."""
    found: Plain = {"max_tokens": request.max_output_tokens, "timeout": patience.whole}
    if request.model.temperature:
        found |= {"temperature": request.temperature, "top_p": request.top_p}
    headers = {**request.model.headers, **request.headers}
    found["extra_headers"] = headers or None
    for name, value in {**request.model.options, **request.options}.items():
        found[_SETTINGS.get(name, name)] = value
    return {name: value for name, value in found.items() if value is not None}


def failure(endpoint: Endpoint, error: Exception) -> ProviderError:
    """Return our error for what the library raised."""
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    if isinstance(status, int):
        data = body if isinstance(body, str) else msgspec.json.encode(body, enc_hook=str).decode()
        headers = getattr(error, "headers", None) or {}
        return endpoint.refused(status, headers, data.encode())
    name = type(error).__name__
    if isinstance(error, ImportError):
        return endpoint.error(f"{endpoint.url} cannot be called: {error}; {INSTALL}")
    if name == "ContentFilterError":
        return endpoint.error(f"{endpoint.url} refused the content: {error}", kind="filter")
    if name in ("UserError", "NoCredentialsError", "DefaultCredentialsError", "ProfileNotFound"):
        return endpoint.error(f"{endpoint.url} cannot be called: {error}", kind="auth")
    if name in ("ModelAPIError", "ConnectError", "ReadError", "RemoteProtocolError", "ConnectTimeout"):
        return endpoint.network(f"cannot reach the model's server: {error}")
    return endpoint.error(f"the call of {endpoint.url} failed ({name}): {error}")


def _begun(part: Any) -> list[Delta]:
    if part.part_kind == "text":
        return [TextDelta(part.content)] if part.content else []
    if part.part_kind == "thinking":
        return [ReasoningStart(), ReasoningDelta(part.content)] if part.content else [ReasoningStart()]
    return []


def _grown(delta: Any) -> list[Delta]:
    text = getattr(delta, "content_delta", None)
    if not text:
        return []
    return [ReasoningDelta(text)] if delta.part_delta_kind == "thinking" else [TextDelta(text)]


async def _next(events: Any, endpoint: Endpoint, patience: Patience) -> Any:
    """The next event, None after the last one; a silence or the end of time is a `ProviderError`."""
    loop = asyncio.get_running_loop()
    waits = [wait for wait in (patience.idle, patience.deadline and patience.deadline - loop.time()) if wait]
    try:
        async with asyncio.timeout(min(waits) if waits else None):
            return await anext(events, None)
    except TimeoutError:
        raise endpoint.network(f"the answer fell silent, or took longer than {patience.whole} s") from None


def _parameters(request: Request) -> Any:
    models = importlib.import_module("pydantic_ai.models")
    tools = importlib.import_module("pydantic_ai.tools")
    given = [
        tools.ToolDefinition(
            name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
        )
        for tool in request.tools
    ]
    return models.ModelRequestParameters(
        function_tools=given, allow_text_output=request.tool_choice == "auto"
    )


def _made(model: Model, given: Plain) -> Any:
    """The library's model. Raises `ImportError` when its vendor's package is missing."""
    module, name, provider_module, provider_name = KINDS[model.protocol]
    models = importlib.import_module(f"pydantic_ai.models.{module}")
    providers = importlib.import_module(f"pydantic_ai.providers.{provider_module}")
    provider = getattr(providers, provider_name)(**given)
    return getattr(models, name)(model.wire_id or model.id, provider=provider)


def _arguments(model: Model) -> Plain:
    key = model.api_key.reveal() if model.api_key else None
    found: Plain = {"api_key": key, "base_url": model.url or None}
    given = model.settings
    match model.protocol:
        case "bedrock":
            found |= {"region_name": given.get("region"), "profile_name": given.get("profile")}
            if not key:
                found["aws_access_key_id"] = given.get("accessKeyId")
                found["aws_secret_access_key"] = given.get("secretAccessKey")
                found["aws_session_token"] = given.get("sessionToken")
        case "google-vertex":
            found |= {"project": given.get("project"), "location": given.get("location")}
        case "cohere":
            found = {"api_key": key}
        case "xai":
            found = {"api_key": key, "api_host": urlsplit(model.url).netloc or None}
    return {name: value for name, value in found.items() if value is not None}


def _endpoint(request: Request) -> Endpoint:
    model = request.model
    secrets = secrets_in(model.headers | request.headers)
    secrets += [Secret(str(model.settings[name])) for name in _SECRET_SETTINGS if model.settings.get(name)]
    if model.api_key:
        secrets.append(model.api_key)
    return Endpoint(model.url or model.provider_id, secrets, speaks=model.protocol)
