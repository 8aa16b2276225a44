"""The adapter for Anthropic Messages and everything that speaks it.

Of the options of a model, an agent or a hook it reads, with opencode's names: ``thinking``
(``{"type": "enabled", "budgetTokens": n}`` or ``{"type": "adaptive"}``), ``effort`` (also as
``reasoningEffort``), ``topK``, ``disableParallelToolUse``. Any other goes into the body as it stands, and
null leaves a key out. The options of the provider block are those of `connection`.

**Cache breakpoints** (`MARK`) stand on the last tool, the last block of the system prompt, and the last
block of the last two user turns: four, which is as many as Anthropic takes. A step's last user turn is
the next step's last but one, so that a step finds in the cache exactly what the step before wrote there,
however many blocks lie between (Anthropic looks back 20). Nothing else differs between two steps: a
step's blocks, their marks taken off, begin the next step's.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from instar.message import (
    Assistant,
    FilePart,
    Part,
    ReasoningPart,
    TextPart,
    Tokens,
    ToolError,
    ToolPart,
    WithParts,
)
from instar.provider.connection import MAX_CALLS, HTTPAdapter, ResponseReader, count, joined
from instar.provider.convert import (
    Converter,
    EncodedTool,
    Remembered,
    answer_steps,
    file_text,
    is_sent,
    result_text,
    returned_files,
    user_content,
    values_of,
)
from instar.provider.failure import ProviderEndpoint
from instar.provider.protocol import (
    Delta,
    Finish,
    Model,
    ModelRequest,
    ReasoningDelta,
    ReasoningStart,
    Sent,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
    UsageUpdate,
    piece,
)
from instar.wire import Plain, encode
from instar.wire.pattern import late_pattern

VERSION: Final = "2023-06-01"
INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
"""The beta that lets a model with a thinking budget think between its tool calls."""
DEFAULT_OUTPUT: Final = 8192
"""``max_tokens``, which Anthropic requires, if neither the request nor the model has a limit."""
MARK: Final = b',"cache_control":{"type":"ephemeral"}}'
BEGINNING: Final = "[The conversation goes on.]"
"""Stands before an answer that begins the history, as after a removed message."""
METADATA: Final = "anthropic"
"""The key of a reasoning part's metadata under which opencode 1.18 keeps what Anthropic wants back."""
_FIXED_SAMPLING: Final = late_pattern(r"claude-(?:opus-4-[7-9]|[a-z]+-(?:[5-9]|\d\d))(?!\d)")
"""Models that refuse ``temperature``, ``top_p`` and ``top_k`` (from Claude Opus 4.7 on)."""
_BODY_NAMES: Final = {"topK": "top_k", "serviceTier": "service_tier", "stopSequences": "stop_sequences"}
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_NOT_IN_ID: Final = late_pattern(r"[^a-zA-Z0-9_-]")
_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content-filter",
}


class _Event(msgspec.Struct):
    """Every event of the stream, and a whole message: the fields of all of them."""

    type: str
    index: int = 0
    content_block: Plain | None = None
    delta: Plain | None = None
    usage: Plain | None = None
    message: Plain | None = None
    error: Any = None
    content: list[Plain] | None = None
    stop_reason: str | None = None


_EVENT: Final = msgspec.json.Decoder(_Event)


class _Block(msgspec.Struct):
    """A content block that is being received. `call` is the index of its tool call, `given` that call's whole input."""

    call: int | None = None
    given: Any = None


Turn = tuple[str, bytes]
"""A role and its message's JSON, without a mark."""


