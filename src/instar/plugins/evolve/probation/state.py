"""Probation: the first calls of a version that was installed decide whether it stays.

Pure: a state in, a state out, time as an argument (ms of the wall clock). The state is JSON-able. Its owner keeps it
where the model cannot write, at the latest after each verdict.

For each file (``hooks/x.py``, ``prompts/chat.md``) the state knows the *kept* version, which is the last one that
passed its probation or that a person put there, how its calls ended lately, and the version *on trial*, if there is
one. What it is compared with, and what it goes back to, is always the kept version: a version that was installed while
another was on trial is not excused by that one's failures.

The rules:

- A call counts as a failure by its kind (`Kind`), hook by hook. A kind that the kept version had too, on the same
  hook, is excused as long as it comes no more than twice as often as there: of m calls of the hook,
  ``ceil(m * min(1, 2 * rate))`` of them, with the rate of the kept version's latest calls. Twice, since two versions
  that are alike differ by chance; and a rate, since one time-out last year does not excuse a version that always
  times out.
- ``silent`` (nothing was answered) counts where the kept version's calls of this hook all answered something.
- ``unknown`` (the script says that it does not know the hook) on a hook that the kept version answered decides at
  once: the script is not asked again, so no further call could.
- More than `ProbationLimits.failures` failures within the first `ProbationLimits.calls` calls roll the version back;
  so does a prediction that is broken (`prediction`).
- After `ProbationLimits.calls` calls the version is kept; one with a prediction that is still open stays on trial
  until that is decided, and only the prediction can take it back then.
- What says nothing about the script is not given to `called`: a call that was cancelled, or that could not be started
  since the runtime is closing.

A verdict to roll back is given once, however many calls are running, and stands in the state (`owed`) until the owner
says `rolled_back`: a crash between the two loses nothing.
"""

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from instar.plugins.evolve.probation import prediction
from instar.plugins.evolve.probation.prediction import FAILURES, CallEnd, Course, Prediction

_RECENT: Final = 200
"""Calls of a hook after which older ones begin to count half: the rate is that of the latest ones."""
_SLACK: Final = 2.0
_BITS: Final = 1e-9
"""What the last bits of a product may add: 0.2 * 5 is 1."""
_ANSWERED: Final = "answered"
_DETAILS: Final = 10
_DETAIL: Final = 300


class ProbationLimits(msgspec.Struct, frozen=True):
    """`evolve.probation_failures` and `evolve.probation_calls` of the person's settings."""

    failures: int = 3
    calls: int = 50


class CallHistory(msgspec.Struct, frozen=True):
    """How the calls of one hook ended: how many there were, and how many of each kind. Old ones fade."""

    calls: float = 0.0
    kinds: Mapping[str, float] = {}

    def rate(self, kind: str) -> float:
        """Return the share of the calls that ended so, 0 to 1."""
        return self.kinds.get(kind, 0.0) / self.calls if self.calls else 0.0


class CountedFailure(msgspec.Struct, frozen=True):
    """One failure that counted."""

    hook: str
    kind: str
    why: str


class OnTrial(msgspec.Struct, frozen=True):
    """A version on probation. `faults` are the first that counted, `failed` is how many did.

    `leaving` is why it has to go; it stays in the state until that is done.
    """

    version: str
    since: int
    calls: int = 0
    failed: int = 0
    faults: tuple[CountedFailure, ...] = ()
    past: Mapping[str, CallHistory] = {}
    expect: Prediction | None = None
    course: Course | None = None
    leaving: str | None = None


class FileProbation(msgspec.Struct, frozen=True):
    """One file: its kept version, how that one's calls ended, and the version on trial."""

    kept: str
    past: Mapping[str, CallHistory] = {}
    trial: OnTrial | None = None


class Probation(msgspec.Struct, frozen=True):
    """The whole state, by file."""

    files: Mapping[str, FileProbation] = {}


class ProbationPassed(msgspec.Struct, frozen=True):
    """A version passed its probation. `text` says how, with its prediction."""

    file: str
    version: str
    text: str


class RollBack(msgspec.Struct, frozen=True):
    """A version has to go; `to` is the kept version that takes its place again, `why` is for the session and log."""

    file: str
    version: str
    to: str
    why: str


Verdict = ProbationPassed | RollBack


