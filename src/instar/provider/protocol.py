"""The contract of an adapter: a request in our own types in, a stream of deltas out.

An adapter converts messages to its provider's form, at this boundary and nowhere else.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from hashlib import blake2b
from typing import Any, Final, Literal, Protocol

import msgspec

from instar.api.provider import CacheCost, Capabilities, Cost, Interleaved, Limit, Media, ModelApi
from instar.api.provider import Model as ModelInfo
from instar.message import Tokens, WithParts
from instar.plugin.interface import Fetch
from instar.provider.catalogue import PACKAGES
from instar.wire import Plain, Wire, to_plain
from instar.wire.secret import MASK, Secret, disclosed

_NPM: Final = {name: package for package, name in reversed(PACKAGES.items())}
"""The first package of opencode for each protocol."""
_ROOM: Final = 16
"""Characters of an answer for each token that the model may say: four times what a token is."""
_OUTPUT: Final = 128_000
"""Tokens of the longest answer of a model that does not say its own."""
_SHORTEST, _LONGEST = 1 << 20, 32 << 20
"""Characters that every answer may have, and that none may have more of."""


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
    """A model that can be called: its address, its key, its limits and what it accepts."""

    provider_id: str
    id: str
    name: str
    protocol: str
    """Which adapter calls it: ``openai``, ``anthropic``, ``scripted`` or a key of `catalogue.LIBRARY_CLASSES`."""
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
    """Options of the model's block for the request's body (``reasoningEffort`` …)."""
    source: str = "catalogue"
    """Where its name was found: ``config``, ``catalogue``, or ``unlisted`` (a server that takes any name)."""
    settings: Plain = msgspec.field(default_factory=dict)
    """The provider block's other options: ``timeout``, ``chunkTimeout``, ``setCacheKey``, ``script`` …"""
    interleaved: Any = None
    """Where earlier thinking is sent back: a key, ``{"field": key}`` or True; None to leave it out."""
    variants: dict[str, Plain] = msgspec.field(default_factory=dict)
    """More options by name: ``variants.high`` of the model's block (opencode's ``variant``)."""
    wire_id: str = ""
    """The provider's own name for the model where it is not `id`."""
    fetch: Fetch | None = None
    """Sends its calls in place of an HTTP connection; a plugin's login may give one."""
    key_from: str = ""
    """Where its key stands, for error texts: a variable, a setting, or the command that keeps one."""

    @property
    def ref(self) -> str:
        """``provider/model``."""
        return f"{self.provider_id}/{self.id}"


def describe(model: Model) -> Plain:
    """Return a model as plugins see it: in opencode's form, without its key."""
    return {**to_plain(shown(model)), "options": model.options}


def shown(model: Model) -> ModelInfo:
    """Return a model as the API shows it, without its key."""
    return ModelInfo(
        id=model.id,
        provider_id=model.provider_id,
        api=ModelApi(id=model.wire_id or model.id, url=disclosed(model.url), npm=package(model)),
        name=model.name,
        family="",
        capabilities=_capabilities(model),
        cost=cost(model),
        limit=Limit(context=model.limit.context, input=model.limit.input, output=model.limit.output),
        status="active",
        options=disclosed(model.options),
        headers=dict.fromkeys(model.headers, MASK),
        release_date="",
        variants=disclosed(model.variants),
    )


def package(model: Model) -> str:
    """Return the package with which opencode would call a model."""
    return _NPM.get(model.protocol, model.protocol)


def cost(model: Model) -> Cost:
    """Return a model's prices; an unknown one is 0, since the form has no other way to say so."""
    prices = model.cost
    return Cost(
        input=prices.input or 0,
        output=prices.output or 0,
        cache=CacheCost(read=prices.cache_read or 0, write=prices.cache_write or 0),
    )


