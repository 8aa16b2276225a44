"""Replay: recorded calls, run with the live version and with a candidate, each in a sandboxed checkout.

Both versions of a run see the files of the record's commit and its input: what differs is the candidate's doing, and
an answer in which the time stands differs from itself, and is left out. A run differs from the call that was recorded
in these ways: no network, no home, few variables, files that git does not know are missing, secrets in the input read
``***``, the folder is another, and the time is the present.
"""

import asyncio
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from instar.plugin import process
from instar.plugins.evolve import edit, protocol
from instar.plugins.evolve.candidate import Candidate, GateContext, text
from instar.plugins.evolve.gate.record import Failure, HookCallRecord
from instar.plugins.evolve.history.checkout import ReplayCheckouts
from instar.plugins.evolve.history.trailers import counted
from instar.plugins.evolve.script import OUTPUT_LIMIT
from instar.plugins.evolve.trial import Bench, Changes, TrialFile, Trials

Kind = Literal["answer", Failure, "cut"]
Verdict = Literal[
    "same", "changed", "silent", "crash", "timeout", "malformed", "noise", "both", "mended", "cut"
]
BAD: Final = ("crash", "timeout", "malformed")
"""Verdicts of which one alone refuses a candidate."""
_LONG: Final = 200_000
_LINES: Final = 2000
_WIDTH: Final = 200
_SHOWN_LINES: Final = 40
_TAIL: Final = 1000
_LACKING: Final = re.compile(
    r"(name resolution|resolve host|is unreachable|onnection refused|to connect to|urlopen error|EAI_AGAIN|ENETUNREACH|"
    r"ECONNREFUSED|_socket\.socket\b.*\n.*not permitted)|"
    r"\bos(?:\.py|>)\", line \d+, in __getitem__\n(?:.*\n)?KeyError: '(\w+)'|"
    r"\b(\w+): (?:parameter (?:null or )?not set|unbound variable)|"
    r"(?:denied|directory): '(/[^'\n]+)|(/[^\s:']+): (?:Permission denied|No such file)"
)
"""What programs print where the network, a variable or a file is missing in a sandbox."""
_ASK: Final = ", which a replay does not have: ask for it in `sandbox`"
_NEEDS: Final = (
    "the network" + _ASK,
    *("the variable {}" + _ASK,) * 2,
    *("{}, which a replay does not see",) * 2,
)
"""What each group of `_LACKING` means."""
_LINE_END: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\n")


class RunOutcome(msgspec.Struct, frozen=True):
    """How one run ended. `answer` is the merged one, {} for every kind but "answer"; `why` says how it failed.

    The kind "cut" is a run that was stopped since the replay's time was over.
    """

    kind: Kind
    answer: protocol.Answer = {}
    why: str = ""
    printed: str = ""
    seconds: float = 0.0

    @property
    def silent(self) -> bool:
        """Whether it answered nothing: an empty answer, or that it does not know the hook."""
        return self.kind in ("answer", "unknown") and not self.answer

    @property
    def failed(self) -> bool:
        """Whether it ended in a way that a call must not."""
        return self.kind in BAD

    @property
    def need(self) -> str:
        """What a run that failed lacks in a sandbox, as far as what it printed tells."""
        found = _LACKING.search(self.printed)
        at = found.lastindex if found else None
        return _NEEDS[at - 1].format(protocol.clip(found[at], 100)) if found and at else ""


class JudgedRecord(msgspec.Struct, frozen=True):
    """A record, how the two versions did on it, and the verdict."""

    record: HookCallRecord
    live: RunOutcome
    candidate: RunOutcome
    verdict: Verdict


class EffectKinds(msgspec.Struct, frozen=True):
    """Kinds of ``actions`` and of ``notify`` that answers held, by their ``type``."""

    actions: frozenset[str] = frozenset()
    notify: frozenset[str] = frozenset()


