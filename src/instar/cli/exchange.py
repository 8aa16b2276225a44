"""``instar export`` and ``instar import``: sessions as files, in opencode's form."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from instar import wire
from instar.cli.context import Context
from instar.cli.door import door, opened_runtime
from instar.cli.line import short
from instar.cli.session import find
from instar.cli.text import one_line
from instar.document import atomic_write
from instar.exchange import (
    LIMIT,
    Choice,
    ExchangeError,
    Here,
    Taken,
    Transcript,
    bring_in,
    families,
    of_folder,
    read_archive,
    read_family,
    redacted,
    transcript_of,
)
from instar.exchange import export as exported
from instar.live import now
from instar.message import Session
from instar.runtime import Options, Runtime
from instar.store import PutProject
from instar.store.opencode import OpencodeDatabase, Summary

_folder = click.option("--dir", "folder", metavar="PATH", help="In this folder's project.")


@click.command("export")
@click.argument("session", required=False)
@click.option("-o", "--output", metavar="FILE", help="Write this new file instead of stdout.")
@click.option("--children", is_flag=True, help="With the sessions of its sub-agents.")
@click.option("--sanitize", is_flag=True, help="Without texts, paths and tool output: its shape alone.")
@_folder
@door
async def export(
    context: Context,
    session: str | None,
    output: str | None,
    children: bool,
    sanitize: bool,
    folder: str | None,
) -> None:
    """Print SESSION as `opencode export` does; without it the folder's last one. What tools printed is in it."""
    target = _new_file(context, output)
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        found = await find(runtime, session) if session else await _last(runtime)
        plain = await exported(runtime.instance.store, found, children=children)
    data = msgspec.json.format(wire.encode(redacted(plain) if sanitize else plain)) + b"\n"
    if target is None:
        click.echo(data, nl=False)
    else:
        atomic_write(target, data, 0o600)


@click.command("import")
@click.argument("file", required=False)
@click.option("--replace", is_flag=True, help="Put it in the place of the session with its id.")
@click.option("--copy", is_flag=True, help="Add it under new ids.")
@click.option("--opencode-db", "database", metavar="FILE", help="Read opencode's database instead.")
@click.option("-s", "--session", metavar="ID", help="This session of the database, with its children.")
@click.option("--all", "everything", is_flag=True, help="Every session of the database.")
@click.option("--project", metavar="PATH", help="Every session of the database that belongs to this folder.")
@_folder
@door
async def import_(
    context: Context,
    file: str | None,
    replace: bool,
    copy: bool,
    database: str | None,
    session: str | None,
    everything: bool,
    project: str | None,
    folder: str | None,
) -> int:
    """Take in a session from FILE (- is stdin), as `opencode export` or `instar export` prints it."""
    if replace and copy:
        raise click.UsageError("--replace and --copy cannot stand together")
    choice: Choice = "replace" if replace else "copy" if copy else "refuse"
    options = Options(context.folder(folder), context.environment)
    if database is None:
        if session or everything or project:
            raise click.UsageError(
                "--session, --all and --project choose from a database: --opencode-db FILE"
            )
        data, name = _read(context, file)
        async with opened_runtime(options) as runtime:
            await _import_file(runtime, data, name, choice)
        return 0
    if file is not None or (bool(session) + everything + bool(project)) > 1:
        raise click.UsageError(
            "with --opencode-db there is no FILE, and one of --session, --all and --project"
        )
    place, owner = _path(context, database), _path(context, project) if project else None
    async with opened_runtime(options) as runtime:
        with OpencodeDatabase(place) as opened:
            found = opened.summaries()
            if session:
                _say(await _one(runtime, opened, families(found, [_named(found, session)])[0], choice))
                return 0
            if everything or owner is not None:
                chosen = found if owner is None else of_folder(found, owner)
                return await _many(runtime, opened, families(found, chosen), choice)
            return _list(runtime, found)


def _path(context: Context, given: str) -> Path:
    return (context.directory / Path(given).expanduser()).resolve()