class MessagesReader(ResponseReader):
    """Reads an answer in the form of Anthropic Messages; ``message_stop`` completes it."""

    def __init__(self, endpoint: ProviderEndpoint) -> None:
        super().__init__(endpoint)
        self._blocks: dict[int, _Block] = {}
        self._calls = 0

    def finish(self) -> Finish:
        """Return the end of the answer."""
        if not self.done:
            raise self._endpoint.network("the answer broke off before its end")
        return Finish(_REASONS.get(self._reason or "", "unknown"), tokens(self._usage))

    def read(self, data: bytes) -> list[Delta]:
        """Return the deltas of one event, or of the whole message."""
        event = self._decoded(_EVENT, data)
        match event.type:
            case "content_block_delta":
                return self._grow(event.index, event.delta or {})
            case "content_block_start":
                return self._begin(event.index, event.content_block or {})
            case "content_block_stop":
                return self._end(event.index)
            case "message_start":
                self._count((event.message or {}).get("usage"))
                return [UsageUpdate(tokens(self._usage))]
            case "message_delta":
                self._reason = (event.delta or {}).get("stop_reason") or self._reason
                self._count(event.usage)
            case "message_stop":
                self.done = True
            case "error":
                raise self._endpoint.in_stream(event.error or {"message": "unknown error"})
            case "message":
                return self._message(event)
        # Anthropic asks clients to ignore unknown events; a ping needs no answer.
        return []

    def _begin(self, index: int, block: Plain) -> list[Delta]:
        kind = block.get("type")
        if kind == "tool_use":
            if self._calls >= MAX_CALLS:
                raise self._too_many_calls()
            self._blocks[index] = _Block(self._calls, block.get("input"))
            self._calls += 1
            return [ToolCallStart(self._calls - 1, str(block.get("id", "")), str(block.get("name", "")))]
        self._blocks[index] = _Block()
        if kind == "thinking":
            return [ReasoningStart(), *_thought(block)]
        if kind == "redacted_thinking":
            return [ReasoningStart({METADATA: {"redactedData": block.get("data", "")}})]
        return [TextDelta(block["text"])] if kind == "text" and block.get("text") else []

    def _grow(self, index: int, delta: Plain) -> list[Delta]:
        block = self._blocks.get(index) or _Block()
        match delta.get("type"):
            case "text_delta":
                return [TextDelta(str(delta.get("text", "")))]
            case "input_json_delta" if block.call is not None and delta.get("partial_json"):
                block.given = None
                return [ToolCallDelta(block.call, str(delta["partial_json"]))]
            case "thinking_delta" | "signature_delta":
                return _thought(delta)
        return []

    def _end(self, index: int) -> list[Delta]:
        block = self._blocks.pop(index, None)
        # Servers that do not stream arguments give them with the block's start.
        if block is None or block.call is None or not block.given:
            return []
        return [ToolCallDelta(block.call, msgspec.json.encode(block.given).decode())]

    def _message(self, event: _Event) -> list[Delta]:
        found: list[Delta] = []
        for index, block in enumerate(event.content or []):
            found += self._begin(index, block)
            found += self._end(index)
        self._reason, self.done = event.stop_reason, True
        self._count(event.usage)
        return found

    def _count(self, usage: Any) -> None:
        """Keep the newest of each figure: those of ``message_delta`` are sums up to there."""
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None}


