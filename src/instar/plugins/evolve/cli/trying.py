"""``instar evolve validate``, ``replay`` and ``bisect``: trials by hand, in the sandbox. They install nothing."""

import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from instar.plugins.evolve.candidate import Candidate, CandidateRefused, GateContext
from instar.plugins.evolve.cli import names
from instar.plugins.evolve.cli.command import (
    NamedWorkspace,
    Printed,
    command,
    fail,
    failing,
    ledger,
    opened,
    scripts,
    stage,
)
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.gate.replay import of_candidate
from instar.plugins.evolve.gate.report import StagePassed
from instar.plugins.evolve.gate.stages import GateVerdict
from instar.plugins.evolve.history.bisect import TIMEOUT, Bisect, Look
from instar.plugins.evolve.history.repository import INITIAL
from instar.plugins.evolve.history.trailers import plain
from instar.plugins.evolve.install import NotChanged
from instar.plugins.evolve.probation.held_out import BadHeldOut
from instar.plugins.evolve.trial import TrialFile
from instar.plugins.evolve.workspace import PROMPTS, visible

_SHOWN = 1000
"""Changed answers that ``replay`` shows at most."""


class HeldOutList(msgspec.Struct, frozen=True):
    """The names of the held-out evals of a workspace."""

    names: list[str]


_file = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


class TrialResult(msgspec.Struct, frozen=True):
    """What became of a candidate: `refused` by `stage` with `text`, or the `stages` that it passed.

    `raised` is what a person would have to allow, `test` and `replay` what they printed.
    """

    file: str
    refused: bool
    stage: str = ""
    text: str = ""
    stages: tuple[StagePassed, ...] = ()
    raised: tuple[str, ...] = ()
    test: str = ""
    replay: dict[str, Any] | None = None


class _Set(NamedTuple):
    candidate: Candidate
    gate_context: GateContext


@command()
@_file
async def validate(found: NamedWorkspace, file: Path) -> Printed:
    """Take FILE through the gate in place of the hook script, or the prompt, of its name.

    It is a prompt if it ends in .md or its folder is called prompts. A file of the workspace itself is tried with
    all that stands there now. Nothing is installed. Exit code 1: it would be refused.
    """
    path, stands = _place(found, file)
    new = _read(file)
    async with scripts(found) as at:
        tried = await _set(at.engine, path, new, stands=stands)
        try:
            verdict = await at.engine.evolution.judge(tried.candidate, tried.gate_context, stage)
        except CandidateRefused as error:
            refused = TrialResult(path, True, error.stage, str(error))
            return Printed(refused, "", "" if found.quiet else f"{path} would be refused: {error}")
    return Printed(_tried(path, verdict), _passed(path, verdict))


@command()
@_file
async def replay(found: NamedWorkspace, file: Path) -> Printed:
    """Run past calls with FILE and with what is live, and show each answer that differs.

    FILE is named as for validate. Exit code 1: it would be refused.
    """
    path, stands = _place(found, file)
    new = _read(file)
    async with scripts(found) as at:
        candidate, gate_context = await _set(at.engine, path, new, stands=stands)
        if candidate.before is None:
            raise NotChanged(f"{path} has no accepted version, so there are no calls to run again")
        bench = await at.engine.policy.bench()
        stage("replay")
        report = await of_candidate(candidate, candidate.before, gate_context, bench, _SHOWN)
    return Printed(report.plain(), report.text(), None if report.refusal is None else "")


@command()
@click.argument("command")
@click.option(
    "--good",
    metavar="REF",
    default=INITIAL,
    show_default=True,
    shell_complete=names.refs,
    help="A change at which it passed.",
)
@click.option(
    "--bad",
    metavar="REF",
    default="HEAD",
    show_default=True,
    shell_complete=names.refs,
    help="A change at which it fails.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=TIMEOUT,
    show_default=True,
    help="Seconds that one run may take.",
)
async def bisect(found: NamedWorkspace, command: str, good: str, bad: str, timeout: float) -> Printed:
    """Find the change after which the shell command COMMAND began to fail, by runs in sandboxed copies.

    A run's exit code 0 is good, 125 says that it cannot be told, and any other is bad.
    """

    def progress(look: Look) -> None:
        click.echo(plain(look.line()), err=True)

    async with ledger(found) as at:
        bench = await at.engine.policy.bench()
        search = Bisect(at.means.processes, found.root, bench.trials, timeout=timeout, progress=progress)
        result = await search.run(command, good, bad)
    return Printed(result, result.text(), None if result.suspects else "")


