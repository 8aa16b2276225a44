"""The loop of a turn: step after step until the answer is final and nothing is queued.

Everything special is elsewhere: a hook point, a plugin, or a neighbour's work.
"""

from instar import compaction, follow_up, step, subtask
from instar.context import Turn
from instar.instance import Instance
from instar.message import Assistant, User, WithParts
from instar.session import Live


async def run(instance: Instance, live: Live) -> None:
    """Answer what stands unanswered in the session, then what is queued, until nothing is left.

    Raises `asyncio.CancelledError` when the turn is aborted.
    """
    number = 0
    while (asked := last_user(live.history)) is not None:
        answer = final_answer(live.history, asked)
        if answer is not None:
            if not await follow_up.take(instance, live, answer):
                return
            continue
        number += 1
        turn = await turn_for(instance, live, asked, number)
        if compaction.is_asked(live.history, asked):
            outcome = await compaction.run(instance, turn)
        elif compaction.is_due(instance, live, turn.model):
            await compaction.ask(instance, live, asked, auto=True)
            continue
        elif tasks := subtask.waiting(live.history, asked):
            outcome = await subtask.run(instance, turn, tasks)
        else:
            outcome = await step.run(instance, turn)
        if outcome == "overflow":
            await compaction.ask(instance, live, asked, auto=True, overflow=True)
        elif outcome in ("stopped", "failed"):
            return


async def turn_for(instance: Instance, live: Live, asked: User, number: int) -> Turn:
    """Return the turn that answers a message with the agent and model that it names."""
    agent = instance.agents.get(asked.agent)
    model = instance.models.find(f"{asked.model.provider_id}/{asked.model.model_id}")
    return Turn(live, agent, model, asked, number)


def last_user(history: list[WithParts]) -> User | None:
    """Return the last message of a person, or of the runtime in a person's place."""
    return next((m.info for m in reversed(history) if isinstance(m.info, User)), None)


def final_answer(history: list[WithParts], asked: User) -> WithParts | None:
    """Return the answer that settles `asked`: it failed, or it is whole and not waiting for tools."""
    for message in reversed(history):
        info = message.info
        if isinstance(info, Assistant) and info.parent_id == asked.id:
            settled = info.error is not None or (info.time.completed and info.finish != "tool-calls")
            return message if settled else None
        if info.id == asked.id:
            break
    return None
