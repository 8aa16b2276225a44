"""When the heart beats. Pure functions: a state in, a state and what is to be written down out.

An *occurrence* is one beat as the timer asks for it. Occurrences are numbered from 0 without gaps, and the law is: each
number stands in the log exactly once, as a beat that ran (`ran`, `failed`), as one that a crash or a cancellation cut
short (`interrupted`), or as one that was skipped, with the reason. An entry is about `times` occurrences from `number`
on; `times` is 0 where it is about the schedule only (`paused`, `resumed`, `moved`).

The rules (times in ms of the wall clock):

- The next beat is due when it was due, also after a restart; it is never further away than the interval.
- Of several that are overdue the last one runs, the others are skipped in one entry. What came due while a beat ran is
  skipped, as is what came due during a pause; those that follow keep their times.
- A beat that was begun more than a tenth of the interval late moves the next one: it is due an interval after it.
- A beat that somebody asked for takes the place of the next one, and does not wait for busy sessions.
- A beat that has begun is never begun again: a process that finds one without its end writes `interrupted`.
- The wall clock counts, also one that was set: put forward it is time that went by, and put back it leaves what is due
  no further away than the interval.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from instar.plugins.evolve import protocol
from instar.plugins.evolve.settings import Cleanup

Kind = Literal["ran", "failed", "interrupted", "skipped", "paused", "resumed", "moved"]
Decision = Literal["none", "new", "archive", "compact", "later"]
"""What is done with the heartbeat session, see `clean`."""

_LATE = 10
"""A beat is late when it begins more than this part of the interval after it was due."""

_LONGEST = 500
"""Characters of a reason."""


class ScheduleRefused(Exception):
    """Something that cannot be asked of the schedule now; the text says why and what to do."""


class BeatEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the log. `at` is when it began or happened, `end` when a beat ended, `due` when it was due.

    `why` is the reason, or the error of a beat that failed. `session`, `tokens` and `cost` (dollars) are a beat's.
    """

    kind: Kind
    number: int
    at: int
    times: int = 1
    due: int | None = None
    end: int | None = None
    why: str = ""
    session: str = ""
    tokens: int = 0
    cost: float = 0.0
    asked: bool = False


class BeatOutcome(msgspec.Struct, frozen=True):
    """What became of a beat. `error` is empty for one that went well; `skipped` says why it sent nothing.

    `session` is the session that it ran in, `cleaned` what was done with that: summarised, its count begins again; put
    away or left (`archive`, `new`), the next beat needs another one. `interrupted` says what cut it short.
    `recovered` says which scripts failed whose recover spoke in their place.
    """

    session: str = ""
    tokens: int = 0
    cost: float = 0.0
    error: str = ""
    recovered: str = ""
    skipped: str = ""
    interrupted: str = ""
    cleaned: Decision = "none"


class Begun(msgspec.Struct, frozen=True, omit_defaults=True):
    """A beat that has begun and not ended. `due` is None for one that nothing but a person asked for."""

    number: int
    at: int
    due: int | None = None
    asked: bool = False


class Pause(msgspec.Struct, frozen=True):
    """A pause: since when, and why (``a person``, …)."""

    since: int
    why: str


class Tally(msgspec.Struct, frozen=True):
    """The heartbeat session: how many beats it had, and their tokens, since it was cleaned. "": there is none."""

    session: str = ""
    count: int = 0
    tokens: int = 0


