"""Accounting: limits are asked before every model call, and each call is booked with its cause, also a failed one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from instar.budget import Asked, Permit
from instar.event import LimitReached, make
from instar.instance import Instance
from instar.live import Live
from instar.message import Origin, Tokens
from instar.provider.protocol import Model, ProviderError
from instar.session import now
from instar.standing import refusal
from instar.store import Usage
from instar.usage import Limits, Reached, Situation, Whose, bounds, cost, is_priced, most


class Call(msgspec.Struct, frozen=True):
    """A model call that is about to be made: by whom, for which message of which session, and why.

    `cause` is its purpose (``turn``, ``task``, ``title``, ``compaction``, a plugin's word …). `step` counts the
    turn's calls from 1; `steps` is the agent's own ceiling on them.
    """

    model: Model
    cause: str
    origin: Origin = Origin()
    live: Live | None = None
    agent: str = ""
    turn_id: str = ""
    step: int = 1
    steps: int | None = None


class Forbidden(ProviderError):
    """A limit forbids a call: it was not made."""

    def __init__(self, reached: Reached) -> None:
        super().__init__(f"{reached.message}. {reached.advice}".rstrip())
        self.reached = reached


class Meter:
    """One model call, from its beginning to its booking; after `close` it may `begin` once more."""

    def __init__(self, instance: Instance, call: Call) -> None:
        self._instance = instance
        self._call = call
        self._permit: Permit | None = None

    async def begin(self) -> None:
        """The call is made now. Waits while calls under way might reach a limit together. Raises `Forbidden`."""
        await self.close()
        asked = await _ask(self._instance, self._call)
        if isinstance(asked, Reached):
            raise Forbidden(asked)
        self._permit = asked

    def told(self, tokens: Tokens, message_id: str | None = None) -> None:
        """The provider said what the call used, so far or in all; the answer's message, where there is one."""
        if self._permit is not None:
            self._permit.told(tokens, cost(tokens, self._call.model.cost), message_id, now())

    def failed(self, error: Exception) -> None:
        """The call failed for good: retries were made before."""
        if self._permit is not None and isinstance(error, ProviderError):
            self._permit.failed(error)

    async def done(self, tokens: Tokens, message_id: str | None = None) -> None:
        """The call was answered: book what it used. Waits until that is durable."""
        self.told(tokens, message_id)
        if self._permit is not None:
            self._permit.answered()
        await self.close()

    async def close(self) -> None:
        """Book what is known of a call that ended in another way. Nothing happens after `done`."""
        if self._permit is not None:
            await self._permit.close()


@asynccontextmanager
async def metered(instance: Instance, call: Call) -> AsyncIterator[Meter | Reached]:
    """Ask whether a call may be made (design section 5); what it used is booked however it ends.

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
    meter = Meter(instance, call)
    try:
        yield meter
    finally:
        await meter.close()


async def forbidden(instance: Instance, call: Call) -> Reached | None:
    """Return the limit that forbids a call as things stand, or None."""
    asked = await _asked(instance, call)
    return asked if isinstance(asked, Reached) else await instance.budget.reached(asked)


async def _ask(instance: Instance, call: Call) -> Permit | Reached:
    asked = await _asked(instance, call)
    return asked if isinstance(asked, Reached) else await instance.budget.ask(asked)


async def _asked(instance: Instance, call: Call) -> Asked | Reached:
    if (why := instance.halt.why("" if call.live is None else call.live.id)) is not None:
        return Reached("stop", call.cause, why, "Send another message to go on.")
    if (why := await refusal(instance, call.live, call.origin)) is not None:
        return Reached("session", call.cause, why, "")
    root = "" if call.live is None else await root_of(instance, call.live)
    whose = Whose(call.cause, call.origin, root)
    limits = _limits(instance, call)
    window = 0 if call.live is None else call.live.tuning.window or 0
    return Asked(
        limits=limits,
        situation=_situation(limits, call, whose),
        whose=whose,
        usage=_usage(call, root),
        most=most(call.model, max(window, instance.config.context_window_tokens)),
    )


def _limits(instance: Instance, call: Call) -> Limits:
    limits = instance.limits if call.live is None else call.live.tuning.limits(instance.limits)
    return msgspec.structs.replace(limits, steps=min(limits.steps, call.steps or limits.steps))


def _situation(limits: Limits, call: Call, whose: Whose) -> Situation:
    return Situation(
        step=call.step,
        bounds=bounds(limits, whose, now()),
        cause=call.cause,
        priced=is_priced(call.model.cost),
    )


async def root_of(instance: Instance, live: Live) -> str:
    """Return the session at the top of a session's tree: what sub-agents use counts for it."""
    if live.root_id is None:
        seen, top = {live.id}, live.session
        while top.parent_id is not None and top.parent_id not in seen:
            parent = await instance.store.session(top.parent_id)
            if parent is None:
                break
            seen.add(parent.id)
            top = parent
        live.root(top.id)
    assert live.root_id is not None
    return live.root_id


STOPPED: Final = "The turn was stopped: "
"""How what is said begins where a limit or an order ended a turn: in the event, and in the error of its answer."""


def announce(instance: Instance, session_id: str, reached: Reached) -> None:
    """Publish that a limit was reached: which, how much was used, and what to do."""
    text = f"{STOPPED}{reached.message}. {reached.advice}".rstrip()
    instance.bus.publish(
        make(LimitReached(session_id=session_id, limit=reached.limit, cause=reached.cause, message=text))
    )


def _usage(call: Call, root: str) -> Usage:
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
