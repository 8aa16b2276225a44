"""The adapter for OpenAI Chat Completions and everything that speaks it.

Provider block options that it reads beside those of `connection`, with opencode's names: ``setCacheKey`` (send the
session as ``prompt_cache_key``); ``includeUsage`` (false leaves ``stream_options`` out).
"""

import secrets
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from instar.message import Tokens
from instar.provider.connection import MAX_CALLS, HTTPAdapter, ResponseReader, count, joined
from instar.provider.convert import ChatConverter, conversation, reasoning_field, sent, tool_list
from instar.provider.failure import ProviderEndpoint
from instar.provider.protocol import (
    Delta,
    Finish,
    Model,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    UsageUpdate,
)
from instar.wire import Plain, encode
from instar.wire.pattern import late_pattern

_REASONING_NAME: Final = late_pattern(r"^(?:o\d|gpt-[5-9])(?!.*-chat)")
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

_REASONS: Final = {
    "stop": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool-calls",
    "tool_use": "tool-calls",
    "function_call": "tool-calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content-filter",
    "safety": "content-filter",
    "refusal": "content-filter",
}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _CallFragment(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: list[_CallFragment] | None = None


class _Choice(msgspec.Struct):
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: str | None = None
    error: Any = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None


# Not strict: some servers send an index as text.
_CHUNK: Final = msgspec.json.Decoder(_Chunk, strict=False)


class _PartialCall(msgspec.Struct):
    """A tool call that is being received; `held` is argument text that came before its name."""

    index: int
    key: int | None
    given: str
    id: str
    name: str = ""
    held: str = ""


class ChatReader(ResponseReader):
    """Reads an answer in the form of Chat Completions."""

    def __init__(self, endpoint: ProviderEndpoint) -> None:
        super().__init__(endpoint)
        self._calls: list[_PartialCall] = []
        self._has_content = False

    def read(self, data: bytes) -> list[Delta]:
        """Return the deltas of one chunk, or of the whole object."""
        # A stream may be cut in the middle of its last word too.
        if b"[DONE]".startswith(data.strip()):
            self.done = True
            return []
        chunk = self._decoded(_CHUNK, data)
        if chunk.error:
            raise self._endpoint.in_stream(chunk.error)
        found: list[Delta] = []
        if chunk.usage and isinstance(chunk.usage, dict):
            self._usage = chunk.usage
        if self._whole is not None:
            if not chunk.choices:
                raise self._endpoint.malformed(data, "no choices in it")
            self.done = True
        elif chunk.usage:
            found.append(UsageUpdate(tokens(self._usage)))
        if chunk.choices:
            found += self._choice(chunk.choices[0])
        return found

    def finish(self) -> Finish:
        """Return the end of the answer."""
        if not all(call.name for call in self._calls):
            raise self._endpoint.error("the model asked for a tool without naming it", retryable=True)
        if self._reason is None and not (self.done and self._has_content):
            raise self._endpoint.network("the answer broke off before its end")
        reason = _REASONS.get((self._reason or "").lower(), "unknown")
        # Some servers say "stop" after tool calls, or nothing at all.
        if self._calls and reason in ("stop", "unknown"):
            reason = "tool-calls"
        return Finish(reason, tokens(self._usage))

    def _choice(self, choice: _Choice) -> list[Delta]:
        if choice.error or choice.finish_reason == "error":
            raise self._endpoint.in_stream(choice.error or {"message": "server error"})
        if choice.finish_reason:
            self._reason = choice.finish_reason
        message = choice.delta or choice.message
        if message is None:
            return []
        found: list[Delta] = []
        thought = message.reasoning_content or message.reasoning
        if isinstance(thought, str) and thought:
            found.append(ReasoningDelta(thought))
        for content in (message.content, message.refusal):
            found += _content(content)
        for fragment in message.tool_calls or ():
            found += self._call(fragment)
        self._has_content = self._has_content or bool(found)
        return found

    def _call(self, fragment: _CallFragment) -> list[Delta]:
        function = fragment.function or _Function()
        call = self._call_of(fragment, function.name or "")
        text = function.arguments
        if not isinstance(text, str):
            # A server that sends an object means its JSON.
            text = "" if text is None else msgspec.json.encode(text).decode()
        if call.name:
            return [ToolCallDelta(call.index, text)] if text else []
        call.held += text
        if not function.name:
            return []
        call.name = function.name
        start = ToolCallStart(call.index, call.id, call.name)
        return [start, ToolCallDelta(call.index, call.held)] if call.held else [start]

    def _call_of(self, fragment: _CallFragment, name: str) -> _PartialCall:
        """Find the call that a fragment belongs to, or begin a new one.

        An index decides, unless the fragment brings another id and a name (servers that number every call
        0). Without an index the id decides; without both, a name begins a call and the rest continues.
        """
        calls = self._calls
        if fragment.index is not None:
            same = [call for call in calls if call.key == fragment.index]
            if same and not (fragment.id and name and same[-1].name and fragment.id != same[-1].given):
                if fragment.id and not same[-1].name:
                    same[-1].id = same[-1].given = fragment.id
                return same[-1]
        elif fragment.id:
            same = [call for call in calls if call.given == fragment.id]
            if same:
                return same[-1]
        elif calls and not (name and calls[-1].name):
            return calls[-1]
        if len(calls) >= MAX_CALLS:
            raise self._too_many_calls()
        taken = not fragment.id or any(call.id == fragment.id for call in calls)
        call_id = f"call_{secrets.token_hex(12)}" if taken else str(fragment.id)
        calls.append(_PartialCall(len(calls), fragment.index, fragment.id or "", call_id))
        return calls[-1]


class OpenAI(HTTPAdapter):
    """Calls models by Chat Completions."""

    speaks = "Chat Completions"
    reader = ChatReader

    def __init__(self, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(environment)
        self._converter = cache(ChatConverter)

    def url(self, model: Model) -> str:
        """Return the base URL with ``/chat/completions``."""
        return joined(model, "/chat/completions")

    def headers(self, request: ModelRequest) -> dict[str, str]:
        """Return the key's header."""
        key = request.model.api_key
        return {"authorization": f"Bearer {key.reveal()}"} if key else {}

    def body(self, request: ModelRequest) -> bytes:
        """Return the request's JSON, the same bytes for the same request, and call `ModelRequest.sent`."""
        model = request.model
        converter = self._converter(attachment=model.attachment, reasoning_field=reasoning_field(model))
        messages = converter.of_request(request)
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


def _parameters(request: ModelRequest) -> Plain:
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
    """Return whether this is one of OpenAI's reasoning models.

    They refuse ``max_tokens``, ``temperature`` and ``top_p``; many compatible servers know nothing else.
    """
    openai = _is_openai(model) or model.provider_id in ("openai", "azure")
    return openai and bool(model.reasoning or _REASONING_NAME.match(model.wire_id or model.id))


def _is_openai(model: Model) -> bool:
    return (urlsplit(model.url).hostname or "").endswith("api.openai.com")


def _is_claude_at_openrouter(model: Model) -> bool:
    host = urlsplit(model.url).hostname or ""
    return f".{host}".endswith(".openrouter.ai") and (model.wire_id or model.id).startswith("anthropic/")


def tokens(usage: Plain) -> Tokens:
    """Return our count for a ``usage`` object: input without cached tokens, output without reasoning.

    xAI counts reasoning beside the completion, all others inside it: the total tells which.
    """
    prompt, completion = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    inputs, outputs = _object(usage, "prompt_tokens_details"), _object(usage, "completion_tokens_details")
    read = (
        count(inputs, "cached_tokens")
        or count(usage, "prompt_cache_hit_tokens")
        or count(usage, "cached_tokens")
    )
    write = count(inputs, "cache_write_tokens")
    thought = count(outputs, "reasoning_tokens")
    total = count(usage, "total_tokens")
    beside = thought > completion or (thought > 0 and total == prompt + completion + thought)
    made = completion if beside else completion - thought
    total = total or prompt + completion + (thought if beside else 0)
    given = max(0, prompt - read - write)
    return Tokens.of(given, made, reasoning=thought, read=read, write=write, total=total or None)


def _object(value: Plain, key: str) -> Plain:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _content(content: Any) -> list[Delta]:
    """Return the deltas of text, or of Mistral's list of text and thinking."""
    if isinstance(content, str):
        return [TextDelta(content)] if content else []
    found: list[Delta] = []
    for piece in content if isinstance(content, list) else ():
        if not isinstance(piece, dict):
            continue
        if piece.get("type") == "thinking":
            said = _thought(piece.get("thinking"))
            found += [ReasoningDelta(said)] if said else []
        elif isinstance(piece.get("text"), str) and piece["text"]:
            found.append(TextDelta(piece["text"]))
    return found


def _thought(value: Any) -> str:
    if isinstance(value, str):
        return value
    pieces = (
        [piece.get("text") for piece in value if isinstance(piece, dict)] if isinstance(value, list) else []
    )
    return "".join(text for text in pieces if isinstance(text, str))
