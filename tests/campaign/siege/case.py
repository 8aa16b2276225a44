"""What a case of the siege is, and how it ended."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HELD = "held"
POSSIBLE = "possible"
"""What confinement.md says is not held: that it stays so is looked at too, or the page says less than is true."""


class Case(NamedTuple):
    """One attack: by whom, through which door, at which level of confinement ("any": it makes no difference)."""

    who: str
    door: str
    level: str
    what: str
    expect: str = HELD

    @property
    def name(self) -> str:
        """Return what `--only` knows it by."""
        return f"{self.who}/{self.door}/{self.level}/{self.what}"


class Ended(NamedTuple):
    """How a case ended; `wrong` says what is not as it must be, and is empty where nothing is."""

    case: Case
    wrong: str = ""


Play = Callable[[Sequence[Case], Path], Sequence[Ended]]
"""Plays cases of one attacker, door and level in a new folder."""


def judged(case: Case, got_through: str) -> Ended:
    """Return how a case ended by what got past a guard, which is empty where nothing did."""
    if case.expect == HELD:
        return Ended(case, got_through)
    return Ended(
        case, "" if got_through else "it is held, and docs/reference/confinement.md says that it is possible"
    )


def product(who: str, doors: Sequence[str], levels: Sequence[str], names: Sequence[str]) -> list[Case]:
    """Return the cases of each name at each level through each door."""
    return [Case(who, door, level, name) for door in doors for level in levels for name in names]


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder of its own, which others of the machine may pass through."""
    # A socket's path holds 107 bytes.
    made = Path(tempfile.mkdtemp(prefix="siege-")).resolve()
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def batches(cases: Sequence[Case], size: int) -> list[list[Case]]:
    """Return the cases by attacker, door and level, so many at most in one."""
    found: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        found.setdefault(case[:3], []).append(case)
    return [one[at : at + size] for one in found.values() for at in range(0, len(one), size)]


def table(cases: Sequence[Case], wrong: Mapping[Case, str] | None = None) -> list[str]:
    """Return the rows of the table in docs/reference/siege.md; `wrong` are those that did not end as they must."""
    lines = ["| who | door | level | cases | held | possible |", "|---|---|---|---|---|---|"]
    rows: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        rows.setdefault(case[:3], []).append(case)
    for (who, door, level), mine in rows.items():
        lines.append(f"| {who} | {door} | {level} | {_counts(mine, wrong or {})} |")
    return [*lines, f"| all | | | {_counts(cases, wrong or {})} |"]


def _counts(cases: Sequence[Case], wrong: Mapping[Case, str]) -> str:
    possible = sum(case.expect == POSSIBLE for case in cases)
    held = sum(case.expect == HELD and case not in wrong for case in cases)
    return f"{len(cases)} | {held} | {possible}"
