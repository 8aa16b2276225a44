"""Taking a session back to an earlier message, files included, and forth again; forking it.

Nothing is removed by going back: the messages stay until the next prompt, which drops them for good (`finish`).
A fork is a new session that begins with copies of another one's messages.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from instar import wire
from instar.event import (
    Event,
    MessageRemoved,
    MessageUpdated,
    PartRemoved,
    PartUpdated,
    SessionCreated,
    SessionDiff,
    SessionUpdated,
    make,
)
from instar.git.snapshot import Patch, Restored
from instar.message import (
    Assistant,
    Revert,
    Session,
    SessionTime,
    TextPart,
    Tokens,
    ToolPart,
    User,
    WithParts,
    newest_user,
    renew,
)
from instar.plugin import NotFound, Reverted
from instar.session import changes
from instar.session.instance import Instance
from instar.session.sessions import slug
from instar.session.state import SessionState, now, part_of, place_of
from instar.store import DropMessage, DropPart, PutMessage, PutPart, PutSession, PutValue, Write
from instar.wire import ids
from instar.wire.pattern import late_pattern

LONGEST_DIFF: Final = 100_000
"""Characters of `Revert.diff`: it is in every ``session.updated`` until the session goes on."""
_FORKED: Final = late_pattern(r"(.*) \(fork #(\d{1,9})\)", re.DOTALL)


class Point(msgspec.Struct, frozen=True):
    """The point of a revert: the indexes of a message and, unless None, of a part in it."""

    message: int
    part: int | None = None


def find(history: Sequence[WithParts], message_id: str, part_id: str | None = None) -> Point:
    """Return the place of a message or part. Raises `NotFound`.

    An answer as a whole goes with the message that it answers; so does a part with no text and no tool call
    before it, since nothing useful of its message would stay.
    """
    place = place_of(history, message_id)
    if part_id is not None:
        part = part_of(history[place], part_id)
        if any(isinstance(one, TextPart | ToolPart) for one in history[place].parts[:part]):
            return Point(place, part)
    while place > 0 and not isinstance(history[place].info, User):
        place -= 1
    return Point(place)


def last_prompt(history: Sequence[WithParts]) -> str:
    """Return the id of the last message of a person. Raises `NotFound` where there is none."""
    found = newest_user(history)
    if found is None:
        raise NotFound("the session has no message to go back to")
    return found.id


def split(history: Sequence[WithParts], point: Point) -> tuple[list[WithParts], list[WithParts]]:
    """Return the kept and the dropped messages; a message that is split is in both, with its parts before and after."""
    stays, goes = list(history[: point.message]), list(history[point.message :])
    if point.part is not None:
        cut = history[point.message]
        stays.append(WithParts(info=cut.info, parts=cut.parts[: point.part]))
        goes[0] = WithParts(info=cut.info, parts=cut.parts[point.part :])
    return stays, goes


async def revert(
    instance: Instance, live: SessionState, message_id: str, part_id: str | None = None, *, files: bool = True
) -> Reverted:
    """Revert the session and its files to before a message or part. Raises `NotFound`.

    Without `files` those stay as they are.

    A session that is taken back already is taken to the new place from where it was. The caller holds the
    session, and no turn runs.
    """
    point = find(live.history, message_id, part_id)
    stays, goes = split(live.history, point)
    earlier = live.session.revert
    wanted = _patches(goes) if files else []
    if files and earlier is not None and earlier.snapshot is not None:
        wanted.append(Patch(earlier.snapshot, _files(_reverted(live))))
    done = await instance.snapshot.revert(wanted) if wanted else None
    said = await _said(instance, goes, wanted, done)
    snapshot = earlier.snapshot if earlier is not None and earlier.snapshot else done and done.before
    live.session.revert = Revert(
        message_id=live.history[point.message].info.id,
        part_id=part_id if point.part is not None else None,
        snapshot=snapshot or None,
        diff=_short(await instance.snapshot.diff(snapshot, done.after)) if done and snapshot else None,
    )
    await _publish(instance, live, stays)
    return Reverted(wire.copy(live.session), *said)


async def unrevert(instance: Instance, live: SessionState) -> Reverted:
    """Undo a revert, the files with it; does nothing in a session that was not reverted.

    The caller holds the session, and no turn runs.
    """
    earlier = live.session.revert
    if earlier is None:
        return Reverted(wire.copy(live.session))
    goes = _reverted(live)
    wanted = [Patch(earlier.snapshot, _files(goes))] if earlier.snapshot is not None else []
    done = await instance.snapshot.revert(wanted) if wanted else None
    files, _, kept, note = await _said(instance, [], wanted, done)
    live.session.revert = None
    await _publish(instance, live, live.history)
    return Reverted(wire.copy(live.session), files, (), kept, note)


async def finish(instance: Instance, live: SessionState) -> None:
    """Delete the reverted messages, before a new prompt is added.

    Publishes ``message.removed``, ``message.part.removed`` and ``session.updated``. The caller holds the session.
    """
    stays, goes = list(visible(live)), _reverted(live)
    cut = stays[-1].info.id if stays and goes and stays[-1].info.id == goes[0].info.id else None
    live.session.revert = None
    live.session.time.updated = now()
    dropped = [_dropped(live.id, message, whole=message.info.id != cut) for message in goes]
    writes: list[Write] = [write for pairs in dropped for write, _ in pairs]
    happened: list[Event] = [event for pairs in dropped for _, event in pairs]
    happened.append(make(SessionUpdated(session_id=live.id, info=wire.copy(live.session))))
    await instance.store.commit([*writes, PutSession(live.session)], happened)
    live.history[:] = stays


def _dropped(session_id: str, message: WithParts, *, whole: bool) -> list[tuple[Write, Event]]:
    """The writes and events that drop a message, or only the parts given of it."""
    message_id = message.info.id
    if whole:
        gone = MessageRemoved(session_id=session_id, message_id=message_id)
        return [(DropMessage(message_id), make(gone))]
    return [
        (
            DropPart(part),
            make(PartRemoved(session_id=session_id, message_id=message_id, part_id=part.id)),
        )
        for part in message.parts
    ]


async def remove(instance: Instance, live: SessionState, message_id: str, part_id: str | None = None) -> None:
    """Delete a message, or one part of it; files stay as they are. Raises `NotFound`.

    Publishes ``message.removed`` or ``message.part.removed``. The caller holds the session, and no turn runs.
    """
    holder = live.message(message_id)
    if part_id is not None:
        await instance.sessions.drop_part(holder, holder.parts[part_of(holder, part_id)])
        return
    gone = MessageRemoved(session_id=live.id, message_id=message_id)
    await instance.store.commit([DropMessage(message_id)], [make(gone)])
    live.history.remove(holder)


def visible(live: SessionState) -> Sequence[WithParts]:
    """Return the messages of a session without the reverted ones."""
    return kept(live.session, live.history)


def kept(session: Session, history: Sequence[WithParts]) -> Sequence[WithParts]:
    """Return the messages of `history` without the reverted ones."""
    mark = session.revert
    if mark is None:
        return history
    try:
        return split(history, find(history, mark.message_id, mark.part_id))[0]
    except NotFound:  # it was deleted meanwhile
        return history


def _reverted(live: SessionState) -> list[WithParts]:
    mark = live.session.revert
    if mark is None:
        return []
    try:
        return split(live.history, find(live.history, mark.message_id, mark.part_id))[1]
    except NotFound:
        return []


def _patches(messages: Sequence[WithParts]) -> list[Patch]:
    return [Patch(part.hash, part.files) for part in changes.patches_of(messages)]


def _files(messages: Sequence[WithParts]) -> list[str]:
    return list(dict.fromkeys(file for part in changes.patches_of(messages) for file in part.files))


async def _said(
    instance: Instance, goes: Sequence[WithParts], wanted: Sequence[Patch], done: Restored | None
) -> tuple[Sequence[str], Sequence[str], Sequence[str], str | None]:
    """Return the report for a person: files restored, files changed by others, files kept, and a note."""
    if done is None:
        why = instance.snapshot.off or "a snapshot could not be taken (see the log)"
        return (), (), (), f"the files were left as they are: {why}" if wanted else None
    end = changes.last_snapshot(goes)
    since = await instance.snapshot.changed(end, done.before) if end is not None else []
    worktree = instance.project.worktree
    named = {_relative(worktree, file) for patch in wanted for file in patch.files}
    changed = [name for name in (_relative(worktree, file) for file in since) if name in named]
    note = None
    if done.gone:
        note = f"snapshots that are gone, with the files as they were then: {', '.join(done.gone)}"
    return done.files, changed, done.kept, note


def _relative(worktree: Path, file: str) -> str:
    return str(Path(file).relative_to(worktree)) if Path(file).is_relative_to(worktree) else file


def _short(diff: str) -> str:
    if len(diff) <= LONGEST_DIFF:
        return diff
    return diff[: diff.rfind("\n", 0, LONGEST_DIFF) + 1] + f"(cut: {len(diff)} characters in all)\n"


async def _publish(instance: Instance, live: SessionState, seen: Sequence[WithParts]) -> None:
    """Save the session with the sums of its visible messages, and publish them."""
    found = await changes.diffs(instance, seen) or []
    live.session.summary = changes.sums(found)
    await instance.sessions.update(live)
    instance.bus.publish(make(SessionDiff(session_id=live.id, diff=found)))


async def fork(instance: Instance, live: SessionState, message_id: str | None = None) -> Session:
    """Copy a session up to `message_id`, exclusive; without it, all visible messages.

    The copies have new ids in the same order. Files are not copied: both sessions work on the same ones.
    Nothing was paid for a copy: its cost and tokens begin at zero. An answer that is still being written is
    left out. Raises `NotFound` for a message that is not there.
    """
    history = list(visible(live))
    if message_id is not None:
        history = history[: place_of(history, message_id)]
    made = _forked(live.session)
    copies = [message.copy() for message in history if _is_whole(message)]
    known = {live.id: made.id, **{message.info.id: ids.new("msg") for message in copies}}
    for copy in copies:
        renew(copy, known)
    happened: list[Event] = [make(SessionCreated(session_id=made.id, info=wire.copy(made)))]
    # The same system prompt, so that a provider's cache serves the fork what it served the original.
    known_prompts = await instance.store.values("instar", f"system:{live.id}:")
    prompts = [PutValue("instar", key.replace(live.id, made.id), text) for key, text in known_prompts.items()]
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


def _forked(original: Session) -> Session:
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
