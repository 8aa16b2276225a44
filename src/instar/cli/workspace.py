"""``instar workspace``: separate folders in which sessions work: git worktrees, or what a plugin offers."""

import click

from instar.cli import complete
from instar.cli.door import Context, door, folder_option, json_option
from instar.cli.text import echo, note, one_line, print_list, short
from instar.plugin import NotFound, WorkspaceInfo
from instar.runtime import Runtime


@click.group()
def command() -> None:
    """List, make or remove the workspaces of a folder's project: separate folders in which sessions work."""


_folder = folder_option("The workspaces of this folder's project.")


@command.command("list")
@_folder
@json_option
@door
async def list_(context: Context, folder: str | None, as_json: bool) -> None:
    """List workspaces, oldest first."""
    async with context.runtime(folder) as runtime:
        found = await runtime.workspace.list()
    otherwise = "no workspaces here yet (see: instar workspace create --help)"
    print_list(found, _line, as_json=as_json, otherwise=otherwise)


@command.command()
@click.argument("name", required=False)
@click.option(
    "--type", "kind", default="worktree", show_default=True, help="worktree, or a type that a plugin offers."
)
@click.option("--branch", help="The branch to make (of a worktree: instar/NAME).")
@click.option(
    "--from",
    "from_",
    metavar="NAME",
    shell_complete=complete.workspaces,
    help="Begin from this workspace.",
)
@_folder
@door
async def create(
    context: Context, name: str | None, kind: str, branch: str | None, from_: str | None, folder: str | None
) -> None:
    """Make a workspace: a git worktree on a new branch at HEAD. Without NAME it gets a name of its own.

    `instar run --worktree NAME` then works in it.
    """
    async with context.runtime(folder) as runtime:
        from_id = None if from_ is None else (await runtime.workspace.get(from_)).id
        made = await runtime.workspace.create(kind, name=name, branch=branch, from_id=from_id)
    echo(_line(made))


@command.command()
@click.argument("name", shell_complete=complete.workspaces)
@click.option("--force", is_flag=True, help="Also if it holds changes or commits that are nowhere else.")
@_folder
@door
async def remove(context: Context, name: str, force: bool, folder: str | None) -> None:
    """Remove a workspace, a worktree with its branch; its sessions stay."""
    async with context.runtime(folder) as runtime:
        removed = await runtime.workspace.remove(name, force=force)
    echo(f"removed {_line(removed)}")


async def found_or_made(runtime: Runtime, name: str) -> WorkspaceInfo:
    """Return the workspace called `name`, a new worktree when there is none. Raises as `WorkspaceClient.create`."""
    try:
        return await runtime.workspace.get(name)
    except NotFound:
        made = await runtime.workspace.create(name=name)
        note(f"made the worktree {made.name} on branch {made.branch}: {made.directory}")
        return made


def _line(info: WorkspaceInfo) -> str:
    words = [info.name, info.type, info.branch or "", one_line(info.directory or "")]
    return "  ".join(short(word, 1000) for word in words if word)
