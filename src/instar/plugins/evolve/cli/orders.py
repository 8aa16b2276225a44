"""``instar evolve rollback``, ``pin``, ``unpin``, ``pins``, ``freeze`` and ``thaw``: what a person orders."""

import click
import msgspec

from instar.plugins.evolve import person
from instar.plugins.evolve.cli import named, output, work
from instar.plugins.evolve.cli.named import NamedWorkspace
from instar.plugins.evolve.person import Made


class Frozen(msgspec.Struct, frozen=True):
    """Whether evolve changes anything: `why` it does not, "" when it does."""

    why: str


@click.command()
@named.workspace
@click.argument("ref", default="")
@output.as_json
@click.pass_context
def rollback(ctx: click.Context, ref: str, as_json: bool) -> None:
    """Take the change REF back (default: the newest), by a new commit.

    REF is the start of a commit's id, HEAD, HEAD~2, or an epoch such as @12.
    """
    made = output.play(_rollback(named.find_for_order(ctx), ref))
    output.emit(made, made.text("rolled back"), json=as_json)


@click.command()
@named.workspace
@click.argument("file")
@output.as_json
@click.pass_context
def pin(ctx: click.Context, file: str, as_json: bool) -> None:
    """Keep the agent from changing FILE, or what is in it if it is a folder."""
    found = named.find_for_order(ctx)
    path = found.path(file)
    done = output.play(work.within(found, lambda engine: person.pin(engine, path)))
    missing = "" if (found.root / done.file).exists() else " (there is no such file yet)"
    output.emit(done, f"pinned {done.file}{missing}", json=as_json)


@click.command()
@named.workspace
@click.argument("file")
@output.as_json
@click.pass_context
def unpin(ctx: click.Context, file: str, as_json: bool) -> None:
    """Let the agent change FILE again."""
    found = named.find_for_order(ctx)
    path = found.path(file)
    done = output.play(work.within(found, lambda engine: person.unpin(engine, path)))
    output.emit(done, f"unpinned {done.file}", json=as_json)


@click.command()
@named.workspace
@output.as_json
@click.pass_context
def pins(ctx: click.Context, as_json: bool) -> None:
    """List the files that the agent may not change."""
    listed = output.play(work.within(named.find(ctx), lambda engine: engine.storage.pins.all()))
    lines = [f"{one.file}  (pinned by {one.by or 'a person'})" for one in listed]
    output.emit(listed, "\n".join(lines) or "nothing is pinned", json=as_json)


@click.command()
@named.workspace
@click.option("--reason", default="", help="Why; it stands in the log, and the model reads it.")
@output.as_json
@click.pass_context
def freeze(ctx: click.Context, reason: str, as_json: bool) -> None:
    """Let the agent change nothing until you thaw it. Scripts go on running."""
    frozen = output.play(_freeze(named.find_for_order(ctx), reason))
    output.emit(frozen, frozen.why, json=as_json)


@click.command()
@named.workspace
@output.as_json
@click.pass_context
def thaw(ctx: click.Context, as_json: bool) -> None:
    """Let the agent change things again, also where too many failures have stopped it."""
    frozen = output.play(_thaw(named.find_for_order(ctx)))
    output.emit(frozen, f"thawed, but {frozen.why}" if frozen.why else "thawed", json=as_json)


async def _rollback(found: NamedWorkspace, ref: str) -> Made:
    async with work.ledger(found) as (engine, _):
        return await person.roll_back(engine, ref)


async def _freeze(found: NamedWorkspace, why: str) -> Frozen:
    async with work.opened(found) as (engine, _):
        await engine.evolution.freeze(why)
        return Frozen(await engine.evolution.frozen())


async def _thaw(found: NamedWorkspace) -> Frozen:
    async with work.opened(found) as (engine, _):
        await engine.evolution.thaw()
        return Frozen(await engine.evolution.frozen())
