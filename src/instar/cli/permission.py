"""``instar permission``: list what was always allowed in a folder, and take it back."""

import difflib
from collections.abc import Sequence

import click

from instar.cli import complete
from instar.cli.door import Context, Failure, door, folder_option, json_option
from instar.cli.text import echo, print_list, short
from instar.message import Rule


@click.group()
def command() -> None:
    """List what you allowed with `always` in a folder's repository, or take it back."""


_folder = folder_option("The permissions of this folder.")


@command.command("list")
@_folder
@json_option
@door
async def list_(context: Context, folder: str | None, as_json: bool) -> None:
    """List what `always` answers allowed, oldest first."""
    async with context.runtime(folder) as runtime:
        found = await runtime.permission.approvals()
    print_list(found, _line, as_json=as_json, otherwise="nothing was allowed for always here")


@command.command()
@click.argument("permission", required=False, shell_complete=complete.allowed)
@click.argument("pattern", required=False, shell_complete=complete.allowed)
@_folder
@click.option("--all", "everything", is_flag=True, help="Take back all of them.")
@door
async def remove(
    context: Context, permission: str | None, pattern: str | None, folder: str | None, everything: bool
) -> None:
    """Take back what you allowed. PERMISSION and PATTERN are as `list` prints them."""
    if everything == (permission is not None) or (permission is None) != (pattern is None):
        raise click.UsageError("name a PERMISSION and a PATTERN, or --all")
    async with context.runtime(folder) as runtime:
        known = await runtime.permission.approvals()
        removed = known if everything else _named(known, permission or "", pattern or "")
        for rule in removed:
            await runtime.permission.forget(rule.permission, rule.pattern)
    for rule in removed:
        echo(f"removed {_line(rule)}")


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