def outcome(output: process.Output, hook: str, timeout: float) -> RunOutcome:
    """Return how a run of a hook script ended, as `script.call` takes it."""
    said = (output.stdout[-_TAIL:] + b"\n" + output.stderr[-_TAIL:]).decode(errors="replace")
    printed = _visible(said).strip()
    if output.timed_out:
        return RunOutcome("timeout", {}, f"it took longer than {timeout:.1f} s", printed, output.duration)
    why = _ended_badly(output)
    if output.code and protocol.says_unknown(printed.encode(), hook):
        return RunOutcome("unknown")
    try:
        answer = protocol.parse(output.stdout).answer
    except protocol.Malformed as error:
        return RunOutcome("crash" if why else "malformed", {}, why or str(error), printed, output.duration)
    if output.code and protocol.unknown_hook(answer, hook):
        return RunOutcome("unknown")
    if why:
        return RunOutcome("crash", {}, why, printed, output.duration)
    return RunOutcome("answer", answer, seconds=output.duration)


def same(one: RunOutcome, other: RunOutcome) -> bool:
    """Whether two runs answered the same: by value, keys in any order."""
    return _canonical(one.answer) == _canonical(other.answer)


def judge(live: RunOutcome, candidate: RunOutcome, again: RunOutcome | None = None) -> Verdict:
    """Return the verdict on one record; `again` is a second run of the live version.

    In this order: what was cut short is not judged ("cut"); a failure counts against the candidate only if the live
    version does not fail on the same record ("both"), and for it if only the live one does ("mended"); equal answers,
    or none from both, are "same". Otherwise the live version runs again: if it differs from itself (or answers only
    one of the two times) the record is "noise"; else the candidate is "silent" if it answers nothing, "changed" if
    it answers something else. A silent candidate is compared only with whether the live version answers.
    """
    if "cut" in (live.kind, candidate.kind):
        return "cut"
    if live.failed:
        return "both" if candidate.failed else "mended"
    if candidate.failed:
        return candidate.kind  # type: ignore[return-value]  # one of BAD
    if same(live, candidate):
        return "same"
    if again is None or again.kind == "cut":
        return "cut"
    if candidate.silent:
        return "noise" if again.failed or again.silent else "silent"
    return "changed" if not again.failed and same(live, again) else "noise"


def effects(outcomes: Iterable[RunOutcome]) -> EffectKinds:
    """Return what kinds of actions and notifications the answers of `outcomes` held."""
    answers = [one.answer for one in outcomes]
    return EffectKinds(_kinds(answers, "actions"), _kinds(answers, "notify"))


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The replay of one candidate: of `total` records, what was `judged`, within `limit` seconds.

    `live` and `candidate` are the effects of their answers. `notes` are sentences about what could not be as it was.
    `strict`: a changed answer refuses.
    """

    total: int
    judged: Sequence[JudgedRecord] = ()
    seconds: float = 0.0
    limit: float = 10.0
    strict: bool = False
    stopped: bool = False
    notes: Sequence[str] = ()
    live: EffectKinds = EffectKinds()
    candidate: EffectKinds = EffectKinds()
    shown: int = 5

    @property
    def replayed(self) -> int:
        """How many records were run to a verdict."""
        return sum(one.verdict != "cut" for one in self.judged)

    def count(self, *verdicts: Verdict) -> int:
        """How many records have one of these verdicts."""
        return sum(one.verdict in verdicts for one in self.judged)

    @property
    def changed(self) -> list[JudgedRecord]:
        """Records that the candidate answers otherwise, or no longer."""
        return [one for one in self.judged if one.verdict in ("changed", "silent")]

    @property
    def new(self) -> EffectKinds:
        """Effects of the candidate's answers that none of the live ones had: for the stage that weighs authority."""
        return EffectKinds(
            self.candidate.actions - self.live.actions, self.candidate.notify - self.live.notify
        )

    @property
    def refusal(self) -> str | None:
        """Why the candidate is refused, with what it printed; None when it passes.

        One crash, time-out or malformed answer where the live version has none refuses; so does a hook of which the
        candidate answers no record any more that the live version answers; with `strict` so does any change.
        """
        for one in self.judged:
            if one.verdict in BAD:
                return _failure(one)
        for script, hook in dict.fromkeys(_of(one) for one in self.judged if one.verdict == "silent"):
            mine = [one for one in self.judged if _of(one) == (script, hook)]
            if not any(one.candidate.answer for one in mine):
                count = sum(one.verdict == "silent" for one in mine)
                return f"{script} {hook}: the live version answers {_calls(count)} of it, the candidate none"
        if self.strict and self.changed:
            return f'it changes {_past(self)}, and "evolve.replay" is "strict"'
        return None

    def text(self) -> str:
        """Return the report as the model reads it."""
        return "\n".join(_lines(self))

    def plain(self) -> dict[str, Any]:
        """Return the report as JSON values, for a person's ``--json``."""
        names = ("same", "changed", "silent", *BAD, "noise", "both", "mended", "cut")
        return {
            "total": self.total,
            "replayed": self.replayed,
            "seconds": round(self.seconds, 3),
            "verdicts": {name: self.count(name) for name in names},  # type: ignore[arg-type]
            "changed": [
                {
                    "script": one.record.script,
                    "hook": one.record.hook,
                    "at": one.record.at,
                    "diff": _diff(one),
                }
                for one in self.changed[: self.shown]
            ],
            "actions": sorted(self.new.actions),
            "notify": sorted(self.new.notify),
            "notes": list(self.notes),
            "refusal": self.refusal,
        }


