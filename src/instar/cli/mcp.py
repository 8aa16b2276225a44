"""``instar mcp``: the MCP servers of a folder's settings, and what of theirs the model may use."""

import asyncio
import sys
import webbrowser

import click

from instar.approval import permissions
from instar.cli import complete, person
from instar.cli.door import Context, Failure, door, folder_option, json_option
from instar.cli.person import Interrupts
from instar.cli.text import echo, harmless, print_list, short
from instar.mcp import LOGINS, LinkError, Servers, Status
from instar.provider.keys import Keys, KeysError
from instar.runtime import Runtime
from instar.settings.config import McpServerConfig


@click.group()
def command() -> None:
    """List MCP servers, log in to one, or approve what changed in it."""


_folder = folder_option("With the settings of this folder.")


@command.command("list")
@_folder
@json_option
@door
async def list_(context: Context, folder: str | None, as_json: bool) -> None:
    """Connect every MCP server; print its state and tools."""
    async with context.runtime(folder) as runtime:
        found = await _connected(runtime)
    otherwise = "the settings name no MCP servers (the mcp block of opencode.json)"
    print_list(found, _lines, as_json=as_json, otherwise=otherwise)


@command.command()
@click.argument("server", shell_complete=complete.servers)
@_folder
@click.option("--yes", is_flag=True, help="Approve without being asked.")
@door
async def approve(context: Context, server: str, folder: str | None, yes: bool) -> None:
    """Show what changed in SERVER's tools, and approve it.

    What is shown are the changes since the tools were approved last.
    """
    async with context.runtime(folder) as runtime:
        servers = _having(runtime, server)
        (found,) = (status for status in await _connected(runtime) if status.server == server)
        if found.state != "connected":
            raise Failure(f"the MCP server {server!r} is not connected: {found.error or found.state}")
        await _approve(servers, server, yes)


@command.command()
@click.argument("server", shell_complete=complete.servers)
@_folder
@door
async def auth(context: Context, server: str, folder: str | None) -> None:
    """Log in to SERVER, a remote one, by OAuth.

    The login is made in a browser, which comes back to a port of this machine. On a terminal the browser is opened.
    """
    async with context.runtime(folder) as runtime:
        servers = _having(runtime, server)
        try:
            login = await servers.log_in(server)
            if login is None or login.made is None:
                echo(f"{server} asks for no login")
                return
            url = login.url.result()
            echo(f"log in here: {url}")
            # In a thread: one that runs in the terminal is open until it is closed, and comes back before that.
            browser = [asyncio.to_thread(webbrowser.open, url)] if person.is_there() else []
            await asyncio.gather(login.made, *browser)
        except (LinkError, KeysError) as error:
            raise Failure(str(error)) from error
        (status,) = (one for one in servers.status() if one.server == server)
    echo(f"logged in to {server}, which is {status.state}")


@command.command()
@click.argument("server", shell_complete=complete.servers)
@_folder
@door
async def logout(context: Context, server: str, folder: str | None) -> None:
    """Forget the login to SERVER."""
    logins = Keys(context.paths.data / LOGINS)
    try:
        if not logins.remove(server):
            raise Failure(f"no login to {server!r} is kept in {logins.file}")
    except KeysError as error:
        raise Failure(str(error)) from error
    echo(f"forgot the login to {server}")


@command.command()
@click.option(
    "--answers", is_flag=True, help="Let the other agent answer what the model asks to do, once each."
)
@click.option(
    "--attach", "url", metavar="URL", help="Serve the sessions of the server there (http://… or unix:PATH)."
)
@click.option("--tools", is_flag=True, help="Offer the tools of the evolve workspace's scripts too.")
@_folder
@door
async def serve(context: Context, folder: str | None, url: str | None, answers: bool, tools: bool) -> None:
    """Offer sessions as tools to another agent: an MCP server on stdin and stdout (instar docs mcp)."""
    # Start-up time: other commands need neither a server nor the SDK.
    from instar.cli.stdio import Lines, clients

    if sys.stdin.isatty():
        raise Failure("another agent starts instar mcp serve and talks with it (instar docs mcp)")
    from instar.cli.mcp_server import serve as served

    # Without --answers nobody is there: what is asked is refused, and nothing waits.
    asked = (permissions.relayed, None) if answers else (None, None)
    where = folder if url is not None else str(context.folder(folder))
    lines = Lines()
    with Interrupts():
        async with clients(context, url, asked) as client_of, client_of(where) as client:
            await served(client, lines, McpServerConfig(answers, tools))
    await lines.close()


def _having(runtime: Runtime, server: str) -> Servers:
    """Return the servers. Raises `Failure` if there is none of this name."""
    known = [status.server for status in runtime.mcp.status()] if runtime.mcp else []
    if runtime.mcp is None or server not in known:
        raise Failure(f"there is no MCP server {server!r}; there are: {', '.join(known) or 'none'}", 2)
    return runtime.mcp


async def _approve(servers: Servers, server: str, yes: bool) -> None:
    changes = await servers.changes(server)
    for tool, difference in changes.items():
        echo(f"{harmless(tool)}\n{harmless(difference)}\n")
    if not changes:
        echo("nothing changed since it was approved")
    elif yes or (person.is_there() and await person.yes(f"Approve what changed in {server}?")):
        await servers.approve(server)
        echo(f"approved: {', '.join(map(harmless, changes))}")
    else:
        raise Failure("nothing was approved (without a terminal: --yes)")


async def _connected(runtime: Runtime) -> list[Status]:
    if runtime.mcp is None:
        return []
    await runtime.mcp.look()
    return runtime.mcp.status()


def _lines(status: Status) -> str:
    problem = f": {short(status.error, 300)}" if status.error else ""
    return "\n".join(
        [
            f"{short(status.server)}  {status.state}{problem}",
            *(f"  {tool}" for tool in status.tools),
            *(f"  /{prompt}" for prompt in status.prompts),
            *(f"  left out: {short(reason, 300)}" for reason in status.left_out),
        ]
    )
