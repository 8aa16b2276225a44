"""What a person orders: ``approve``, ``reject``, ``again``, ``rollback``, ``pin``, ``unpin``, ``freeze`` and ``thaw``.

``accept`` and ``restore`` are in `departed`.
"""

import click
import msgspec

from instar.plugins.evolve import person
from instar.plugins.evolve.cli import names
from instar.plugins.evolve.cli.command import NamedWorkspace, Printed, command, ledger, opened, scripts, stage
from instar.plugins.evolve.history.trailers import counted
from instar.plugins.evolve.person import Rejected


class Frozen(msgspec.Struct, frozen=True):
    """Whether evolve changes anything: `why` it does not, "" when it does."""

    why: str


@command(order=True)
@click.argument("id", shell_complete=names.waiting)
async def approve(found: NamedWorkspace, id: str) -> Printed:  # noqa: A002
    """Let the change ID reach what it asks for, and install it. It is tried once more before."""
    async with opened(found) as at:
        entry = at.engine.storage.pending.get(id)  # nothing is run for an id that is none
    async with scripts(found) as at:
        made = await person.approve(at.engine, id, stage)
    return Printed(made, made.text("took back" if entry.proposal.takes_back else "installed"))


@command(order=True)
@click.argument("id", shell_complete=names.waiting)
@click.option("--reason", default="", help="Why; it stands in the log.")
async def reject(found: NamedWorkspace, id: str, reason: str) -> Printed:  # noqa: A002
    """Refuse the change ID for good: just this one is not asked about again."""
    async with opened(found) as at:
        entry = await person.reject(at.engine, id, reason)
    file = entry.proposal.file
    return Printed(Rejected(entry.id, file), f"rejected {entry.id}: {file} stays as it is")


@command(order=True)
@click.argument("file", shell_complete=names.files)
async def again(found: NamedWorkspace, file: str) -> Printed:
    """Let the agent propose once more what was refused for FILE: something outside the workspace is mended."""
    async with opened(found) as at:
        done = person.again(at.engine, found.path(file))
    return Printed(done, f"{counted(done.count, 'refused candidate')} of {done.file} may be tried again")


@command(order=True)
@click.argument("ref", default="", shell_complete=names.refs)
async def rollback(found: NamedWorkspace, ref: str) -> Printed:
    """Take the change REF back (default: the newest), by a new commit.

    REF is the start of a commit's id, HEAD, HEAD~2, or an epoch such as @12.
    """
    async with ledger(found) as at:
        made = await person.roll_back(at.engine, ref)
    return Printed(made, made.text("rolled back"))


@command(order=True)
@click.argument("file", shell_complete=names.files)
async def pin(found: NamedWorkspace, file: str) -> Printed:
    """Keep the agent from changing FILE, or what is in it if it is a folder."""
    async with opened(found) as at:
        done = person.pin(at.engine, found.path(file))
    missing = "" if (found.root / done.file).exists() else " (there is no such file yet)"
    return Printed(done, f"pinned {done.file}{missing}")


@command(order=True)
@click.argument("file", shell_complete=names.pinned)
async def unpin(found: NamedWorkspace, file: str) -> Printed:
    """Let the agent change FILE again."""
    async with opened(found) as at:
        done = person.unpin(at.engine, found.path(file))
    return Printed(done, f"unpinned {done.file}")


@command(order=True)
@click.option("--reason", default="", help="Why; it stands in the log, and the model reads it.")
async def freeze(found: NamedWorkspace, reason: str) -> Printed:
    """Let the agent change nothing until you thaw it. Scripts go on running."""
    async with opened(found) as at:
        await at.engine.evolution.freeze(reason)
        frozen = Frozen(await at.engine.evolution.frozen())
    return Printed(frozen, frozen.why)


@command(order=True)
async def thaw(found: NamedWorkspace) -> Printed:
    """Let the agent change things again, also where too many failures have stopped it."""
    async with opened(found) as at:
        await at.engine.evolution.thaw()
        frozen = Frozen(await at.engine.evolution.frozen())
    return Printed(frozen, f"thawed, but {frozen.why}" if frozen.why else "thawed")
