"""Sessions: made, opened, listed; each open one keeps its history in memory while it lives.

Everything is saved through `Sessions.save`, which commits and then publishes. A step
never reads the database again: `SessionState.history` is what is stored.
"""

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_never
from weakref import WeakValueDictionary

import msgspec

from instar import __version__, event, wire
from instar.event import Event, Idle, SessionStatus, make
from instar.git.project import Project
from instar.message import (
    Message,
    MessageError,
    Origin,
    Part,
    Session,
    SessionModel,
    SessionTime,
    Tokens,
    User,
    WithParts,
)
from instar.plugin import NotFound, SessionBody
from instar.session.state import SessionState, now
from instar.store import (
    DropPart,
    DropSession,
    FollowUp,
    Insert,
    PutFollowUp,
    PutMessage,
    PutPart,
    PutProject,
    PutSession,
    StoreError,
    Write,
)
from instar.store.lease import busy, take
from instar.store.store import Store
from instar.wire import ids

log = logging.getLogger("instar.session")

DEFAULT_VARIANT = "default"
"""The variant of a session's model that has none, as in opencode."""
_FIRST_FENCE = 1
"""The fence of the first lease on a session (`Store.lease`)."""
_KEPT = 2_000
"""Messages of sessions in which nothing runs that stay in memory; others are read again when they are used.

The two sessions that were used last stay whatever they have: a long one need not be read for each turn of two in turn.
"""
_STATE = 5
"""The messages that the rest of a session is worth."""


_ADJECTIVES = ("amber", "brave", "calm", "clever", "eager", "fair", "gentle", "keen", "kind", "noble")
_NOUNS = ("beetle", "brook", "cedar", "comet", "cricket", "ember", "falcon", "harbor", "moth", "otter")


class Saving:
    """What is saved in one transaction: rows, and their events in the order of publishing.

    Each is as it stands when it is added; `Sessions.save` writes them.
    """

    def __init__(self) -> None:
        self.writes: list[PutSession | PutMessage | PutPart | DropPart] = []
        self.events: list[Event] = []

    def part(self, holder: WithParts, part: Part) -> "Saving":
        """Add a part, new or changed, of a message; the message holds it from now on."""
        for index, old in enumerate(holder.parts):
            if old.id == part.id:
                holder.parts[index] = part
                break
        else:
            holder.parts.append(part)
        self.writes.append(PutPart(part))
        return self.publish(part_updated(part))

    def drop(self, holder: WithParts, part: Part) -> "Saving":
        """Add that a part of a message is deleted; the message has lost it from now on."""
        holder.parts.remove(part)
        self.writes.append(DropPart(part))
        gone = event.PartRemoved(session_id=part.session_id, message_id=part.message_id, part_id=part.id)
        return self.publish(make(gone))

    def message(self, message: Message) -> "Saving":
        """Add a message, new or changed; its row is made when the transaction is written."""
        self.writes.append(PutMessage(message))
        return self.publish(message_updated(message))

    def session(self, session: Session) -> "Saving":
        """Add a session's own fields."""
        self.writes.append(PutSession(session))
        return self.publish(session_updated(session))

    def publish(self, happened: Event) -> "Saving":
        """Add an event of which no row tells."""
        self.events.append(happened)
        return self