def _new_file(context: Context, output: str | None) -> Path | None:
    if output is None:
        return None
    path = context.directory / Path(output).expanduser()
    if path.exists():
        raise click.UsageError(f"{path} exists; name a new file")
    if not path.parent.is_dir():
        raise click.UsageError(f"there is no folder {path.parent}")
    return path


async def _last(runtime: Runtime) -> Session:
    here = str(runtime.instance.directory)
    for one in await runtime.session.list():
        if one.directory == here and one.parent_id is None and one.time.archived is None:
            click.echo(f"instar: exporting the last session here: {one.id}  {short(one.title, 72)}", err=True)
            return one
    raise click.UsageError("there is no session here; name one (see: instar session list)")


def _read(context: Context, file: str | None) -> tuple[bytes, str]:
    """Return the file's bytes, one more than the limit at most, and what to call it."""
    if file is None:
        raise click.UsageError("name a FILE, - for stdin, or --opencode-db FILE")
    if file.startswith(("https://", "http://")):
        raise click.UsageError(
            "share links are not read: save the session as a file there (opencode export ID > FILE) and import that"
        )
    if file == "-":
        return sys.stdin.buffer.read(LIMIT + 1), "stdin"
    path = context.directory / Path(file).expanduser()
    if not path.is_file():
        raise click.UsageError(f"there is no file {path}")
    with path.open("rb") as opened:
        return opened.read(LIMIT + 1), str(path)


async def _import_file(runtime: Runtime, data: bytes, name: str, choice: Choice) -> None:
    project = runtime.instance.project
    here = Here(now(), project)
    try:
        found = [transcript_of(record, here) for record in read_archive(data, name)]
    except ExchangeError as error:
        text = str(error)
        raise ExchangeError(text if text.startswith(name) else f"{name}: {text}") from error
    row = PutProject(project.id, str(project.main_worktree), project.vcs, here.now)
    _say(await bring_in(runtime.instance.store, found, row, choice))


def _named(found: list[Summary], session: str) -> Summary:
    for one in found:
        if one.id == session:
            return one
    raise click.UsageError(f"the database has no session {session} (without --session they are listed)")


async def _one(
    runtime: Runtime, database: OpencodeDatabase, family: Sequence[Summary], choice: Choice
) -> list[Transcript]:
    transcripts, row = read_family(database, family, now())
    return await bring_in(runtime.instance.store, transcripts, row, choice)


async def _many(
    runtime: Runtime, database: OpencodeDatabase, groups: Sequence[Sequence[Summary]], choice: Choice
) -> int:
    """Import families one by one: one that cannot be read, or is here already, does not keep the others out."""
    failed = 0
    for family in groups:
        try:
            _say(await _one(runtime, database, family, choice))
        except Taken as error:
            click.echo(f"instar: {one_line(str(error))}", err=True)
        except ExchangeError as error:
            failed += 1
            click.echo(f"instar: {one_line(str(error))}", err=True)
    if not groups:
        click.echo("instar: the database has no such session", err=True)
    return 1 if failed or not groups else 0


def _list(runtime: Runtime, found: list[Summary]) -> int:
    project = runtime.instance.project
    here = [one for one in of_folder(found, project.directory, project.id) if one.parent_id is None]
    for one in here:
        title = short(one.title, 60)
        click.echo(f"{one_line(one.id)}  {_when(one.updated)}  {title}  ({one.messages} messages)")
    what = f"{len(here)} of the database's {len(found)} sessions are this folder's"
    click.echo(f"instar: {what}; import with --session ID, --project PATH or --all", err=True)
    return 0


def _say(transcripts: list[Transcript]) -> None:
    for one in transcripts:
        title = short(one.session.title, 72)
        click.echo(f"imported {one.session.id}  {title}  ({len(one.messages)} messages)")
        for note in one.notes:
            click.echo(f"instar: {one.session.id}: {one_line(note)}", err=True)


def _when(milliseconds: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))
    except (OverflowError, ValueError, OSError):
        return "?"
