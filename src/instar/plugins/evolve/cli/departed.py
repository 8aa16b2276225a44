"""``instar evolve accept`` and ``restore``: files of a workspace that somebody changed behind the gate's back."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Literal

import click
import msgspec

from instar.plugins.evolve import edit
from instar.plugins.evolve.candidate import text
from instar.plugins.evolve.cli import named, output, work
from instar.plugins.evolve.cli.named import NamedWorkspace
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.history.trailers import counted, plain
from instar.plugins.evolve.install import NotChanged
from instar.plugins.evolve.ledger.ledger import Departure
from instar.plugins.evolve.ledger.standing import NotPlain, Version
from instar.plugins.evolve.person import Made

_LONGEST = 100_000
"""Characters of a diff that are shown."""

Order = Literal["accept", "restore"]


class DepartureShown(msgspec.Struct, frozen=True):
    """A departure as it is shown: what stands there (None: nothing that can be read), and its diff.

    `readable` is whether it could be accepted.
    """

    departure: Departure
    stands: Version | None
    diff: str
    readable: bool = True


class NothingToDo(msgspec.Struct, frozen=True):
    """There was nothing to do."""

    files: list[str] = []


@click.command()
@named.workspace
@click.argument("files", nargs=-1)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.as_json
@click.pass_context
def accept(ctx: click.Context, files: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Take over FILES (default: all) as they stand: they run from now on. What was changed is shown first."""
    _order(ctx, "accept", files, yes=yes, as_json=as_json)


@click.command()
@named.workspace
@click.argument("files", nargs=-1)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.as_json
@click.pass_context
def restore(ctx: click.Context, files: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Put the accepted version of FILES (default: all) back. What was changed is shown first; new files stay."""
    _order(ctx, "restore", files, yes=yes, as_json=as_json)


def _order(ctx: click.Context, order: Order, files: tuple[str, ...], *, yes: bool, as_json: bool) -> None:
    found = named.find_for_order(ctx)
    paths = [found.path(file) for file in files]
    ask = None if yes else click.confirm if sys.stdin.isatty() else partial(_refuse, order)
    made = output.play(_carry(found, order, paths, ask, quiet=as_json))
    if made is None:
        output.emit(NothingToDo(), f"there is nothing to {order}", json=as_json)
        return
    output.emit(made, made.text("accepted" if order == "accept" else "restored"), json=as_json)


def _refuse(order: Order, _question: str, *, err: bool) -> bool:
    raise click.UsageError(f"there is no terminal to ask on: look at what is shown, then {order} --yes")


async def _carry(
    found: NamedWorkspace, order: Order, paths: list[str], ask: Callable[..., bool] | None, *, quiet: bool
) -> Made | None:
    """Show what departed, ask, and do it; None where nothing has departed for which it can be done.

    Where no file was named, those are left out that cannot be accepted, or were never accepted. Raises `NotChanged`.
    """
    async with work.ledger(found) as (engine, _):
        shown = _shown(engine, paths)
        if shown and not quiet:
            click.echo("\n".join(_lines(one) for one in shown))
        if not paths:
            known = engine.storage.ledger.files
            shown = [
                one for one in shown if (one.readable if order == "accept" else one.departure.path in known)
            ]
        if not shown:
            return None
        if ask is not None and not ask(f"{order} {counted(len(shown), 'file')}?", err=True):
            raise NotChanged("nothing was changed")
        chosen = [one.departure.path for one in shown]
        if _shown(engine, chosen) != shown:
            raise NotChanged("nothing was changed: the files were changed again while you looked at them")
        back = engine.rollback
        changed = await (back.accept(chosen) if order == "accept" else back.restore(chosen))
        return Made.of(engine, changed.files, changed.epoch, changed.commit)


def _shown(engine: EvolveEngine, paths: list[str]) -> list[DepartureShown]:
    """What departed of `paths`, or at all. Raises `NotChanged` for a path that has not."""
    departed = {one.path: one for one in engine.storage.ledger.check() if one.kind != "installing"}
    for path in paths:
        if path not in departed:
            raise NotChanged(
                f"{path} is as it was accepted, or there is no such file in hooks, prompts, tests, evals or config"
            )
    return [_look(engine, one) for path, one in departed.items() if not paths or path in paths]


def _look(engine: EvolveEngine, one: Departure) -> DepartureShown:
    ledger = engine.storage.ledger
    try:
        stands = ledger.stand(one.path)
    except (NotPlain, OSError) as error:
        return DepartureShown(one, None, f"it cannot be accepted: {error}", readable=False)
    before = ledger.good(one.path) or b""
    after = b"" if stands is None else ledger.kept.content(stands.blob) or b""
    if b"\0" in before or b"\0" in after:
        return DepartureShown(
            one, stands, f"no text: {len(before)} bytes were accepted, {len(after)} stand there"
        )
    return DepartureShown(one, stands, edit.diff(one.path, text(before), text(after)))


def _lines(one: DepartureShown) -> str:
    diff = plain(one.diff).rstrip("\n")
    left = len(diff) - _LONGEST
    cut = f"\n... {left} more characters" if left > 0 else ""
    return f"{plain(one.departure.text)}\n{diff[:_LONGEST]}{cut}\n"
