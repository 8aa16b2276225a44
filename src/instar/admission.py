"""Whether a prompt may come into a session, and what a person's prompt ends: stops, and counts of calls without one."""

from instar.account import announce, root_of
from instar.halt import RESUME, StopsError
from instar.instance import Instance
from instar.live import Live
from instar.message import Origin
from instar.plugin import Invalid
from instar.standing import refusal
from instar.turns import Turns
from instar.usage import Whose


async def admit(instance: Instance, turns: Turns, live: Live, origin: Origin, *, by_person: bool) -> None:
    """See that nothing forbids a turn; a person's own prompt is what ends a stop. Raises `Invalid`.

    `by_person`: it came through a door, where nobody but a person prompts.
    """
    turns.check(live)
    if (refused := await refusal(instance, live, origin)) is not None:
        raise Invalid(refused)
    if not origin.is_person:
        await _within_calls(instance, live, origin)
    why = instance.halt.why(live.id)
    if by_person:
        if why is not None:
            # What was stopped must not take this prompt for its own and go on.
            await turns.abort(live)
        try:
            instance.halt.hear(live.id)
        except StopsError as error:
            raise Invalid(str(error)) from error
    elif why is not None:
        raise Invalid(f"session {live.id} waits until a person prompts it: {why}; {RESUME}")


async def hear(instance: Instance, live: Live, origin: Origin, *, asks: bool) -> None:
    """A prompt of `origin` was saved: what a session did by itself is counted anew once a person spoke in its tree.

    `asks`: an answer is wanted. What nobody asked for counts anew only what it begins itself: what is said into a turn
    that runs must not free a hook that always continues, nor lengthen the turn.
    """
    if origin.is_person or (asks and live.turn is None):
        live.hear()
    if origin.is_person:
        instance.budget.person_spoke(await root_of(instance, live))


async def _within_calls(instance: Instance, live: Live, origin: Origin) -> None:
    """What prompts itself for ever must not go on filling a session when it may call no model any more."""
    whose = Whose(origin=origin, root_id=await root_of(instance, live))
    reached = instance.budget.in_a_row(instance.limits, whose)
    if reached is not None:
        announce(instance, live.id, reached)
        raise Invalid(f"{reached.message}. {reached.advice}")
