"""Reports: what the gate found on each candidate, whether it was installed, was refused, waits or was passed over.

They are for people alone: nothing is decided by them.
"""

import logging
import secrets
import time
from typing import Any, Final, Literal

import msgspec

from instar.plugins.evolve.database import Database, append, decoded
from instar.plugins.evolve.gate.authority import Authority
from instar.plugins.evolve.gate.pending import Cause
from instar.plugins.evolve.gate.score import EvalLine

log = logging.getLogger("instar.evolve")

Outcome = Literal["installed", "refused", "waits", "passed over"]

_BY_ID: Final = "SELECT value FROM report WHERE id = ?"


class StagePassed(msgspec.Struct, frozen=True):
    """One stage that was passed: what it found, in a line, and the ms that it took."""

    name: str
    found: str
    ms: int


class GateReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the gate found on one candidate for `file`; what a stage did not come to is empty. One that was ``passed
    over`` passed its trials, and another one that was proposed with it was preferred.

    `time` is when it was decided, in ms since 1970, `ms` what it took, with the stage that refused. `stage` refused it,
    or lets it wait, and `text` says why. `test` is what its test printed, `replay` what past calls answered, `score`
    each eval with all its runs. `granted` is what the live script could reach, `asked` what this one would, `raised` a
    sentence on each thing that is more. `prediction` and `idea`, a line on the candidate, are as the model gave them.
    """

    file: str
    outcome: Outcome
    id: str = ""
    time: int = 0
    cause: Cause = Cause()
    stage: str = ""
    text: str = ""
    diff: str = ""
    stages: tuple[StagePassed, ...] = ()
    ms: int = 0
    test: str = ""
    replay: dict[str, Any] | None = None
    score: tuple[EvalLine, ...] = ()
    granted: Authority | None = None
    asked: Authority | None = None
    raised: tuple[str, ...] = ()
    prediction: Any = None
    idea: str = ""


class GateReports:
    """The reports of one workspace; the oldest go when they hold more than `largest` bytes."""

    def __init__(self, database: Database, largest: int = 16 << 20) -> None:
        self._database = database
        self._largest = largest

    def add(self, report: GateReport) -> str:
        """Keep a report and return the id that it is given; "" where that fails, which loses no change."""
        made = msgspec.structs.replace(report, id=secrets.token_hex(4), time=time.time_ns() // 1_000_000)
        try:
            value = msgspec.json.encode(made)
            self._database.change(
                lambda connection: append(connection, "report", self._largest, made.id, value), durable=False
            )
        except (OSError, UnicodeEncodeError) as error:
            log.warning("evolve=report problem=%r", str(error))
            return ""
        return made.id

    def get(self, id: str) -> GateReport | None:  # noqa: A002 - the word that entries of the log use
        """Return the report of this id; None where none is left. Raises `OSError`."""
        return next(iter(decoded(self._database.rows(_BY_ID, id), GateReport)), None)
