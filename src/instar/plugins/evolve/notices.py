"""Notices: what hooks say that other sessions should know, told to each of them once.

A hook's `notify` is queued for every other live session. What waits for a session is merged into one message: the
scripts' `format_notification` words it, else `default_text` does. The queues stand in a file of evolve's own folder,
shared by all instars on the workspace; a notice stands in it once, however many sessions it waits for.

Once each, also over a crash: a batch gets the id of its message before the message is sent. A batch that a crash left
is sent again under that id, unless the session already has a message of that id. An answer that is handed in twice
(same `key`) is queued once.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from instar.plugin import Origin, accepted, document, ids
from instar.plugins.evolve.history.trailers import one_line
from instar.plugins.evolve.ledger import sealed
from instar.plugins.evolve.ledger.lock import WorkspaceBusy, held

log = logging.getLogger("instar.evolve")

FILE: Final = "queues"
MOST: Final = 100
"""Notices that wait for one session; the oldest ones make room, and are counted."""

KEPT: Final = 1000
"""Notices that wait in all; the oldest ones make room, and are counted."""

SESSIONS: Final = 1000
"""Sessions that something may wait for; the one that was given something longest ago makes room."""

LARGEST: Final = 8 << 10
"""Bytes of one notice as JSON; a larger one is replaced by a sentence about it."""

_SEEN: Final = 2000
"""Keys that are remembered."""

_WAIT: Final = 2.0
"""Seconds to wait for another instar that tells a session at this moment."""

_NAMES: Final = 20


class NotNow(Exception):
    """A session cannot be told now; it is told another time. The text says why."""


class HookNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a hook said. `origin` is that of the turn in which it did.

    `hops` counts the notices on end that led to it: it is 1 where a script said it while it worded another.
    """

    said: Any
    origin: Origin = Origin()
    hops: int = 0


class NoticeBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one message tells: the numbers of notices, oldest first, and how many older ones were dropped."""

    message_id: str
    notices: list[int]
    dropped: int = 0


class Queue(msgspec.Struct, frozen=True, omit_defaults=True):
    """What waits for one session; `batch` is being sent, or was when a crash came."""

    waiting: list[int] = []
    dropped: int = 0
    batch: NoticeBatch | None = None

    @property
    def held(self) -> list[int]:
        """The numbers of all that it has."""
        return [*(self.batch.notices if self.batch else ()), *self.waiting]


class Queues(msgspec.Struct, frozen=True, omit_defaults=True):
    """The notices by number, all queues by session, the one that was filled last at the end, and the last keys."""

    notices: dict[int, HookNotice] = {}
    by_session: dict[str, Queue] = {}
    seen: list[str] = []
    last: int = 0


class Post(Protocol):
    """How one session is told."""

    async def word(self, session_id: str, notices: Sequence[HookNotice]) -> str | None:
        """Return the message about `notices`: "" to tell nothing, None where nobody words it."""
        ...

    async def has(self, session_id: str, message_id: str) -> bool:
        """Whether the session has a message of this id."""
        ...

    async def put(self, session_id: str, message_id: str, text: str) -> None:
        """Save the message. Raises `NotNow`."""
        ...


def add(queues: Queues, key: str, notices: Sequence[HookNotice], receivers: Iterable[str]) -> Queues:
    """Queue notices for sessions. The same queues where `key` was handed in before, or there is nothing to do."""
    to = list(dict.fromkeys(receivers))
    if key in queues.seen or not notices or not to:
        return queues
    numbers = range(queues.last + 1, queues.last + len(notices) + 1)
    by_session = {session: queue for session, queue in queues.by_session.items() if session not in to}
    for session in to:
        by_session[session] = _filled(queues.by_session.get(session, Queue()), numbers)
    kept = dict(list(by_session.items())[-SESSIONS:])
    given = dict(zip(numbers, map(_bounded, notices), strict=True))
    seen = [*queues.seen, key][-_SEEN:]
    return _trimmed(Queues(queues.notices | given, kept, seen, numbers[-1]))


def begin(queues: Queues, session_id: str, message_id: str) -> Queues:
    """Make a batch of all that waits for a session; nothing happens where one is under way, or nothing waits."""
    queue = queues.by_session.get(session_id, Queue())
    if queue.batch is not None or not (queue.waiting or queue.dropped):
        return queues
    return _with(queues, session_id, Queue(batch=NoticeBatch(message_id, queue.waiting, queue.dropped)))


def end(queues: Queues, session_id: str, message_id: str) -> Queues:
    """Take note that the batch with this message was told."""
    queue = queues.by_session.get(session_id, Queue())
    if queue.batch is None or queue.batch.message_id != message_id:
        return queues
    return _with(queues, session_id, msgspec.structs.replace(queue, batch=None))


def forget(queues: Queues, session_id: str) -> Queues:
    """Drop what waits for a session that is gone."""
    return _with(queues, session_id, Queue())


def default_text(notices: Sequence[Any]) -> str:
    """Return the message about `notices` where no script words it: the files that they name, else their types."""
    files, kinds = list[str](), list[str]()
    for notice in notices:
        said = notice if isinstance(notice, Mapping) else {"type": notice}
        named = said.get("files")
        files += (
            [one_line(name, 200) for name in named if isinstance(name, str)]
            if isinstance(named, list)
            else []
        )
        kinds += [one_line(said["type"], 200)] if isinstance(said.get("type"), str) else []
    names = [name for name in dict.fromkeys(files or kinds) if name]
    if not names:
        return f"[update] {len(notices)} notices from another session, of no known form."
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    listed = ", ".join(names[:_NAMES]) + more
    return f"[update] modified: {listed}. Read again what you need." if files else f"[update] {listed}."


class Notices:
    """The queues in `folder`. Methods raise `OSError` where they cannot be read or written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE
        self.problem = ""

    def notify(self, key: str, notices: Sequence[HookNotice], receivers: Iterable[str]) -> None:
        """Queue what a hook said, durably. `key` tells this answer from every other: it is queued once."""
        self._change(lambda queues: add(queues, key, notices, receivers))

    def waiting(self) -> list[str]:
        """Return the sessions that something waits for."""
        return list(self._read().by_session)

    def forget(self, session_id: str) -> None:
        """Drop what waits for a session that is gone."""
        if session_id in self._read().by_session:
            self._change(lambda queues: forget(queues, session_id))

    async def deliver(self, sessions: Iterable[str], post: Post) -> list[str]:
        """Tell sessions what waits for them, in one message each; return those that were told.

        A session that cannot be told now is told another time, with the same batch. What else `post` raises is
        raised, but for its `word`; whoever was told by then was.
        """
        waiting = self._read().by_session
        wanted = [session for session in sessions if session in waiting]
        if not wanted:
            return []
        made = {session: ids.new("msg") for session in wanted}
        self._change(lambda queues: _each(begin, queues, made))
        told = dict[str, str]()
        try:
            for session in wanted:
                try:
                    told |= await self._tell(session, post)
                except NotNow as error:
                    log.info("session=%s notices=later reason=%s", session, one_line(str(error), 300))
        finally:
            if told:
                self._change(lambda queues: _each(end, queues, told))
        return list(told)

    async def _tell(self, session_id: str, post: Post) -> dict[str, str]:
        """Tell one session, where nobody else does; the message's id by session."""
        # The name of a session that was imported may be no file's name.
        place = self._folder / "telling" / sha256(session_id.encode()).hexdigest()[:32]
        try:
            async with held(place, _WAIT):
                try:
                    return await self._tell_held(session_id, post)
                finally:
                    with contextlib.suppress(OSError):
                        place.rmdir()
        except WorkspaceBusy:
            raise NotNow("another instar tells it at this moment") from None

    async def _tell_held(self, session_id: str, post: Post) -> dict[str, str]:
        queues = self._read()
        batch = queues.by_session.get(session_id, Queue()).batch
        if batch is None:
            return {}
        if not await post.has(session_id, batch.message_id):
            text = await self._text(session_id, batch, queues, post)
            if text:
                await post.put(session_id, batch.message_id, text)
        return {session_id: batch.message_id}

    async def _text(self, session_id: str, batch: NoticeBatch, queues: Queues, post: Post) -> str:
        notices = [queues.notices[number] for number in batch.notices if number in queues.notices]
        if not notices:
            return (
                f"[update] {batch.dropped} notices from other sessions were dropped: too many came at once."
            )
        try:
            text = await post.word(session_id, notices)
        except Exception:
            # `format_notification` is observational: what it fails to word is told all the same.
            log.exception("notices=unworded")
            text = None
        if text is None:
            text = default_text([notice.said for notice in notices])
        dropped = f"\n({batch.dropped} earlier notices were dropped.)" if batch.dropped else ""
        return text and text + dropped

    def _read(self) -> Queues:
        try:
            return sealed.read(self._path, Queues) or Queues()
        except sealed.Broken as error:
            self.problem = f"{error}: what waited to be told is lost"
            return Queues()

    def _change(self, turn: Callable[[Queues], Queues]) -> Queues:
        with document.locked(self._folder):
            self.problem = ""
            before = self._read()
            if self.problem:
                log.error("notices=broken problem=%r aside=%s", self.problem, accepted.put_aside(self._path))
            after = turn(before)
            if after != before:
                sealed.write(self._path, after)
            return after


