"""``instar evolve accept`` and ``restore``: files of a workspace that somebody changed behind the gate's back."""

import sys
from typing import Literal

import click
import msgspec

from instar.plugins.evolve import edit
from instar.plugins.evolve.candidate import text
from instar.plugins.evolve.cli import names
from instar.plugins.evolve.cli.command import NamedWorkspace, Printed, command, ledger
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


_yes = click.option("--yes", is_flag=True, help="Do not ask.")


@command(order=True)
@click.argument("files", nargs=-1, shell_complete=names.files)
@_yes
async def accept(found: NamedWorkspace, files: tuple[str, ...], yes: bool) -> Printed:
    """Take over FILES (default: all) as they stand: they run from now on. What was changed is shown first."""
    return await _carry(found, "accept", files, yes=yes)


@command(order=True)
@click.argument("files", nargs=-1, shell_complete=names.files)
@_yes
async def restore(found: NamedWorkspace, files: tuple[str, ...], yes: bool) -> Printed:
    """Put the accepted version of FILES (default: all) back. What was changed is shown first; new files stay."""
    return await _carry(found, "restore", files, yes=yes)


async def _carry(found: NamedWorkspace, order: Order, files: tuple[str, ...], *, yes: bool) -> Printed:
    """Show what departed, ask, and do it.

    Where no file was named, those are left out that cannot be accepted, or were never accepted. Raises `NotChanged`.
    """
    async with ledger(found) as at:
        engine = at.engine
        shown = _shown(engine, [found.path(file) for file in files])
        if shown and not found.quiet:
            click.echo("\n".join(_lines(one) for one in shown))
        if not files:
            known = engine.storage.ledger.files
            shown = [
                one for one in shown if (one.readable if order == "accept" else one.departure.path in known)
            ]
        if not shown:
            return Printed({"files": []}, f"there is nothing to {order}")
        if not yes:
            _ask(order, len(shown))
        chosen = [one.departure.path for one in shown]
        if _shown(engine, chosen) != shown:
            raise NotChanged("nothing was changed: the files were changed again while you looked at them")
        back = engine.rollback
        changed = await (back.accept(chosen) if order == "accept" else back.restore(chosen))
        made = Made.of(engine, changed.files, changed.epoch, changed.commit)
    return Printed(made, made.text("accepted" if order == "accept" else "restored"))


def _ask(order: Order, count: int) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(f"there is no terminal to ask on: look at what is shown, then {order} --yes")
    if not click.confirm(f"{order} {counted(count, 'file')}?", err=True):
        raise NotChanged("nothing was changed")


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