_BEYOND: Final = "had an answer then, and the live version fails here, in a sandbox"


def _lines(report: ReplayReport) -> Iterator[str]:
    if report.total == 0:
        yield "No call has been recorded yet, so there was nothing to replay."
    else:
        how = f"Replayed {report.replayed} of {_calls(report.total)}"
        if report.stopped:
            how += ", and stopped at the first that fails"
        elif report.replayed < report.total:
            how += f" in {report.limit:g} s, the newest of each hook"
        yield f"{how}."
        if report.refusal:
            yield f"Refused: {report.refusal}"
    yield from _changes(report)
    hollow = sum(bool(one.record.answer) and one.live.silent for one in report.judged)
    failed = [one.live for one in report.judged if one.record.answer is not None and one.live.failed]
    needs = Counter(one.need for one in failed)
    for count, said in (
        (report.count("noise"), "left out: the live version does not answer the same way twice"),
        (report.count("both"), "left out: the live version fails in the replay too"),
        (report.count("mended"), "on which the live version fails now succeeded"),
        (needs.pop("", 0), _BEYOND),
        (hollow, "had an answer then, and none from the live version here: what it reads is not in git"),
    ):
        if count:
            yield f"{_calls(count)} {said}."
    for need, count in needs.items():
        yield f"On {count} of {_calls(report.total)} the live version needs {need}."
    for name, kinds in (("actions", report.new.actions), ("notify", report.new.notify)):
        if kinds:
            yield f"Its answers hold {name} that the live version's do not: {', '.join(sorted(kinds))}."
    yield from (f"{note}." for note in report.notes)


def _changes(report: ReplayReport) -> Iterator[str]:
    changed, kept = report.changed, report.count("same")
    if changed:
        yield f"It would have changed {_past(report)}:"
    elif kept:
        yield f"It answers {_calls(kept)} as the live version does."
    for one in changed[: report.shown]:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(one.record.at / 1000))
        yield f"\n{one.record.script} {one.record.hook}, recorded {when} UTC:\n{_diff(one)}"
    if len(changed) > report.shown:
        yield f"({len(changed) - report.shown} more)"


def _past(report: ReplayReport) -> str:
    return f"{len(report.changed)} of {report.replayed} past answers"


def _calls(count: int) -> str:
    return counted(count, "recorded call")


def _of(one: JudgedRecord) -> tuple[str, str]:
    return one.record.script, one.record.hook


def _failure(one: JudgedRecord) -> str:
    what = {"crash": "it fails", "timeout": "it hangs", "malformed": "its answer is malformed"}[one.verdict]
    printed = f"; it printed:\n{one.candidate.printed}" if one.candidate.printed else ""
    return (
        f"{one.record.script} {one.record.hook}: {what} on a recorded call that the live version answers:"
        f" {one.candidate.why}{printed}"
    )


def _ended_badly(output: process.Output) -> str | None:
    if output.signal is not None:
        return f"signal {output.signal} ended it"
    if len(output.stdout) > OUTPUT_LIMIT:
        return f"it printed more than {OUTPUT_LIMIT} bytes"
    return f"exit code {output.code}" if output.code else None


def _canonical(answer: protocol.Answer) -> bytes:
    return msgspec.json.encode(answer, order="deterministic")


