"""Single model calls, without a session's turn: titles and the client's `generate`."""

from collections.abc import Sequence

from instar import ids
from instar.account import book, limit
from instar.instance import Instance
from instar.message import Created, ModelRef, TextPart, Tokens, User, WithParts
from instar.plugin import Answer
from instar.provider.protocol import Finish, Model, ProviderError, Request, TextDelta
from instar.session import now
from instar.usage import cost, total


async def complete(instance: Instance, request: Request) -> tuple[str, Tokens]:
    """Make one call and return its whole text and its tokens. Raises `ProviderError`."""
    pieces, tokens = [], Tokens.zero()
    async for delta in instance.models.provider(request.model).stream(request):
        if isinstance(delta, TextDelta):
            pieces.append(delta.text)
        elif isinstance(delta, Finish):
            tokens = delta.tokens
    return "".join(pieces), tokens


async def single(instance: Instance, model: Model, system: Sequence[str], text: str, cause: str) -> Answer:
    """Make one call with a system prompt and a text, and book it under `cause`. Raises `ProviderError`."""
    reached = await limit(instance, model, cause)
    if reached is not None:
        raise ProviderError(reached.message)
    user = User(
        id=ids.new("msg"),
        session_id=ids.new("ses"),
        time=Created(created=now()),
        agent=cause,
        model=ModelRef(provider_id=model.provider_id, model_id=model.id),
    )
    part = TextPart(id=ids.new("prt"), session_id=user.session_id, message_id=user.id, text=text)
    request = Request(
        model=model,
        system=list(system),
        messages=[WithParts(info=user, parts=[part])],
        session_id=user.session_id,
        agent=cause,
        purpose="generate",
    )
    answer, tokens = await complete(instance, request)
    await book(instance, model, tokens, cause)
    return Answer(answer, cost(tokens, model.cost), total(tokens))
