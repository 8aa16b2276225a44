"""``instar hooks``: which rules are armed, what they decide for an event, and what they have cost.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, or rules that do not hold as they are written.
"""

import asyncio
import signal
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

import click
import msgspec

from instar.plugins.hooks.active_rules import arm
from instar.plugins.hooks.figures import HookStats, since, summed
from instar.plugins.hooks.line import one_line
from instar.plugins.hooks.report import RulesInForce, in_force, place_of
from instar.plugins.hooks.trial import EventOptions, TestReport, named, tried

T = TypeVar("T")

_ENDED: Final = 128 + signal.SIGTERM
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("hooks")
def command() -> None:
    """Look at the rules that decide before and after things happen, and try them."""


@command.command(short_help="Name every rule that is armed, and what is not, and why.")
@_as_json
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Name every rule that is armed with its file, line and dialect, and what is not armed, and why.

    No rule is run. Exit code 2: something does not hold as it is written.
    """
    report = _run(_in_force(ctx))
    _emit(report, as_json)
    for problem in [] if as_json else report.problems:
        click.echo(f"instar: {one_line(problem)}", err=True)
    if report.problems:
        raise click.exceptions.Exit(2)


@command.command(short_help="Run the rules for a made-up event; exit code 1: they refuse it.")
@click.argument("event", shell_complete=lambda _ctx, _argument, begun: named(begun))
@click.option("--tool", default="", metavar="NAME", help="The tool that is called: bash, edit, Bash, …")
@click.option("--input", "arguments", default="", metavar="JSON", help="The call's arguments.")
@click.option("--output", "answer", metavar="TEXT", help="What the tool answered, or why it failed.")
@click.option("--prompt", metavar="TEXT", help="What a person wrote.")
@click.option(
    "--set", "fields", multiple=True, metavar="NAME=VALUE", help="A field of the event; repeatable."
)
@click.option("--agent", default="", metavar="NAME", help="The agent whose turn it is.")
@click.option("--session", default="", metavar="ID", help="A session, for rules that read its history.")
@_as_json
@click.pass_context
def test(ctx: click.Context, /, as_json: bool, fields: Sequence[str], **given: Any) -> None:
    """Run the rules that are armed for EVENT (PreToolUse, stop, …) for a made-up one, and show what each decides.

    Programs run and models are called as in a session; nothing else is done. Exit code 1: the event is refused.
    """
    report = _run(_tested(ctx, EventOptions(fields=tuple(fields), **given)))
    _emit(report, as_json)
    if report.decision.action == "deny":
        raise click.exceptions.Exit(1)


@command.command(short_help="Tell what each rule has decided, took and cost.")
@click.option("--days", type=click.IntRange(0), metavar="N", help="The last N days; 0 is today.")
@click.option("--session", default="", metavar="ID", help="One session.")
@_as_json
@click.pass_context
def stats(ctx: click.Context, days: int | None, session: str, as_json: bool) -> None:
    """Tell of each rule how often it ran, what it decided, how long it took, and the tokens and cost of its model.

    Of all folders' sessions, as far as they still exist: a record goes with its session.
    """
    _emit(_run(_summed(ctx, days, session)), as_json)


async def _in_force(ctx: click.Context) -> RulesInForce:
    async with ctx.obj.means("hooks") as means:
        return in_force(place_of(arm(means), means))


async def _tested(ctx: click.Context, options: EventOptions) -> TestReport:
    async with ctx.obj.means("hooks") as means:
        return await tried(ctx.obj.instance, options, place_of(arm(means), means), means.children)


async def _summed(ctx: click.Context, days: int | None, session: str) -> HookStats:
    async with ctx.obj.means("hooks") as means:
        return summed(means.data, session, since(days))


def _emit(report: RulesInForce | TestReport | HookStats, as_json: bool) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(report)) if as_json else report.text())


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work to its end. SIGTERM cancels it, as Ctrl-C does."""
    try:
        return asyncio.run(_cancelled_by_signal(work))
    except asyncio.CancelledError:
        raise click.exceptions.Exit(_ENDED) from None


async def _cancelled_by_signal(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work
