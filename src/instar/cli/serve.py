"""``instar serve``: opencode's HTTP interface, until a signal ends it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from instar.cli import collector
from instar.cli.context import Context
from instar.cli.door import door, in_process
from instar.cli.failure import Failure

if TYPE_CHECKING:
    from instar.server.listen import Address, Exposure
    from instar.server.password import Password


@click.command()
@click.option("--hostname", default="127.0.0.1", show_default=True, help="The name or address to listen on.")
@click.option("--port", default=4096, show_default=True, type=click.IntRange(0, 65535), help="0 is any.")
@click.option("--socket", metavar="PATH", help="Listen at a Unix socket, mode 0600, instead.")
@click.option("--dir", "folder", metavar="PATH", help="The directory of requests that name none.")
@click.option("--workspace", metavar="PATH", help="The evolve workspace; switches evolve on.")
@click.option("--safe", is_flag=True, help="Start with none of the agent's changes to the evolve workspace.")
@click.option(
    "--no-auth",
    count=True,
    help="Let everybody in who reaches the port; said twice, also from other machines.",
)
@click.option("--cors", metavar="ORIGIN", multiple=True, help="A site whose pages may ask; repeatable.")
@click.option(
    "--grace",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0, 3600),
    help="Seconds that turns have to end when the server is told to.",
)
@click.option("--mdns/--no-mdns", hidden=True, help="opencode's; there is no such announcement here.")
@door
async def command(
    context: Context,
    hostname: str,
    port: int,
    socket: str | None,
    folder: str | None,
    workspace: str | None,
    safe: bool,
    no_auth: int,
    cors: Sequence[str],
    grace: float,
    mdns: bool,
) -> None:
    """Serve HTTP. Log in as opencode (or instar) with INSTAR_SERVER_PASSWORD, or the password file's."""
    # Start-up time: these bring Starlette and uvicorn.
    from instar.cli.own_server import OwnServer
    from instar.server.instances import Instances
    from instar.server.listen import Address, BindError, serve
    from instar.server.password import find_password

    if mdns:
        raise click.UsageError("instar announces itself to nobody: leave --mdns out and tell its address")
    file = context.absolute(socket)
    address = Address(hostname, port, None if file is None else Path(file))
    password = None if no_auth else find_password(context.environment, context.paths.password_file)
    user = context.environment.get("OPENCODE_SERVER_USERNAME") or "opencode"
    exposure = _exposure(address, password, no_auth, (cors, grace, user))
    asked = {"workspace": context.absolute(workspace), "safe": safe}
    flags = {name: value for name, value in asked.items() if value}
    instances = Instances(context.folder(folder), context.environment, flags, in_process, OwnServer)

    def announce(url: str) -> None:
        collector.started()
        for line in _notices(address, password):
            click.echo(f"instar: {line}", err=True)
        # The SDK of opencode starts a server and waits for this very line.
        click.echo(f"opencode server listening on {url}")

    try:
        await serve(instances, address, exposure, announce)
    except BindError as error:
        raise Failure(str(error)) from error


def _exposure(
    address: "Address", password: "Password | None", no_auth: int, more: tuple[Sequence[str], float, str]
) -> "Exposure":
    """Return who may come in. Raises `click.UsageError` for what would let strangers in unasked."""
    from instar.server.cors import origins  # start-up time
    from instar.server.listen import Exposure

    cors, grace, user = more
    if no_auth == 1 and _reaches_out(address):
        raise click.UsageError(
            f"--no-auth at {address.hostname} would let whoever reaches this machine run commands as you;"
            " leave it out, or say it twice if that is meant"
        )
    try:
        return Exposure(None if password is None else password.value, origins(cors), grace, user)
    except ValueError as error:
        raise click.UsageError(f"--cors: {error}") from error


def _notices(address: "Address", password: "Password | None") -> list[str]:
    if password is None:
        who = "whoever reaches this machine" if _reaches_out(address) else "whoever reaches this port"
        return [
            f"no password is asked for: {who} can run commands",
            "the programs that the model starts reach it too: they can answer what it asks you, and read what is hidden"
            " from them",
        ]
    told = [f"log in as opencode with the password in {password.origin}"]
    if _reaches_out(address):
        told.append(
            "other machines reach this port, and the password travels unencrypted: put a proxy with TLS before it"
        )
    return told


def _reaches_out(address: "Address") -> bool:
    from instar.server.listen import is_loopback  # start-up time

    return address.path is None and not is_loopback(address.hostname)
