"""A Chat Completions answer, read from bytes as they come, in any pieces.

`Answer` knows nothing of the network: bytes in, deltas out. It reads a stream of chunks, and also the
whole JSON object that servers send which do not stream.
"""

import secrets
from typing import Any, Final

import msgspec

from instar.message import CacheTokens, Tokens
from instar.provider.failure import Endpoint
from instar.provider.incoming import Incoming
from instar.provider.protocol import (
    Delta,
    Finish,
    ReasoningDelta,
    TextDelta,
    Told,
    ToolCallDelta,
    ToolCallStart,
)
from instar.wire import Plain

MAX_CALLS: Final = 256
"""Tool calls of one answer: they run together, and each may be a process."""
_MAX_COUNT: Final = 1 << 53
"""The largest number of tokens that is believed; every program that reads JSON holds it exactly."""
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


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Words(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    delta: _Words | None = None
    message: _Words | None = None
    finish_reason: str | None = None
    error: Any = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None


# Not strict: some servers send an index as text.
_decode = msgspec.json.Decoder(_Chunk, strict=False).decode


class _Slot(msgspec.Struct):
    """A tool call that is being received; `held` is argument text from before its name was known."""

    index: int
    key: int | None
    given: str
    id: str
    name: str = ""
    held: str = ""


class Answer:
    """Feed it the bytes of a response body. `done` is true once the provider said ``[DONE]``.

    `feed` and `close` raise `ProviderError` for an error object, for what is not JSON, and for an
    answer that broke off. `close` ends with the one `Finish`.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.done = False
        self._endpoint = endpoint
        self._body = Incoming(endpoint)
        self._slots: list[_Slot] = []
        self._reason: str | None = None
        self._usage: Plain = {}
        self._said = False

    def feed(self, data: bytes) -> list[Delta]:
        """Return the deltas that `data` completes."""
        return self._read(self._body.feed(data))

    def close(self) -> list[Delta]:
        """Return what is left, with the `Finish` last."""
        found = (
            self._read(self._body.close())
            if self._body.whole is None
            else self._chunk(bytes(self._body.whole))
        )
        if self._body.whole is not None:
            self.done = True
        nameless = [slot for slot in self._slots if not slot.name]
        if nameless:
            raise self._endpoint.error("the model asked for a tool without naming it", retryable=True)
        if self._reason is None and not (self.done and self._said):
            raise self._endpoint.network("the answer broke off before its end")
        return [*found, Finish(self._finish(), tokens(self._usage))]

    def _read(self, events: list[bytes]) -> list[Delta]:
        found: list[Delta] = []
        for data in events:
            if data.strip() == b"[DONE]":
                self.done = True
            elif data and not data.isspace():
                found += self._chunk(data)
        return found

    def _chunk(self, data: bytes) -> list[Delta]:
        try:
            chunk = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._endpoint.malformed(data, str(error)) from None
        if chunk.error:
            raise self._endpoint.in_stream(chunk.error)
        if chunk.usage and isinstance(chunk.usage, dict):
            self._usage = chunk.usage
        if chunk.choices:
            return [*self._told(chunk), *self._choice(chunk.choices[0])]
        if self._body.whole is not None:
            raise self._endpoint.malformed(data, "no choices in it")
        return self._told(chunk)

    def _told(self, chunk: _Chunk) -> list[Delta]:
        """What a stream says of its usage; of a whole body the `Finish` does."""
        return [Told(tokens(self._usage))] if chunk.usage and self._body.whole is None else []

    def _choice(self, choice: _Choice) -> list[Delta]:
        if choice.error or choice.finish_reason == "error":
            raise self._endpoint.in_stream(choice.error or {"message": "server error"})
        if choice.finish_reason:
            self._reason = choice.finish_reason
        words = choice.delta or choice.message
        if words is None:
            return []
        found = _words(words)
        for call in words.tool_calls or ():
            found += self._call(call)
        self._said = self._said or bool(found)
        return found

    def _call(self, call: _Call) -> list[Delta]:
        function = call.function or _Function()
        slot = self._slot(call, function.name or "")
        text = _argument_text(function.arguments)
        if slot.name:
            return [ToolCallDelta(slot.index, text)] if text else []
        if not function.name:
            slot.held += text
            return []
        slot.name = function.name
        held, slot.held = slot.held + text, ""
        start = ToolCallStart(slot.index, slot.id, slot.name)
        return [start, ToolCallDelta(slot.index, held)] if held else [start]

    def _slot(self, call: _Call, name: str) -> _Slot:
        """Find the call that a piece belongs to, or open a new one.

        An index decides, unless the piece brings another id and a name (servers that number every call
        0). Without an index the id decides; without both, a name opens a call and the rest continues.
        """
        slots = self._slots
        if call.index is not None:
            same = [slot for slot in slots if slot.key == call.index]
            if same and not (call.id and name and same[-1].name and call.id != same[-1].given):
                return self._identified(same[-1], call.id)
        elif call.id:
            same = [slot for slot in slots if slot.given == call.id]
            if same:
                return same[-1]
        elif slots and not (name and slots[-1].name):
            return slots[-1]
        if len(slots) >= MAX_CALLS:
            raise self._endpoint.error(f"the model asked for more than {MAX_CALLS} tools in one answer")
        taken = not call.id or any(slot.id == call.id for slot in slots)
        slots.append(_Slot(len(slots), call.index, call.id or "", _new_id() if taken else str(call.id)))
        return slots[-1]

    @staticmethod
    def _identified(slot: _Slot, call_id: str | None) -> _Slot:
        if call_id and not slot.name:
            slot.id = slot.given = call_id
        return slot

    def _finish(self) -> str:
        reason = _REASONS.get((self._reason or "").lower(), "unknown")
        # Some servers say "stop" after tool calls, or nothing at all.
        return "tool-calls" if self._slots and reason in ("stop", "unknown") else reason


def tokens(usage: Plain) -> Tokens:
    """Return our count for a ``usage`` object: input without cached, output without reasoning.

    xAI counts reasoning beside the completion, all others inside it: the total tells them apart.
    """
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    inputs, outputs = _object(usage, "prompt_tokens_details"), _object(usage, "completion_tokens_details")
    read = (
        _count(inputs, "cached_tokens")
        or _count(usage, "prompt_cache_hit_tokens")
        or _count(usage, "cached_tokens")
    )
    write = _count(inputs, "cache_write_tokens")
    thought = _count(outputs, "reasoning_tokens")
    total = _count(usage, "total_tokens")
    beside = thought > completion or (thought > 0 and total == prompt + completion + thought)
    return Tokens(
        total=total or (prompt + completion + (thought if beside else 0)) or None,
        input=max(0, prompt - read - write),
        output=completion if beside else completion - thought,
        reasoning=thought,
        cache=CacheTokens(read=read, write=write),
    )


def _count(value: Plain, key: str) -> int:
    found = value.get(key)
    return max(0, int(min(found, _MAX_COUNT))) if isinstance(found, int | float) else 0


def _object(value: Plain, key: str) -> Plain:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _words(words: _Words) -> list[Delta]:
    found: list[Delta] = []
    thought = words.reasoning_content or words.reasoning
    if isinstance(thought, str) and thought:
        found.append(ReasoningDelta(thought))
    for content in (words.content, words.refusal):
        found += _content(content)
    return found


def _content(content: Any) -> list[Delta]:
    """Text, or Mistral's list of text and thinking pieces."""
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


def _argument_text(value: Any) -> str:
    """Argument text; a server that sends an object means its JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _new_id() -> str:
    return "call_" + secrets.token_hex(12)
