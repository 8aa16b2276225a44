"""``instar mcp``: the MCP servers of a folder's settings, and what of theirs the model may use."""

import click
import msgspec

from instar.cli import question
from instar.cli.context import Context
from instar.cli.door import door, opened_runtime
from instar.cli.failure import Failure
from instar.cli.line import short
from instar.cli.text import harmless
from instar.mcp import LinkError, Servers, Status
from instar.runtime import Options, Runtime


@click.group()
def command() -> None:
    """List MCP servers, or approve what changed in one."""


_folder = click.option("--dir", "folder", metavar="PATH", help="With the settings of this folder.")


@command.command("list")
@_folder
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@door
async def list_(context: Context, folder: str | None, as_json: bool) -> None:
    """Connect every MCP server and print its state, its tools and what is wrong with it."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        found = await _connected(runtime)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
        return
    if not found:
        click.echo("instar: the settings name no MCP servers (the mcp block of opencode.json)", err=True)
    for status in found:
        _print(status)


@command.command()
@click.argument("server")
@_folder
@click.option("--yes", is_flag=True, help="Approve without being asked.")
@door
async def approve(context: Context, server: str, folder: str | None, yes: bool) -> None:
    """Show what changed in SERVER's tools since they were approved, and approve it."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        known = [status.server for status in runtime.mcp.status()] if runtime.mcp else []
        if runtime.mcp is None or server not in known:
            raise Failure(f"there is no MCP server {server!r}; there are: {', '.join(known) or 'none'}", 2)
        (found,) = (status for status in await _connected(runtime) if status.server == server)
        if found.state != "connected":
            raise Failure(f"the MCP server {server!r} is not connected: {found.error or found.state}")
        await _approve(runtime.mcp, server, yes)


async def _approve(servers: Servers, server: str, yes: bool) -> None:
    changes = await servers.changes(server)
    for tool, difference in changes.items():
        click.echo(f"{harmless(tool)}\n{harmless(difference)}\n")
    if not changes:
        click.echo("nothing changed since it was approved")
    elif yes or (question.is_there() and await question.yes(f"Approve what changed in {server}?")):
        await servers.approve(server)
        click.echo(f"approved: {', '.join(map(harmless, changes))}")
    else:
        raise Failure("nothing was approved (without a terminal: --yes)")


async def _connected(runtime: Runtime) -> list[Status]:
    if runtime.mcp is None:
        return []
    try:
        await runtime.mcp.look()
    except LinkError as error:
        raise Failure(str(error)) from error
    return runtime.mcp.status()


def _print(status: Status) -> None:
    click.echo(
        f"{short(status.server)}  {status.state}" + (f": {short(status.error, 300)}" if status.error else "")
    )
    for tool in status.tools:
        click.echo(f"  {tool}")
    for prompt in status.prompts:
        click.echo(f"  /{prompt}")
    for reason in status.left_out:
        click.echo(f"  left out: {short(reason, 300)}")
