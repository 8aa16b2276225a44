"""Compaction: a long history becomes a summary that the session goes on from.

A user message with a `compaction` part asks for it; the answer to that message is the summary (the
reference's section 3.6). `message.visible` then hides what was summarised.
"""

import asyncio
import json

from instar import ids, step, wire
from instar.account import book
from instar.agent import shipped_prompt
from instar.context import Turn, describe, finish_request
from instar.event import SessionCompacted, make
from instar.instance import Instance
from instar.message import (
    Assistant,
    CompactionPart,
    Created,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPart,
    User,
    WithParts,
    text_of,
    visible,
)
from instar.plugin import PromptBody, points
from instar.provider.protocol import Model, Request
from instar.session import Live
from instar.stream import Writer

CONTINUE = (
    "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed."
)
LONGEST_RESULT = 2_000
"""Characters of one tool result in the text that is summarised."""


def is_due(instance: Instance, live: Live, model: Model) -> bool:
    """Whether the last answer came so near the model's window that the next request may not fit."""
    if (instance.config.compaction or {}).get("auto") is False:
        return False
    last = next(
        (m.info for m in reversed(live.history) if isinstance(m.info, Assistant) and m.info.finish), None
    )
    if last is None or last.summary:
        return False
    tokens = last.tokens
    used = tokens.total or tokens.input + tokens.output + tokens.cache.read + tokens.cache.write
    return used >= usable(model, instance.config.context_window_tokens)


def usable(model: Model, unknown_window: int) -> int:
    """Return the tokens that a conversation may fill: the window less room for the answer."""
    if model.limit.input:
        return model.limit.input - min(20_000, model.limit.output or 20_000)
    window = model.limit.context or unknown_window
    return window - min(model.limit.output or 8_192, 32_000, window // 2)


def is_asked(history: list[WithParts], asked: User) -> bool:
    """Whether the message `asked` asks for a summary."""
    holder = next((message for message in reversed(history) if message.info.id == asked.id), None)
    return holder is not None and any(isinstance(part, CompactionPart) for part in holder.parts)


async def ask(
    instance: Instance, live: Live, asked: User, *, auto: bool, overflow: bool | None = None
) -> None:
    """Save the message that asks for a summary; an automatic one keeps a prompt that nobody answered yet.

    A prompt that some steps have worked on is not kept: its tool results are what does not fit, and they
    are summarised with it.
    """
    waiting = not any(
        isinstance(m.info, Assistant) and m.info.parent_id == asked.id and m.info.error is None
        for m in live.history
    )
    user = User(
        id=ids.new("msg"),
        session_id=live.id,
        time=Created(created=live.next_time()),
        agent=asked.agent,
        model=asked.model,
    )
    part = CompactionPart(
        id=ids.new("prt"),
        session_id=live.id,
        message_id=user.id,
        auto=auto,
        overflow=overflow,
        tail_start_id=asked.id if auto and waiting else None,
    )
    await instance.sessions.save_message(live, user, [part])


async def run(instance: Instance, turn: Turn) -> step.Outcome:
    """Answer a message that asks for a summary, publish ``session.compacted``, and queue going on."""
    holder_of_ask = turn.live.find(turn.user.id)
    assert holder_of_ask is not None
    mark = next(part for part in holder_of_ask.parts if isinstance(part, CompactionPart))
    before = turn.live.history[: turn.live.history.index(holder_of_ask)]
    earlier = [message for message in visible(before) if message.info.id != mark.tail_start_id]
    if (reached := await step.asked_limit(instance, turn, "compaction")) is not None:
        return step.limited(instance, turn, reached)
    turn.agent = instance.agents.get("compaction")
    if (own := turn.agent.model) is not None:
        turn.model = instance.models.find(f"{own.provider_id}/{own.model_id}")
    holder = await step.begin(instance, turn, summary=True)
    writer = Writer(instance, turn.live, holder)
    try:
        request = await _request(instance, turn, holder_of_ask, earlier)
        await step.stream(instance, turn, request, writer)
        finish = step.finished(writer)
        here = {"session_id": turn.live.id, "message_id": holder.info.id}
        await book(instance, turn.model, finish.tokens, "compaction", **here)
        await step.end(instance, turn, holder, finish)
    except asyncio.CancelledError:
        await step.aborted(instance, turn, holder, writer)
        raise
    except Exception as error:
        await step.failed(instance, turn, holder, writer, error)
        return "failed"
    instance.bus.publish(make(SessionCompacted(session_id=turn.live.id)))
    if mark.auto:
        await _go_on(instance, turn)
    return "final"


def transcript(messages: list[WithParts]) -> str:
    """Return messages as the text that is summarised."""
    return "\n\n".join(line for message in messages for line in _lines(message))


async def _request(instance: Instance, turn: Turn, asked: WithParts, earlier: list[WithParts]) -> Request:
    given = points.CompactingInput(session_id=turn.live.id)
    hooked = await instance.plugins.trigger(points.COMPACTING, given, points.CompactingOutput(context=[]))
    system_in = points.SystemInput(session_id=turn.live.id, model=describe(turn.model), purpose="compaction")
    system = points.SystemOutput(system=[turn.agent.prompt or shipped_prompt("compaction")])
    system = await instance.plugins.trigger(points.SYSTEM, system_in, system)
    conversation = transcript(earlier)
    if hooked.prompt is not None:
        text = f"{hooked.prompt}\n\nThe following is the conversation history:\n\n{conversation}"
    else:
        text = f"Here is the conversation so far:\n\n<conversation>\n{conversation}\n</conversation>\n\nSummarise it."
    text = "\n\n".join([text, *hooked.context])
    part = TextPart(id=ids.new("prt"), session_id=turn.live.id, message_id=asked.info.id, text=text)
    request = Request(
        model=turn.model,
        system=system.system,
        messages=[WithParts(info=asked.info, parts=[part])],
        session_id=turn.live.id,
        agent=turn.agent.name,
        purpose="compaction",
    )
    return await finish_request(instance, request, turn.user)


async def _go_on(instance: Instance, turn: Turn) -> None:
    body = PromptBody.text(CONTINUE, synthetic=True, agent=turn.user.agent, model=turn.user.model)
    body.parts[0]["metadata"] = {"compaction_continue": True}
    await instance.sessions.queue(turn.live.id, "compaction", wire.to_plain(body))


def _lines(message: WithParts) -> list[str]:
    if isinstance(message.info, User):
        text = text_of(message)
        return [f"[User]: {text}"] if text else []
    lines = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.text:
            lines.append(f"[Assistant]: {part.text}")
        elif isinstance(part, ToolPart):
            lines.append(
                f"[Assistant tool call]: {part.tool}({json.dumps(part.state.input, ensure_ascii=False)})"
            )
            lines.append(f"[Tool result]: {_result(part)[:LONGEST_RESULT]}")
    return lines


def _result(part: ToolPart) -> str:
    if isinstance(part.state, ToolCompleted):
        return part.state.output
    return part.state.error if isinstance(part.state, ToolError) else "(it did not finish)"
