"""Which of the agent's changes are due to be looked at again. Pure: time and counts are arguments.

A file's live version rests on a stack of the agent's changes, the newest on top; below them is what a person left, or
nothing. A file is due as a whole when it was not used for `ForgetTerms.days`, or when one use of it costs too much. A
change is due when all that it was accepted for is gone, or when its weight is below `LEAST`. What can be taken back is
the top of the stack, so a change that is due below one that is not stays.

The weight of a change is 1 when it is accepted, and halves with every half-life; a use of what it was accepted for (of
the file, where that is no hook and no tool) makes it 1 again, and so does a probation that was passed.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from instar.plugins.evolve.forget.evidence import Evidence
from instar.plugins.evolve.forget.uses import DAY, CountedUses, PartUse
from instar.plugins.evolve.history.trailers import counted

LEAST: Final = 0.25
"""The weight below which a change is looked at again: two half-lives without renewed evidence."""
TOKENS: Final = 100_000
"""Tokens that requests may carry of a script's tools for one use of the script."""
MS: Final = 30_000
"""Milliseconds that calls of a file may take for one use of it."""
WORKED: Final = 3
"""Days with requests to the model before it is said of anything that it was not used: nobody works on a holiday."""
_RARE: Final = ("prompts/recover.md",)
"""Files that are read only when something failed."""


class LiveChange(msgspec.Struct, frozen=True):
    """A change of the agent's that is live: its commit, its epoch, when it was accepted, and for what.

    `kept` is when its file passed a probation last. Times are in ms since 1970, 0 for never.
    """

    commit: str
    epoch: int | None
    time: int
    evidence: tuple[Evidence, ...] = ()
    kept: int = 0


class ForgetTerms(msgspec.Struct, frozen=True):
    """What is asked for: `days` without use (0: no matter), `half_life` in days, and the evals that there are."""

    days: int = 30
    half_life: int = 30
    evals: frozenset[str] = frozenset()


class Due(msgspec.Struct, frozen=True):
    """What should be looked at again of a file: its newest `changes`, down to the one of `commit`, and why."""

    file: str
    commit: str
    changes: int
    why: str


def due(
    changes: Mapping[str, Sequence[LiveChange]],
    usage: CountedUses,
    tokens: Mapping[str, int],
    now: int,
    terms: ForgetTerms,
) -> list[Due]:
    """Return what is due of each file. `changes` are its live ones, newest first, at least one of each file.

    `tokens` is what each request carries of a script's tools.
    """
    found = []
    for file, stack in changes.items():
        one = _File(file, stack, usage, tokens.get(file, 0), now, terms)
        if why := one.unused() or one.dear():
            found.append(Due(file, stack[-1].commit, len(stack), why))
            continue
        whys = [one.gone(change) or one.faded(change) for change in stack]
        many = whys.index("") if "" in whys else len(whys)
        if many:
            found.append(Due(file, stack[many - 1].commit, many, whys[many - 1]))
    return found


def weight(age: float, half_life: float) -> float:
    """Return what evidence counts for that is `age` old: 1, and half with every half-life."""
    return float(0.5 ** max(0.0, age / half_life))


@dataclass(frozen=True)
class _File:
    """A file with all that is asked. Each question is answered by why it is due, "" where it is not."""

    file: str
    stack: Sequence[LiveChange]
    usage: CountedUses
    tokens: int
    now: int
    terms: ForgetTerms

    def unused(self) -> str:
        if self.file in _RARE or not self._is_over(self.stack[0].time, self.last):
            return ""
        when = f"last on {day(self.last)}" if self.last else "never since that is counted"
        return f"it was not used for {counted(self.terms.days, 'day')} ({when})"

    def dear(self) -> str:
        used = sum(one.used for one in self.parts.values())
        if not self.terms.days or not used:
            return ""
        requests, ms = self.usage.requests, sum(one.ms for one in self.parts.values()) / used
        within = f"in {counted(self.terms.days, 'day')} it was used {counted(used, 'time')}"
        if self.tokens * requests / used > TOKENS:
            return f"{within}, and {counted(requests, 'request')} carried {self.tokens} tokens of it"
        return f"{within}, and each use took {ms / 1000:.0f} s of calls" if ms > MS else ""

    def gone(self, change: LiveChange) -> str:
        if not change.evidence or not all(self._is_lost(one, change) for one in change.evidence):
            return ""
        named = ", ".join(f"{one.kind} {one.name}" for one in change.evidence)
        return f"what it was accepted for is gone: {named}"

    def faded(self, change: LiveChange) -> str:
        named = {one.part: self.parts.get(one.part, PartUse()) for one in change.evidence if one.part}
        seen = max(change.time, change.kept, self.usage.since, _last(named or self.parts))
        half = self.terms.half_life
        if not half or self.usage.days < WORKED or weight(self.now - seen, half * DAY) >= LEAST:
            return ""
        return f"nothing has spoken for it since {day(seen)} (half-life {counted(half, 'day')})"

    @property
    def parts(self) -> Mapping[str, PartUse]:
        return self.usage.files.get(self.file, {})

    @property
    def last(self) -> int:
        return _last(self.parts)

    def _is_lost(self, one: Evidence, change: LiveChange) -> bool:
        if one.kind == "eval":
            return one.name not in self.terms.evals
        return bool(one.part) and self._is_over(change.time, self.parts.get(one.part, PartUse()).last)

    def _is_over(self, accepted: int, last: int) -> bool:
        """Whether it had its days and was not used in them."""
        days, begun = self.terms.days, max(accepted, self.usage.since, last)
        return bool(days) and self.usage.days >= WORKED and self.now - begun >= days * DAY


def _last(parts: Mapping[str, PartUse]) -> int:
    return max((one.last for one in parts.values()), default=0)


def day(at: int) -> str:
    """Return a time in ms since 1970 as a date in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(at / 1000))
