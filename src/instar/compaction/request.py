"""The model call that writes a summary: its agent, its prompt, and the conversation cut to what fits."""

from typing import Final

import msgspec

from instar import ids
from instar.agent import sampling_temperature, shipped_prompt
from instar.compaction.transcript import inset, transcript
from instar.compaction.window import usable
from instar.context import Turn, finish_request
from instar.instance import Instance
from instar.message import TextPart, WithParts, text_of
from instar.plugin import points
from instar.provider.describe import describe
from instar.provider.protocol import Request

_CHARACTERS: Final = 3
"""Characters of a token when it must fit: code and many languages take more tokens than English prose."""
SHARES: Final = (1.0, 0.5, 0.25)
"""How much of what should have fitted is tried, where the provider says that it did not."""


class Task(msgspec.Struct, frozen=True):
    """What is to be summarised: the messages, the summary of what was before them, and what hooks had to say."""

    messages: list[WithParts]
    prior: str
    system: list[str]
    hooked: points.CompactingOutput


async def gather(instance: Instance, turn: Turn, messages: list[WithParts], prior: WithParts | None) -> Task:
    """Ask the hooks of a compaction, each once. The door gives transforms a copy of the messages."""
    if instance.plugins.listens(points.MESSAGES):
        seen = points.MessagesOutput(messages=messages)
        await instance.plugins.trigger(points.MESSAGES, points.Empty(), seen)
        messages = seen.messages
    given = points.CompactingInput(session_id=turn.live.id)
    hooked = await instance.plugins.trigger(points.COMPACTING, given, points.CompactingOutput(context=[]))
    system_in = points.SystemInput(session_id=turn.live.id, model=describe(turn.model), purpose="compaction")
    system = points.SystemOutput(system=[turn.agent.prompt or shipped_prompt("compaction")])
    system = await instance.plugins.trigger(points.SYSTEM, system_in, system)
    return Task(messages, text_of(prior) if prior else "", [text for text in system.system if text], hooked)


async def request_for(instance: Instance, turn: Turn, task: Task, share: float) -> Request:
    """Return the request for a summary; its conversation takes `share` of what the window has room for."""
    model, agent = turn.model, turn.agent
    part = TextPart(
        id=ids.new("prt"),
        session_id=turn.live.id,
        message_id=turn.user.id,
        text=_text(task, _conversation(instance, turn, task, share)),
    )
    request = Request(
        model=model,
        system=task.system,
        messages=[WithParts(info=turn.user, parts=[part])],
        temperature=sampling_temperature(agent, model.id) if model.temperature else None,
        top_p=agent.top_p,
        max_output_tokens=min(model.limit.output, 32_000) or None,
        options={**model.options, **agent.options},
        session_id=turn.live.id,
        agent=agent.name,
        purpose="compaction",
    )
    return await finish_request(instance, request, turn.user)


def _conversation(instance: Instance, turn: Turn, task: Task, share: float) -> str:
    unknown = turn.live.tuning.window or instance.config.context_window_tokens
    room = usable(turn.model, unknown, instance.config.compaction.reserved)
    longest = max(0, room * _CHARACTERS - len(_text(task, "")) - sum(map(len, task.system)))
    whole = transcript(task.messages)
    if share == 1 and len(whole) <= longest:
        return whole
    return transcript(task.messages, int(min(len(whole), longest) * share))


def _text(task: Task, conversation: str) -> str:
    prior = f"<prior-summary>\n{inset(task.prior)}\n</prior-summary>\n\n" if task.prior else ""
    if task.hooked.prompt is not None:
        told = f"{task.hooked.prompt}\n\nThe following is the conversation history:\n\n{prior}{conversation}"
        return "\n\n".join([told, *task.hooked.context])
    told = f"{prior}Here is the conversation so far:\n\n<conversation>\n{conversation}\n</conversation>"
    again = [shipped_prompt("compaction_again")] if prior else []
    return "\n\n".join([told, shipped_prompt("compaction_request"), *again, *task.hooked.context])
