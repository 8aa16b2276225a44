"""``instar evolve status``: how a workspace stands; ``pending``, ``approve``, ``reject``: what waits for a person."""

import click

from instar.plugins.evolve import person
from instar.plugins.evolve.cli import named, output, work
from instar.plugins.evolve.cli.named import NamedWorkspace
from instar.plugins.evolve.gate.pending import PendingEntry, report
from instar.plugins.evolve.history import timeline
from instar.plugins.evolve.history.trailers import one_line
from instar.plugins.evolve.person import Made, Rejected
from instar.plugins.evolve.status import EvolveStatus, departed, read, unread


@click.command()
@named.workspace
@click.option("--safe", is_flag=True, help="As instar run --safe would start.")
@output.as_json
@click.pass_context
def status(ctx: click.Context, safe: bool, as_json: bool) -> None:
    """Show scripts, tools, history, what is on probation or waits, and problems.

    Exit code 1 when evolve would be off.
    """
    report = output.play(_report(named.find(ctx), safe))
    output.emit(report, report.text(), json=as_json)
    if not report.active:
        raise click.exceptions.Exit(1)


async def _report(found: NamedWorkspace, safe: bool) -> EvolveStatus:
    """Gather the report. Scripts are run where evolve would run them."""
    workspace, source = found.workspace, found.located.source
    if not found.trusted:
        return unread(workspace, source, [found.distrust])
    async with work.look(found, safe=safe) as at:
        if at.chosen is None:
            return unread(workspace, source, at.problems + departed(at.engine))
        return await read(at.engine, at.scripts, source, at.problems)


@click.command()
@named.workspace
@click.argument("id", required=False)
@click.option("--all", "rejected", is_flag=True, help="Also what was rejected.")
@output.as_json
@click.pass_context
def pending(ctx: click.Context, id: str | None, rejected: bool, as_json: bool) -> None:  # noqa: A002
    """List the changes that wait for a person; with ID show one: its diff, its test's output, its replay."""
    found = named.find(ctx)
    if id is not None:
        entry = output.play(work.within(found, lambda engine: engine.storage.pending.get(id)))
        output.emit(entry, report(entry), json=as_json)
        return
    listed = output.play(work.within(found, lambda engine: person.pending(engine, rejected=rejected)))
    text = "\n".join([*map(_line, listed.entries), *(f"problem: {one}" for one in listed.problems)])
    output.emit(listed, text or "nothing waits", json=as_json)


@click.command()
@named.workspace
@click.argument("id")
@output.as_json
@click.pass_context
def approve(ctx: click.Context, id: str, as_json: bool) -> None:  # noqa: A002
    """Let the change ID reach what it asks for, and install it. It is tried once more before."""
    made = output.play(_approve(named.find_for_order(ctx), id))
    output.emit(made, made.text("installed"), json=as_json)


@click.command()
@named.workspace
@click.argument("id")
@click.option("--reason", default="", help="Why; it stands in the log.")
@output.as_json
@click.pass_context
def reject(ctx: click.Context, id: str, reason: str, as_json: bool) -> None:  # noqa: A002
    """Refuse the change ID for good: just this one is not asked about again."""
    entry = output.play(_reject(named.find_for_order(ctx), id, reason))
    file = entry.proposal.file
    output.emit(Rejected(entry.id, file), f"rejected {entry.id}: {file} stays as it is", json=as_json)


async def _approve(found: NamedWorkspace, id: str) -> Made:  # noqa: A002
    async with work.opened(found) as (engine, _):
        engine.storage.pending.get(id)  # nothing is run for an id that is none
    async with work.scripts(found) as at:
        return await person.approve(at.engine, id, output.stage)


async def _reject(found: NamedWorkspace, id: str, why: str) -> PendingEntry:  # noqa: A002
    async with work.opened(found) as (engine, _):
        return await person.reject(engine, id, why)


def _line(one: PendingEntry) -> str:
    raised = one_line("; ".join(one.proposal.raised))
    return f"{one.id}  {timeline.moment(one.time)}  {one.state}  {one_line(one.proposal.file)}: {raised}"
