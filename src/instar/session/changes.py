"""What a step, a turn and a session do to the project's files, told by snapshots taken around the tools that may write.

A step that only reads takes none. The one before the tools stands in the step's `step-start` part, the one
after them in its `step-finish` part; a `patch` part follows when files changed, as in opencode.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from instar.event import SessionDiff, make
from instar.message import (
    Assistant,
    FileDiff,
    PatchPart,
    SessionSummary,
    SnapshotPart,
    StepFinishPart,
    StepStartPart,
    User,
    UserSummary,
    WithParts,
)
from instar.plugin import Tool
from instar.session.instance import Instance
from instar.session.sessions import Saving, place_in
from instar.session.state import SessionState, place_of

READING: Final = frozenset(
    ("read", "list", "glob", "grep", "webfetch", "todowrite", "todoread", "question", "skill", "invalid")
)
"""Built-in tools that change no file; a plugin's tool of the same name may."""


class After(msgspec.Struct, frozen=True):
    """A step's end: the snapshot after its tools, and the files that changed since the one before them."""

    snapshot: str | None = None
    files: Sequence[str] = ()


async def before(instance: Instance, holder: WithParts, tools: Iterable[tuple[str, Tool | None]]) -> None:
    """Take a snapshot if one of the next tools may write; at most one in a step.

    `tools` are registered names with what runs under them.
    """
    start = _start(holder)
    if start is None or start.snapshot is not None or not any(may_write(instance, *one) for one in tools):
        return
    start.snapshot = await instance.snapshot.track()
    if start.snapshot is not None:
        await instance.sessions.save_part(holder, start)


async def after(instance: Instance, holder: WithParts) -> After:
    """Take the snapshot after a step's tools, if one was taken before them."""
    start = _start(holder)
    if start is None or start.snapshot is None:
        return After()
    tree = await instance.snapshot.track()
    if tree is None:
        return After()
    return After(tree, await instance.snapshot.changed(start.snapshot, tree))


def note(saving: Saving, holder: WithParts, end: After) -> None:
    """Add the patch part of a step that changed files. Parts are ordered by id: it comes last."""
    start = _start(holder)
    if start is None or start.snapshot is None or not end.files:
        return
    saving.part(holder, PatchPart(hash=start.snapshot, files=list(end.files), **place_in(holder.info)))


async def close(instance: Instance, holder: WithParts) -> None:
    """Save the file changes of a step that failed or was aborted: its patch, and the snapshot after it.

    Such a step has no `step-finish` part that could hold the snapshot.
    """
    start = _start(holder)
    if start is None or any(
        isinstance(part, PatchPart) and part.hash == start.snapshot for part in holder.parts
    ):
        return
    end = await after(instance, holder)
    if end.files and end.snapshot is not None:
        saving = Saving()
        note(saving, holder, end)
        saving.part(holder, SnapshotPart(snapshot=end.snapshot, **place_in(holder.info)))
        await instance.sessions.save(saving)


async def diffs(instance: Instance, messages: Sequence[WithParts]) -> list[FileDiff] | None:
    """Return the differences between the first and the last snapshot of these messages' steps.

    None where one of the snapshots is gone. A file that no step changed is left out, whoever changed it.
    """
    patches = patches_of(messages)
    end = last_snapshot(messages)
    if not patches or end is None:
        return []
    files = {file for patch in patches for file in patch.files}
    return await instance.snapshot.diff_full(patches[0].hash, end, files)


async def shown(
    instance: Instance, history: Sequence[WithParts], message_id: str | None = None
) -> list[FileDiff]:
    """Return the changes of a session, or of the turn that a message belongs to. Raises `NotFound`.

    Where snapshots are gone, what was kept of them in the user messages is returned: files that several turns
    changed are then told together, patch after patch.
    """
    if message_id is not None:
        asked = history[place_of(history, message_id)]
        user_id = asked.info.parent_id if isinstance(asked.info, Assistant) else message_id
        turn = answers_to(history, user_id)
        history = [*(m for m in history if m.info.id == user_id), *turn]
    found = await diffs(instance, history)
    return _kept(history) if found is None else found


def _kept(history: Sequence[WithParts]) -> list[FileDiff]:
    together: dict[str | None, FileDiff] = {}
    for message in history:
        summary = message.info.summary
        for one in summary.diffs if isinstance(summary, UserSummary) else []:
            first = together.get(one.file)
            together[one.file] = one if first is None else _joined(first, one)
    return list(together.values())


def _joined(first: FileDiff, then: FileDiff) -> FileDiff:
    patch = (first.patch or "") + (then.patch or "")
    counts = {"additions": first.additions + then.additions, "deletions": first.deletions + then.deletions}
    return FileDiff(file=first.file, patch=patch or None, status=then.status, **counts)


def patches_of(messages: Sequence[WithParts]) -> list[PatchPart]:
    """Return the patch parts of messages, in order."""
    return [part for message in messages for part in message.parts if isinstance(part, PatchPart)]


def last_snapshot(messages: Sequence[WithParts]) -> str | None:
    """Return the newest snapshot that these messages name."""
    for message in reversed(messages):
        for part in reversed(message.parts):
            if isinstance(part, StepFinishPart | SnapshotPart) and part.snapshot is not None:
                return part.snapshot
    return None


def answers_to(history: Sequence[WithParts], user_id: str) -> list[WithParts]:
    """Return the answers to a user's message, in order."""
    found: list[WithParts] = []
    for message in reversed(history):
        if message.info.id == user_id:
            break
        if isinstance(message.info, Assistant) and message.info.parent_id == user_id:
            found.append(message)
    return found[::-1]


async def summarise(instance: Instance, live: SessionState) -> None:
    """Save the changes of the turn that ended, in its user messages and in the session's sums.

    Publishes ``session.updated``, ``session.diff`` and ``message.updated`` of the user's messages, in the
    reference's order (section 3.2), once it is saved: what the caller, who holds the session, saves next waits for it.
    """
    asked = _unsummarised(live.history)
    turns = [(user, await diffs(instance, answers_to(live.history, user.info.id)) or []) for user in asked]
    if not turns:
        return
    saving = Saving()
    if any(found for _, found in turns) or live.session.summary is None:
        whole = await diffs(instance, live.history) or []
        live.session.summary = sums(whole)
        instance.sessions.touch(live, saving)
        saving.publish(make(SessionDiff(session_id=live.id, diff=whole)))
    for user, found in turns:
        if live.find(user.info.id) is user and isinstance(user.info, User):
            user.info.summary = UserSummary(diffs=found)
            saving.message(user.info)
    instance.sessions.save_soon(saving)


def sums(found: Sequence[FileDiff]) -> SessionSummary:
    """Return lines and files of a session's changes."""
    return SessionSummary(
        additions=sum(one.additions for one in found),
        deletions=sum(one.deletions for one in found),
        files=len(found),
    )


def _unsummarised(history: Sequence[WithParts]) -> list[WithParts]:
    """The last user message, and those before it that no turn summarised yet; oldest first."""
    found: list[WithParts] = []
    for message in reversed(history):
        if isinstance(message.info, User):
            if found and message.info.summary is not None:
                break
            found.append(message)
    return found[::-1]


def _start(holder: WithParts) -> StepStartPart | None:
    return next((part for part in reversed(holder.parts) if isinstance(part, StepStartPart)), None)


def may_write(instance: Instance, name: str, tool: Tool | None) -> bool:
    """Whether a tool, by its registered name and what runs under it, may change files."""
    return name not in READING or (tool is not None and tool is not instance.tools.get(name))
