"""Accounting: every model call is booked with its cause, and asked for by the limits before it is made."""

from instar.instance import Instance
from instar.message import Tokens
from instar.provider.protocol import Model
from instar.session import now
from instar.store import PutUsage, Usage
from instar.usage import DAY, Limits, Reached, Situation, check, cost, is_priced, spent


async def limit(
    instance: Instance,
    model: Model,
    cause: str,
    *,
    session_id: str = "",
    step: int = 1,
    steps: int | None = None,
) -> Reached | None:
    """Return the limit that forbids another model call, or None (design section 5).

    `step` counts the turn's calls from 1; `steps` is the agent's own ceiling on them.
    """
    limits = instance.limits
    limits = Limits(min(limits.steps, steps or limits.steps), limits.session, limits.day)
    unlimited = Limits(limits.steps)
    situation = Situation(step=step, cause=cause, priced=is_priced(model.cost))
    if limits != unlimited:
        booked = await instance.store.usage(session_id) if session_id else []
        day = await instance.store.usage(since=now() - DAY)
        situation = Situation(
            step=step, session=spent(booked), day=spent(day), cause=cause, priced=situation.priced
        )
    return check(limits, situation)


async def book(
    instance: Instance,
    model: Model,
    tokens: Tokens,
    cause: str,
    *,
    session_id: str = "",
    message_id: str | None = None,
) -> None:
    """Book one model call's tokens and cost with its cause, durably."""
    usage = Usage(
        session_id=session_id,
        message_id=message_id,
        cause=cause,
        provider_id=model.provider_id,
        model_id=model.id,
        tokens=tokens,
        cost=cost(tokens, model.cost),
        created=now(),
    )
    await instance.store.commit([PutUsage(usage)])
