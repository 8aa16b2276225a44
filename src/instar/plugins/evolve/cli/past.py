"""``instar evolve log``, ``show``, ``diff`` and ``why``: what changed, by whom and why. They run nothing."""

import click

from instar.plugins.evolve.cli import named, output, work
from instar.plugins.evolve.cli.named import NamedWorkspace
from instar.plugins.evolve.history import blame, timeline
from instar.plugins.evolve.history.blame import Why
from instar.plugins.evolve.history.commits import is_repository
from instar.plugins.evolve.history.timeline import Shown, Timeline
from instar.plugins.evolve.person import NO_REPOSITORY

_REF = "REF is the start of a commit's id, HEAD, HEAD~2, an epoch such as @12, or initial."


@click.command()
@named.workspace
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, help="How many changes (default 20).")
@output.as_json
@click.pass_context
def log(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List changes, refusals and orders, newest first: when, by whom, by which call, what the gate said."""
    found = _with_history(ctx)
    told = output.play(_timeline(found, limit))
    output.emit(told, Timeline(told.changes).text(), json=as_json)
    if told.problems:
        output.fail("\n".join(told.problems))


@click.command(epilog=_REF)
@named.workspace
@click.argument("ref", default="HEAD")
@output.as_json
@click.pass_context
def show(ctx: click.Context, ref: str, as_json: bool) -> None:
    """Show the change REF (default: the newest): its cause, what the gate said, and its diff."""
    shown = output.play(_shown(_with_history(ctx), ref))
    output.emit(shown, shown.text(), json=as_json)


@click.command(epilog=_REF)
@named.workspace
@click.argument("ref", default="HEAD")
@output.as_json
@click.pass_context
def diff(ctx: click.Context, ref: str, as_json: bool) -> None:
    """Show what the change REF (default: the newest) changed."""
    shown = output.play(_shown(_with_history(ctx), ref))
    output.emit(shown, shown.diff_text(), json=as_json)


@click.command()
@named.workspace
@click.argument("place", metavar="FILE:LINE")
@output.as_json
@click.pass_context
def why(ctx: click.Context, place: str, as_json: bool) -> None:
    """Show which change wrote a line of a file, and the message that led to it."""
    told = output.play(_why(_with_history(ctx), place))
    output.emit(told, told.text(), json=as_json)


def _with_history(ctx: click.Context) -> NamedWorkspace:
    found = named.find(ctx)
    if not is_repository(found.root):
        output.fail(NO_REPOSITORY.format(found.root))
    return found


async def _timeline(found: NamedWorkspace, limit: int) -> Timeline:
    async with work.opened(found) as (engine, _):
        return await timeline.newest(engine.storage.revisions, engine.storage.audit_log, limit)


async def _shown(found: NamedWorkspace, ref: str) -> Shown:
    async with work.opened(found) as (engine, _):
        return await timeline.show(engine.storage.revisions, engine.storage.audit_log, ref)


async def _why(found: NamedWorkspace, text: str) -> Why:
    place = blame.parse_place(text, found.root, found.cwd)
    async with work.opened(found) as (engine, means):
        return await blame.why(engine.storage.revisions, engine.storage.audit_log, means.messages, place)
