"""Single model calls, without a session's turn: titles and the client's `generate`."""

import logging
from collections.abc import Sequence

from instar import ids
from instar.account import book, limit
from instar.instance import Instance
from instar.message import Created, ModelRef, TextPart, Tokens, User, WithParts
from instar.plugin import Answer, points
from instar.provider.assemble import UnknownModel
from instar.provider.protocol import Finish, Model, ProviderError, Request, TextDelta
from instar.session import now
from instar.usage import cost, total

log = logging.getLogger("instar.provider")


async def small_model(instance: Instance, beside: Model | None = None) -> Model:
    """Return the model for titles and the like: the configured one, a plugin's, or a cheap one of the provider.

    `beside` is the model that the session uses; without it, the default one. Raises as `Models.small`.
    """
    models = instance.models
    if instance.config.small_model or not instance.plugins.listens(points.SMALL_MODEL):
        return models.small(beside)
    main = beside or models.default()
    given = points.SmallModelInput(provider=models.info(main.provider_id))
    chosen = (await instance.plugins.trigger(points.SMALL_MODEL, given, points.SmallModelOutput())).model
    if isinstance(chosen, dict):
        chosen = f"{chosen.get('providerID', main.provider_id)}/{chosen.get('id')}"
    try:
        return models.find(chosen) if chosen else models.small(main)
    except UnknownModel as error:
        log.error("a plugin's small model is not there: %s", error)
        return models.small(main)


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
