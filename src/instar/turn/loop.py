"""The loop of a turn: step after step until the answer is final and nothing is queued.

Everything special is elsewhere: a hook point, a plugin, or a neighbour's work.
"""

from instar.event import Busy
from instar.message import PERSON, Assistant, User, WithParts
from instar.session.instance import Instance
from instar.session.state import SessionState
from instar.turn import compaction, prompt, step, structured, summary
from instar.turn.context import Turn, answering


async def run(instance: Instance, live: SessionState) -> None:
    """Answer the session's open prompts, then the queued ones, until none is left.

    Raises `asyncio.CancelledError` when the turn is aborted.
    """
    number = 0
    while (asked := last_user(live.history)) is not None:
        instance.sessions.set_status(live, Busy())
        answer = final_answer(live.history, asked)
        if answer is not None:
            source = await prompt.take_follow_up(instance, live, answer)
            if source is None:
                return
            # What a person asks anew has all steps of a turn; what goes on by itself has those that are left.
            number = 0 if source == PERSON else number
            continue
        if live.leaves:
            live.broken = True
            return
        number += 1
        turn = await turn_for(instance, live, asked, number)
        if compaction.is_asked(live.history, asked):
            outcome = await summary.run(instance, turn)
        elif compaction.is_due(instance, live, turn.model):
            await compaction.ask(instance, live, asked, auto=True)
            continue
        elif tasks := step.waiting_subtasks(live.history, asked):
            outcome = await step.run_subtasks(instance, turn, tasks)
        elif lost := step.lost_calls(instance, turn):
            outcome = await step.run_again(instance, turn, *lost)
        else:
            outcome = await step.run(instance, turn)
        if not await _goes_on(instance, turn, outcome):
            return


async def _goes_on(instance: Instance, turn: Turn, outcome: step.Outcome) -> bool:
    """Whether another step follows; a history that is too long is summarised first."""
    if outcome == "overflow":
        return await _made_room(instance, turn)
    if outcome == "failed" and turn.model.ref == turn.live.overrides.model:
        # What the agent chose cannot be called: a person's next prompt must not fail for it too.
        turn.live.overrides.set_model(None, None)
    if outcome == "final" and await compaction.is_due_at_end(instance, turn):
        await compaction.ask(instance, turn.live, turn.user, auto=True)
    return outcome not in ("stopped", "failed")


async def _made_room(instance: Instance, turn: Turn) -> bool:
    """Ask for a summary after a request that was too long; publish the failure if a summary cannot help."""
    if await compaction.ask(instance, turn.live, turn.user, auto=True, overflow=True):
        return True
    failed = turn.live.history[-1].info
    if isinstance(failed, Assistant) and failed.error is not None:
        instance.sessions.fail(turn.live, failed.error)
    return False


async def turn_for(instance: Instance, live: SessionState, asked: User, number: int) -> Turn:
    """Return the turn that answers a message with the agent and model that it names."""
    agent = instance.agents.get(asked.agent)
    return Turn(live, agent, answering(instance, live, asked), asked, number)


def last_user(history: list[WithParts]) -> User | None:
    """Return the last user message: the prompt, where hooks told the session something beside it."""
    found: WithParts | None = None
    for message in reversed(history):
        if not isinstance(message.info, User):
            if found is not None:
                break
        elif found is None or prompt.is_context(found):
            found = message
    return found.info if found is not None and isinstance(found.info, User) else None


def final_answer(history: list[WithParts], asked: User) -> WithParts | None:
    """Return the final answer to `asked`: one that failed, or that is complete and waits for no tool or data."""
    for message in reversed(history):
        info = message.info
        if isinstance(info, Assistant) and info.parent_id == asked.id:
            whole = (
                info.time.completed and info.finish != "tool-calls" and not structured.is_missing(asked, info)
            )
            settled = info.error is not None or whole
            return message if settled else None
        if info.id == asked.id:
            break
    return None
