"""``instar open``: the server's page in a browser, logged in by a ticket that works once."""

import os
import webbrowser
from urllib.parse import urlencode

import click

from instar.cli.door import Context, door, folder_option
from instar.cli.serve import PORT, serve_at
from instar.cli.text import echo, note
from instar.server.browser import forward, issue, running
from instar.server.listen import Address, BindError, bind
from instar.server.password import find_password


@click.command()
@click.option(
    "--print", "printed", is_flag=True, help="Print the address instead: it logs one browser in, within 60 s."
)
@folder_option("The folder of new sessions.")
@door
async def command(context: Context, printed: bool, folder: str | None) -> None:
    """Open the page of the server that runs in a browser, logged in.

    Where none runs, it is started, and ends with Ctrl-C.
    """
    where = context.folder(folder)
    environment = dict(os.environ)

    def show(url: str) -> None:
        asked = {"ticket": issue(context.paths.page_tickets), "directory": str(where)}
        reached = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        address = f"{reached}/#{urlencode(asked)}"
        if not printed and _started(forward(context.paths.data / "open.html", address), environment):
            note("if the browser shows nothing: instar open --print prints the address")
        else:
            echo(address)

    if servers := running(context.paths.servers):
        show(servers[0].url)
        return
    password = find_password(context.environment, context.paths.password_file)
    address = Address("127.0.0.1", PORT)
    try:
        bind(address).close()
    except BindError:
        address = Address("127.0.0.1", 0)

    def tell(url: str) -> None:
        note(f"a server listens on {url}")
        show(url)

    await serve_at(context, address, password, folder=where, tell=tell)


def _started(address: str, environment: dict[str, str]) -> bool:
    """Whether a browser was started. It must not bear the mark of what ends with the server, which `os.environ` has."""
    marked = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        return webbrowser.open(address)
    finally:
        os.environ.clear()
        os.environ.update(marked)
