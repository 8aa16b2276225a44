"""``instar serve``: opencode's HTTP interface, until a signal ends it."""

import click

from instar.cli.context import Context
from instar.cli.door import door
from instar.cli.failure import Failure


@click.command()
@click.option("--hostname", default="127.0.0.1", show_default=True, help="The name or address to listen on.")
@click.option("--port", default=4096, show_default=True, type=click.IntRange(0, 65535), help="0 is any.")
@click.option("--dir", "folder", metavar="PATH", help="The directory of requests that name none.")
@click.option("--workspace", metavar="PATH", help="The evolve workspace; switches evolve on.")
@click.option("--no-auth", is_flag=True, help="Let everybody in who reaches the port.")
@door
async def command(
    context: Context, hostname: str, port: int, folder: str | None, workspace: str | None, no_auth: bool
) -> None:
    """Serve HTTP. Log in as opencode (or instar) with INSTAR_SERVER_PASSWORD, or the password file's."""
    # Start-up time: these bring Starlette and uvicorn.
    from instar.server.instances import Instances
    from instar.server.listen import Address, BindError, serve
    from instar.server.password import find_password

    password = None if no_auth else find_password(context.environment, context.paths.password_file)
    flags = {"workspace": context.absolute(workspace)} if workspace else {}
    instances = Instances(context.folder(folder), context.environment, flags)

    def announce(url: str) -> None:
        if password is None:
            click.echo(
                "instar: no password is asked for: whoever reaches this port can run commands", err=True
            )
        else:
            click.echo(f"instar: log in as opencode with the password in {password.origin}", err=True)
        # The SDK of opencode starts a server and waits for this very line.
        click.echo(f"opencode server listening on {url}")

    try:
        await serve(instances, Address(hostname, port), password.value if password else None, announce)
    except BindError as error:
        raise Failure(str(error)) from error