class Anthropic(HTTPAdapter):
    """Calls models by Anthropic Messages."""

    speaks = "Anthropic Messages"
    reader = MessagesReader

    def __init__(self, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(environment)
        self._converter = cache(MessagesConverter)

    def url(self, model: Model) -> str:
        """Return the base URL with ``/messages``; one without a path (``ANTHROPIC_BASE_URL``) means its ``/v1``."""
        return joined(model, "/messages" if urlsplit(model.url).path.strip("/") else "/v1/messages")

    def headers(self, request: ModelRequest) -> dict[str, str]:
        """Return the version, the key, and the beta that a thinking budget needs."""
        found = {"anthropic-version": VERSION}
        thinking = request.options.get("thinking", request.model.options.get("thinking"))
        if isinstance(thinking, dict) and thinking.get("type") == "enabled":
            found["anthropic-beta"] = INTERLEAVED
        if request.model.api_key:
            found["x-api-key"] = request.model.api_key.reveal()
        return found

    def body(self, request: ModelRequest) -> bytes:
        """Return the request's JSON, the same bytes for the same request, and call `ModelRequest.sent`.

        Tools and system come first, as they do in the cache's prefix.
        """
        model = request.model
        messages = self._converter(model.ref, attachment=model.attachment).of_request(request)
        tools = [_tool(spec) for spec in request.tools]
        system = [encode(_text(text)) for text in request.system if text.strip()]
        wire: Plain = {"model": model.wire_id or model.id}
        if tools:
            wire["tools"] = msgspec.Raw(_array([tool.json for tool in tools], marked=True))
        if system:
            wire["system"] = msgspec.Raw(_array(system, marked=True))
        wire["messages"] = msgspec.Raw(_conversation([turn for turns in messages.forms for turn in turns]))
        wire["stream"] = True
        wire |= _parameters(request)
        data = encode({key: value for key, value in wire.items() if value is not None})
        if request.sent is not None:
            pieces, digests = list(messages.pieces), bytes(messages.digests)
            request.sent(
                Sent([tool.piece for tool in tools], piece("", b"".join(system)), pieces, data, digests)
            )
        return data


def _parameters(request: ModelRequest) -> Plain:
    """Return the limits, the sampling, the thinking and the options of the body.

    A model that thinks refuses ``temperature``, ``top_p`` and ``top_k``. Models refuse ``temperature`` beside
    ``top_p``, which is then left out.
    """
    given = {**request.model.options, **request.options}
    thinking = _thinking(given.pop("thinking", None))
    found: Plain = {"max_tokens": _longest(request, thinking), "thinking": thinking}
    effort = given.pop("effort", None) or given.pop("reasoningEffort", None)
    if effort:
        config = given.pop("output_config", None)
        found["output_config"] = {**(config if isinstance(config, dict) else {}), "effort": effort}
    if given.pop("disableParallelToolUse", None) and request.tools:
        found["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    # Anthropic refuses a forced call beside thinking.
    if request.tool_choice == "required" and request.tools and _is_off(thinking):
        found["tool_choice"] = {**found.get("tool_choice", {}), "type": "any"}
    found |= {_BODY_NAMES.get(name, name): value for name, value in given.items()}
    model = request.model
    fixed = not model.temperature or _FIXED_SAMPLING.search(model.wire_id or model.id)
    if not fixed and _is_off(thinking):
        if request.temperature is not None:
            found.setdefault("temperature", request.temperature)
        elif request.top_p is not None:
            found.setdefault("top_p", request.top_p)
    else:
        found.pop("top_k", None)
    return found


def _is_off(thinking: Plain | None) -> bool:
    return thinking is None or thinking.get("type") == "disabled"


def _thinking(given: Any) -> Plain | None:
    """Return the ``thinking`` option in Anthropic's form; opencode writes its budget as ``budgetTokens``."""
    if not isinstance(given, dict):
        return None
    return {"budget_tokens" if name == "budgetTokens" else name: value for name, value in given.items()}


def _longest(request: ModelRequest, thinking: Plain | None) -> int:
    """Return the most tokens of the answer: Anthropic counts a thinking budget among them."""
    most = request.model.limit.output
    wanted = request.max_output_tokens or min(most or DEFAULT_OUTPUT, 32_000)
    budget = (thinking or {}).get("budget_tokens")
    if isinstance(budget, int) and thinking and thinking.get("type") == "enabled":
        wanted += budget
    return min(wanted, most) if most else wanted


class MessagesConverter(Converter[list[Turn]]):
    """Converts messages to turns of Anthropic Messages.

    `attachment`: the model takes images and PDFs. `ref` is the model as ``provider/model``: thinking goes
    back to the model that thought it, since a signature is bound to that.
    """

    def __init__(self, ref: str, *, attachment: bool = False) -> None:
        super().__init__()
        self._ref = ref
        self._attachment = attachment

    def values(self, message: WithParts) -> list[Any]:
        """Return the values of a message that `convert` reads."""
        return [values_of(message), [_thinking_metadata(part) for part in message.parts]]

    def convert(self, message: WithParts) -> tuple[list[Turn], bytes]:
        """Return each step's answer and its tool results, or a user turn."""
        if isinstance(message.info, Assistant):
            same = self._ref == f"{message.info.provider_id}/{message.info.model_id}"
            found = [turn for step in answer_steps(message) for turn in self._step(step, same)]
        else:
            content = user_content(message.parts)
            found = [("user", [_text(one) if isinstance(one, str) else self._file(one) for one in content])]
        turns = [(role, [encode(block) for block in blocks]) for role, blocks in found if blocks]
        data = b"".join([b"".join([role.encode(), *blocks]) for role, blocks in turns])
        return [(role, _message(role, blocks)) for role, blocks in turns], data

    def _step(self, parts: list[Part], same: bool) -> list[tuple[str, list[Plain]]]:
        said = [block for part in parts if (block := _said(part, same)) is not None]
        # An answer of thinking alone says nothing, and Anthropic refuses a turn that ends with thinking.
        while said and said[-1]["type"] in ("thinking", "redacted_thinking"):
            said.pop()
        return [
            ("assistant", said),
            ("user", [self._result(part) for part in parts if isinstance(part, ToolPart)]),
        ]

    def _result(self, part: ToolPart) -> Plain:
        """Return a call's result. Images and PDFs stand inside it; a text names what the model cannot take."""
        found: Plain = {"type": "tool_result", "tool_use_id": _call_id(part)}
        # An empty text block is refused; a result without content is not.
        text = result_text(part)
        content = [_text(text)] if text.strip() else []
        content += [self._file(file) for file in returned_files([part])]
        if content:
            found["content"] = text if content == [_text(text)] else content
        if isinstance(part.state, ToolError):
            found["is_error"] = True
        return found

    def _file(self, part: FilePart) -> Plain:
        mime = part.mime.partition(";")[0].lower()
        kind = "image" if mime in _IMAGES else "document" if mime == "application/pdf" else None
        head, _, payload = part.url.partition(",")
        if kind is not None and self._attachment:
            if part.url.startswith(("http://", "https://")):
                return {"type": kind, "source": {"type": "url", "url": part.url}}
            if part.url.startswith("data:") and head.endswith(";base64"):
                return {"type": kind, "source": {"type": "base64", "media_type": mime, "data": payload}}
        return _text(file_text(part))


def _said(part: Part, same: bool) -> Plain | None:
    if isinstance(part, TextPart):
        return _text(part.text) if is_sent(part) else None
    if isinstance(part, ToolPart):
        return {"type": "tool_use", "id": _call_id(part), "name": part.tool, "input": part.state.input}
    # Thinking goes back as it came; Anthropic refuses it without its signature.
    given = (_thinking_metadata(part) or {}) if same else {}
    if given.get("redactedData"):
        return {"type": "redacted_thinking", "data": given["redactedData"]}
    if isinstance(part, ReasoningPart) and given.get("signature"):
        return {"type": "thinking", "thinking": part.text, "signature": given["signature"]}
    return None


def _thinking_metadata(part: Part) -> Plain | None:
    if not isinstance(part, ReasoningPart):
        return None
    given = (part.metadata or {}).get(METADATA)
    return given if isinstance(given, dict) else None


def _call_id(part: ToolPart) -> str:
    """Return the call's id in the letters that Anthropic takes: another provider may have given it."""
    return _NOT_IN_ID.sub("_", part.call_id) or "call"


def _conversation(turns: list[Turn]) -> bytes:
    """Return the JSON array of a conversation, the last two user turns marked.

    Anthropic wants a user turn first, and no two turns of one role in a row: those are joined.
    """
    if turns and turns[0][0] != "user":
        turns = [("user", _message("user", [encode(_text(BEGINNING))])), *turns]
    messages: list[bytes] = []
    persons: list[int] = []
    last = ""
    for role, message in turns:
        if role == last:
            messages[-1] = messages[-1][: -len(_END)] + b"," + message[len(_message(role, [])) - len(_END) :]
            continue
        if role == "user":
            persons.append(len(messages))
        messages.append(message)
        last = role
    for place in persons[-2:]:
        messages[place] = messages[place][: -len(_END) - 1] + MARK + _END
    return b"[%b]" % b",".join(messages)


_END: Final = b"]}"


def _message(role: str, blocks: list[bytes]) -> bytes:
    return b'{"role":"%b","content":[%b]}' % (role.encode(), b",".join(blocks))


@Remembered
def _tool(spec: ToolSpec) -> EncodedTool:
    schema = spec.parameters
    if schema.get("type") != "object":
        schema = {"type": "object", **schema}
    data = encode({"name": spec.name, "description": spec.description, "input_schema": schema})
    return EncodedTool(data, piece(spec.name, data))


def _array(blocks: list[bytes], *, marked: bool) -> bytes:
    *first, last = blocks
    return b"[" + b",".join([*first, last[:-1] + MARK if marked else last]) + b"]"


def _text(text: str) -> Plain:
    return {"type": "text", "text": text}


def tokens(usage: Plain) -> Tokens:
    """Return our count for a ``usage`` object, whose ``input_tokens`` are those that no cache held.

    Anthropic counts thinking among the output and does not tell it apart.
    """
    read, write = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    given, made = count(usage, "input_tokens"), count(usage, "output_tokens")
    return Tokens.of(given, made, read=read, write=write, total=(given + made + read + write) or None)


def _thought(value: Plain) -> list[Delta]:
    text, signature = str(value.get("thinking") or ""), value.get("signature")
    metadata = {METADATA: {"signature": signature}} if signature else None
    return [ReasoningDelta(text, metadata)] if text or metadata else []
