"""Known candidates: what was refused is not tried again as long as nothing changed that it was judged by.

A *mark* (`Candidates.mark`) stands for a candidate and for all of that: the accepted files, the live version, tests and
evals among them, what a person left outside the guarded folders, the settings, and what scores are compared with. What
changes by itself is not in it: recorded calls, the scripts' own data, the programs of the machine. So a refusal for a
passing cause (`CandidateRefused.passing`) is not kept, and a person lets a file's candidates be tried again (`again`).
"""

import logging
from typing import Final

from instar.plugins.evolve.database import Database, append

log = logging.getLogger("instar.evolve")

_LARGEST: Final = 1 << 16
"""Bytes of reports' ids, of 8 bytes each."""
_BY_MARK: Final = "SELECT value FROM tried WHERE mark = ? ORDER BY number DESC LIMIT 1"


class Known:
    """The marks of refused candidates of one workspace. `report` and `again` raise `OSError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, file: str, mark: str, report: str) -> None:
        """Keep that the candidate of this mark was refused, with the id of the gate's report.

        Where that fails it is only tried again.
        """
        try:
            self._database.change(
                lambda connection: append(connection, "tried", _LARGEST, file, mark, report), durable=False
            )
        except OSError as error:
            log.warning("evolve=known problem=%r", str(error))

    def report(self, mark: str) -> str:
        """Return the id of the report on the candidate of this mark; "" where none was refused."""
        return next((report for (report,) in self._database.rows(_BY_MARK, mark)), "")

    def again(self, file: str) -> int:
        """Let the refused candidates of a file be tried again, and return how many there are."""
        return self._database.change(
            lambda connection: connection.execute("DELETE FROM tried WHERE file = ?", (file,)).rowcount
        )
