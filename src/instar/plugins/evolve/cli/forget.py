"""``unused``: what is not used, or costs more than it brings; ``forget``: propose to remove it."""

import click
import msgspec

from instar.plugins.evolve.cli import names
from instar.plugins.evolve.cli.command import NamedWorkspace, Printed, command, fail, look, scripts, stage
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.forget.due import day
from instar.plugins.evolve.forget.forgetting import FileUse
from instar.plugins.evolve.history.trailers import counted
from instar.plugins.evolve.install import NotChanged

_HEAD = f"{'file':28} {'last used':10} {'calls':>7} {'tokens':>7} {'ms':>6}"
_BY_HAND = "a person asked for it"


class Unused(msgspec.Struct, frozen=True):
    """What `unused` shows: the files with their use in the last `days` days."""

    days: int
    files: list[FileUse]


@command()
@click.option(
    "--days", type=click.IntRange(min=1, max=365), help="Days without use (default: evolve.forget_days)."
)
@click.option("--all", "everything", is_flag=True, help="Also what is not due, and what is yours.")
async def unused(found: NamedWorkspace, days: int | None, everything: bool) -> Printed:
    """List what the agent made and nothing speaks for any more: its last use, calls and costs, and why it is due.

    Only looks: `instar evolve forget` proposes to remove it.
    """
    if not found.trusted:
        fail(found.distrust)
    async with look(found) as at:
        rows = await at.engine.forgetting.look(days)
        shown = Unused(at.engine.config.forget_days if days is None else days, rows)
    if not everything:
        shown = msgspec.structs.replace(shown, files=[one for one in rows if one.why])
    lines = [line for one in shown.files for line in _lines(one)]
    return Printed(shown, "\n".join([_HEAD, *lines]) if lines else "nothing is due")


@command(order=True)
@click.argument("file", required=False, shell_complete=names.files)
async def forget(found: NamedWorkspace, file: str | None) -> Printed:
    """Propose to remove what is due (see `unused`), or all that the agent made of FILE.

    Each is tried without it first, and waits for `instar evolve approve`.
    """
    async with scripts(found) as at:
        made = [
            await at.engine.forgetting.propose(*one, said=stage)
            for one in await _wanted(at.engine, file and found.path(file))
        ]
    failed = any(not one.id for one in made)
    text = "\n".join(f"{one.file}: {one.text}" for one in made)
    return Printed(made, text or "nothing is due", "" if failed else None)


async def _wanted(engine: EvolveEngine, file: str | None) -> list[tuple[str, str, str]]:
    """Return what to propose: file, commit and reason. Raises `NotChanged` for a file that is not the agent's."""
    if file is None:
        rows = await engine.forgetting.look()
        return [(one.file, one.takes_back, one.why) for one in rows if one.why and not one.state]
    changes = (await engine.forgetting.changes()).get(file)
    if not changes:
        raise NotChanged(f"nothing of {file} is the agent's: what is yours you delete and accept yourself")
    return [(file, changes[-1].commit, _BY_HAND)]


def _lines(one: FileUse) -> list[str]:
    ms = "" if one.ms is None else f"{one.ms:.0f}"
    lines = [f"{one.file:28} {_last(one.last)} {one.calls:7} {one.tokens:7} {ms:>6}".rstrip()]
    lines += [f"  {part:26} {_last(use.last)} {use.calls:7}" for part, use in sorted(one.parts.items())]
    costs = [f"its changes broke prompt caches {counted(one.breaks, 'time')}"] if one.breaks else []
    why = [f"why: {one.why}"] if one.why else [] if one.agent else ["yours"]
    back = [f"taken back would be {one.takes_back[:12]}"] if one.takes_back else []
    return lines + [f"  {text}" for text in [*why, *costs, *back, *([one.state] if one.state else [])]]


def _last(at: int) -> str:
    return day(at) if at else "never     "
