"""The store in one SQLite file or on a PostgreSQL server: one writer thread with group commit, a few readers.

What `commit` is given is encoded before it first waits, so the rows are those of the call. Its events
are published as the objects they are: do not change what they hold before `commit` returns.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from instar import wire
from instar.api.project import Project
from instar.api.stats import Sum
from instar.event import Event, MessageRemoved, MessageUpdated, PartUpdated, Todo, make
from instar.message import (
    Assistant,
    ErrorText,
    Message,
    MessageAbortedError,
    Origin,
    Part,
    Rule,
    Session,
    ToolPart,
    ToolPending,
    ToolRunning,
    WithParts,
)
from instar.store import (
    DropMessage,
    FollowUp,
    Lease,
    PutAsk,
    PutMessage,
    PutPart,
    Recorded,
    Reservation,
    Share,
    Stored,
    StoreError,
    Usage,
    Whereabouts,
    Write,
    rows,
)
from instar.store.commit import EventPlace, encode_commit, swap_value
from instar.store.database import Row, SqlConnection, SqlDatabase, Synchronous
from instar.store.rows import stored_event
from instar.store.sqlite import SqliteFile
from instar.store.writer import Near, Readers, Writer
from instar.wire import ids

if TYPE_CHECKING:
    from instar.store.relay import Relay

log = logging.getLogger("instar.store")

T = TypeVar("T")

EVENTS_KEPT: Final = 7 * 24 * 3600 * 1000
"""Milliseconds for which durable events are kept: who comes back by then is told what it missed."""
_PRUNED_EVERY: Final = 3600 * 1000
_PRUNED_AT_ONCE: Final = 300

_RELAY_KEPT: Final = 60_000
"""Milliseconds for which other processes find what is only passed on."""
_RELAY_PRUNED_EVERY: Final = 10_000

_ALL: Final = 2**62
"""More rows than there are: SQLite knows no other word for all of them that PostgreSQL knows too."""

_CUT = "The answer was interrupted: the process that wrote it ended."


async def open_store(
    where: Path | str,
    publish: Callable[[Event], None],
    *,
    synchronous: Synchronous = "NORMAL",
    place: EventPlace | None = None,
    relay: "Relay | None" = None,
) -> "Store":
    """Open a database and bring it up to date: a file, made with its folder if it is not there, or a server's URL.

    `publish` gets every event committed here on this event loop, in the order of the commits. On a server those of
    sessions are passed on to other processes, as of `place`; `relay` hears what those publish. Raises
    `StoreError`, saying what to do, when the database is another program's, a newer instar's, damaged or
    not writable; it is then as it was.
    """
    store = Store(database_at(where, synchronous), publish, place, relay)
    await store.start()
    return store


def database_at(where: Path | str, synchronous: Synchronous = "NORMAL") -> SqlDatabase:
    """Return the database in a file, or on the server that a URL names. Raises `StoreError`: a URL of another kind."""
    if isinstance(where, Path):
        return SqliteFile(where, synchronous)
    if not where.startswith(("postgresql://", "postgres://")):
        raise StoreError(
            f"a database is a URL, postgresql://USER@HOST/NAME, and not {where!r} (INSTAR_DATABASE);"
            " local: that of instar db start"
        )
    from instar.store.postgresql import PostgresServer  # psycopg is an extra, and takes a while to import

    return PostgresServer(where)


class Store:
    """Where sessions live, in one file; see `open_store`. To be used on the event loop that opened it.

    Every method may raise `StoreError`; reads see every finished commit.
    """

    def __init__(
        self,
        database: SqlDatabase,
        publish: Callable[[Event], None],
        place: EventPlace | None = None,
        relay: "Relay | None" = None,
    ) -> None:
        self._writer = Writer(database, publish)
        self._readers = Readers(database)
        self._near = Near(database)
        self._pruned = 0
        self._leases: dict[str, Lease] = {}
        self._place = (place or EventPlace("", "")) if database.relays else None
        self.is_shared = database.relays
        """Whether other machines have it too: they are told what sessions publish, and may go on with what is left."""
        self._relay = relay
        self._relay_pruned = 0
        self._database = database
        self.check = database.check

    async def start(self) -> None:
        """Open the database. Raises `StoreError`."""
        await self._writer.start()

    async def close(self) -> None:
        """Finish pending work and close the database. May be called twice."""
        self._readers.close()
        self._near.close()
        await self._writer.close()

    @property
    def directory(self) -> str:
        """The directory whose instance publishes here, where that is passed on to other processes."""
        return self._place.directory if self._place else ""

    @property
    def lease_ms(self) -> int:
        """How long a lease on a session lasts without being renewed."""
        return self._database.lease_ms

    def commit(
        self, writes: Sequence[Write], events: Sequence[Event] = (), session_id: str | None = None
    ) -> asyncio.Future[int]:
        """Write all of it, as it stands at the call, in one transaction; then publish `events` in order.

        Commits keep their order, also those that nobody awaits, which share a transaction with what follows.
        Sync events become rows with the next sequence number of their session. Returns the last sequence
        number given out, or 0 when none was. Nothing is published when the transaction fails.

        Raises `LeaseLost` where another process took over a session that this store holds (`lease`) and that the events
        name, or `session_id`.

        Deleting a session deletes its events; the ``session.deleted`` event itself gets its number and is
        published, and leaves no row. Sessions that have it as their parent are the caller's to delete.
        """
        try:
            encoded = encode_commit(writes, events, _now(), self._leases, self._place)
            if session_id in self._leases:
                encoded.fences.append(self._leases[session_id])
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(f"what was to be stored cannot be written as JSON: {error}") from error
        if encoded.wakes:
            self._note(events)
        done = self._writer.submit(encoded.run, tuple(events), asks=True)
        if _now() - self._pruned > _PRUNED_EVERY:
            self._pruned = _now()
            self._writer.submit(self._prune).add_done_callback(_log_failure)
        return done

    def publish(self, event: Event) -> None:
        """Publish an event that is not kept: now, or after the commits that were asked for before it."""
        if self._place is None or event.session_id is None:
            self._writer.publish(event)
            return
        self._note([event])
        self._writer.publish(event, encode_commit([], [event], _now(), place=self._place).run)

    async def settled(self) -> None:
        """Return once all requested commits are published or have failed."""
        await self._writer.settled()

    async def events_since(self, session_id: str, seq: int, limit: int = 1000) -> list[Recorded]:
        """Return durable events of a session after `seq`, in order, at most `limit`."""
        return await self._read(_recorded, "events", (session_id, seq, limit))

    async def last_seq(self, session_id: str) -> int:
        """Return the number of a session's last durable event, 0 if there was none."""
        found = await self._look(tuple, "last_seq", (session_id,))
        return int(found[0][0]) if found else 0

    async def events_after(
        self, last: str | int, directory: str | None = None, limit: int = 500
    ) -> list[Stored]:
        """Return durable events of all sessions, or of a directory's, after `last`: an event's id or a place."""
        return await self._query(partial(_events_after, last, directory, limit))

    async def projects(self, project_id: str | None = None) -> list[Project]:
        """Return the projects that are known, or the one with this id; last updated first."""
        return await self._read(rows.project_of, "projects", {"id": project_id})

    async def whereabouts(self, session_id: str) -> Whereabouts | None:
        """Return where a session lives and when it was changed last, or None: what is asked before each use."""
        found = await self._look(Whereabouts._make, "whereabouts", (session_id,))
        return found[0] if found else None

    async def session(self, session_id: str) -> Session | None:
        """Return a session, or None."""
        found = await self._look(rows.shown_session, "session", (session_id,))
        return found[0] if found else None

    async def sessions(
        self,
        project_id: str | None = None,
        *,
        directory: str | None = None,
        parent_id: str | None = None,
        archived: bool = False,
        limit: int | None = None,
    ) -> list[Session]:
        """Return sessions, last updated first. `archived` includes the archived ones."""
        chosen = {
            "project_id": project_id,
            "directory": directory,
            "parent_id": parent_id,
            "archived": archived,
            "limit": _limit(limit),
        }
        return await self._read(rows.shown_session, "sessions", chosen)

    async def saying(self, words: str) -> set[str]:
        """Return the ids of the sessions in which somebody said these words, in small letters; it reads every part."""
        return set(await self._read(itemgetter(0), "saying", (words,)))

    async def messages(self, session_id: str, limit: int | None = None) -> list[WithParts]:
        """Return a session's messages with their parts, oldest first; `limit` keeps the newest ones."""
        return await self._query(partial(_messages, session_id, _limit(limit)))

    async def follow_ups(self, session_id: str) -> list[FollowUp]:
        """Return what waits in a session's queue, oldest first."""
        return await self._look(_follow_up, "follow_ups", (session_id,))

    async def asks(self, session_id: str | None = None) -> list[PutAsk]:
        """Return permission questions that nobody answered yet, oldest first."""
        return await self._read(_ask, "asks", (session_id,))

    async def todos(self, session_id: str) -> list[Todo]:
        """Return a session's list of things to do, in order."""
        return await self._read(_todo, "todos", (session_id,))

    async def approvals(self, project_id: str) -> list[Rule]:
        """Return the `always` answers of a project, oldest first."""
        return await self._read(_approval, "approvals", (project_id,))

    async def value(self, plugin: str, key: str) -> Any:
        """Return a plugin's value for a key, or None."""
        found = await self._read(lambda row: wire.parse(row[0]), "value", (plugin, key))
        return found[0] if found else None

    async def values(self, plugin: str, prefix: str = "") -> dict[str, Any]:
        """Return a plugin's keys that start with `prefix`, with their values, in the order of the keys."""
        found = await self._read(tuple, "values", (plugin, prefix))
        return {key: wire.parse(text) for key, text in found if key.startswith(prefix)}

    async def swap_value(self, plugin: str, key: str, before: Any, value: Any) -> bool:
        """Set a plugin's value for a key if it still is `before` (None: there is none); return whether it was."""
        swapped: bool = await self._writer.submit(partial(swap_value, plugin, key, before, value))
        return swapped

    async def usage(self, session_id: str | None = None, since: int = 0) -> list[Usage]:
        """Return booked model calls from `since` (ms) on, oldest first."""
        if session_id is None:
            return await self._read(rows.usage_of, "usage", (since,))
        return await self._read(rows.usage_of, "session_usage", (session_id, since))

    async def sums(self, shares: Sequence[Share]) -> list[Sum]:
        """Return the sums of booked calls for each share, from kept totals."""
        return await self._query(partial(_sums, shares))

    async def reserve(
        self,
        reserved: Reservation,
        shares: Sequence[Share],
        decide: Callable[[list[Sum], list[Sum]], T | None],
    ) -> T | None:
        """Keep what a model call may cost, for a lease's time, unless `decide` says what forbids it; return that.

        It is given what is booked for each of `shares`, and what is kept for the calls of all processes that run now,
        in one transaction: of two that ask at once the second sees what the first was given.
        """
        forbids: T | None = await self._writer.submit(
            partial(_reserve, reserved, shares, decide, self.lease_ms)
        )
        return forbids

    async def renew(self, reserved: Reservation) -> None:
        """Keep it for a lease's time from now."""
        await self._write("renew_reserved", (reserved.id, _now() + self.lease_ms))

    async def origins(self, session_id: str) -> dict[str, Origin]:
        """Return where a session's messages come from, by their ids; a person's are left out."""
        found = await self._read(tuple, "origins", (session_id,))
        return {message_id: rows.origin_of(text) for message_id, text in found}

    async def ask(self, question: Callable[[SqlConnection], T]) -> T:
        """Let one of `instar.store.statistics` read the database, in one read transaction."""
        return await self._query(question)

    async def lease(self, session_id: str, owner: str, ttl: int) -> Lease | None:
        """Take or renew the right to run a session for `ttl` ms; None when another holds it.

        An owner that takes again what nobody else took in between keeps its fence; who lost a lease must release it
        before it is given another, also when the session is free by then. Until `release` each commit that changes
        the session fails with `LeaseLost` once another one had it, also when this one has not heard of it.
        """
        now = _now()
        wanted = {"session_id": session_id, "owner": owner, "expires": now + ttl, "now": now}
        found = await self._write("take_lease", wanted)
        if not found:
            return None
        lease = Lease(session_id, owner, found[0][0], now + ttl, ttl)
        known = self._leases.setdefault(session_id, lease)
        if known.owner == owner and known.fence != lease.fence:
            # What goes on under the old one knows nothing of what another process saved since.
            await self._give_back(lease)
            return None
        self._leases[session_id] = lease
        return lease

    async def holder(self, session_id: str) -> Lease | None:
        """Return the lease that somebody holds on a session now, or None."""
        found = await self._read(lambda row: Lease(session_id, *row), "holder", (session_id, _now()))
        return found[0] if found else None

    async def leased(self, now: int) -> list[tuple[str, str, str]]:
        """Return the sessions that processes hold at `now` (ms): id, directory and the holder's name."""
        return await self._read(lambda row: (row[0], row[2], row[3]), "running", (now,))

    async def release(self, lease: Lease) -> None:
        """Release a lease; nothing happens when it is no longer ours."""
        known = self._leases.get(lease.session_id)
        if known is not None and known.fence == lease.fence:
            del self._leases[lease.session_id]
        await self._give_back(lease)

    def forfeit(self, session_id: str) -> None:
        """Save nothing more in a session, as if its lease were lost; others get it with `release`."""
        if (lease := self._leases.get(session_id)) is not None:
            # A fence that no lease has.
            self._leases[session_id] = wire.replace(lease, fence=0)

    async def _give_back(self, lease: Lease) -> None:
        held = (lease.session_id, lease.owner, lease.fence)
        await self._write("release_lease", held)

    async def interrupt(self, session_id: str, now: int, *, resumes: bool = False) -> int:
        """Mark a session's open tool parts and unfinished answers as interrupted, in one commit.

        A pending or running tool part becomes an error part whose metadata says ``interrupted``, and ``began`` where
        it ran; an answer
        without an end is completed at `now` (ms) with a `MessageAbortedError`, unless it has an error. Each
        change is an event like any other. Returns how many parts were marked.
        For the first opening of a session whose process died. `resumes`: its turn is gone on with. Then an answer that
        called tools is complete, so that the model reads what became of them, and any other goes: it is written anew.
        """
        parts, answers = await self._query(partial(_unfinished, session_id))
        for part in parts:
            part.state = rows.interrupted(part.state, now)
        called = {part.message_id for part in parts}
        if resumes and answers:
            called |= await self._calling(session_id)
        writes: list[Write] = [*map(PutPart, parts)]
        events = [make(PartUpdated(session_id=session_id, part=part, time=now)) for part in parts]
        for answer in answers:
            if resumes and answer.id not in called:
                writes.append(DropMessage(answer.id))
                events.append(make(MessageRemoved(session_id=session_id, message_id=answer.id)))
                continue
            answer.time.completed = now
            if resumes:
                answer.finish = "tool-calls"
            else:
                answer.error = answer.error or MessageAbortedError(data=ErrorText(message=_CUT))
            writes.append(PutMessage(answer))
            events.append(make(MessageUpdated(session_id=session_id, info=answer)))
        if writes:
            await self.commit(writes, events)
        return len(parts)

    async def _calling(self, session_id: str) -> set[str]:
        """Return the ids of a session's messages that called tools."""
        found = await self.messages(session_id)
        return {one.info.id for one in found if any(isinstance(part, ToolPart) for part in one.parts)}

    def _prune(self, connection: SqlConnection) -> None:
        """Delete some of the events that are too old; with the next commit more, where there are."""
        found = _fetch("oldest_events", (_PRUNED_AT_ONCE,), connection)
        old = [place for place, event_id in found if ids.age(event_id, _now()) > EVENTS_KEPT]
        if old:
            # Never the newest one, whose place the next would get again.
            connection.run("prune_events", (old[-1],))
        if len(old) == _PRUNED_AT_ONCE:
            self._pruned = 0

    def _note(self, events: Sequence[Event]) -> None:
        """Let the relay know what this process publishes itself; now and then delete what others have read by now."""
        if self._relay is not None:
            self._relay.note_own(event.id for event in events if event.session_id)
        if _now() - self._relay_pruned > _RELAY_PRUNED_EVERY:
            self._relay_pruned = _now()
            self._write("prune_relayed", (_now() - _RELAY_KEPT,)).add_done_callback(_log_failure)

    def _write(self, name: str, parameters: Any) -> "asyncio.Future[list[Row]]":
        """Run one statement in a transaction."""
        return self._writer.submit(lambda connection: connection.ask(name, parameters), asks=True)

    def _query(self, question: Callable[[SqlConnection], T]) -> "asyncio.Future[T]":
        self.check()
        return self._readers.submit(question)

    async def _read(self, shape: Callable[[Row], Any], name: str, parameters: Any) -> list[Any]:
        self.check()
        return await self._readers.submit(
            lambda connection: [shape(row) for row in _fetch(name, parameters, connection)], one_state=False
        )

    async def _look(self, shape: Callable[[Row], Any], name: str, parameters: Any) -> list[Any]:
        """Read a few rows that a key names, at once unless somebody holds the file."""
        self.check()
        try:
            found = self._near.read(partial(_fetch, name, parameters))
        except BlockingIOError:
            return await self._read(shape, name, parameters)
        return [shape(row) for row in found]