class CleanupDecision(NamedTuple):
    """What to do with the session, and why. `later`: it is busy; ask again after the next beat.

    `new` leaves the session and begins another, `archive` puts it away as well, `compact` summarises it.
    """

    decision: Decision
    why: str = ""


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that outlasts a process.

    `every` is the interval (below 1: the timer is off, `due` is None), `number` that of the next occurrence, `last`
    when the last beat began.
    """

    every: int = 0
    due: int | None = None
    number: int = 0
    last: int | None = None
    asked: bool = False
    paused: Pause | None = None
    beat: Begun | None = None
    tally: Tally = Tally()


class Turned(NamedTuple):
    """A state, and the entries that tell how it came about."""

    state: State
    entries: list[BeatEntry]


Turn = Callable[[State, int], Turned]
"""A change of the schedule at a time."""


def opened(state: State, now: int) -> Turned:
    """Take up what an earlier process left. Only the one process that may beat calls this."""
    state, entries = interrupted(state, now, "instar ended before the beat did")
    return Turned(_near(state, now), entries)


def set_every(state: State, every: int, now: int) -> Turned:
    """Take the interval from the settings. A new one counts from the last beat, or from now."""
    every = max(every, 0)
    if every == state.every and (state.due is None) == (every == 0):
        return Turned(_near(state, now), [])
    if every == 0:
        return Turned(_with(state, every=0, due=None), [])
    if state.due is None:
        due = now + every
    else:
        # What is overdue stays so, or nobody would hear of it.
        due = state.due if state.due <= now else max(state.due - state.every + every, now)
    return Turned(_near(_with(state, every=every, due=due), now), [])


def is_due(state: State, now: int) -> bool:
    """Whether `passed` has anything to do."""
    if state.beat is not None or state.paused is not None:
        return False
    return state.asked or (state.due is not None and state.due <= now)


def wait(state: State, now: int) -> int | None:
    """Return how many ms nothing will be due; None: until somebody asks for it."""
    if is_due(state, now):
        return 0
    if state.beat is not None or state.paused is not None or state.due is None:
        return None
    return state.due - now


def passed(state: State, now: int, busy: str = "") -> Turned:
    """Begin the beat that is due (`Turned.state.beat`), or skip it: `busy` says why it may not run now."""
    if not is_due(state, now):
        return Turned(state, [])
    overdue = _count(state, now)
    entries = []
    if overdue > 1:
        why = "overdue: one beat stands for all"
        entries.append(_skipped(state, now, overdue - 1, why))
        state = _with(state, number=state.number + overdue - 1, due=_after(state, overdue - 1))
    due, asked = state.due, state.asked
    number = state.number
    state = _with(state, number=number + 1, asked=False, due=_next(state, now))
    at_its_time = due if due is not None and due <= now else None
    if busy and not asked:
        entries.append(BeatEntry("skipped", number, now, due=at_its_time, why=protocol.clip(busy, _LONGEST)))
    else:
        state = _with(state, beat=Begun(number, now, at_its_time, asked), last=now)
    return Turned(state, entries)


def ended(state: State, now: int, outcome: BeatOutcome) -> Turned:
    """Write down the end of the beat that had begun."""
    kind: Kind = "failed" if outcome.error else "skipped" if outcome.skipped else "ran"
    state, entries = _close(state, now, "interrupted" if outcome.interrupted else kind, outcome)
    if entries and state.paused is None:
        # `resume` sees to what came due in a pause.
        state, missed = _pass_over(state, now, f"beat {entries[0].number} was still running")
        entries += missed
    return Turned(_with(state, tally=_tallied(state.tally, outcome)), entries)


def interrupted(state: State, now: int, why: str) -> Turned:
    """Write down that the beat which had begun was cut short."""
    return _close(state, now, "interrupted", BeatOutcome(interrupted=why))


def pause(state: State, now: int, why: str) -> Turned:
    """Let no beat begin until `resume`. One that runs goes on; what was asked for is dropped."""
    if state.paused is not None:
        return Turned(state, [])
    why = protocol.clip(why, _LONGEST)
    entry = BeatEntry("paused", state.number, now, times=0, why=why)
    return Turned(_with(state, paused=Pause(now, why), asked=False), [entry])


def resume(state: State, now: int) -> Turned:
    """End a pause. What came due during it is skipped."""
    if state.paused is None:
        return Turned(state, [])
    why = f"paused: {state.paused.why}"
    state, entries = _pass_over(_with(state, paused=None), now, why)
    return Turned(_near(state, now), [*entries, BeatEntry("resumed", state.number, now, times=0)])


def ask(state: State, now: int) -> Turned:
    """Ask for a beat now, whatever the timer says. Raises `ScheduleRefused` during a pause and during a beat."""
    if state.paused is not None:
        raise ScheduleRefused(
            f"heartbeats are paused ({state.paused.why}): resume them first (instar heartbeat resume)"
        )
    if state.beat is not None:
        raise ScheduleRefused("a heartbeat is running already: wait for its end")
    return Turned(_with(state, asked=True), [])


def tallied(tally: Tally, session: str, tokens: int) -> Tally:
    """Return the tally with one more beat in `session`."""
    if not session:
        return tally
    before = tally if tally.session == session else Tally(session)
    return Tally(session, before.count + 1, before.tokens + tokens)


def clean(
    cleanup: Cleanup, count: int | None, tokens: int | None, tally: Tally, *, busy: bool
) -> CleanupDecision:
    """Return what is to be done after a beat with the session of `tally`, whose last beat is counted in it.

    `count` (beats) and `tokens` are thresholds; None is none. Each holds on its own: the first one that is reached
    acts. With `none` neither does. A busy session is never cleaned.
    """
    reached = [
        f"{had} {unit} of {limit}"
        for had, limit, unit in ((tally.count, count, "heartbeats"), (tally.tokens, tokens, "tokens"))
        if limit is not None and had >= limit
    ]
    if cleanup == "none" or not tally.session or not reached:
        return CleanupDecision("none")
    why = f"session {tally.session} has had {' and '.join(reached)}"
    return CleanupDecision("later", f"{why}, but is busy") if busy else CleanupDecision(cleanup, why)


def _tallied(tally: Tally, outcome: BeatOutcome) -> Tally:
    if outcome.skipped:
        # Nothing was sent: its session had no beat more.
        return tally
    after = tallied(tally, outcome.session, outcome.tokens)
    if outcome.cleaned in ("new", "archive"):
        return Tally()
    return Tally(after.session) if outcome.cleaned == "compact" else after


def _close(state: State, now: int, kind: Kind, outcome: BeatOutcome) -> Turned:
    beat = state.beat
    if beat is None:
        return Turned(state, [])
    entry = BeatEntry(
        kind,
        beat.number,
        beat.at,
        due=beat.due,
        end=now,
        why=protocol.clip(
            outcome.error or outcome.skipped or outcome.interrupted or outcome.recovered, _LONGEST
        ),
        session=outcome.session,
        tokens=outcome.tokens,
        cost=outcome.cost,
        asked=beat.asked,
    )
    return Turned(_with(state, beat=None), [entry])


def _pass_over(state: State, now: int, why: str) -> Turned:
    count = _count(state, now)
    if state.due is None or state.due > now:
        return Turned(state, [])
    entry = _skipped(state, now, count, why)
    return Turned(_with(state, number=state.number + count, due=_after(state, count)), [entry])


def _skipped(state: State, now: int, times: int, why: str) -> BeatEntry:
    return BeatEntry("skipped", state.number, now, times=times, due=state.due, why=why)


def _count(state: State, now: int) -> int:
    """How many have come due, at least 1: the one that somebody asked for counts where none has."""
    if state.due is None or state.due > now:
        return 1
    return (now - state.due) // state.every + 1


def _after(state: State, count: int) -> int | None:
    return state.due + count * state.every if state.due is not None else None


def _next(state: State, now: int) -> int | None:
    if state.due is None:
        return None
    late = now - state.due
    return state.due + state.every if 0 <= late * _LATE <= state.every else now + state.every


def _near(state: State, now: int) -> State:
    """The state with what is due no further away than the interval."""
    if state.due is None or state.due <= now + state.every:
        return state
    return _with(state, due=now + state.every)


def _with(state: State, **changes: object) -> State:
    return msgspec.structs.replace(state, **changes)