def installed(
    state: Probation, file: str, before: str, version: str, now: int, expect: Prediction | None = None
) -> Probation:
    """Put `version` on trial. `before` was live until now; it is the kept one where nothing else is known.

    A version that was on trial is replaced and never kept; the kept version itself, put back, is not tried again.
    `version` and `before` are content hashes.
    """
    standing = state.files.get(file)
    known = () if standing is None else (standing.kept, standing.trial.version if standing.trial else None)
    if standing is None or before not in known:
        # Put there behind our back, and accepted since: nothing is known of how it does.
        standing = FileProbation(before)
    course = None if expect is None else Course(now)
    trial = None if version == standing.kept else OnTrial(version, now, expect=expect, course=course)
    return _with(state, file, msgspec.structs.replace(standing, trial=trial))


def placed(state: Probation, file: str, version: str) -> Probation:
    """Take a version that a person put there, or accepted, as kept: it is on nobody's probation."""
    return _with(state, file, FileProbation(version))


def removed(state: Probation, file: str) -> Probation:
    """Forget a file that is gone."""
    return Probation({name: standing for name, standing in state.files.items() if name != file})


def called(
    state: Probation, file: str, version: str, ended: CallEnd, now: int, limits: ProbationLimits
) -> tuple[Probation, Verdict | None]:
    """Take one call of `version` into account; the verdict, if this call brought it about.

    A call of a version that is neither kept nor on trial (it began before a change) says nothing.
    """
    standing = state.files.get(file)
    if standing is None:
        standing = FileProbation(version)
    trial = standing.trial
    if trial is not None and version == trial.version:
        return _tried(state, file, standing, trial, ended, now, limits)
    if version == standing.kept:
        past = _added(standing.past, ended)
        return _with(state, file, msgspec.structs.replace(standing, past=past)), None
    return state, None


def passed(state: Probation, now: int, limits: ProbationLimits) -> tuple[Probation, list[Verdict]]:
    """Judge what is decided by time alone: call it now and then, and at start."""
    verdicts: list[Verdict] = []
    for file, standing in state.files.items():
        if standing.trial is not None and standing.trial.leaving is None:
            state, verdict = _judged(state, file, standing, standing.trial, now, limits)
            verdicts += [verdict] if verdict is not None else []
    return state, verdicts


def owed(state: Probation) -> list[RollBack]:
    """Return the rollbacks that were decided and not done. Ask under the lock that changes files are made under."""
    return [
        RollBack(file, trial.version, standing.kept, trial.leaving)
        for file, standing in state.files.items()
        if (trial := standing.trial) is not None and trial.leaving is not None
    ]


def rolled_back(state: Probation, file: str, version: str) -> Probation:
    """Take note that `version` is gone and the kept one is live again."""
    standing = state.files.get(file)
    if standing is None or standing.trial is None or standing.trial.version != version:
        return state
    return _with(state, file, msgspec.structs.replace(standing, trial=None))


def condemned(state: Probation, one: RollBack, now: int) -> Probation:
    """Decide a rollback from without: nothing is asked of the version's calls any more."""
    standing = state.files.get(one.file, FileProbation(one.to))
    known = standing if standing.kept == one.to else FileProbation(one.to)
    trial = OnTrial(one.version, now, leaving=one.why)
    return _with(state, one.file, msgspec.structs.replace(known, trial=trial))


def describe(state: Probation, file: str, now: int, limits: ProbationLimits) -> str | None:
    """Return how the trial of `file` stands, for people; None when nothing of it is on trial."""
    standing = state.files.get(file)
    if standing is None or standing.trial is None:
        return None
    trial = standing.trial
    if trial.leaving is not None:
        return f"to be rolled back: {trial.leaving}"
    calls = f"{min(trial.calls, limits.calls)} of {limits.calls} calls, {trial.failed} of them failed anew"
    expected = _finding(trial, now)
    return f"on probation: {calls}" + (f"; expected {expected.text}" if expected else "")


def _tried(
    state: Probation,
    file: str,
    standing: FileProbation,
    trial: OnTrial,
    ended: CallEnd,
    now: int,
    limits: ProbationLimits,
) -> tuple[Probation, Verdict | None]:
    if trial.leaving is not None:
        return state, None
    # A deadline of minutes that is over is judged on what came before it.
    if (finding := _finding(trial, now)) is None or finding.outcome == "open":
        trial = _expected(trial, ended)
    if trial.calls < limits.calls:
        trial = _counted(trial, standing.past, ended)
    state = _with(state, file, msgspec.structs.replace(standing, trial=trial))
    return _judged(state, file, standing, trial, now, limits)


