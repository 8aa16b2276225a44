"""Model calls: limits are asked before each one, and each is booked with its cause, also a failed one.

`single` makes a call without a session's turn (the client's `generate`), `give_title` the one that names a session,
beside its first turn.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from instar.definitions.agent import sampling_temperature, shipped_prompt
from instar.event import LimitReached, make
from instar.limits.budget import (
    CallOwner,
    CallPermit,
    CallRequest,
    CallSituation,
    ReachedLimit,
    bounds,
    cost,
    is_priced,
    most,
    total,
)
from instar.message import (
    APIError,
    APIErrorData,
    AuthData,
    ContentFilterError,
    ContextOverflowError,
    Created,
    ErrorText,
    MessageError,
    ModelRef,
    Origin,
    OverflowData,
    ProviderAuthError,
    TextPart,
    Tokens,
    UnknownData,
    UnknownError,
    User,
    WithParts,
    text_of,
)
from instar.plugin import Answer, Invalid, points
from instar.provider.protocol import (
    Finish,
    Model,
    ModelRequest,
    ProviderError,
    TextDelta,
    UsageUpdate,
    bounded_answer,
    describe,
)
from instar.provider.resolve import NoModel, UnknownModel
from instar.session.instance import Instance
from instar.session.sessions import default_title, place_in
from instar.session.state import SessionState, now
from instar.store import StoreError, Usage
from instar.turn.context import Turn, finish_request
from instar.wire import ids

log = logging.getLogger("instar.provider")
_title_log = logging.getLogger("instar.title")
STOPPED: Final = "The turn was stopped: "
"""How what is said begins where a limit or an order ended a turn: in the event, and in the error of its answer."""
_LOOK: Final = 0.2
"""Seconds between two looks at whether a call was stopped."""
LONGEST_TITLE = 100
"""Characters of a title."""
_TITLE_TOKENS = 200
_TITLE_SAMPLE = 2_000


class ModelCall(msgspec.Struct, frozen=True):
    """A model call before it is made: its agent, session, message and cause.

    `cause` is its purpose (``turn``, ``task``, ``title``, ``compaction``, a plugin's word …). `step` counts the
    turn's calls from 1; `steps` is the agent's own ceiling on them.
    """

    model: Model
    cause: str
    origin: Origin = Origin()
    live: SessionState | None = None
    agent: str = ""
    turn_id: str = ""
    step: int = 1
    steps: int | None = None


class LimitForbids(ProviderError):
    """A limit forbids a call: it was not made."""

    def __init__(self, reached: ReachedLimit) -> None:
        super().__init__(f"{reached.message}. {reached.advice}".rstrip())
        self.reached = reached


class CallMeter:
    """One model call, from its beginning to its booking; after `close` it may `begin` once more."""

    def __init__(self, instance: Instance, call: ModelCall) -> None:
        self._instance = instance
        self._call = call
        self._permit: CallPermit | None = None
        self._made: points.ModelCallInput | None = None

    async def begin(self, message_id: str | None = None) -> None:
        """Begin the call; its answer is the message, if there is one. Raises `LimitForbids`.

        Waits while running calls might reach a limit together with it.
        """
        await self.close()
        asked = await _asked(self._instance, self._call)
        given = asked if isinstance(asked, ReachedLimit) else await self._instance.budget.ask(asked)
        if isinstance(given, ReachedLimit):
            raise LimitForbids(given)
        self._permit = given
        if self._instance.plugins.listens(points.MODEL_CALL_AFTER):
            self._made = _begun(self._call, message_id)

    def used(self, tokens: Tokens, message_id: str | None = None) -> None:
        """Note the usage that the provider reported, and the answer's message, if there is one."""
        price = cost(tokens, self._call.model.cost)
        if self._permit is not None:
            self._permit.used(tokens, price, message_id, now())
        if (made := self._made) is not None:
            made.tokens, made.cost = tokens, price

    def ended(self, error: Exception | None) -> None:
        """Note that the call is over, and the error with which it failed."""
        if self._made is not None:
            self._made.ended, self._made.error = now(), _kind(error)

    def failed(self, error: Exception) -> None:
        """Note that the call failed after its retries."""
        self.ended(error)
        if self._permit is not None and isinstance(error, ProviderError):
            self._permit.failed(error)

    async def done(self, tokens: Tokens, message_id: str | None = None) -> None:
        """Book the usage of an answered call. Waits until that is durable."""
        self.used(tokens, message_id)
        self.ended(None)
        if self._permit is not None:
            self._permit.answered()
        await self.close()

    async def close(self) -> None:
        """Book the known usage of a call that ended in another way. Does nothing after `done`."""
        if self._permit is not None:
            await self._permit.close()
        made, self._made = self._made, None
        if made is not None:
            made.ended = made.ended or now()
            await self._instance.plugins.trigger(points.MODEL_CALL_AFTER, made, points.Empty())


def _begun(call: ModelCall, message_id: str | None) -> points.ModelCallInput:
    """What plugins are told of a call. One that neither answers nor fails was aborted."""
    return points.ModelCallInput(
        session_id="" if call.live is None else call.live.id,
        asked_id=call.turn_id,
        message_id=message_id,
        agent=call.agent,
        model=ModelRef(provider_id=call.model.provider_id, model_id=call.model.id),
        cause=call.cause,
        origin=call.origin,
        started=now(),
        ended=0,
        tokens=Tokens.zero(),
        cost=None,
        error="aborted",
    )


def _kind(error: Exception | None) -> str:
    if isinstance(error, ProviderError):
        return error.kind if error.status is None else str(error.status)
    return "" if error is None else type(error).__name__


@asynccontextmanager
async def metered(instance: Instance, call: ModelCall) -> AsyncIterator[CallMeter | ReachedLimit]:
    """Ask whether a call may be made; what it used is booked however it ends.

    Gives the limit that forbids the call instead.
    """
    reached = await forbidden(instance, call)
    # Last: who is let through after a pause is the one that tries, and the others wait for it.
    reached = reached or instance.budget.paused(
        instance.limits, call.model.provider_id, call.cause, call.origin
    )
    if reached is not None:
        yield reached
        return
    meter = CallMeter(instance, call)
    try:
        yield meter
    finally:
        await meter.close()


async def forbidden(instance: Instance, call: ModelCall) -> ReachedLimit | None:
    """Return the limit that forbids a call now, or None."""
    asked = await _asked(instance, call)
    return asked if isinstance(asked, ReachedLimit) else await instance.budget.reached(asked)


async def _asked(instance: Instance, call: ModelCall) -> CallRequest | ReachedLimit:
    if (why := instance.stops.why("" if call.live is None else call.live.id)) is not None:
        return ReachedLimit("stop", call.cause, why, "Send another message to go on.")
    if (why := await instance.refusal(call.live, call.origin)) is not None:
        return ReachedLimit("session", call.cause, why, "")
    root = "" if call.live is None else await instance.sessions.root_of(call.live)
    whose = CallOwner(call.cause, call.origin, root)
    limits = instance.limits if call.live is None else call.live.overrides.limits(instance.limits)
    limits = msgspec.structs.replace(limits, steps=min(limits.steps, call.steps or limits.steps))
    window = 0 if call.live is None else call.live.overrides.window or 0
    return CallRequest(
        limits=limits,
        situation=CallSituation(
            step=call.step,
            bounds=bounds(limits, whose, now()),
            cause=call.cause,
            priced=is_priced(call.model.cost),
        ),
        whose=whose,
        usage=_usage(call, root),
        most=most(call.model, max(window, instance.config.context_window_tokens)),
    )


def announce(instance: Instance, session_id: str, reached: ReachedLimit) -> None:
    """Publish that a limit was reached: which, how much was used, and what to do."""
    text = f"{STOPPED}{reached.message}. {reached.advice}".rstrip()
    instance.bus.publish(
        make(LimitReached(session_id=session_id, limit=reached.limit, cause=reached.cause, message=text))
    )


def _usage(call: ModelCall, root: str) -> Usage:
    origin = call.origin
    return Usage(
        session_id="" if call.live is None else call.live.id,
        message_id=None,
        cause=call.cause,
        provider_id=call.model.provider_id,
        model_id=call.model.id,
        tokens=Tokens.zero(),
        cost=None,
        created=now(),
        origin=origin.name,
        origin_id=origin.id,
        source=origin.source,
        agent=call.agent,
        turn_id=call.turn_id,
        root_id=root,
    )


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


async def model_for(instance: Instance, asked: ModelRef | None, live: SessionState | None) -> Model:
    """Return the model that was asked for beside a session, or the small one of the provider that it uses.

    Raises `Invalid`: there is no such model, or none at all.
    """
    beside = None if live is None else _used(instance, live)
    try:
        if asked is None:
            return await small_model(instance, beside)
        return instance.models.find_named(f"{asked.provider_id}/{asked.model_id}", beside)
    except (UnknownModel, NoModel) as error:
        raise Invalid(str(error)) from error


def _used(instance: Instance, live: SessionState) -> Model | None:
    """Return the model that a session used last; None without one, or if it no longer exists."""
    used = live.session.model
    try:
        return None if used is None else instance.models.find(f"{used.provider_id}/{used.id}")
    except UnknownModel:
        return None


async def complete(instance: Instance, request: ModelRequest, meter: CallMeter) -> tuple[str, Tokens]:
    """Make one call, book it, and return its whole text and its tokens.

    Raises `ProviderError`, also when `instar stop` ends the call: no turn is there to be ended with it.
    """
    last = instance.stops.last_id()
    call = asyncio.create_task(_complete(instance, request, meter))
    try:
        while not (await asyncio.wait([call], timeout=_LOOK))[0]:
            if instance.stops.last_id() != last:
                raise ProviderError("instar stop ended the call", retryable=False)
        return call.result()
    finally:
        if not call.done():
            call.cancel()
            await asyncio.wait([call])


async def _complete(instance: Instance, request: ModelRequest, meter: CallMeter) -> tuple[str, Tokens]:
    pieces, tokens = [], Tokens.zero()
    await meter.begin()
    try:
        async for delta in bounded_answer(instance.models.provider(request.model), request):
            if isinstance(delta, TextDelta):
                pieces.append(delta.text)
            elif isinstance(delta, Finish | UsageUpdate):
                tokens = delta.tokens
                meter.used(tokens)
    except ProviderError as error:
        meter.failed(error)
        raise
    await meter.done(tokens)
    return "".join(pieces), tokens


async def call_for(
    instance: Instance, model: ModelRef | None, cause: str, session_id: str, origin: Origin | None
) -> ModelCall:
    """Return a call of a model, or of the small one, with or without a session. Raises as finding them does."""
    live = await instance.sessions.open(session_id) if session_id else None
    found = await model_for(instance, model, live)
    return ModelCall(found, cause, origin or (Origin() if live is None else live.origin), live, cause)


async def single(instance: Instance, call: ModelCall, system: Sequence[str], text: str) -> Answer:
    """Make one call with a system prompt and a text, and book it. Raises `ProviderError`."""
    user = User(
        id=ids.new("msg"),
        session_id=ids.new("ses"),
        time=Created(created=now()),
        agent=call.cause,
        model=ModelRef(provider_id=call.model.provider_id, model_id=call.model.id),
    )
    part = TextPart(text=text, **place_in(user))
    request = ModelRequest(
        model=call.model,
        system=list(system),
        messages=[WithParts(info=user, parts=[part])],
        session_id=user.session_id,
        agent=call.cause,
        purpose="generate",
    )
    async with metered(instance, call) as meter:
        if isinstance(meter, ReachedLimit):
            raise LimitForbids(meter)
        answer, tokens = await complete(instance, request, meter)
        name = f"{call.model.provider_id}/{call.model.id}"
        return Answer(answer, cost(tokens, call.model.cost), total(tokens), name)


def message_error(error: Exception, provider_id: str) -> MessageError:
    """Return the message error for an exception of a step; the text never holds a traceback."""
    if not isinstance(error, ProviderError):
        text = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
        return UnknownError(data=UnknownData(message=text))
    text = str(error)
    if error.kind == "auth":
        return ProviderAuthError(data=AuthData(provider_id=provider_id, message=text))
    if error.kind == "overflow":
        return ContextOverflowError(data=OverflowData(message=text, response_body=error.body))
    if error.kind == "filter":
        return ContentFilterError(data=ErrorText(message=text))
    return APIError(
        data=APIErrorData(
            message=text,
            status_code=error.status,
            is_retryable=error.retryable,
            response_headers=error.headers,
            response_body=error.body,
            metadata={"url": error.url} if error.url else None,
        )
    )


def wants_title(live: SessionState) -> bool:
    """Whether the session still has its default title and exactly one message of a person."""
    if live.session.parent_id is not None or not is_untitled(live):
        return False
    return sum(1 for message in live.history if isinstance(message.info, User)) == 1


async def give_title(instance: Instance, live: SessionState, asked: WithParts) -> None:
    """Ask a small model for a title and save it. Where that fails, the title is the beginning of what was asked."""
    assert isinstance(asked.info, User)
    agent, main = instance.agents.get("title"), instance.models.find(_model_name(asked.info.model))
    model = (
        instance.models.find(_model_name(agent.model)) if agent.model else await small_model(instance, main)
    )
    turn = Turn(live, agent, model, asked.info)
    call = ModelCall(model, "title", live.origin_of(asked.info.id), live, agent.name, asked.info.id)
    try:
        async with metered(instance, call) as meter:
            if isinstance(meter, ReachedLimit):
                return
            request = await _title_request(instance, turn, asked)
            text, _ = await complete(instance, request, meter)
    except ProviderError as error:
        _title_log.info("no title session=%s error=%s", live.id, error)
        text = next(
            (part.text for part in asked.parts if isinstance(part, TextPart) and not part.synthetic), ""
        )
    title = clean_title(text)
    if title and is_untitled(live):
        live.session.title = title
        await instance.sessions.update(live)


def is_untitled(live: SessionState) -> bool:
    """Whether the session still has its default title."""
    return live.session.title == default_title(live.session.time.created)


def clean_title(text: str) -> str:
    """Return the first line of an answer with text, without reasoning and quotes, cut to the longest title."""
    # Behind the last end nothing is thinking; a search there for each beginning would take for ever.
    end = text.rfind("</think>") + len("</think>") if "</think>" in text else 0
    text = re.sub(r"<think>.*?</think>", "", text[:end], flags=re.DOTALL) + text[end:]
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = line.strip("\"'` ")
    return line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1] + "…"


