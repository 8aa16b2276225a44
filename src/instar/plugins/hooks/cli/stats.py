"""``instar hooks stats``: what each rule has decided, how long it took and what it cost, from sessions' records."""

import click

from instar.plugins.hooks.cli import output
from instar.plugins.hooks.figures import HookStats, since, summed


@click.command(short_help="Tell what each rule has decided, took and cost.")
@click.option("--days", type=click.IntRange(0), metavar="N", help="The last N days; 0 is today.")
@click.option("--session", default="", metavar="ID", help="One session.")
@output.as_json
@click.pass_context
def stats(ctx: click.Context, days: int | None, session: str, as_json: bool) -> None:
    """Tell of each rule how often it ran, what it decided, how long it took, and the tokens and cost of its model.

    Of all folders' sessions, as far as they still exist: a record goes with its session.
    """
    report = output.play(_report(ctx, days, session))
    output.emit(report, report.text(), json=as_json)


async def _report(ctx: click.Context, days: int | None, session: str) -> HookStats:
    async with ctx.obj.means("hooks") as means:
        return summed(means.data, session, since(days))
