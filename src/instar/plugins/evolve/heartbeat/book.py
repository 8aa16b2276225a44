"""The book of heartbeats: the state of the schedule and the log of beats, changed together or not at all.

Where the state cannot be read the schedule begins anew, never with a beat.
"""

import logging
from collections.abc import Callable
from sqlite3 import Connection
from typing import Final

import msgspec

from instar.plugins.evolve.database import Database, decoded, put_note
from instar.plugins.evolve.heartbeat.schedule import BeatEntry, State, Turned

log = logging.getLogger("instar.evolve")

SCHEDULE: Final = "schedule"
"""The note that holds the state."""
_MOST: Final = 1000
_NEWEST: Final = "DELETE FROM beat WHERE number <= (SELECT max(number) FROM beat) - ?"


class HeartbeatBook:
    """The book of one workspace, which several processes may read and change. `most`: entries of the log that are kept.

    Methods raise `OSError`; a change that could not be written has not happened.
    """

    def __init__(self, database: Database, *, most: int = _MOST) -> None:
        self.folder = database.folder / "heartbeat"
        self._database = database
        self._most = most

    @property
    def state(self) -> State:
        """Return the state; a new one where nothing was written yet."""
        return _state(self._database.note(SCHEDULE))

    def change(self, turn: Callable[[State], Turned]) -> State:
        """Turn the state as it stands now, write what came of it, and return it.

        Nothing else changes the book meanwhile. What `turn` raises is raised. Nothing is written where nothing changed.
        """

        def act(connection: Connection) -> State:
            kept = connection.execute("SELECT value FROM note WHERE name = ?", (SCHEDULE,)).fetchone()
            before = _state(kept[0] if kept else None)
            state, entries = turn(before)
            if state == before and not entries:
                return before
            put_note(connection, SCHEDULE, msgspec.json.encode(state))
            values = [(msgspec.json.encode(entry),) for entry in entries]
            connection.executemany("INSERT INTO beat VALUES (NULL, ?)", values)
            connection.execute(_NEWEST, (self._most,))
            return state

        return self._database.change(act)

    def entries(self, most: int = -1) -> list[BeatEntry]:
        """Return the log, oldest first, or the last `most` entries of it."""
        found = self._database.rows("SELECT value FROM beat ORDER BY number DESC LIMIT ?", most)
        return decoded(reversed(found), BeatEntry)


def _state(value: bytes | None) -> State:
    try:
        return State() if value is None else msgspec.json.decode(value, type=State)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        log.error("heartbeat=book problem=%r", f"the schedule is damaged, its times are lost: {error}")
        return State()
