"""Notices: what hooks say that other sessions should know, told to each of them once.

A hook's `notify` is queued for every other live session. What waits for a session is merged into one message: the
scripts' `format_notification` words it, else `default_text` does. All instars on the workspace share the queue; a
notice is kept once, however many sessions it waits for.

Once each, also over a crash: a batch gets the id of its message before the message is sent. A batch that a crash left
is sent again under that id, unless the session already has a message of that id.
"""

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from sqlite3 import Connection
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from instar.plugin import Origin, ids
from instar.plugins.evolve.database import Database, decoded
from instar.plugins.evolve.history.trailers import one_line
from instar.plugins.evolve.ledger.ledger import WorkspaceBusy, held

log = logging.getLogger("instar.evolve")

MOST: Final = 100
"""Notices of one message; older ones are counted."""

KEPT: Final = 1000
"""Notices that wait in all; the oldest ones make room."""

LARGEST: Final = 8 << 10
"""Bytes of one notice as JSON; a larger one is replaced by a sentence about it."""

_WAIT: Final = 2.0
"""Seconds to wait for another instar that tells a session at this moment."""

_NAMES: Final = 20

_MESSAGE: Final = "SELECT message FROM waiting WHERE session = ? ORDER BY message DESC LIMIT 1"
_BEGIN: Final = "UPDATE waiting SET message = ? WHERE session = ?"
_OF_MESSAGE: Final = """SELECT value FROM notice JOIN waiting ON notice = number
  WHERE session = ? AND message = ? ORDER BY number"""
_TOLD: Final = "DELETE FROM waiting WHERE session = ? AND message = ?"
_OVER: Final = "DELETE FROM waiting WHERE notice <= (SELECT max(number) FROM notice) - ?"
_UNUSED: Final = "DELETE FROM notice WHERE number NOT IN (SELECT notice FROM waiting)"


class NotNow(Exception):
    """A session cannot be told now; it is told another time. The text says why."""


class HookNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a hook said. `origin` is that of the turn in which it did.

    `hops` counts the notices on end that led to it: it is 1 where a script said it while it worded another.
    """

    said: Any
    origin: Origin = Origin()
    hops: int = 0


class NoticeBatch(NamedTuple):
    """What one message tells: notices, oldest first, and how many older ones were dropped."""

    message_id: str
    notices: list[HookNotice]
    dropped: int


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
    """The queues of one workspace. Methods raise `OSError` where they cannot be read or written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._folder = database.folder / "notices"

    def notify(self, notices: Sequence[HookNotice], receivers: Iterable[str]) -> None:
        """Queue what a hook said, durably."""
        to = list(dict.fromkeys(receivers))
        values = [(msgspec.json.encode(_bounded(notice)),) for notice in notices]

        def turn(connection: Connection) -> None:
            insert = "INSERT INTO notice (value) VALUES (?)"
            numbers = [connection.execute(insert, value).lastrowid for value in values]
            rows = [(session, number) for session in to for number in numbers]
            connection.executemany("INSERT INTO waiting (session, notice) VALUES (?, ?)", rows)
            connection.execute(_OVER, (KEPT,))
            connection.execute(_UNUSED)

        if to and values:
            self._database.change(turn)

    def waiting(self) -> list[str]:
        """Return the sessions that something waits for."""
        found = self._database.rows("SELECT session FROM waiting GROUP BY session ORDER BY max(notice)")
        return [session for (session,) in found]

    def forget(self, session_id: str) -> None:
        """Drop what waits for a session that is gone."""
        self._drop("DELETE FROM waiting WHERE session = ?", session_id)

    def _drop(self, delete: str, *values: str) -> None:
        def turn(connection: Connection) -> None:
            connection.execute(delete, values)
            connection.execute(_UNUSED)

        self._database.change(turn)

    async def deliver(self, sessions: Iterable[str], post: Post) -> list[str]:
        """Tell sessions what waits for them, in one message each; return those that were told.

        A session that cannot be told now is told another time, with the same batch. What else `post` raises is
        raised, but for its `word`; whoever was told by then was.
        """
        waiting = self.waiting()
        told = []
        for session in dict.fromkeys(sessions):
            try:
                if session in waiting and await self._tell(session, post):
                    told.append(session)
            except NotNow as error:
                log.info("session=%s notices=later reason=%s", session, one_line(str(error), 300))
        return told

    async def _tell(self, session_id: str, post: Post) -> bool:
        """Tell one session, where nobody else does; whether there was something."""
        # The name of a session that was imported may be no file's name.
        place = self._folder / sha256(session_id.encode()).hexdigest()[:32]
        try:
            async with held(place, _WAIT):
                try:
                    return await self._tell_held(session_id, post)
                finally:
                    with contextlib.suppress(OSError):
                        place.rmdir()
        except WorkspaceBusy:
            raise NotNow("another instar tells it at this moment") from None

    async def _tell_held(self, session_id: str, post: Post) -> bool:
        batch = self._database.change(lambda connection: _begin(connection, session_id))
        if batch is None:
            return False
        if not await post.has(session_id, batch.message_id):
            text = await self._text(session_id, batch, post)
            if text:
                await post.put(session_id, batch.message_id, text)
        self._drop(_TOLD, session_id, batch.message_id)
        return True

    async def _text(self, session_id: str, batch: NoticeBatch, post: Post) -> str:
        try:
            text = await post.word(session_id, batch.notices)
        except Exception:
            # `format_notification` is observational: what it fails to word is told all the same.
            log.exception("notices=unworded")
            text = None
        if text is None:
            text = default_text([notice.said for notice in batch.notices])
        dropped = f"\n({batch.dropped} earlier notices were dropped.)" if batch.dropped else ""
        return text and text + dropped


def _begin(connection: Connection, session_id: str) -> NoticeBatch | None:
    """Return the batch of a session: the one under way, else all that waits for it; None where nothing does."""
    found = connection.execute(_MESSAGE, (session_id,)).fetchone()
    if found is None:
        return None
    message_id = found[0] or ids.new("msg")
    if not found[0]:
        connection.execute(_BEGIN, (message_id, session_id))
    notices = decoded(connection.execute(_OF_MESSAGE, (session_id, message_id)), HookNotice)
    return NoticeBatch(message_id, notices[-MOST:], max(0, len(notices) - MOST))


def _bounded(notice: HookNotice) -> HookNotice:
    size = len(msgspec.json.encode(notice.said))
    if size <= LARGEST:
        return notice
    kind = notice.said.get("type") if isinstance(notice.said, Mapping) else None
    said = {"type": one_line(kind, 200)} if isinstance(kind, str) else {}
    note = f"this notice had {size} bytes and was left out: at most {LARGEST} are told"
    return msgspec.structs.replace(notice, said={**said, "note": note})
