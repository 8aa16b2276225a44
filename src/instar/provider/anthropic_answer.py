"""An Anthropic Messages answer, read from bytes as they come, in any pieces.

`Answer` knows nothing of the network: bytes in, deltas out. It reads a stream of events, and also the
whole message that servers send which do not stream.
"""

from typing import Any, Final

import msgspec

from instar.message import CacheTokens, Tokens
from instar.provider.answer import MAX_CALLS
from instar.provider.failure import Endpoint
from instar.provider.incoming import Incoming
from instar.provider.protocol import (
    Delta,
    Finish,
    ReasoningDelta,
    ReasoningStart,
    TextDelta,
    Told,
    ToolCallDelta,
    ToolCallStart,
)
from instar.wire import Plain

METADATA: Final = "anthropic"
"""The key of a reasoning part's metadata under which opencode 1.18 keeps what Anthropic wants back."""
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


_decode = msgspec.json.Decoder(_Event).decode


class _Block(msgspec.Struct):
    """A content block that is being received; `call` is a tool call's place among the calls."""

    call: int | None = None
    given: Any = None


class Answer:
    """Feed it the bytes of a response body. `done` is true once the provider said ``message_stop``.

    `feed` and `close` raise `ProviderError` for an error event, for what is not JSON, and for an answer
    that broke off. `close` ends with the one `Finish`.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.done = False
        self._endpoint = endpoint
        self._body = Incoming(endpoint)
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        self._reason: str | None = None
        self._usage: Plain = {}

    def feed(self, data: bytes) -> list[Delta]:
        """Return the deltas that `data` completes."""
        return self._read(self._body.feed(data))

    def close(self) -> list[Delta]:
        """Return what is left, with the `Finish` last."""
        found = (
            self._read(self._body.close())
            if self._body.whole is None
            else self._take(bytes(self._body.whole))
        )
        if not self.done:
            raise self._endpoint.network("the answer broke off before its end")
        reason = _REASONS.get(self._reason or "", "unknown")
        return [*found, Finish(reason, tokens(self._usage))]

    def _read(self, events: list[bytes]) -> list[Delta]:
        found: list[Delta] = []
        for data in events:
            if data and not data.isspace():
                found += self._take(data)
        return found

    def _take(self, data: bytes) -> list[Delta]:
        try:
            event = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._endpoint.malformed(data, str(error)) from None
        match event.type:
            case "content_block_delta":
                return self._grow(event.index, event.delta or {})
            case "content_block_start":
                return self._begin(event.index, event.content_block or {})
            case "content_block_stop":
                return self._end(event.index)
            case "message_start":
                self._count((event.message or {}).get("usage"))
                return [Told(tokens(self._usage))]
            case "message_delta":
                self._reason = (event.delta or {}).get("stop_reason") or self._reason
                self._count(event.usage)
            case "message_stop":
                self.done = True
            case "error":
                raise self._endpoint.in_stream(event.error or {"message": "unknown error"})
            case "message":
                return self._message(event)
        # Anything else is a ping, or an event of later days: Anthropic asks clients to pass over those.
        return []

    def _begin(self, index: int, block: Plain) -> list[Delta]:
        kind = block.get("type")
        if kind == "tool_use":
            if self._calls >= MAX_CALLS:
                raise self._endpoint.error(f"the model asked for more than {MAX_CALLS} tools in one answer")
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


def tokens(usage: Plain) -> Tokens:
    """Return our count for a ``usage`` object, whose ``input_tokens`` are those that no cache held.

    Anthropic counts thinking among the output and does not tell it apart.
    """
    read, write = _number(usage, "cache_read_input_tokens"), _number(usage, "cache_creation_input_tokens")
    given, made = _number(usage, "input_tokens"), _number(usage, "output_tokens")
    return Tokens(
        total=(given + made + read + write) or None,
        input=given,
        output=made,
        reasoning=0,
        cache=CacheTokens(read=read, write=write),
    )


def _thought(value: Plain) -> list[Delta]:
    text, signature = str(value.get("thinking") or ""), value.get("signature")
    metadata = {METADATA: {"signature": signature}} if signature else None
    return [ReasoningDelta(text, metadata)] if text or metadata else []


def _number(value: Plain, key: str) -> int:
    found = value.get(key)
    # What is larger than a program that reads JSON can hold exactly is not believed.
    return max(0, int(min(found, 1 << 53))) if isinstance(found, int | float) else 0
