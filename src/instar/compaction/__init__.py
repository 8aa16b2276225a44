"""Compaction: a long history becomes a summary that the session goes on from.

A user message with a `compaction` part asks for it; the answer to that message is the summary (the
reference's section 3.6). `message.visible` then hides what was summarised; the history keeps it.
"""

from typing import Final

from instar import ids
from instar.compaction.prune import prune
from instar.compaction.summary import CONTINUE, can_help, run
from instar.compaction.tail import conversation, tail_start, waiting
from instar.compaction.transcript import LONGEST_RESULT, transcript
from instar.compaction.window import is_full, kept_budget, narrowed, usable
from instar.context import Turn, answering
from instar.instance import Instance
from instar.live import Live
from instar.message import (
    Assistant,
    CompactionPart,
    Created,
    Origin,
    User,
    WithParts,
    mark_of,
    visible,
)
from instar.provider.protocol import Model
from instar.step import asked_limit

__all__ = [
    "CONTINUE",
    "LONGEST_RESULT",
    "ask",
    "is_asked",
    "is_due",
    "is_due_at_end",
    "last_answer",
    "room",
    "run",
    "transcript",
    "usable",
]

_OFF: Final = "OPENCODE_DISABLE_AUTOCOMPACT"


def is_due(instance: Instance, live: Live, model: Model) -> bool:
    """Whether the session came so near the model's window that the next request may not fit."""
    return not _is_off(instance) and is_full(live.history, room(instance, live, model))


async def is_due_at_end(instance: Instance, turn: Turn) -> bool:
    """Whether a session is to be summarised right after a final answer, and told to go on.

    Not after an answer that somebody waits for as it is (a sub-agent's report, or a structured one), nor when a
    limit forbids it: nothing waits for room yet.
    """
    live = turn.live
    if live.session.parent_id is not None or turn.user.format is not None:
        return False
    last = live.history[-1].info
    if not isinstance(last, Assistant) or last.error or not is_due(instance, live, turn.model):
        return False
    return await asked_limit(instance, turn, "compaction") is None


def is_asked(history: list[WithParts], asked: User) -> bool:
    """Whether the message `asked` asks for a summary."""
    holder = next((message for message in reversed(history) if message.info.id == asked.id), None)
    return holder is not None and mark_of(holder) is not None


def last_answer(history: list[WithParts], asked: str) -> WithParts:
    """Return what the turn for the message `asked` came to: the last answer to it, and not a summary made after that.

    Whoever said something to the session since is not answered by it. Where nothing was answered before a summary, or
    an attempt at one, ended the turn, it is the last message that is the model's, else the history's end.
    """
    at = next((index for index, one in enumerate(history) if one.info.id == asked), -1)
    found = [one for one in history[at + 1 :] if isinstance(one.info, Assistant)]
    answers = [one for one in found if isinstance(one.info, Assistant) and not one.info.summary]
    return (answers or found or history)[-1]


async def ask(
    instance: Instance,
    live: Live,
    asked: User,
    *,
    auto: bool,
    overflow: bool | None = None,
    origin: Origin | None = None,
) -> bool:
    """See that the session gets room: save the message that asks for a summary, of `origin` or that of `asked`.

    Returns False when nothing more can be done against an overflow. An automatic summary may not be needed once
    old tool outputs are cleared (``compaction.prune``); none is asked for then.
    """
    config = instance.config.compaction
    free = room(instance, live, answering(instance, live, asked))
    if overflow and (_is_off(instance) or not can_help(live.history, asked)):
        return False
    if auto and not overflow and config.prune:
        await prune(instance, live, free)
        if not is_full(live.history, free):
            return True
    if mark_of(live.history[-1]) is not None:
        # Somebody asked at the same time: one summary is enough.
        return True
    start = None
    if not overflow:
        held = waiting(live.history, asked) if auto else []
        talk = conversation(visible(live.history))
        start = tail_start(talk, config.tail_turns, kept_budget(free, config), held)
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
        tail_start_id=start,
    )
    more = live.attribute(user.id, origin or live.origin_of(asked.id))
    await instance.sessions.save_message(live, user, [part], more)
    return True


def room(instance: Instance, live: Live, model: Model) -> int:
    """Return the tokens that a session's conversation may fill before it is summarised."""
    config = instance.config
    return usable(
        narrowed(model, live.tuning.window), config.context_window_tokens, config.compaction.reserved
    )


def _is_off(instance: Instance) -> bool:
    value = instance.environment.get(_OFF, "").lower()
    return not instance.config.compaction.auto or value in ("1", "true")