async def _set(engine: EvolveEngine, path: str, file: TrialFile, *, stands: bool) -> _Set:
    """The candidate and its scene. Raises `NotChanged` for a file that the workspace does not have."""
    storage = engine.storage
    accepted, content = storage.ledger.files.get(path), storage.ledger.good(path)
    before = None if accepted is None or content is None else TrialFile(content, accepted.mode)
    if before is None and not stands and not _may_be_new(engine, path):
        kind = "hook script" if path.startswith("hooks/") else "prompt"
        raise NotChanged(f"the workspace has no {kind} {path}")
    mode = file.mode if stands or before is None else before.mode
    if path.startswith("hooks/"):
        mode |= stat.S_IXUSR
    candidate = Candidate(path, before, TrialFile(file.content, mode))
    gate_context = await engine.evolution.candidates.context(candidate)
    return _Set(candidate, msgspec.structs.replace(gate_context, restored={}) if stands else gate_context)


def _may_be_new(engine: EvolveEngine, path: str) -> bool:
    return path in [f"prompts/{name}" for name in PROMPTS] or engine.config.create == "allow"


def _place(found: NamedWorkspace, file: Path) -> tuple[str, bool]:
    """Which file of the workspace FILE is tried in place of, and whether it is that one."""
    real = Path(os.path.realpath(file.parent)) / file.name
    folder = "prompts" if file.suffix == ".md" or real.parent.name == "prompts" else "hooks"
    stands = real.is_relative_to(found.root)
    path = real.relative_to(found.root).as_posix() if stands else f"{folder}/{file.name}"
    if path.count("/") != 1 or not path.startswith(("hooks/", "prompts/")) or not visible(file.name):
        fail(
            f"{path} is neither a hook script nor a prompt: name a file of hooks/ or prompts/, or a new version"
        )
    return path, stands


def _read(file: Path) -> TrialFile:
    with failing():
        content, mode = file.read_bytes(), file.stat().st_mode & 0o777
    try:
        content.decode()
    except UnicodeDecodeError as error:
        fail(f"{file} is not UTF-8 text (byte {error.start})")
    return TrialFile(content, mode)


def _tried(path: str, verdict: GateVerdict) -> TrialResult:
    replayed = None if verdict.replay is None else verdict.replay.plain()
    return TrialResult(
        path, False, "", "", verdict.stages, verdict.raised, (verdict.test or "").rstrip(), replayed
    )


def _passed(path: str, verdict: GateVerdict) -> str:
    """What the stages found, and what would happen with the file."""
    reports = [report.text() for report in (verdict.replay, verdict.score) if report is not None]
    told = [verdict.test, *reports]
    lines = [one.rstrip() for one in told if one and one.strip()]
    how = next((stage.found for stage in verdict.stages if stage.name == "test"), "")
    if verdict.registration is not None:
        test = verdict.registration.test
        how = f"tests/{test} passed" if test else "no test is registered, so only discover was tried"
        lines += [verdict.registration.note] if verdict.registration.note else []
    how = how or "there was no test to try it with"
    if verdict.raised:
        lines += [f"{path} would wait for a person ({how}):", *(f"- {one}" for one in verdict.raised)]
    else:
        lines.append(f"{path} would be installed: {how}")
    return "\n".join(lines)


@command(order=True)
@click.option(
    "--add", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Keep a copy."
)
@click.option("--remove", multiple=True, help="Forget the one of this name.")
async def held_out(found: NamedWorkspace, add: tuple[Path, ...], remove: tuple[str, ...]) -> Printed:
    """List the evals that only watch: no gate runs them, and nothing that runs for the model can read them."""
    async with opened(found) as at:
        evals = at.engine.held_out
        try:
            for name in remove:
                evals.remove(name)
            for program in add:
                evals.add(program)
        except (BadHeldOut, OSError) as error:
            fail(str(error))
        names = evals.names()
    return Printed(HeldOutList(names), "\n".join(names) or "no held-out evals")
