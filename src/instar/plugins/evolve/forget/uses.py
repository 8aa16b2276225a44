"""Uses: how often the scripts and prompts of a workspace were called, and when last.

Several processes may count. Counts are kept by day, in UTC, for `KEPT` days.
"""

import logging
import time
from collections.abc import Mapping
from sqlite3 import Connection
from typing import Final

import msgspec

from instar.plugins.evolve.database import Database
from instar.plugins.evolve.protocol import OBSERVATIONAL
from instar.plugins.evolve.script import ScriptCall

log = logging.getLogger("instar.evolve")

DAY: Final = 86_400_000
"""Milliseconds of a day."""
KEPT: Final = 400
"""Days for which counts are kept."""
TOOL: Final = "execute_tool"
_REQUEST: Final = ("", "request")
_ADD: Final = """INSERT INTO used VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (day, file, part) DO UPDATE SET
  calls = calls + excluded.calls, used = used + excluded.used, ms = ms + excluded.ms, last = max(last, excluded.last)"""
_SUMS: Final = """SELECT file, part, sum(calls * (day > ?1)), sum(used * (day > ?1)), sum(ms * (day > ?1)), max(last),
  sum(day > ?1) FROM used GROUP BY file, part"""


class PartUse(msgspec.Struct, frozen=True):
    """One hook, or one tool, of a file: its calls of late, those of them that were of use, and the ms that all took.

    `last` is when it was of use last, in ms since 1970, 0 for never.
    """

    calls: int = 0
    used: int = 0
    ms: float = 0.0
    last: int = 0


class CountedUses(msgspec.Struct, frozen=True):
    """What was counted: by file and part, and `requests` to the model on `days` of the days that were asked for.

    `since` is when the counting began, in ms since 1970.
    """

    since: int
    files: Mapping[str, Mapping[str, PartUse]] = {}
    requests: int = 0
    days: int = 0


class Uses:
    """The counts of one workspace. They are held in memory until `flush`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._new: dict[tuple[int, str, str], PartUse] = {}

    def request(self) -> None:
        """Count a request to the model: it carries the tools of all scripts."""
        self.add(*_REQUEST)

    def called(self, file: str, call: ScriptCall) -> None:
        """Count a call of the script or prompt `file`. One of a hook that the script does not know is none.

        A call that failed was of no use, nor was one that answered nothing, unless the hook only observes or is a tool.
        """
        if call.kind == "unknown":
            return
        part = f"{TOOL} {_tool(call.stdin)}" if call.hook == TOOL else call.hook
        silent = not call.answer and call.hook not in OBSERVATIONAL and call.hook != TOOL
        self.add(file, part, used=call.kind is None and not silent, ms=call.ms)

    def add(self, file: str, part: str, *, used: bool = True, ms: float = 0.0) -> None:
        """Count one call of a part of a file."""
        now = _now()
        key = (now // DAY, file, part)
        one = self._new.get(key, PartUse())
        self._new[key] = PartUse(
            one.calls + 1, one.used + used, one.ms + ms, max(one.last, now if used else 0)
        )

    def flush(self) -> None:
        """Keep what was counted. A disk that refuses costs the counts."""
        if not self._new:
            return
        rows = [(*key, *msgspec.structs.astuple(one)) for key, one in self._new.items()]
        self._new = {}

        def turn(connection: Connection) -> None:
            connection.executemany(_ADD, rows)

        try:
            self._database.change(turn, durable=False)
        except OSError as error:
            log.warning("evolve=uses problem=%r", str(error))

    def read(self, days: int) -> CountedUses:
        """Return what was counted in the last `days` days, with when each was of use last. Raises `OSError`."""
        now = _now()
        self.flush()
        found: dict[str, dict[str, PartUse]] = {}
        worked = (0, 0)
        for file, part, calls, used, ms, last, many in self._database.rows(_SUMS, now // DAY - days):
            if (file, part) == _REQUEST:
                worked = (calls, many)
            else:
                found.setdefault(file, {})[part] = PartUse(calls, used, ms, last)
        first = self._database.rows("SELECT min(day) FROM used")[0][0]
        return CountedUses(now if first is None else first * DAY, found, *worked)

    def prune(self) -> None:
        """Drop what is older than `KEPT` days. Raises `OSError`."""
        last = _now() // DAY - KEPT
        self._database.change(
            lambda connection: connection.execute("DELETE FROM used WHERE day < ?", (last,)), durable=False
        )


class _Input(msgspec.Struct):
    tool: str = ""


def _tool(stdin: bytes) -> str:
    return msgspec.json.decode(stdin, type=_Input).tool


def _now() -> int:
    return int(time.time() * 1000)
