"""Single model calls, without a session's turn: titles and the client's `generate`."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from instar import ids
from instar.account import Call, Forbidden, Meter, metered
from instar.instance import Instance
from instar.live import Live
from instar.message import Created, ModelRef, Origin, TextPart, Tokens, User, WithParts
from instar.plugin import Answer, Invalid, points
from instar.provider.assemble import UnknownModel
from instar.provider.family import find_named
from instar.provider.protocol import Finish, Model, ProviderError, Request, TextDelta, Told
from instar.provider.resolve import NoModel
from instar.session import now
from instar.usage import Reached, cost, total

log = logging.getLogger("instar.provider")

_LOOK: Final = 0.2
"""Seconds between two looks at whether a call was stopped."""


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


async def model_for(instance: Instance, asked: ModelRef | None, live: Live | None) -> Model:
    """Return the model that was asked for beside a session, or the small one of the provider that it uses.

    Raises `Invalid`: there is no such model, or none at all.
    """
    beside = None if live is None else _used(instance, live)
    try:
        if asked is None:
            return await small_model(instance, beside)
        return find_named(instance.models, f"{asked.provider_id}/{asked.model_id}", beside)
    except (UnknownModel, NoModel) as error:
        raise Invalid(str(error)) from error


def _used(instance: Instance, live: Live) -> Model | None:
    """The model that a session used last; None: none yet, or one that is gone."""
    used = live.session.model
    try:
        return None if used is None else instance.models.find(f"{used.provider_id}/{used.id}")
    except UnknownModel:
        return None


async def complete(instance: Instance, request: Request, meter: Meter) -> tuple[str, Tokens]:
    """Make one call, book it, and return its whole text and its tokens.

    Raises `ProviderError`, also when `instar stop` ends the call: no turn is there to be ended with it.
    """
    mark = instance.halt.mark()
    call = asyncio.create_task(_complete(instance, request, meter))
    try:
        while not (await asyncio.wait([call], timeout=_LOOK))[0]:
            if instance.halt.mark() != mark:
                raise ProviderError("instar stop ended the call", retryable=False)
        return call.result()
    finally:
        if not call.done():
            call.cancel()
            await asyncio.wait([call])


async def _complete(instance: Instance, request: Request, meter: Meter) -> tuple[str, Tokens]:
    pieces, tokens = [], Tokens.zero()
    await meter.begin()
    try:
        async for delta in instance.models.provider(request.model).stream(request):
            if isinstance(delta, TextDelta):
                pieces.append(delta.text)
            elif isinstance(delta, Finish | Told):
                tokens = delta.tokens
                meter.told(tokens)
    except ProviderError as error:
        meter.failed(error)
        raise
    await meter.done(tokens)
    return "".join(pieces), tokens


async def call_for(
    instance: Instance, model: ModelRef | None, cause: str, session_id: str, origin: Origin | None
) -> Call:
    """Return a call of a model, or of the small one, for a session or for none. Raises what finding them raises."""
    live = await instance.sessions.open(session_id) if session_id else None
    found = await model_for(instance, model, live)
    return Call(found, cause, origin or (Origin() if live is None else live.origin), live, cause)


async def single(instance: Instance, call: Call, system: Sequence[str], text: str) -> Answer:
    """Make one call with a system prompt and a text, and book it. Raises `ProviderError`."""
    user = User(
        id=ids.new("msg"),
        session_id=ids.new("ses"),
        time=Created(created=now()),
        agent=call.cause,
        model=ModelRef(provider_id=call.model.provider_id, model_id=call.model.id),
    )
    part = TextPart(id=ids.new("prt"), session_id=user.session_id, message_id=user.id, text=text)
    request = Request(
        model=call.model,
        system=list(system),
        messages=[WithParts(info=user, parts=[part])],
        session_id=user.session_id,
        agent=call.cause,
        purpose="generate",
    )
    async with metered(instance, call) as meter:
        if isinstance(meter, Reached):
            raise Forbidden(meter)
        answer, tokens = await complete(instance, request, meter)
        name = f"{call.model.provider_id}/{call.model.id}"
        return Answer(answer, cost(tokens, call.model.cost), total(tokens), name)