class Sessions:
    """The sessions of one project, as seen from one directory."""

    def __init__(self, store: Store, project: Project, directory: Path) -> None:
        self._store = store
        self._project = project
        self._directory = directory
        self._open: WeakValueDictionary[str, SessionState] = WeakValueDictionary()
        self._recent: dict[str, tuple[SessionState, int]] = {}
        """Sessions that stay in memory, used last at the end, with what each counted for when it was used."""
        self._size = 0
        self._opening = asyncio.Lock()
        self.resumes = False
        """Whether a turn that another process left unfinished is gone on with; else it ends as interrupted."""

    async def create(
        self, body: SessionBody, directory: Path | None = None, session_id: str | None = None
    ) -> Session:
        """Make a session and open it; `directory` is its workspace's. Publishes ``session.created``."""
        created = now()
        session = Session(
            id=session_id or ids.new("ses"),
            slug=slug(),
            project_id=self._project.id,
            workspace_id=body.workspace_id,
            directory=str(directory or self._directory),
            path=self._project.below(directory or self._directory),
            parent_id=body.parent_id,
            cost=0.0,
            tokens=Tokens.zero(),
            title=body.title or default_title(created, child=body.parent_id is not None),
            agent=body.agent,
            model=msgspec.convert(body.model, SessionModel) if body.model else None,
            version=__version__,
            metadata=body.metadata,
            permission=body.permission,
            time=SessionTime(created=created, updated=created),
        )
        project = PutProject(self._project.id, str(self._project.main_worktree), self._project.vcs, created)
        happened = make(event.SessionCreated(session_id=session.id, info=wire.copy(session)))
        await self._store.commit([project, Insert(PutSession(session))], [happened])
        self._keep(SessionState(session, [], _FIRST_FENCE))
        return session

    async def open(self, session_id: str) -> SessionState:
        """Return the open session, reading it if need be, and again when another process went on with it.

        When nobody runs it, what a dead process left unfinished is marked interrupted first. Raises `NotFound`.
        """
        async with self._opening:
            live = self._open.get(session_id)
            if live is not None and live.held:
                return live
            found = await self._store.whereabouts(session_id)
            if found is None:
                self._forget(session_id)
                raise NotFound(f"Session not found: {session_id}")
            if live is not None and not live.stale and found.updated <= live.session.time.updated:
                return live
            session = await self._store.session(session_id)
            if session is None:
                raise NotFound(f"Session not found: {session_id}")
            if live is None:
                live = SessionState(session, [], await self._heal(session_id))
                await self._read(live)
                self._keep(live)
            else:
                fresh = await self._store.messages(session_id)
                origins = await self._store.origins(session_id)
                if not live.held:  # who began to hold it meanwhile has read it
                    live.load(session, fresh, origins)
            return live

    def _keep(self, live: SessionState) -> None:
        """Keep an open session in memory, and let go of those that were used longest ago when there are too many.

        One that somebody still has stays the open one; who asks for another one later gets it read anew.
        """
        self._open[live.id] = live
        self._let_go_of(live.id)
        size = _STATE + len(live.history)
        self._recent[live.id] = live, size
        self._size += size
        for one, _ in list(self._recent.values())[:-2] if self._size > _KEPT else ():
            if self._size > _KEPT and one.is_plain:
                self._let_go_of(one.id)

    def _let_go_of(self, session_id: str) -> None:
        _, size = self._recent.pop(session_id, (None, 0))
        self._size -= size

    def _forget(self, session_id: str) -> None:
        self._open.pop(session_id, None)
        self._let_go_of(session_id)

    def known(self, session_id: str) -> SessionState | None:
        """Return a session that is open here, or None."""
        return self._open.get(session_id)

    async def list(self) -> list[Session]:
        """Return the project's sessions, last updated first."""
        return await self._store.sessions(self._project.id)

    async def delete(self, session_id: str) -> None:
        """Delete a session. Raises `NotFound`."""
        live = await self.open(session_id)
        async with self._opening:
            # Forgotten first: a title that comes in meanwhile must not bring the row back.
            self._forget(session_id)
            live.deleted = True
            await self._store.commit(
                [DropSession(session_id)],
                [make(event.SessionDeleted(session_id=session_id, info=live.session))],
            )

    async def update(self, live: SessionState, saving: Saving | None = None) -> None:
        """Save the session's own fields as they stand, touched now, unless it was deleted; `saving` with them."""
        saving = saving or Saving()
        self.touch(live, saving)
        if saving.writes:
            await self.save(saving)

    def touch(self, live: SessionState, saving: Saving) -> None:
        """Add the session's own fields to what is saved, touched now, unless it was deleted."""
        if self._open.get(live.id) is live:
            live.session.time.updated = now()
            saving.session(live.session)

    def save(self, saving: Saving, more: Sequence[Write] = ()) -> asyncio.Future[int]:
        """Save it in one transaction, after earlier saves. The result is done when it is durable and published.

        `more` is written with it. What nobody awaits shares a transaction with what is saved next. Raises
        `StoreError`, then or now.
        """
        for write in saving.writes:
            match write:
                case PutPart() | DropPart():
                    self._note_saved(write.part.session_id, write.part.message_id)
                case PutMessage():
                    self._note_saved(write.message.session_id, write.message.id)
                case PutSession():
                    pass
                case _:
                    assert_never(write)
        return self._store.commit([*saving.writes, *more], saving.events)

    def _note_saved(self, session_id: str, message_id: str) -> None:
        live = self._open.get(session_id)
        if live is not None:
            live.saved(message_id)

    def save_soon(self, saving: Saving) -> None:
        """Save it with the next transaction, without waiting; errors are logged."""
        if saving.writes:
            self.save(saving).add_done_callback(_log_failure)

    async def save_message(
        self,
        live: SessionState,
        message: Message,
        parts: Sequence[Part] = (),
        more: Sequence[Write] = (),
        before: Sequence[Event] = (),
        after: Sequence[Event] = (),
    ) -> WithParts:
        """Save a message, new or changed, with `parts` that are new; the history holds it afterwards.

        `more` is written in the same transaction; the events `before` and `after` are published around its
        own. Raises what `wire.copy` raises for a malformed message or part, and `StoreError`; a new message
        is then not in the history.
        """
        saving = Saving()
        saving.events += before
        saving.message(message)
        known = live.find_as_it_stands(message)
        found = known or WithParts(info=message, parts=[])
        found.info = message
        for part in parts:
            saving.part(found, part)
        saving.events += after
        if known is None:
            live.insert(found)
        try:
            await self.save(saving, more)
        except StoreError:
            if known is None:
                live.history[:] = [message for message in live.history if message is not found]
            raise
        return found

    async def save_prompt(
        self, live: SessionState, message: User, parts: Sequence[Part], more: Sequence[Write] = ()
    ) -> WithParts:
        """Save a new user message: the session continues with its agent and model.

        ``session.updated`` comes before it when they changed, and after it, as in opencode.
        Raises as `save_message`; the session is then as it was.
        """
        session, ref = live.session, message.model
        was = (session.agent, session.model)
        chosen = SessionModel(
            id=ref.model_id, provider_id=ref.provider_id, variant=ref.variant or DEFAULT_VARIANT
        )
        session.agent, session.model, session.time.updated = message.agent, chosen, now()
        named = [session_updated(session)] if was != (session.agent, session.model) else []
        try:
            return await self.save_message(
                live, message, parts, [PutSession(session), *more], named, [session_updated(session)]
            )
        except BaseException:
            session.agent, session.model = was
            raise

    def save_part(self, holder: WithParts, part: Part) -> asyncio.Future[int]:
        """Save a part, new or changed, in its message, as `save` does."""
        return self.save(Saving().part(holder, part))

    async def drop_part(self, holder: WithParts, part: Part) -> None:
        """Delete a part of a message."""
        await self.save(Saving().drop(holder, part))

    def delta(self, part: Part, text: str) -> None:
        """Publish that `text` was appended to a part's text; nothing is stored until the part is saved.

        Raises `StoreError` where it could not be saved: an answer may go on for minutes.
        """
        self._store.check()
        told = event.PartDelta(
            session_id=part.session_id, message_id=part.message_id, part_id=part.id, field="text", delta=text
        )
        self._store.publish(make(told))

    def set_status(self, live: SessionState, status: SessionStatus) -> None:
        """Publish what the session does; `session.idle` follows an idle status."""
        live.status = status
        self._store.publish(make(event.SessionStatusChanged(session_id=live.id, status=status)))
        if isinstance(status, Idle):
            self._store.publish(make(event.SessionIdle(session_id=live.id)))

    def fail(self, live: SessionState, error: MessageError) -> None:
        """Publish that a turn failed."""
        self._store.publish(make(event.SessionError(session_id=live.id, error=error)))

    def statuses(self) -> dict[str, SessionStatus]:
        """Return what each session that is not idle does."""
        return {live.id: live.status for live in self._open.values() if not isinstance(live.status, Idle)}

    async def root_of(self, live: SessionState) -> str:
        """Return the session at the top of a session's tree: what sub-agents use counts for it."""
        if live.root_id is None:
            seen, top = {live.id}, live.session
            while top.parent_id is not None and top.parent_id not in seen:
                parent = await self._store.session(top.parent_id)
                if parent is None:
                    break
                seen.add(parent.id)
                top = parent
            live.root_id = top.id
        return live.root_id

    def present(self) -> Sequence[SessionState]:
        """Return the sessions that this process has open."""
        return list(self._open.values())

    def running(self) -> Sequence[SessionState]:
        """Return the sessions in which a turn runs."""
        return [live for live in self._open.values() if live.turn is not None and not live.turn.done()]

    async def queue(
        self,
        session_id: str,
        source: str,
        prompt: wire.Plain,
        origin: Origin | None = None,
        more: Sequence[Write] = (),
    ) -> FollowUp:
        """Queue a prompt durably, of `origin` or of a person; `more` is written with it."""
        whose = (origin or Origin()).by(source)
        follow_up = FollowUp(ids.new("fup"), session_id, source, prompt, now(), whose)
        await self._store.commit([PutFollowUp(follow_up), *more])
        return follow_up

    async def hold(self, live: SessionState) -> None:
        """Hold a session for this process; each hold is given back by one `let_go`.

        What another process added since we last held it is read. Raises `SessionBusy` when one runs it now.
        """
        live.hold()
        try:
            if not live.is_kept:
                await self.renew(live)
            await self.catch_up(live)
        except BaseException:
            await self.let_go(live)
            raise

    async def renew(self, live: SessionState) -> None:
        """Take the lease, or make it last longer. Raises `SessionBusy`."""
        lease = await take(self._store, live.id)
        if lease is None:
            # One that was lost stays noted until the last hold goes, so that nothing is saved under it.
            raise await busy(self._store, live.id)
        live.keep(lease)

    async def let_go(self, live: SessionState) -> None:
        """Give one hold back; with the last one the lease goes."""
        lease = live.let_go()
        if lease is not None:
            if live.id in self._open:
                self._keep(live)
            await self._store.release(lease)

    async def _heal(self, session_id: str) -> int | None:
        """Mark interrupted parts and answers, and return the fence; None when another process has it, or may go on."""
        lease = None if self._store.is_shared else await take(self._store, session_id)
        if lease is None:
            return None
        await self._store.interrupt(session_id, now())
        await self._store.release(lease)
        return lease.fence

    async def catch_up(self, live: SessionState) -> None:
        """Read what was added since this process last held the session, or since its turn broke off."""
        async with live.reading:
            if live.catch_up():
                try:
                    await self._store.interrupt(live.id, now(), resumes=self.resumes)
                    await self._read(live)
                except BaseException:
                    live.unread()
                    raise

    async def _read(self, live: SessionState) -> None:
        session = await self._store.session(live.id)
        if session is None:
            raise NotFound(f"Session not found: {live.id}")
        origins = await self._store.origins(live.id)
        live.load(session, await self._store.messages(live.id), origins)


