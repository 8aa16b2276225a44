"""Forking: a new session that begins with copies of another one's messages."""

import re

import msgspec

from instar import wire
from instar.event import Event, MessageUpdated, PartUpdated, SessionCreated, make
from instar.message import Assistant, Session, SessionTime, Tokens, WithParts, renew
from instar.plugin import NotFound
from instar.session import revert
from instar.session.instance import Instance
from instar.session.sessions import slug
from instar.session.state import SessionState, now
from instar.store import PutMessage, PutPart, PutSession, PutValue, Write
from instar.wire import ids

_FORKED = re.compile(r"(.*) \(fork #(\d{1,9})\)", re.DOTALL)


async def fork(instance: Instance, live: SessionState, message_id: str | None = None) -> Session:
    """Copy a session up to `message_id`, exclusive; without it, all visible messages.

    The copies have new ids in the same order. Files are not copied: both sessions work on the same ones.
    Nothing was paid for a copy: its cost and tokens begin at zero. An answer that is still being written is
    left out. Raises `NotFound` for a message that is not there.
    """
    history = list(revert.visible(live))
    if message_id is not None:
        place = next((i for i, message in enumerate(history) if message.info.id == message_id), None)
        if place is None:
            raise NotFound(f"Message not found: {message_id}")
        history = history[:place]
    made = _session(live.session)
    copies = [message.copy() for message in history if _is_whole(message)]
    known = {live.id: made.id, **{message.info.id: ids.new("msg") for message in copies}}
    for copy in copies:
        renew(copy, known)
    happened: list[Event] = [make(SessionCreated(session_id=made.id, info=wire.copy(made)))]
    # The same system prompt, so that a provider's cache serves the fork what it served the original.
    kept = await instance.store.values("instar", f"system:{live.id}:")
    prompts = [PutValue("instar", key.replace(live.id, made.id), text) for key, text in kept.items()]
    writes: list[Write] = [PutSession(made), *prompts]
    for copy in copies:
        writes += [PutMessage(copy.info), *(PutPart(part) for part in copy.parts)]
        happened.append(make(MessageUpdated(session_id=made.id, info=copy.info)))
        happened += [make(PartUpdated(session_id=made.id, part=part, time=now())) for part in copy.parts]
    await instance.store.commit(writes, happened)
    return made


def forked_title(title: str) -> str:
    """Return the title of a fork: the original's with the next number."""
    known = _FORKED.fullmatch(title)
    return f"{known[1]} (fork #{int(known[2]) + 1})" if known else f"{title} (fork #1)"


def _session(original: Session) -> Session:
    created = now()
    return msgspec.structs.replace(
        wire.copy(original),
        id=ids.new("ses"),
        slug=slug(),
        parent_id=None,
        title=forked_title(original.title),
        cost=0.0,
        tokens=Tokens.zero(),
        summary=None,
        share=None,
        revert=None,
        time=SessionTime(created=created, updated=created),
    )


def _is_whole(message: WithParts) -> bool:
    info = message.info
    return not isinstance(info, Assistant) or info.time.completed is not None or info.error is not None