def _log_failure(done: "asyncio.Future[Any]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.warning("old events were not deleted: %s", error)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _limit(limit: int | None) -> int:
    return _ALL if limit is None else limit


def _fetch(name: str, parameters: Any, connection: SqlConnection) -> list[Row]:
    return connection.run(name, parameters)


def _messages(session_id: str, limit: int, connection: SqlConnection) -> list[WithParts]:
    newest_first = _fetch("messages", (session_id, limit), connection)
    if not newest_first:
        return []
    found = {row[0]: WithParts(info=rows.message_of(row), parts=[]) for row in reversed(newest_first)}
    oldest = newest_first[-1]
    for row in _fetch("parts", (session_id, oldest[3], oldest[0]), connection):
        found[row[1]].parts.append(rows.part_of(row))
    return list(found.values())


def _unfinished(session_id: str, connection: SqlConnection) -> tuple[list[ToolPart], list[Assistant]]:
    """The statements find what may be unfinished by its text; what it is decides."""
    parts: list[Part] = [rows.part_of(row) for row in _fetch("open_tool_parts", (session_id,), connection)]
    answers: list[Message] = [
        rows.message_of(row) for row in _fetch("open_answers", (session_id,), connection)
    ]
    return (
        [
            part
            for part in parts
            if isinstance(part, ToolPart) and isinstance(part.state, ToolPending | ToolRunning)
        ],
        [info for info in answers if isinstance(info, Assistant) and info.time.completed is None],
    )


def _sums(shares: Sequence[Share], connection: SqlConnection) -> list[Sum]:
    return [
        Sum(*_fetch("spent", (share.scope, share.key, rows.hour_of(share.since)), connection)[0])
        for share in shares
    ]


def _recorded(row: Row) -> Recorded:
    seq, event_id, session_id, kind, data = row
    return Recorded(seq, event_id, session_id, kind, wire.parse(data))


def _follow_up(row: Row) -> FollowUp:
    follow_up_id, session_id, source, prompt, created, origin = row
    return FollowUp(follow_up_id, session_id, source, wire.parse(prompt), created, rows.origin_of(origin))


def _ask(row: Row) -> PutAsk:
    return PutAsk(row[0], row[1], wire.parse(row[2]))


def _todo(row: Row) -> Todo:
    return Todo(content=row[0], status=row[1], priority=row[2])


def _approval(row: Row) -> Rule:
    return Rule(permission=row[0], pattern=row[1], action="allow")


_LATER = "\uffff"
"""Sorts behind every id."""


def _events_after(
    last: str | int, directory: str | None, limit: int, connection: SqlConnection
) -> list[Stored]:
    """Return what was stored after `last`, an event's id or a place, oldest first, at most `limit`.

    An id that is not stored itself (of an event that never is, or of a session that is gone) stands for the
    time in it: ids sort by when they were made.
    """
    place = last if isinstance(last, int) else _place(last, connection)
    chosen = {"place": place, "directory": directory, "limit": limit}
    return [stored_event(row) for row in connection.run("events_after", chosen)]


def _place(event_id: str, connection: SqlConnection) -> int:
    found = connection.run("event_place", (event_id,))
    found = found or connection.run("event_place_by_time", (event_id, _LATER))
    return int(found[0][0])


def _reserve(
    reserved: Reservation,
    shares: Sequence[Share],
    decide: Callable[[list[Sum], list[Sum]], T | None],
    lasts: int,
    connection: SqlConnection,
) -> T | None:
    now = _now()
    connection.run("prune_reserved", (now,))
    kept = [Sum(*connection.run("reserved", (one.scope, one.key, now))[0]) for one in shares]
    forbids = decide(_sums(shares, connection), kept)
    if forbids is None:
        most = reserved.most
        for share in reserved.shares:
            row = (reserved.id, now + lasts, share.scope, share.key, most.tokens, most.cost, most.unpriced)
            connection.ask("put_reserved", row)
    return forbids