def _each(turn: Callable[[Queues, str, str], Queues], queues: Queues, given: Mapping[str, str]) -> Queues:
    for session, message_id in given.items():
        queues = turn(queues, session, message_id)
    return queues


def _filled(queue: Queue, numbers: Sequence[int]) -> Queue:
    waiting = [*queue.waiting, *numbers]
    over = max(0, len(waiting) - MOST)
    return msgspec.structs.replace(queue, waiting=waiting[over:], dropped=queue.dropped + over)


def _with(queues: Queues, session_id: str, queue: Queue) -> Queues:
    by_session = {**queues.by_session, session_id: queue}
    if queue == Queue():
        del by_session[session_id]
    return _trimmed(msgspec.structs.replace(queues, by_session=by_session))


def _trimmed(queues: Queues) -> Queues:
    """Keep only the notices that wait for somebody, and of those the newest."""
    held = sorted({number for queue in queues.by_session.values() for number in queue.held})
    by_session = queues.by_session
    if len(held) > KEPT:
        oldest = held[-KEPT]
        sending = {number for queue in by_session.values() if queue.batch for number in queue.batch.notices}
        by_session = {session: _without(queue, oldest) for session, queue in by_session.items()}
        held = [number for number in held if number >= oldest or number in sending]
    kept = {number: queues.notices[number] for number in held if number in queues.notices}
    return msgspec.structs.replace(queues, notices=kept, by_session=by_session)


def _without(queue: Queue, oldest: int) -> Queue:
    waiting = [number for number in queue.waiting if number >= oldest]
    over = len(queue.waiting) - len(waiting)
    return msgspec.structs.replace(queue, waiting=waiting, dropped=queue.dropped + over) if over else queue


def _bounded(notice: HookNotice) -> HookNotice:
    size = len(msgspec.json.encode(notice.said))
    if size <= LARGEST:
        return notice
    kind = notice.said.get("type") if isinstance(notice.said, Mapping) else None
    said = {"type": one_line(kind, 200)} if isinstance(kind, str) else {}
    note = f"this notice had {size} bytes and was left out: at most {LARGEST} are told"
    return msgspec.structs.replace(notice, said={**said, "note": note})
