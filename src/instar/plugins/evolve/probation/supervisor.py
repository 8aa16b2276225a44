"""Supervision: too many failures in a short time stop the retrying.

Two rules, as in the supervisors of Erlang/OTP and systemd, both pure: a state in, a state out, with the time as an
argument (ms of the wall clock) and JSON-able states.

*Attempts*, of a workspace: an *attempt* is an install that was rolled back, or a start that was refused. At
`MOST` failed attempts within `WINDOW` evolve stops trying: it is frozen for changes until a person
thaws it, or for a pause that doubles each time and begins again from the first one after a day without a freeze. Law:
no window of that length holds more than `MOST` attempts that failed while it was not frozen. What was under way when it
froze is counted with what comes after the freeze.

*Pauses*, one for each script and hook: after `FAILURES` failures in a row the script is not called for
that hook for a pause that doubles with each further failure, up to `LONGEST_PAUSE`; after each pause one call
tries it again, and one success, or a new version, ends it. That it rests is said once.

A clock that is put back ends a script's pause, and begins a freeze anew once `settled` was asked.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_DAY: Final = 24 * 60 * _MINUTE
_DOUBLINGS: Final = 30
"""Doublings that are counted: by then every pause is at its longest."""


MOST: Final = 5
"""Failed attempts that are borne within `WINDOW`."""
WINDOW: Final = 10 * _MINUTE
LONGEST_FREEZE: Final = _DAY

FAILURES: Final = 5
"""Failures of a script in a row after which it is called for that hook only after pauses."""
PAUSE: Final = _SECOND
LONGEST_PAUSE: Final = 10 * _MINUTE


class Attempts(msgspec.Struct, frozen=True):
    """The failed attempts of a workspace: when they were, and the freeze that they led to.

    `trips` counts the freezes on end, `since` and `until` are the last one's times.
    """

    times: tuple[int, ...] = ()
    trips: int = 0
    since: int = 0
    until: int = 0
    why: str = ""


class Rest(msgspec.Struct, frozen=True):
    """One script and hook: its version, its failures in a row, and the pause that it is in."""

    version: str
    failures: int = 0
    since: int = 0
    until: int = 0


class Pauses(msgspec.Struct, frozen=True):
    """The scripts that failed lately, by file and then by hook."""

    rests: Mapping[str, Mapping[str, Rest]] = {}


def frozen(state: Attempts, now: int) -> str | None:
    """Return why no change is tried now, with what to do; None when one may be."""
    left = min(state.until - now, state.until - state.since)
    if left <= 0:
        return None
    return (
        f"changes are frozen for another {_span(left)}, since {state.why}. "
        "Nothing is changed until then; a person can end it with: instar evolve thaw"
    )


def failed(state: Attempts, now: int, what: str) -> Attempts:
    """Take note of a failed attempt; `what` says which, for people. It may freeze."""
    # A time to come was written by a clock that has been put back: it counts as now, rather than not at all.
    times = [min(time, now) for time in state.times if min(time, now) > now - WINDOW]
    times = [*times, now][-MOST:]
    if len(times) < MOST or frozen(state, now) is not None:
        return msgspec.structs.replace(state, times=tuple(times))
    trips = 0 if _forgotten(state, now) else state.trips
    pause = _doubled(WINDOW, trips, LONGEST_FREEZE)
    why = f"{len(times)} changes failed within {_span(WINDOW)}, the last one: {what}"
    return Attempts((), trips + 1, now, now + pause, why)


def settled(state: Attempts, now: int) -> Attempts:
    """Begin a freeze of the future now: the clock was put back. Ask it at start, or it lasts until that time comes."""
    if now >= state.since:
        return state
    return msgspec.structs.replace(state, since=now, until=now + state.until - state.since)


def resting(state: Pauses, file: str, hook: str, version: str, now: int) -> int:
    """Return for how many ms more the script is not called for this hook; 0: it is called."""
    rest = state.rests.get(file, {}).get(hook)
    if rest is None or rest.version != version:
        return 0
    return _left(rest, now)


def answered(state: Pauses, file: str, hook: str, version: str) -> Pauses:
    """Take note of a call that did not fail. The same state where there is nothing to note."""
    hooks = state.rests.get(file, {})
    if hook not in hooks or hooks[hook].version != version:
        return state
    return _rests(state, file, {name: one for name, one in hooks.items() if name != hook})


def faltered(state: Pauses, file: str, hook: str, version: str, now: int) -> tuple[Pauses, str | None]:
    """Take note of a call that failed; the sentence that is to be said, the first time that it has to rest.

    Of calls that ran at the same time, those that end within the pause that another began add nothing.
    """
    hooks = {name: one for name, one in state.rests.get(file, {}).items() if one.version == version}
    rest = hooks.get(hook, Rest(version))
    if _left(rest, now):
        return state, None
    failures = rest.failures + 1
    if failures < FAILURES:
        return _rests(state, file, {**hooks, hook: Rest(version, failures)}), None
    pause = _doubled(PAUSE, failures - FAILURES, LONGEST_PAUSE)
    state = _rests(state, file, {**hooks, hook: Rest(version, failures, now, now + pause)})
    if failures > FAILURES:
        return state, None
    return state, (
        f"{file} failed {failures} times in a row at {hook}: it is now called for it only after pauses, which grow "
        f"from {_span(PAUSE)} to {_span(LONGEST_PAUSE)}, until it succeeds or is changed"
    )


def _rests(state: Pauses, file: str, hooks: Mapping[str, Rest]) -> Pauses:
    others = {name: one for name, one in state.rests.items() if name != file}
    return Pauses({**others, file: hooks} if hooks else others)


def _left(rest: Rest, now: int) -> int:
    return max(0, rest.until - now) if now >= rest.since else 0


def _forgotten(state: Attempts, now: int) -> bool:
    return now - state.until >= _DAY


def _doubled(first: int, times: int, longest: int) -> int:
    return int(min(first * 2 ** min(times, _DOUBLINGS), longest))


def _span(ms: int) -> str:
    """A span of time in words, rounded up."""
    for unit, name in ((60 * _MINUTE, "h"), (_MINUTE, "min"), (_SECOND, "s")):
        if ms >= 2 * unit or (ms >= unit and ms % unit == 0):
            return f"{-(-ms // unit)} {name}"
    return f"{ms} ms"
