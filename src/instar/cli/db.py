"""``instar db``: move what is stored to another database."""

import shlex
import time
from pathlib import Path

import click

from instar.cli.door import Context, Failure, door, json_option
from instar.cli.text import counted, echo, note, print_json
from instar.store import StoreError
from instar.store.store import database_at


@click.group()
def command() -> None:
    """Move what is stored to another database."""


@command.command()
@click.argument("source")
@click.argument("target")
@json_option
@door
async def move(context: Context, source: str, target: str, as_json: bool) -> None:
    """Copy all sessions with what belongs to them from SOURCE to TARGET, and compare every row.

    Each is a file (its path, or `sqlite:` for instar's own) or the URL of a PostgreSQL database. TARGET must be empty;
    SOURCE stays as it is. No session may run meanwhile.
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
    if "://" in name:
        return name
    path = name.removeprefix("sqlite:")
    return context.path(path) if path else context.paths.data / "instar.db"
