"""``instar db``: instar's own PostgreSQL server, and moving what is stored to another database."""

import shlex
import time
from pathlib import Path

import click

from instar.cli.door import Context, Failure, door, json_option
from instar.cli.text import counted, echo, note, print_json
from instar.settings.paths import LOCAL
from instar.store import StoreError
from instar.store.store import database_at


@click.group()
def command() -> None:
    """Run a PostgreSQL server of your own, and move what is stored to another database."""


@command.command()
@door
async def start(context: Context) -> None:
    """Start instar's own PostgreSQL server, and make it the first time; it runs until `instar db stop`.

    It stands in the data folder and is reached by you alone, over a socket. `--database local` names its database.
    """
    from instar.store.local import LocalServer

    try:
        server = LocalServer(context.paths, context.environment)
        started = await server.start()
        state = server.state()
    except StoreError as error:
        raise Failure(str(error)) from None
    note(f"PostgreSQL {state.version} {'runs' if started else 'ran already'} in {state.folder}")
    echo(state.url)
    note("use it: instar serve --workers 3 --database local (each other command: INSTAR_DATABASE=local)")
    note("bring your sessions over: instar db move sqlite: local; end it: instar db stop")


@command.command()
@door
async def stop(context: Context) -> None:
    """Stop instar's own PostgreSQL server. What uses it meanwhile cannot save until it is started again."""
    from instar.store.local import LocalServer

    try:
        stopped = await LocalServer(context.paths, context.environment).stop()
    except StoreError as error:
        raise Failure(str(error)) from None
    note("the server is stopped" if stopped else "no server ran")


@command.command()
@json_option
@door
def status(context: Context, as_json: bool) -> int:
    """Show whether instar's own PostgreSQL server runs, and who uses it. Exit code 1: it does not run."""
    from instar.store.local import LocalServer

    try:
        state = LocalServer(context.paths, context.environment).state()
    except StoreError as error:
        raise Failure(str(error)) from None
    if as_json:
        print_json(state)
    elif state.running:
        echo(f"running: process {state.pid}, PostgreSQL {state.version}, {state.size / 2**20:.1f} MiB")
        workers, connections = counted(state.workers, "worker"), counted(state.connections, "connection")
        echo(f"used by: {workers}, {connections} of instar")
        for session, owner in state.turns.items():
            echo(f"turn: {session} in {owner}")
        echo(f"database: {state.url}")
        echo(f"log: {state.log}")
    else:
        echo(f"not running{f' ({state.folder})' if state.made else ', never started'}: instar db start")
    return int(not state.running)


@command.command()
@click.argument("source")
@click.argument("target")
@json_option
@door
async def move(context: Context, source: str, target: str, as_json: bool) -> None:
    """Copy all sessions with what belongs to them from SOURCE to TARGET, and compare every row.

    Each is a file (its path, or `sqlite:` for instar's own) or a PostgreSQL database (its URL, or `local`: that of
    `instar db start`). TARGET must be empty; SOURCE stays as it is. No session may run meanwhile.
    """
    from instar.store.move import move

    def told(table: str, count: int) -> None:
        if not as_json and count:
            echo(f"{table}: {count}")

    try:
        places = [database_at(_place(context, one)) for one in (source, target)]
        counts = move(places[0], places[1], int(time.time() * 1000), told)
    except StoreError as error:
        raise Failure(str(error)) from None
    if as_json:
        print_json(counts)
        return
    note(f"moved {counted(sum(counts.values()), 'row')}, each compared, to {places[1].name}")
    if not isinstance(_place(context, target), Path):
        note(f"instar uses it with INSTAR_DATABASE={shlex.quote(target)}")


def _place(context: Context, name: str) -> Path | str:
    if name == LOCAL:
        return context.paths.local_database
    if "://" in name:
        return name
    path = name.removeprefix("sqlite:")
    return context.path(path) if path else context.paths.data / "instar.db"
