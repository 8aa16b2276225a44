"""Replay: recorded calls, run with the live version and with a candidate, each in a sandboxed checkout.

Both versions of a run see the files of the record's commit and its input: what differs is the candidate's doing, and
an answer in which the time stands differs from itself, and is left out. A run differs from the call that was recorded
in these ways: no network, no home, few variables, files that git does not know are missing, secrets in the input read
``***``, the folder is another, and the time is the present.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import process
from instar.plugins.evolve.candidate import Candidate, GateContext, text
from instar.plugins.evolve.gate.record import HookCallRecord
from instar.plugins.evolve.gate.report import (
    BAD,
    JudgedRecord,
    ReplayReport,
    RunOutcome,
    effects,
    judge,
    outcome,
    same,
)
from instar.plugins.evolve.history.checkout import ReplayCheckouts
from instar.plugins.evolve.script import OUTPUT_LIMIT
from instar.plugins.evolve.trial import Bench, Changes, TrialFile, Trials

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
