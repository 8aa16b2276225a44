"""``instar serve``: opencode's HTTP interface, until a signal ends it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from instar.cli import collector, streams
from instar.cli.door import Context, Failure, door, folder_option, in_process, workspace_options
from instar.cli.text import echo, note
from instar.cli.workers import Workers, follow_parent
from instar.process import mark_own
from instar.server.access import origins
from instar.server.browser import recorded
from instar.server.errors import refusal
from instar.server.instances import Instances
from instar.server.listen import Address, BindError, Exposure, is_loopback, listening, serve
from instar.server.own_server import OwnServer
from instar.server.password import Password, find_password
from instar.settings.install import installing
from instar.settings.paths import DATABASE_VARIABLE

GRACE: Final = 5.0
PORT: Final = 4096


@click.command()
@click.option(
    "--hostname",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Listen on this name or address.",
)
@click.option(
    "--port",
    metavar="N",
    default=PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Listen on this port; 0 takes any free one.",
)
@click.option("--socket", metavar="PATH", help="Listen at a Unix socket, mode 0600, instead.")
@folder_option("The folder for requests that name none.")
@click.option(
    "--database",
    metavar="URL",
    help="Keep sessions in this PostgreSQL database (INSTAR_DATABASE); `local`: that of `instar db start`.",
)
@click.option(
    "--workers",
    metavar="N",
    default=1,
    show_default=True,
    type=click.IntRange(1, 256),
    help="Run N processes that share the port and the database.",
)
@click.option("--listener", type=int, hidden=True, help="The socket of the process that started this worker.")
@workspace_options
@click.option(
    "--no-auth",
    count=True,
    help="Ask for no password; give it twice to allow that on an address that other machines reach.",
)
@click.option(
    "--cors", metavar="ORIGIN", multiple=True, help="A site whose pages may use the server; repeatable."
)
@click.option(
    "--grace",
    default=GRACE,
    show_default=True,
    type=click.FloatRange(0, 3600),
    help="Seconds that turns have to end when the server is told to.",
)
@click.option("--mdns/--no-mdns", hidden=True, help="An option of opencode; instar does not announce itself.")
@door
async def command(
    context: Context,
    hostname: str,
    port: int,
    socket: str | None,
    folder: str | None,
    database: str | None,
    workers: int,
    listener: int | None,
    workspace: str | None,
    safe: bool,
    no_auth: int,
    cors: Sequence[str],
    grace: float,
    mdns: bool,
) -> None:
    """Serve opencode's HTTP interface until a signal ends it.

    Log in as opencode (or instar) with the password in INSTAR_SERVER_PASSWORD, else in the password file.
    """
    if database:
        context = Context({**context.environment, DATABASE_VARIABLE: database})
    if mdns:
        raise click.UsageError("instar announces itself to nobody: leave --mdns out and tell its address")
    if workers > 1 and not context.paths.server:
        raise click.UsageError(
            "several workers share a PostgreSQL database: name it with --database URL (or INSTAR_DATABASE);"
            " instar db start makes one: --database local"
        )
    address = Address(hostname, port, context.path(socket) if socket else None, listener)
    is_exposed = address.path is None and not is_loopback(hostname)
    if no_auth == 1 and is_exposed:
        raise click.UsageError(
            f"--no-auth at {hostname} would let whoever reaches this machine run commands as you;"
            " leave it out, or say it twice if that is meant"
        )
    password = None if no_auth else find_password(context.environment, context.paths.password_file)
    try:
        allowed = origins(cors)
    except ValueError as error:
        raise click.UsageError(f"--cors: {error}") from error
    asked = {"workspace": str(context.path(workspace)) if workspace else None, "safe": safe}
    place = context.folder(folder)
    if workers == 1:
        flags = {name: value for name, value in asked.items() if value}
        await serve_at(context, address, password, allowed=allowed, grace=grace, folder=place, flags=flags)
        return
    options = ["--hostname", hostname, "--dir", str(place), "--grace", str(grace), *["--no-auth"] * no_auth]
    options += [one for origin in cors for one in ("--cors", origin)]
    options += ["--workspace", str(context.path(workspace))] if workspace else []
    options += ["--safe"] if safe else []
    await _serve_with(workers, context, address, password, place, options)


async def _serve_with(
    count: int,
    context: Context,
    address: Address,
    password: Password | None,
    folder: Path,
    options: Sequence[str],
) -> None:
    """Run several workers that accept from one socket. Raises `Failure`."""
    try:
        with listening(address) as (bound, url), ExitStack() as stack:
            where = (
                ["--socket", str(address.path)] if address.path else ["--port", str(bound.getsockname()[1])]
            )

            def announce() -> None:
                is_exposed = address.path is None and not is_loopback(address.hostname)
                for line in _notices(password, is_exposed=is_exposed):
                    note(line)
                if address.path is None:
                    stack.enter_context(recorded(context.paths.servers, url, str(folder)))
                _tell(url)

            await Workers(count, bound, [*options, *where], context.environment).run(announce)
    except BindError as error:
        raise Failure(str(error)) from error


def _tell(url: str) -> None:
    # The SDK of opencode starts a server and waits for this very line.
    echo(f"opencode server listening on {url}")


async def serve_at(
    context: Context,
    address: Address,
    password: Password | None,
    *,
    folder: Path,
    flags: Mapping[str, Any] = MappingProxyType({}),
    allowed: frozenset[str] = frozenset(),
    grace: float = GRACE,
    tell: Callable[[str], object] = _tell,
) -> None:
    """Serve until a signal; `tell` is called with the URL once the server listens. Raises `Failure`."""
    is_exposed = address.path is None and not is_loopback(address.hostname)
    instances = Instances(folder, context.environment, dict(flags), in_process, OwnServer)
    exposure = Exposure(
        None if password is None else password.value,
        allowed,
        grace,
        context.environment.get("OPENCODE_SERVER_USERNAME") or "opencode",
        "" if password is None else password.origin.replace(f"{context.paths.home}/", "~/"),
        context.paths.page_tickets,
        {
            "/acp": _Late("instar.cli.acp.remote", "EditorsDoor", instances),
            "/instar/mcp": _Late("instar.cli.mcp_server", "McpDoor", instances),
        },
    )
    mark_own()
    with ExitStack() as stack:

        def announce(url: str) -> None:
            collector.started()
            if address.listener is not None:
                follow_parent()
            else:
                for line in _notices(password, is_exposed=is_exposed):
                    note(line)
                if address.path is None:
                    stack.enter_context(recorded(context.paths.servers, url, str(folder)))
            tell(url)

        try:
            await serve(instances, address, exposure, announce)
        except BindError as error:
            raise Failure(str(error)) from error
    streams.hurry()


class _Late:
    """Another protocol's door (ASGI), imported with its first request: most servers never see one."""

    def __init__(self, module: str, name: str, instances: Instances) -> None:
        self._module, self._name, self._instances = module, name, instances
        self._door: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._door is None:
            try:
                # The libraries take a second, in which others are served.
                module = await asyncio.to_thread(import_module, self._module)
            except ModuleNotFoundError as error:
                if error.name != "acp":
                    raise
                text = f"editors need the package agent-client-protocol here: {installing('acp')}"
                answer = refusal(501, "NotInstalled", text)
                if scope["type"] == "websocket":
                    await WebSocket(scope, receive, send).send_denial_response(answer)
                else:
                    await answer(scope, receive, send)
                return
            self._door = self._door or getattr(module, self._name)(self._instances)
        await self._door(scope, receive, send)


def _notices(password: Password | None, *, is_exposed: bool) -> list[str]:
    if password is None:
        who = "whoever reaches this machine" if is_exposed else "whoever reaches this port"
        return [
            f"no password is asked for: {who} can run commands",
            "the programs that the model starts reach it too: they can answer what it asks you, and read what is hidden"
            " from them",
        ]
    lines = [f"log in as opencode with the password in {password.origin}"]
    if is_exposed:
        lines.append(
            "other machines reach this port, and the password travels unencrypted: put a proxy with TLS before it"
        )
    return lines
