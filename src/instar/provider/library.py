"""Providers with a protocol of their own, through pydantic-ai: the extra ``instar[providers]``.

Gemini, Vertex, Bedrock, Mistral, Cohere, Groq and xAI. pydantic-ai is imported at the first call of such a model
(1.4 s). Of a provider block's options it reads, with opencode's names, ``baseURL``, ``chunkTimeout``,
``timeout``, for Bedrock ``region``, ``profile``, ``accessKeyId``, ``secretAccessKey``, ``sessionToken``, and
for Vertex ``project`` and ``location``; what is not given there those libraries look for as their own
documents say. A model's options go to the library's model settings under their own names.

What the library wants back with a part (a signature, Gemini's thought signature of a tool call) is kept in the part's
metadata under `METADATA`, and goes back to the model that gave it.
"""

import asyncio
import base64
import binascii
import importlib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from instar.message import Assistant, FilePart, Part, ReasoningPart, TextPart, Tokens, ToolPart, WithParts
from instar.provider.catalogue import LIBRARY_CLASSES
from instar.provider.connection import Timeouts
from instar.provider.convert import (
    RETURNED,
    ChatConverter,
    answer_steps,
    file_text,
    is_sent,
    result_text,
    returned_files,
    sent,
    user_content,
)
from instar.provider.failure import ProviderEndpoint, secrets_in
from instar.provider.protocol import (
    Delta,
    Finish,
    Model,
    ModelRequest,
    ProviderError,
    ReasoningDelta,
    ReasoningStart,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from instar.settings.install import installing
from instar.wire import Plain
from instar.wire.secret import Secret

METADATA: Final = "pydanticAI"
_METADATA_KEYS: Final = ("id", "signature", "provider_name", "provider_details")
_REASONS: Final = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_call": "tool-calls",
}
_SETTINGS: Final = {"topK": "top_k", "serviceTier": "service_tier", "reasoningEffort": "thinking"}
_SECRET_SETTINGS: Final = ("accessKeyId", "secretAccessKey", "sessionToken")