def _kinds(answers: Iterable[protocol.Answer], key: str) -> frozenset[str]:
    found = set()
    for answer in answers:
        items = answer.get(key) or []
        for item in items if isinstance(items, list) else [items]:
            kind = item.get("type") if isinstance(item, dict) else item
            found.add(protocol.clip(protocol.as_text(kind), 100))
    return frozenset(found)


def _diff(one: JudgedRecord) -> str:
    live, candidate = _pretty(one.live.answer), _pretty(one.candidate.answer)
    lines = edit.diff("answer", live, candidate).split("\n")
    if len(lines) < 2:
        return f"(they differ beyond the first {_LINES} lines)"
    left = len(lines) - _SHOWN_LINES
    return "\n".join(lines[:_SHOWN_LINES] + ([f"({left} more lines)"] if left > 0 else []))


def _pretty(answer: protocol.Answer) -> str:
    """The answer as lines: JSON with sorted keys, and texts broken after each of their lines."""
    try:
        text = json.dumps(answer, indent=1, sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = _canonical(answer).decode(errors="replace")
    lines = _LINE_END.sub(r"\1\\n\n", text[:_LONG]).split("\n")[:_LINES]
    return "".join(f"{_visible(line if len(line) <= _WIDTH else line[:_WIDTH] + '…')}\n" for line in lines)


def _visible(text: str) -> str:
    """The text without what would steer the terminal of a person who reads it."""
    return "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in text)


_LEAST: Final = 0.1
_FAIR: Final = 1.0
_SLOWER: Final = 5


class Side(msgspec.Struct, frozen=True):
    """One of the two versions: files that differ from the commit's, and prompts that differ from the input's."""

    changes: Changes
    prompts: Mapping[str, str] = {}


class ReplayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared and how: `timeout` is ``hook_timeout`` and `limit` the whole replay's, both in seconds.

    One run gets half of `limit` at most. `parallel` records run at once. `strict`: a changed answer refuses. At most
    `shown` changed answers are shown.
    """

    live: Side
    candidate: Side
    timeout: float
    limit: float = 10.0
    strict: bool = False
    parallel: int = 2
    shown: int = 5


def of_hook(file: str, live: TrialFile, candidate: TrialFile) -> tuple[Side, Side]:
    """Return the two sides of a candidate for the hook script `file`."""
    path = f"hooks/{file}"
    return Side({path: live}), Side({path: candidate})


def of_prompt(stage: str, live: str, candidate: str, hooks: Mapping[str, TrialFile]) -> tuple[Side, Side]:
    """Return the two sides of a candidate for ``prompts/<stage>.md``; `hooks` are the live scripts by file name."""
    scripts = {f"hooks/{file}": script for file, script in hooks.items()}

    def side(text: str) -> Side:
        return Side({**scripts, f"prompts/{stage}.md": TrialFile(text.encode())}, {stage: text})

    return side(live), side(candidate)


async def of_candidate(
    candidate: Candidate, before: TrialFile, context: GateContext, bench: Bench, shown: int = 5
) -> ReplayReport:
    """Replay past calls with a candidate and with `before`, what is live; at most `shown` changed answers are shown.

    Raises `NoTrial`.
    """
    if candidate.is_hook:
        live, mine = of_hook(candidate.file, before, candidate.after)
    else:
        stage = candidate.file.removesuffix(".md")
        live, mine = of_prompt(stage, text(before.content), text(candidate.after.content), context.hooks)
    plan = ReplayPlan(
        live=live,
        candidate=mine,
        timeout=bench.timeout,
        limit=bench.replay_seconds,
        strict=bench.strict,
        shown=shown,
    )
    return await replay(bench.trials, bench.checkouts, context.records, plan, context.unread)


async def replay(
    trials: Trials,
    checkouts: ReplayCheckouts,
    records: Sequence[HookCallRecord],
    plan: ReplayPlan,
    notes: Iterable[str] = (),
) -> ReplayReport:
    """Run `records`, newest first, of the scripts that both sides of `plan` have, and report.

    It ends at the first record that refuses by itself, and when the time is over. `notes` go into the report.
    Without records it passes. Raises `NoTrial` where nothing can be tried.
    """
    mine = [record for record in records if _script(plan.candidate, record) and _script(plan.live, record)]
    running = _Replay(trials, checkouts, plan)
    waiting = sampled(mine)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(plan.parallel):
                group.create_task(running.work(waiting))
    except BaseExceptionGroup as raised:
        raise raised.exceptions[0] from None
    await checkouts.prune()
    return running.report(len(mine), notes)


def sampled(records: Iterable[HookCallRecord]) -> Iterator[HookCallRecord]:
    """Yield the records in the order in which they are replayed: newest first, one of each hook in turn."""
    hooks: dict[tuple[str, str], list[HookCallRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda record: -record.at):
        hooks[record.script, record.hook].append(record)
    for turn in range(max(map(len, hooks.values()), default=0)):
        yield from (found[turn] for found in hooks.values() if turn < len(found))


class _Replay:
    """One replay at work."""

    def __init__(self, trials: Trials, checkouts: ReplayCheckouts, plan: ReplayPlan) -> None:
        self._trials = trials
        self._checkouts = checkouts
        self._plan = plan
        self._begun = time.monotonic()
        self._longest = min(plan.timeout, plan.limit / 2)
        self._judged: list[JudgedRecord] = []
        self._outcomes: tuple[list[RunOutcome], list[RunOutcome]] = ([], [])
        self._notes: dict[str, None] = {}
        self._stopped = False

    async def work(self, waiting: Iterator[HookCallRecord]) -> None:
        for record in waiting:
            if self._stopped or self._left() < _LEAST:
                return
            self._judged.append(await self._judge(record))
            self._stopped = self._stopped or self._judged[-1].verdict in BAD

    def report(self, total: int, notes: Iterable[str]) -> ReplayReport:
        plan, (live, candidate) = self._plan, self._outcomes
        return ReplayReport(
            total=total,
            judged=self._judged,
            seconds=time.monotonic() - self._begun,
            limit=plan.limit,
            strict=plan.strict,
            stopped=self._stopped,
            notes=[*notes, *self._notes],
            live=effects(live),
            candidate=effects(candidate),
            shown=plan.shown,
        )

    def _left(self) -> float:
        return self._begun + self._plan.limit - time.monotonic()

    async def _judge(self, record: HookCallRecord) -> JudgedRecord:
        checkout = await self._checkouts.at(record.commit)
        if checkout.problem:
            self._notes[checkout.problem] = None
        live = await self._run(self._plan.live, record, checkout.folder)
        candidate = await self._run(self._plan.candidate, record, checkout.folder, live.seconds)
        again = None
        if not live.failed and not candidate.failed and not same(live, candidate):
            again = await self._run(self._plan.live, record, checkout.folder)
        self._outcomes[0].extend([live, again] if again else [live])
        self._outcomes[1].append(candidate)
        return JudgedRecord(record, live, candidate, judge(live, candidate, again))

    async def _run(
        self, side: Side, record: HookCallRecord, folder: Path, fair: float | None = None
    ) -> RunOutcome:
        """Run one side. `fair` is what the other one took: a run that is cut short far beyond it has hung."""
        script = _script(side, record)
        if script is None or self._left() < _LEAST:
            return RunOutcome("cut")
        async with self._trials.copy(folder, side.changes) as trial:
            timeout = min(self._longest, max(self._left(), _LEAST))
            path = str(trial.root / "hooks" / record.script)
            try:
                output = await trial.run(
                    [path, record.hook],
                    stdin=_stdin(record, side.prompts),
                    timeout=timeout,
                    limit=OUTPUT_LIMIT + 1,
                    # Else sets of texts are in another order in each run of Python.
                    env={"PYTHONHASHSEED": "0"},
                )
            except process.ProcessError as error:
                return RunOutcome("crash", {}, f"it could not be started: {error}")
        if output.timed_out and timeout < self._longest:
            hung = fair is not None and output.duration >= max(_FAIR, _SLOWER * fair)
            if not hung:
                return RunOutcome("cut")
        return outcome(output, record.hook, timeout)


def _script(side: Side, record: HookCallRecord) -> TrialFile | None:
    return side.changes.get(f"hooks/{record.script}")


def _stdin(record: HookCallRecord, prompts: Mapping[str, str]) -> bytes:
    """The record's input, with other prompts in it where there are any."""
    if not prompts:
        return record.stdin
    value = msgspec.json.decode(record.stdin)
    held = value.get("prompts") if isinstance(value, dict) else None
    if not isinstance(held, dict):
        return record.stdin
    return msgspec.json.encode({**value, "prompts": {**held, **prompts}})