def slug() -> str:
    """Return a readable handle for a session: adjective-noun."""
    one, other = os.urandom(2)
    return f"{_ADJECTIVES[one % len(_ADJECTIVES)]}-{_NOUNS[other % len(_NOUNS)]}"


def default_title(created: int, *, child: bool = False) -> str:
    """Return the default title of a session, in opencode's form; a `child` has a parent."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created / 1000))
    return f"{'Child' if child else 'New'} session - {stamp}.{created % 1000:03d}Z"


def place_in(message: Message) -> dict[str, Any]:
    """Return what says where a new part of a message stands: its own id, the session and the message."""
    return {"id": ids.new("prt"), "session_id": message.session_id, "message_id": message.id}


def message_updated(message: Message) -> Event:
    """Return the event that tells of a message as it is now. Raises as `wire.copy` for a malformed one."""
    return make(event.MessageUpdated(session_id=message.session_id, info=wire.copy(message)))


def session_updated(session: Session) -> Event:
    """Return the event that tells of a session as it is now."""
    return make(event.SessionUpdated(session_id=session.id, info=wire.copy(session)))


def part_updated(part: Part) -> Event:
    """Return the event of a part with a copy of its present state: the part may grow before subscribers read it."""
    copied = wire.copy(part) if isinstance(part, wire.Wire) else part
    return make(event.PartUpdated(session_id=part.session_id, part=copied, time=now()))


def _log_failure(saved: "asyncio.Future[int]") -> None:
    if not saved.cancelled() and (error := saved.exception()) is not None:
        log.error("not saved", exc_info=error)
