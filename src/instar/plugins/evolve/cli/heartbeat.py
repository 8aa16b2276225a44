"""``instar heartbeat``: what the heartbeat of a workspace does, and what a person orders."""

import asyncio
import contextlib

import click

from instar.plugin import Client, event
from instar.plugins.evolve.cli import named, output, work
from instar.plugins.evolve.cli.named import NamedWorkspace
from instar.plugins.evolve.heartbeat import report
from instar.plugins.evolve.heartbeat.owner import Owner
from instar.plugins.evolve.heartbeat.report import HeartbeatStatus, Paused
from instar.plugins.evolve.heartbeat.schedule import BeatEntry
from instar.plugins.evolve.install import NotChanged


@click.group("heartbeat")
@named.workspace
def command() -> None:
    """Show, start, pause or resume the heartbeat of an evolve workspace."""


@command.command()
@named.workspace
@output.as_json
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show the next and the last heartbeats, their session, what was skipped and why."""
    found = output.play(_status(named.find(ctx)))
    output.emit(found, found.text(), json=as_json)


@command.command()
@named.workspace
@output.as_json
@click.pass_context
def now(ctx: click.Context, as_json: bool) -> None:
    """Let the heart beat now, and show what came of it. Other sessions may be busy.

    The instar that runs on the workspace does it; where there is none, this command. Exit code 1 when it failed.
    """
    entry = output.play(_now(ctx, named.find_for_order(ctx)))
    output.emit(entry, report.line(entry), json=as_json)
    if entry.kind != "ran":
        raise click.exceptions.Exit(1)


@command.command()
@named.workspace
@click.option("--reason", default="", help="Why; it stands in the log.")
@output.as_json
@click.pass_context
def pause(ctx: click.Context, reason: str, as_json: bool) -> None:
    """Let no heartbeat begin until you resume them. One that runs goes on."""
    found = named.find_for_order(ctx)
    changed = output.play(work.within(found, lambda engine: report.pause(engine.storage.heartbeat, reason)))
    output.emit(changed, f"paused: {changed.why}", json=as_json)


@command.command()
@named.workspace
@output.as_json
@click.pass_context
def resume(ctx: click.Context, as_json: bool) -> None:
    """Let heartbeats go on, also after instar stop. What came due meanwhile is skipped."""
    changed = output.play(_resume(named.find_for_order(ctx)))
    output.emit(changed, f"resumed ({changed.why})" if changed.why else "nothing was paused", json=as_json)


async def _status(found: NamedWorkspace) -> HeartbeatStatus:
    async with work.opened(found) as (engine, means):
        chosen, problems = report.chosen(engine, found.workspace.config, found.environment)
        distrust = [found.distrust] if found.distrust else []
        return report.status(engine, chosen, [*distrust, *problems], means.halted())


async def _now(ctx: click.Context, found: NamedWorkspace) -> BeatEntry:
    if not found.trusted:
        raise NotChanged(found.distrust)
    async with work.opened(found) as (engine, _):
        path, book = found.workspace.config, engine.storage.heartbeat
        report.demand_on(*report.chosen(engine, path, found.environment), path)
        flags = {"workspace": str(found.root)}
        beats = Owner(book.folder).who() is not None
        alone = contextlib.nullcontext() if beats else ctx.obj.instance(flags, automatic=True)
        async with alone as client:
            entry = await report.ask(book)
            if client is not None:
                await _at_rest(client)
            return entry


async def _at_rest(client: Client) -> None:
    """Wait for what the beat's actions began in other sessions: it would end with this process."""
    changed = asyncio.Event()

    async def listen() -> None:
        async for happened in client.events():
            if isinstance(happened.properties, event.SessionStatusChanged):
                changed.set()

    task = asyncio.create_task(listen())
    # It listens from its first step on.
    await asyncio.sleep(0)
    try:
        while await client.session.status():
            await changed.wait()
            changed.clear()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _resume(found: NamedWorkspace) -> Paused:
    async with work.opened(found) as (engine, means):
        return report.resume(engine.storage.heartbeat, means.halted(), means.resume)