def _counted(trial: OnTrial, before: Mapping[str, CallHistory], ended: CallEnd) -> OnTrial:
    past = _added(trial.past, ended)
    faults = trial.faults
    if ended.kind is not None and _excess(before, past, ended.hook, ended.kind) and len(faults) < _DETAILS:
        faults = (*faults, CountedFailure(ended.hook, ended.kind, ended.why[:_DETAIL]))
    failed = sum(_excess(before, past, hook, kind) for hook, one in past.items() for kind in one.kinds)
    leaving = None
    if ended.kind == "unknown" and _excess(before, past, ended.hook, ended.kind):
        leaving = f"it says that it does not know the hook {ended.hook}, which the version before it answered"
    return msgspec.structs.replace(
        trial, calls=trial.calls + 1, failed=failed, faults=faults, past=past, leaving=leaving
    )


def _excess(before: Mapping[str, CallHistory], now: Mapping[str, CallHistory], hook: str, kind: str) -> int:
    """How many of the calls that ended so are failures that the version before did not have."""
    was = before.get(hook, CallHistory())
    if kind == _ANSWERED or (kind not in FAILURES and (not was.rate(_ANSWERED) or was.rate("silent"))):
        return 0
    excused = math.ceil(min(1.0, _SLACK * was.rate(kind)) * now[hook].calls - _BITS)
    return max(0, math.floor(now[hook].kinds[kind] - excused))


def _expected(trial: OnTrial, ended: CallEnd) -> OnTrial:
    if trial.expect is None or trial.course is None:
        return trial
    return msgspec.structs.replace(trial, course=prediction.observe(trial.expect, trial.course, ended))


def _judged(
    state: Probation, file: str, standing: FileProbation, trial: OnTrial, now: int, limits: ProbationLimits
) -> tuple[Probation, Verdict | None]:
    why = trial.leaving
    if why is None and trial.failed > limits.failures:
        why = _why(trial, limits)
    finding = _finding(trial, now)
    if why is None and finding is not None and finding.outcome == "broken":
        why = f"its prediction is broken: {finding.text}"
    if why is not None:
        leaving = msgspec.structs.replace(trial, leaving=why)
        state = _with(state, file, msgspec.structs.replace(standing, trial=leaving))
        return state, RollBack(file, trial.version, standing.kept, why)
    if trial.calls < limits.calls or (finding is not None and finding.outcome == "open"):
        return state, None
    text = f"kept after {trial.calls} calls, of which {trial.failed} failed anew"
    text += f"; its prediction {finding.outcome}: {finding.text}" if finding is not None else ""
    return _with(state, file, FileProbation(trial.version, trial.past)), ProbationPassed(
        file, trial.version, text
    )


def _why(trial: OnTrial, limits: ProbationLimits) -> str:
    said: dict[str, int] = {}
    for fault in trial.faults:
        one = f"{fault.hook} {fault.kind}" + (f" ({fault.why})" if fault.why else "")
        said[one] = said.get(one, 0) + 1
    shown = ", ".join(f"{one} {count} times" if count > 1 else one for one, count in said.items())
    return (
        f"{trial.failed} of its first {trial.calls} calls failed as the version before it did not "
        f"(more than {limits.failures} of {limits.calls} may not): {shown}"
    )


def _finding(trial: OnTrial, now: int) -> prediction.Finding | None:
    if trial.expect is None or trial.course is None:
        return None
    return prediction.judge(trial.expect, trial.course, now)


def _added(past: Mapping[str, CallHistory], ended: CallEnd) -> dict[str, CallHistory]:
    """The past with one call more."""
    one = past.get(ended.hook, CallHistory())
    kind = ended.kind or _ANSWERED
    fade = 0.5 if one.calls >= _RECENT else 1.0
    kinds = {name: count * fade for name, count in one.kinds.items()}
    kinds[kind] = kinds.get(kind, 0.0) + 1
    return {**past, ended.hook: CallHistory(one.calls * fade + 1, kinds)}


def _with(state: Probation, file: str, standing: FileProbation) -> Probation:
    return Probation({**state.files, file: standing})
