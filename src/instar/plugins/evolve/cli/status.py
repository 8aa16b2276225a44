"""``instar evolve status``: what a workspace is made of, what is going on in it, and what is wrong."""

import click

from instar.plugins.evolve.cli import named, output, work
from instar.plugins.evolve.cli.named import NamedWorkspace
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
