"""``instar hooks check``: what is armed and from where, and what is not, and why."""

import click

from instar.plugins.hooks.cli import output, place
from instar.plugins.hooks.line import one_line
from instar.plugins.hooks.report import RulesInForce, in_force


@click.command(short_help="Name every rule that is armed, and what is not, and why.")
@output.as_json
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Name every rule that is armed with its file, line and dialect, and what is not armed, and why.

    No rule is run. Exit code 2: something does not hold as it is written.
    """
    report = output.play(_report(ctx))
    output.emit(report, report.text(), json=as_json)
    for problem in [] if as_json else report.problems:
        click.echo(f"instar: {one_line(problem)}", err=True)
    if report.problems:
        raise click.exceptions.Exit(2)


async def _report(ctx: click.Context) -> RulesInForce:
    async with place.opened(ctx) as (here, _):
        return in_force(here)