class Library:
    """One adapter for all of the library's protocols; its models are made once and kept."""

    def __init__(self) -> None:
        self._models: dict[str, tuple[Model, Any]] = {}
        self._converter = ChatConverter(attachment=True)
        self._opened = AsyncExitStack()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Make the call and yield its deltas. Raises `ProviderError`, never with a key in it."""
        endpoint = _endpoint(request)
        timeouts = Timeouts.of(request.model.settings)
        reader = LibraryReader()
        if request.sent is not None:
            # The library writes the body; our own form of the same messages changes where theirs does.
            request.sent(sent(request, self._converter.of_request(request)))
        events = self._events(request, endpoint, timeouts)
        try:
            while (event := await _next(events, endpoint, timeouts)) is not None:
                for delta in reader.read(event):
                    yield delta
        finally:
            await events.aclose()

    async def close(self) -> None:
        """Close every connection."""
        self._models = {}
        await self._opened.aclose()

    async def _events(self, request: ModelRequest, endpoint: ProviderEndpoint, timeouts: Timeouts) -> Any:
        """Yield the library's events and at last its whole response. Raises `ProviderError`."""
        try:
            direct = importlib.import_module("pydantic_ai.direct")
            messages = importlib.import_module("pydantic_ai.messages")
            call = direct.model_request_stream(
                await self._model(request.model),
                _history(messages, request),
                model_settings=_settings(request, timeouts),
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
            raise _failure(endpoint, error) from None

    async def _model(self, model: Model) -> Any:
        known = self._models.get(model.ref)
        if known is None or known[0] != model:
            given = _arguments(model)
            if model.protocol == "cohere" and model.url:
                given = {"cohere_client": await self._cohere(model, given.get("api_key"))}
            made = await self._opened.enter_async_context(_made(model, given))
            self._models[model.ref] = known = (model, made)
        return known[1]

    async def _cohere(self, model: Model, key: str | None) -> Any:
        """Return Cohere's client; the library takes another address for it from the environment alone."""
        client = importlib.import_module("httpx").AsyncClient(timeout=None)
        await self._opened.enter_async_context(client)
        cohere = importlib.import_module("cohere")
        return cohere.AsyncClientV2(api_key=key, base_url=model.url, httpx_client=client)


class LibraryReader:
    """Turns the library's events into deltas; a tool call comes whole."""

    def __init__(self) -> None:
        self._calls = 0

    def read(self, event: Any) -> list[Delta]:
        """Return the deltas of one event, or of the whole response, which comes last."""
        match getattr(event, "event_kind", None):
            case "part_start":
                return _started(event.part)
            case "part_delta":
                text = getattr(event.delta, "content_delta", None)
                kind = ReasoningDelta if event.delta.part_delta_kind == "thinking" else TextDelta
                return [kind(text)] if text else []
            case "part_end":
                return self._ended(event.part)
        if getattr(event, "kind", None) == "response":
            reason = "tool-calls" if self._calls else _REASONS.get(event.finish_reason or "", "unknown")
            return [Finish(reason, _tokens(event.usage))]
        # Others, as its FinalResultEvent, hold nothing of the answer.
        return []

    def _ended(self, part: Any) -> list[Delta]:
        if part.part_kind == "thinking":
            return [ReasoningDelta("", metadata)] if (metadata := _metadata_of(part)) else []
        if part.part_kind != "tool-call":
            return []
        self._calls += 1
        index = self._calls - 1
        start = ToolCallStart(index, part.tool_call_id, part.tool_name, _metadata_of(part))
        return [start, ToolCallDelta(index, part.args_as_json_str())]


def _tokens(usage: Any) -> Tokens:
    """Return our count; the library counts cached tokens as input too, and thinking as output."""
    read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    details = usage.details or {}
    thought = int(details.get("reasoning_tokens") or details.get("thoughts_tokens") or 0)
    given, made = usage.input_tokens or 0, usage.output_tokens or 0
    total, rest = (given + made) or None, max(0, given - read - write)
    return Tokens.of(rest, max(0, made - thought), reasoning=thought, read=read, write=write, total=total)


def _settings(request: ModelRequest, timeouts: Timeouts) -> Plain:
    """Return the library's model settings for a request."""
    found: Plain = {"max_tokens": request.max_output_tokens, "timeout": timeouts.whole}
    if request.model.temperature:
        found |= {"temperature": request.temperature, "top_p": request.top_p}
    headers = {**request.model.headers, **request.headers}
    found["extra_headers"] = headers or None
    for name, value in {**request.model.options, **request.options}.items():
        found[_SETTINGS.get(name, name)] = value
    return {name: value for name, value in found.items() if value is not None}


def _failure(endpoint: ProviderEndpoint, error: Exception) -> ProviderError:
    """Return our error for what the library raised."""
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    if isinstance(status, int):
        data = body if isinstance(body, str) else msgspec.json.encode(body, enc_hook=str).decode()
        headers = getattr(error, "headers", None) or {}
        return endpoint.refused(status, headers, data.encode())
    name = type(error).__name__
    if isinstance(error, ImportError):
        return endpoint.error(f"{endpoint.url} cannot be called: {error}; {installing('providers')}")
    if name == "ContentFilterError":
        return endpoint.error(f"{endpoint.url} refused the content: {error}", kind="filter")
    if name in ("UserError", "NoCredentialsError", "DefaultCredentialsError", "ProfileNotFound"):
        return endpoint.error(f"{endpoint.url} cannot be called: {error}", kind="auth")
    if name in ("ModelAPIError", "ConnectError", "ReadError", "RemoteProtocolError", "ConnectTimeout"):
        return endpoint.network(f"cannot reach the model's server: {error}")
    return endpoint.error(f"the call of {endpoint.url} failed ({name}): {error}")


def _started(part: Any) -> list[Delta]:
    if part.part_kind == "text":
        return [TextDelta(part.content)] if part.content else []
    if part.part_kind == "thinking":
        return [ReasoningStart(), ReasoningDelta(part.content)] if part.content else [ReasoningStart()]
    return []


async def _next(events: Any, endpoint: ProviderEndpoint, timeouts: Timeouts) -> Any:
    """Return the next event, None after the last one. Raises `ProviderError` when the time is over."""
    loop = asyncio.get_running_loop()
    waits = [wait for wait in (timeouts.idle, timeouts.deadline and timeouts.deadline - loop.time()) if wait]
    try:
        async with asyncio.timeout(min(waits) if waits else None):
            return await anext(events, None)
    except TimeoutError:
        raise endpoint.network(f"the answer fell silent, or took longer than {timeouts.whole} s") from None


def _parameters(request: ModelRequest) -> Any:
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
    """Return the library's model. Raises `ImportError` if its vendor's package is missing."""
    module, name, provider_module, provider_name = LIBRARY_CLASSES[model.protocol]
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


def _endpoint(request: ModelRequest) -> ProviderEndpoint:
    model = request.model
    secrets = secrets_in(model.headers | request.headers)
    secrets += [Secret(str(model.settings[name])) for name in _SECRET_SETTINGS if model.settings.get(name)]
    known = [*secrets, model.api_key]
    url = model.url or model.provider_id
    return ProviderEndpoint(url, known, speaks=model.protocol, key_from=model.key_from)


def _history(messages: Any, request: ModelRequest) -> list[Any]:
    """Return the conversation as the library's messages, the system prompt at the head of the first."""
    found: list[Any] = []
    for message in request.messages:
        found += _converted(messages, message, request)
    system = [messages.SystemPromptPart(content=text) for text in request.system if text.strip()]
    if system and found and isinstance(found[0], messages.ModelRequest):
        found[0] = messages.ModelRequest(parts=[*system, *found[0].parts])
    elif system:
        found.insert(0, messages.ModelRequest(parts=system))
    return found


def _metadata_of(part: Any) -> Plain | None:
    """Return what must go back with a part of the library, as a part's metadata; None when nothing must."""
    given = {key: getattr(part, key, None) for key in _METADATA_KEYS}
    if not (given["signature"] or given["provider_details"] or given["id"]):
        return None
    return {METADATA: {key: value for key, value in given.items() if value is not None}}


def _converted(messages: Any, message: WithParts, request: ModelRequest) -> list[Any]:
    attachment = request.model.attachment
    if not isinstance(message.info, Assistant):
        content = [
            one if isinstance(one, str) else _file(messages, one, attachment)
            for one in user_content(message.parts)
        ]
        return [messages.ModelRequest(parts=[messages.UserPromptPart(content=content)])] if content else []
    same = request.model.ref == f"{message.info.provider_id}/{message.info.model_id}"
    found: list[Any] = []
    for step in answer_steps(message):
        said = [answer for part in step if (answer := _said(messages, part, same)) is not None]
        calls = [part for part in step if isinstance(part, ToolPart)]
        if not any(piece.part_kind != "thinking" for piece in said):
            continue
        found.append(messages.ModelResponse(parts=said))
        if calls:
            found.append(messages.ModelRequest(parts=_results(messages, calls, attachment)))
    return found


def _said(messages: Any, part: Part, same: bool) -> Any:
    if isinstance(part, TextPart):
        return messages.TextPart(content=part.text) if is_sent(part) else None
    if isinstance(part, ToolPart):
        return messages.ToolCallPart(
            tool_name=part.tool, args=part.state.input, tool_call_id=part.call_id, **_given(part, same)
        )
    if isinstance(part, ReasoningPart) and same:
        return messages.ThinkingPart(content=part.text, **_given(part, same))
    return None


def _given(part: ReasoningPart | ToolPart, same: bool) -> Plain:
    given = (part.metadata or {}).get(METADATA) if same else None
    if not isinstance(given, dict):
        return {}
    wanted = (
        _METADATA_KEYS if isinstance(part, ReasoningPart) else ("id", "provider_name", "provider_details")
    )
    return {key: given[key] for key in wanted if key in given}


def _results(messages: Any, calls: list[ToolPart], attachment: bool) -> list[Any]:
    """Return the calls' results; their files follow as a user message, which every model takes."""
    found = [
        messages.ToolReturnPart(tool_name=part.tool, content=result_text(part), tool_call_id=part.call_id)
        for part in calls
    ]
    if files := returned_files(calls):
        content = [RETURNED, *(_file(messages, file, attachment) for file in files)]
        found.append(messages.UserPromptPart(content=content))
    return found


def _file(messages: Any, part: FilePart, attachment: bool) -> Any:
    """Return an image or a PDF by its bytes, else a text. An address is never fetched: the library would do so here."""
    mime = part.mime.partition(";")[0].lower()
    head, _, payload = part.url.partition(",")
    shown = mime.startswith("image/") or mime == "application/pdf"
    if attachment and shown and part.url.startswith("data:") and head.endswith(";base64"):
        try:
            return messages.BinaryContent(data=base64.b64decode(payload, validate=True), media_type=mime)
        except (binascii.Error, ValueError):
            return f"[Attached file {part.filename or 'file'} ({mime}): its data: url is damaged]"
    return file_text(part)
