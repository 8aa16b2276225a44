"""``instar heartbeat``: what the heartbeat of a workspace does, and what a person orders."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import click

from instar.plugin import Client, event
from instar.plugins.evolve.cli.command import (
    NamedWorkspace,
    OpenedEngine,
    Printed,
    command,
    opened,
    workspace,
)
from instar.plugins.evolve.heartbeat import report
from instar.plugins.evolve.heartbeat.owner import Owner
from instar.plugins.evolve.install import NotChanged


@click.group("heartbeat")
@workspace
def group() -> None:
    """Show, start, pause or resume the heartbeat of an evolve workspace."""


@command()
async def status(found: NamedWorkspace) -> Printed:
    """Show the next and the last heartbeats, their session, what was skipped and why."""
    async with _opened(found) as at:
        chosen, problems = report.chosen(at.engine, found.workspace.config, found.environment)
        distrust = [found.distrust] if found.distrust else []
        said = report.status(at.engine, chosen, [*distrust, *problems], at.means.halted())
    return Printed(said, said.text())


@command(order=True)
async def now(found: NamedWorkspace) -> Printed:
    """Let the heart beat now, and show what came of it. Other sessions may be busy.

    The instar that runs on the workspace does it; where there is none, this command. Exit code 1 when it failed.
    """
    if not found.trusted:
        raise NotChanged(found.distrust)
    async with opened(found) as at:
        path, book = found.workspace.config, at.engine.storage.heartbeat
        report.demand_on(*report.chosen(at.engine, path, found.environment), path)
        flags = {"workspace": str(found.root)}
        beats = Owner(book.folder).who() is not None
        alone = contextlib.nullcontext() if beats else found.instance(flags, automatic=True)
        async with alone as client:
            entry = await report.ask(book)
            if client is not None:
                await _at_rest(client)
    return Printed(entry, report.line(entry), None if entry.kind == "ran" else "")


@command(order=True)
@click.option("--reason", default="", help="Why; it stands in the log.")
async def pause(found: NamedWorkspace, reason: str) -> Printed:
    """Let no heartbeat begin until you resume them. One that runs goes on."""
    async with _opened(found) as at:
        changed = report.pause(at.engine.storage.heartbeat, reason)
    return Printed(changed, f"paused: {changed.why}")


@command(order=True)
async def resume(found: NamedWorkspace) -> Printed:
    """Let heartbeats go on, also after instar stop. What came due meanwhile is skipped."""
    async with _opened(found) as at:
        changed = report.resume(at.engine.storage.heartbeat, at.means.halted(), at.means.resume)
    return Printed(changed, f"resumed ({changed.why})" if changed.why else "nothing was paused")


for _one in (status, now, pause, resume):
    group.add_command(_one)


@contextlib.asynccontextmanager
async def _opened(found: NamedWorkspace) -> AsyncIterator[OpenedEngine]:
    """As `opened`; before and after it the book is brought together with those of the workers that share the workspace.

    Where instar runs on this machine, that does it.
    """
    async with opened(found) as at:
        shared = at.engine.beats
        alone = shared is not None and Owner(at.engine.storage.heartbeat.folder).who() is None
        if shared is not None and alone:
            await shared.meet(beats=False)
        yield at
        if shared is not None and alone:
            await shared.meet(beats=False)


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