def _model_name(ref: ModelRef) -> str:
    return f"{ref.provider_id}/{ref.model_id}"


def _title_subject(asked: WithParts) -> str:
    """Return what a person wrote, without synthetic texts; the synthetic texts if there is nothing else."""
    own = [part for part in asked.parts if not (isinstance(part, TextPart) and part.synthetic)]
    return text_of(WithParts(info=asked.info, parts=own)) or text_of(asked)


async def _title_request(instance: Instance, turn: Turn, asked: WithParts) -> ModelRequest:
    system = points.SystemOutput(system=[turn.agent.prompt or shipped_prompt("title")])
    if instance.plugins.listens(points.SYSTEM):
        given = points.SystemInput(session_id=turn.live.id, model=describe(turn.model), purpose="title")
        await instance.plugins.trigger(points.SYSTEM, given, system)
    text = _title_subject(asked)[:_TITLE_SAMPLE]
    part = TextPart(text=text, **place_in(asked.info))
    request = ModelRequest(
        model=turn.model,
        system=system.system,
        messages=[WithParts(info=asked.info, parts=[part])],
        temperature=sampling_temperature(turn.agent, turn.model.id) if turn.model.temperature else None,
        max_output_tokens=_TITLE_TOKENS if not turn.model.reasoning else None,
        session_id=turn.live.id,
        agent=turn.agent.name,
        purpose="title",
    )
    return await finish_request(instance, request, turn.user)
