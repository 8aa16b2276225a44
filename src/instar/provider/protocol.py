"""The contract of a provider: a request in our own types in, a stream of deltas out.

A provider converts messages to its wire form at this boundary and nowhere else (design habit 3).
"""

from collections.abc import AsyncIterator, Callable
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from instar.message import Tokens, WithParts
from instar.plugin.fetch import Fetch
from instar.secret import Secret
from instar.wire import Plain, Wire


class ModelLimit(Wire):
    """Tokens: `context` is the whole window (0 when unknown), `output` the longest answer."""

    context: int = 0
    input: int | None = None
    output: int = 0


class ModelCost(Wire):
    """US dollars for a million tokens; None is an unknown price."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = msgspec.field(default=None, name="cache_read")
    cache_write: float | None = msgspec.field(default=None, name="cache_write")


class Model(msgspec.Struct, frozen=True):
    """A model that can be called: where, with what, and what it can take."""

    provider_id: str
    id: str
    name: str
    protocol: str
    """``openai``, ``anthropic``, ``scripted`` …: which adapter speaks to it."""
    url: str
    api_key: Secret | None
    headers: dict[str, str]
    limit: ModelLimit
    cost: ModelCost
    temperature: bool = True
    reasoning: bool = False
    attachment: bool = False
    tools: bool = True
    options: Plain = msgspec.field(default_factory=dict)
    """What the model's block asks for in the request's body (``reasoningEffort`` …)."""
    source: str = "catalogue"
    settings: Plain = msgspec.field(default_factory=dict)
    """The provider block's other options: ``timeout``, ``chunkTimeout``, ``setCacheKey``, ``script`` …"""
    interleaved: Any = None
    """Where the model wants its earlier thinking back: a key, ``{"field": key}``, True, or None for not."""
    variants: dict[str, Plain] = msgspec.field(default_factory=dict)
    """More options by name: ``variants.high`` of the model's block (opencode's ``variant``)."""
    wire_id: str = ""
    """The provider's own name for the model where it is not `id`."""
    fetch: Fetch | None = None
    """What sends its calls where a plugin's login does that itself."""

    @property
    def ref(self) -> str:
        """``provider/model``."""
        return f"{self.provider_id}/{self.id}"


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model is shown it."""

    name: str
    description: str
    parameters: Plain


class Piece(NamedTuple):
    """A tool, the system prompt or a message as it is sent: its name or id, a digest of its bytes, their number."""

    name: str
    digest: bytes
    size: int


def piece(name: str, data: bytes) -> Piece:
    """Return the piece of these bytes."""
    return Piece(name, blake2b(data, digest_size=16).digest(), len(data))


class Sent(msgspec.Struct, frozen=True):
    """What a request puts before a provider's cache, in the order in which caches compare: tools, system, messages.

    Marks of breakpoints are left out, since no cache compares them; so are messages that nothing is sent of.
    `body` is the whole body of the HTTP request, empty where an adapter does not write it itself.
    """

    tools: list[Piece]
    system: Piece
    messages: list[Piece]
    body: bytes = b""


class Request(msgspec.Struct, frozen=True):
    """One model call. `purpose` is ``turn``, ``title``, ``compaction`` or ``generate``."""

    model: Model
    system: list[str]
    messages: list[WithParts]
    tools: list[ToolSpec] = msgspec.field(default_factory=list)
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    options: Plain = msgspec.field(default_factory=dict)
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    session_id: str = ""
    agent: str = ""
    purpose: str = "turn"
    tool_choice: Literal["auto", "required"] = "auto"
    """``required``: the model must call one of the tools."""
    sent: Callable[[Sent], None] | None = None
    """Told of what is sent, before it is."""


class TextDelta(msgspec.Struct, frozen=True):
    """More of the answer's text."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """More of the model's thinking; `metadata` (its signature …) goes to the block that is open."""

    text: str
    metadata: Plain | None = None


class ReasoningStart(msgspec.Struct, frozen=True):
    """A block of thinking begins, apart from the one before it, and stays one also if it has no text.

    `metadata` is what its provider wants back with it, as `ReasoningDelta`'s.
    """

    metadata: Plain | None = None


class ToolCallStart(msgspec.Struct, frozen=True):
    """The model begins to ask for a tool. `index` tells calls of one answer apart.

    `metadata` is what its provider wants back with the call, as `ReasoningStart`'s.
    """

    index: int
    call_id: str
    name: str
    metadata: Plain | None = None


class ToolCallDelta(msgspec.Struct, frozen=True):
    """More of a call's argument text."""

    index: int
    text: str


class Finish(msgspec.Struct, frozen=True):
    """The answer is whole.

    `reason` is ``stop``, ``tool-calls``, ``length``, ``content-filter`` or ``unknown``.
    """

    reason: str
    tokens: Tokens


class Told(msgspec.Struct, frozen=True):
    """What the call has used so far, told before the answer is whole: it is booked also when that is cut short."""

    tokens: Tokens


Delta = TextDelta | ReasoningStart | ReasoningDelta | ToolCallStart | ToolCallDelta | Told | Finish


class ProviderError(Exception):
    """A model call that failed.

    `kind` is ``api``, ``auth``, ``overflow`` (longer than the window), ``filter`` or ``network``.
    `retry_after` is in seconds, where the provider said so. The text never holds a key.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "api",
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        body: str | None = None,
        headers: dict[str, str] | None = None,
        url: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.body = body
        self.headers = headers
        self.url = url


class Provider(Protocol):
    """An adapter for one wire protocol."""

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Make the call and yield its deltas, ending with one `Finish`.

        Raises `ProviderError` at any point. Cancelling the iteration closes the connection.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
