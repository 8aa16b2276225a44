"""``instar workspace``: folders apart in which sessions work, git worktrees above all."""

import click
import msgspec

from instar import wire
from instar.cli.context import Context
from instar.cli.door import door, opened_runtime
from instar.cli.line import short
from instar.cli.text import one_line
from instar.plugin import NotFound, WorkspaceInfo
from instar.runtime import Options, Runtime


@click.group()
def command() -> None:
    """List, make or remove the workspaces of a folder's project: folders apart in which sessions work."""


_folder = click.option("--dir", "folder", metavar="PATH", help="The workspaces of this folder's project.")


@command.command("list")
@_folder
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@door
async def list_(context: Context, folder: str | None, as_json: bool) -> None:
    """List workspaces, oldest first."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        found = await runtime.workspace.list()
    if as_json:
        click.echo(msgspec.json.format(wire.encode(found)))
        return
    if not found:
        click.echo("instar: no workspaces here yet (see: instar workspace create --help)", err=True)
    for info in found:
        click.echo(_line(info))


@command.command()
@click.argument("name", required=False)
@click.option("--type", "kind", default="worktree", show_default=True, help="A plugin may bring others.")
@click.option("--branch", help="The branch to make (of a worktree: instar/NAME).")
@click.option("--from", "from_", metavar="NAME", help="Begin from this workspace.")
@_folder
@door
async def create(
    context: Context, name: str | None, kind: str, branch: str | None, from_: str | None, folder: str | None
) -> None:
    """Make a workspace, called NAME or by a name of its own: a git worktree on a new branch at HEAD.

    `instar run --worktree NAME` then works in it.
    """
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        begun = None if from_ is None else (await runtime.workspace.get(from_)).id
        made = await runtime.workspace.create(kind, name=name, branch=branch, from_id=begun)
    click.echo(_line(made))


@command.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Also when it holds changes or commits that are nowhere else.")
@_folder
@door
async def remove(context: Context, name: str, force: bool, folder: str | None) -> None:
    """Remove the workspace NAME, a worktree with its branch; its sessions stay."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        gone = await runtime.workspace.remove(name, force=force)
    click.echo(f"removed {_line(gone)}")


async def entered(runtime: Runtime, name: str) -> WorkspaceInfo:
    """Return the workspace called `name`, a new worktree when there is none. Raises as `WorkspaceClient.create`."""
    try:
        return await runtime.workspace.get(name)
    except NotFound:
        made = await runtime.workspace.create(name=name)
        click.echo(f"instar: made the worktree {_line(made)}", err=True)
        return made


def _line(info: WorkspaceInfo) -> str:
    words = [info.name, info.type, info.branch or "", one_line(info.directory or "")]
    return "  ".join(short(word, 1000) for word in words if word)
