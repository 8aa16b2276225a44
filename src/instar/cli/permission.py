"""``instar permission``: what was allowed for always in a folder, and taking it back."""

import difflib
from collections.abc import Sequence

import click
import msgspec

from instar import wire
from instar.cli.context import Context
from instar.cli.door import door, opened_runtime
from instar.cli.failure import Failure
from instar.cli.line import short
from instar.message import Rule
from instar.runtime import Options


@click.group()
def command() -> None:
    """List what was allowed for always in a folder's repository, or take it back."""


_folder = click.option("--dir", "folder", metavar="PATH", help="What holds in this folder.")


@command.command("list")
@_folder
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@door
async def list_(context: Context, folder: str | None, as_json: bool) -> None:
    """List the permissions and patterns that an `always` answer allowed, oldest first."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        found = await runtime.permission.approvals()
    if as_json:
        click.echo(msgspec.json.format(wire.encode(found)))
        return
    if not found:
        click.echo("instar: nothing was allowed for always here", err=True)
    for rule in found:
        click.echo(_line(rule))


@command.command()
@click.argument("permission", required=False)
@click.argument("pattern", required=False)
@_folder
@click.option("--all", "everything", is_flag=True, help="Take back all of them.")
@door
async def remove(
    context: Context, permission: str | None, pattern: str | None, folder: str | None, everything: bool
) -> None:
    """Take back what was allowed for always: PERMISSION and PATTERN as `list` prints them."""
    if everything == (permission is not None) or (permission is None) != (pattern is None):
        raise click.UsageError("name a PERMISSION and a PATTERN, or --all")
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        known = await runtime.permission.approvals()
        gone = known if everything else _named(known, permission or "", pattern or "")
        for rule in gone:
            await runtime.permission.forget(rule.permission, rule.pattern)
    for rule in gone:
        click.echo(f"removed {_line(rule)}")


def _named(known: Sequence[Rule], permission: str, pattern: str) -> list[Rule]:
    """The answer of that permission and pattern. Raises `Failure` with the nearest."""
    found = [rule for rule in known if (rule.permission, rule.pattern) == (permission, pattern)]
    if not found:
        lines = [_line(rule) for rule in known]
        near = difflib.get_close_matches(f"{permission}  {pattern}", lines, n=3, cutoff=0.4) or lines[:3]
        there = f"; there are: {', '.join(near)}" if near else "; nothing was"
        raise Failure(f"{short(permission)} {short(pattern)} was not allowed for always here{there}", 2)
    return found


def _line(rule: Rule) -> str:
    return f"{short(rule.permission)}  {short(rule.pattern, 1000)}"
