"""The schedule of workers that share a workspace by a repository: one of them beats, the others keep up with it.

Each worker has a book of its own. What they agree on stands in the database, with the name of the worker that beats
and the time until which it may; it renews that while it lives. What a person orders at another worker (a pause, its
end, a beat now) is passed on.
"""

import logging
import os
import platform
import secrets
import time
from collections.abc import Collection
from typing import Final

import msgspec

from instar.plugin import KV
from instar.plugins.evolve.heartbeat.schedule import BeatEntry, State, Turned, opened
from instar.plugins.evolve.heartbeat.session import NOTE
from instar.plugins.evolve.storage import Storage

log = logging.getLogger("instar.evolve")

LEASE: Final = 10_000
"""Milliseconds for which a worker may beat, from when it last said so."""
_RENEWED: Final = LEASE * 2 // 3
"""It says so again when no more than this is left."""
_TRIES: Final = 3
_LOG: Final = 50
"""The newest entries of the log, which each worker's book has."""
_AGREED: Final = "heartbeat shared"
"""The note that holds what was agreed on last."""
_ORDERS: Final = ("paused", "asked")
_RESUMED: Final = (*_ORDERS, "number", "due")
"""What a person's orders change: the end of a pause passes over what came due in it."""


class _Agreed(msgspec.Struct, frozen=True):
    """What workers agree on: the schedule, the newest entries of the log, and the heartbeat's session by directory."""

    state: State
    log: list[BeatEntry]
    sessions: dict[str, str]


class _Kept(msgspec.Struct, frozen=True):
    """What stands in the database; `holder` may beat until `until` (ms since 1970)."""

    holder: str
    until: int
    agreed: _Agreed


class SharedSchedule:
    """One worker's part in it. `key` names the workspace in the database."""

    def __init__(self, kv: KV, key: str, storage: Storage) -> None:
        self._kv = kv
        self._key = key
        self._storage = storage
        self._book = storage.heartbeat
        self._name = f"{platform.node()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._held = False

    async def meet(self, *, beats: bool = True) -> bool:
        """Bring the book and the database together; return whether this worker may beat.

        Without `beats` it leaves that to others. Only the process that owns the schedule on this machine calls this, or
        one that calls it while there is none. Where the database cannot be asked, it may not.
        """
        try:
            for _ in range(_TRIES):
                found = await self._kv.get(self._key)
                own = self._own()
                kept = self._next(None if found is None else msgspec.convert(found, _Kept), own, beats=beats)
                plain = msgspec.to_builtins(kept)
                if plain == found or await self._kv.swap(self._key, found, plain):
                    self._take(own, kept.agreed)
                    self._held = beats and kept.holder == self._name
                    return self._held
        except Exception as error:  # it is tried again at the next look
            log.warning("heartbeat=shared problem=%r", str(error))
        return False

    def _own(self) -> _Agreed:
        sessions = self._storage.note(NOTE) or {}
        return _Agreed(self._book.state, self._book.entries(_LOG), sessions)

    def _next(self, kept: _Kept | None, own: _Agreed, *, beats: bool) -> _Kept:
        """Return what is to stand in the database, from what does and what this worker has."""
        now = time.time_ns() // 1_000_000
        if kept is None:
            return _Kept(self._name, now + LEASE, own) if beats else _Kept("", 0, own)
        known = self._storage.note(_AGREED)
        base = own if known is None else msgspec.convert(known, _Agreed)
        holds = kept.holder == self._name
        there = kept.agreed.state
        # One that lost the right to beat does not know what became of its schedule.
        orders = _ORDERS if self._held else _RESUMED
        unchanged = [name for name in orders if getattr(there, name) == getattr(base.state, name)]
        state = _merged(base.state, own.state, there, State.__struct_fields__ if holds else unchanged)
        entries = [*kept.agreed.log, *_new(own.log, [*base.log, *kept.agreed.log])]
        takes = beats and not holds and kept.until <= now
        if takes:
            state, cut_short = opened(state, now)
            entries += cut_short
        agreed = _Agreed(state, entries[-_LOG:], own.sessions if holds else kept.agreed.sessions)
        if holds and not beats:
            return _Kept("", 0, agreed)
        until = now + LEASE if takes or (holds and kept.until - now < _RENEWED) else kept.until
        return _Kept(self._name if takes else kept.holder, until, agreed)

    def _take(self, own: _Agreed, agreed: _Agreed) -> None:
        """Write what was agreed on, but for what changed here meanwhile, which the next meeting finds."""
        fresh = _new(agreed.log, own.log)

        def turn(state: State) -> Turned:
            return Turned(_merged(own.state, state, agreed.state, State.__struct_fields__), fresh)

        self._book.change(turn)
        if agreed.sessions != own.sessions:
            self._storage.keep(NOTE, agreed.sessions)
        self._storage.keep(_AGREED, agreed)


def _merged(base: State, own: State, other: State, fields: Collection[str]) -> State:
    """Return `other` with what was changed in `own` since `base`, of these fields."""
    changed = {name: getattr(own, name) for name in fields if getattr(own, name) != getattr(base, name)}
    return msgspec.structs.replace(other, **changed)


def _new(entries: list[BeatEntry], known: list[BeatEntry]) -> list[BeatEntry]:
    marks = {(one.kind, one.number, one.at) for one in known}
    return [one for one in entries if (one.kind, one.number, one.at) not in marks]