def _capabilities(model: Model) -> Capabilities:
    given = model.interleaved
    field = given.get("field") if isinstance(given, dict) else given
    return Capabilities(
        temperature=model.temperature,
        reasoning=model.reasoning,
        attachment=model.attachment,
        toolcall=model.tools,
        input=Media(text=True, audio=False, image=model.attachment, video=False, pdf=model.attachment),
        output=Media(text=True, audio=False, image=False, video=False, pdf=False),
        interleaved=Interleaved(field=field) if isinstance(field, str) and field else field is True,
    )


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model is shown it."""

    name: str
    description: str
    parameters: Plain


class PromptPiece(msgspec.Struct, frozen=True):
    """A tool, the system prompt or a message as it is sent: its name or id, the digest and the number of its bytes."""

    name: str
    digest: bytes
    size: int


DIGEST: Final = 16
"""Bytes of a piece's digest."""


def piece(name: str, data: bytes) -> PromptPiece:
    """Return the piece of these bytes."""
    return PromptPiece(name, blake2b(data, digest_size=DIGEST).digest(), len(data))


class Sent(msgspec.Struct, frozen=True):
    """What a provider's prompt cache compares of a request, in its order: tools, system prompt, messages.

    Cache breakpoints are left out, since no cache compares them, and so are messages without content.
    `body` is the body of the HTTP request; empty if the adapter does not write it itself. `digests` are those of
    `messages` in one.
    """

    tools: list[PromptPiece]
    system: PromptPiece
    messages: list[PromptPiece]
    body: bytes = b""
    digests: bytes = b""


class ModelRequest(msgspec.Struct, frozen=True):
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
    """Called with what is sent, before it is sent."""
    made: dict[Any, Any] | None = None
    """What a converter made of the first messages, by converter; None where the next request begins with others."""


class TextDelta(msgspec.Struct, frozen=True):
    """More of the answer's text."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """More of the model's thinking; `metadata` (its signature …) belongs to the block that is open."""

    text: str
    metadata: Plain | None = None


class ReasoningStart(msgspec.Struct, frozen=True):
    """A new block of thinking begins; it may stay without text.

    `metadata` is what the provider wants back with it.
    """

    metadata: Plain | None = None


class ToolCallStart(msgspec.Struct, frozen=True):
    """A tool call begins. `index` numbers the calls of one answer.

    `metadata` is what the provider wants back with the call.
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
    """The answer is complete.

    `reason` is ``stop``, ``tool-calls``, ``length``, ``content-filter`` or ``unknown``.
    """

    reason: str
    tokens: Tokens


class UsageUpdate(msgspec.Struct, frozen=True):
    """The usage so far, before the answer is complete; it is booked if the answer is cut short."""

    tokens: Tokens


Delta = TextDelta | ReasoningStart | ReasoningDelta | ToolCallStart | ToolCallDelta | UsageUpdate | Finish


def length(delta: Delta) -> int:
    """Return how many characters of an answer a delta brings."""
    if isinstance(delta, TextDelta | ReasoningDelta | ToolCallDelta):
        return len(delta.text)
    return len(delta.name) if isinstance(delta, ToolCallStart) else 0


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


class ModelAdapter(Protocol):
    """Calls models by one wire protocol."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Make the call and yield its deltas, ending with one `Finish`.

        Raises `ProviderError` at any point. Cancelling the iteration closes the connection.
        """
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


async def bounded_answer(adapter: ModelAdapter, request: ModelRequest) -> AsyncGenerator[Delta, None]:
    """Make a call and yield its deltas. Raises `ProviderError`, also when the answer does not come to an end."""
    model, size = request.model, 0
    most = min(max(_ROOM * (model.limit.output or _OUTPUT), _SHORTEST), _LONGEST)
    async with aclosing(adapter.stream(request)) as deltas:
        async for delta in deltas:
            size += length(delta)
            if size > most:
                raise ProviderError(
                    f"{model.ref} did not end its answer, which was cut off after {most} characters: it may say"
                    f" {model.limit.output or _OUTPUT} tokens (limit.output of the model in your settings)"
                )
            yield delta
