"""``instar evolve eval``: the evals by hand, on what is live and on an earlier version, and a first set of them."""

import asyncio
import math
import time
from collections.abc import Sequence
from typing import Final

import click

from instar.plugins.evolve.cli import names as completion
from instar.plugins.evolve.cli.command import (
    NamedWorkspace,
    OpenedEngine,
    Printed,
    command,
    fail,
    refuse_inside,
    scripts,
)
from instar.plugins.evolve.evals import starter
from instar.plugins.evolve.evals.case import Case, Suite, load
from instar.plugins.evolve.evals.cases import asking
from instar.plugins.evolve.evals.run import CaseRunner
from instar.plugins.evolve.evals.table import EvalRow, EvalTable, Measuring
from instar.plugins.evolve.gate import score
from instar.plugins.evolve.history.trailers import plain
from instar.plugins.evolve.trial import Bench, Changes, TrialFile

_MEASURED: Final = ("hooks", "prompts", "config")
"""What of an earlier version is measured: the evals are those of today."""


@command("eval")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completion.evals)
@click.option(
    "--runs", type=click.IntRange(1, score.MAX_RUNS), help="Runs of each eval. [default: 5; 1 without chance]"
)
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="The first seed of programs."
)
@click.option(
    "--against", metavar="REF", default="", shell_complete=completion.refs, help="Compare with this change."
)
@click.option("-v", "--verbose", is_flag=True, help="Show each run, and what its checks found.")
@click.option("--init", is_flag=True, help="Write first evals, of recorded calls; overwrite nothing.")
async def run(
    found: NamedWorkspace,
    names: Sequence[str],
    runs: int | None,
    seed: int,
    against: str,
    verbose: bool,
    init: bool,
) -> Printed:
    """Run the evals on what is live, in copies of the workspace. NAME is one of evals/; default: all.

    Models are called, which may cost money; the limits of each eval hold. Exit code 1: one could not be run.
    """
    if init:
        refuse_inside(found.environment, "evolve eval --init")
    async with scripts(found) as at:
        bench = await at.engine.policy.bench()
        restored, _ = await at.engine.evolution.candidates.restored()
        departed = {path for path in restored if path.startswith(f"{score.FOLDER}/")}
        live = {path: file for path, file in restored.items() if path not in departed}
        if init:
            return await _init(found, at, bench, live)
        suite, programs = _wanted(load(found.root, {}), score.find(found.root), names)
        before, commit = await _before(at, live, against) if against else (None, "")
        async with asking(suite, bench) as client:
            runner = CaseRunner(bench.trials, found.root, bench.timeout, client, bench.model)
            work = Measuring(runner, live, seed, runs, _progress, before)
            try:
                await _measure(work, suite, programs, departed)
            except asyncio.CancelledError:
                click.echo(plain(EvalTable(tuple(work.rows), seed, commit).text(verbose)))
                raise
    table = EvalTable(tuple(work.rows), seed, commit)
    return Printed(table, table.text(verbose), "" if any(row.failed for row in table.rows) else None)


async def _measure(work: Measuring, suite: Suite, programs: Sequence[str], departed: set[str]) -> None:
    for name, problem in suite.problems.items():
        work.rows.append(
            EvalRow(f"{name}.md", failed=problem, accepted=f"{score.FOLDER}/{name}.md" not in departed)
        )
    for case in suite.cases:
        await work.case(case, not departed & _files(case))
    for name in programs:
        program = score.ProgramEval(name, work.runner.trials, work.runner.source, "", work.runner.timeout)
        await work.program(program, time.monotonic, f"{score.FOLDER}/{name}" not in departed)


def _files(case: Case) -> set[str]:
    """The files in the workspace that an eval stands in."""
    own = [f"{case.name}.md", *(check.value for check in case.checks if check.kind == "run")]
    return {*(f"{score.FOLDER}/{name}" for name in own), case.script}


def _wanted(suite: Suite, programs: Sequence[str], names: Sequence[str]) -> tuple[Suite, list[str]]:
    """Return the evals that were named, all without names; ends the command for one that is none."""
    own = [name for name in programs if name not in suite.programs]
    known = [*(case.name for case in suite.cases), *suite.problems, *own]
    if not known:
        fail(
            f"there are no evals: write {score.FOLDER}/NAME.md, or make a first set with: instar evolve eval --init"
        )
    asked = {name.removeprefix(f"{score.FOLDER}/").removesuffix(".md") for name in names} or set(known)
    if unknown := sorted(asked - set(known)):
        fail(f"there is no eval {', '.join(unknown)}; there are: {', '.join(sorted(known))}")
    cases = [case for case in suite.cases if case.name in asked]
    problems = {name: why for name, why in suite.problems.items() if name in asked}
    return Suite(cases, problems, suite.programs), [name for name in own if name in asked]


async def _before(at: OpenedEngine, live: Changes, ref: str) -> tuple[Changes, str]:
    """Return what makes the workspace that of an earlier change, and its commit."""
    storage = at.engine.storage
    commit = (await storage.revisions.find(ref)).id
    there = {
        path: TrialFile(*file) for path, file in (await storage.repository.files(commit, _MEASURED)).items()
    }
    gone = [path for path in storage.ledger.files if path.startswith(tuple(f"{one}/" for one in _MEASURED))]
    return {**live, **dict.fromkeys(gone), **there}, commit


async def _init(found: NamedWorkspace, at: OpenedEngine, bench: Bench, live: Changes) -> Printed:
    kept = await at.engine.storage.records.read()
    if not kept.records:
        fail("no call is recorded yet: use the workspace in a session first, then its calls make evals")
    runner = CaseRunner(bench.trials, found.root, bench.timeout)
    made = await starter.write(found.root, kept.records, runner, live, math.inf)
    return Printed(made, made.text(), None if made.written else "")


def _progress(text: str) -> None:
    click.echo(plain(text), err=True)
