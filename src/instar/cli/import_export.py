"""``instar export`` and ``instar import``: sessions as files, in opencode's form."""

import sys
from collections.abc import Sequence

import click
import msgspec

from instar import wire
from instar.cli import complete
from instar.cli.door import Context, door, folder_option
from instar.cli.session import find, open_sessions
from instar.cli.text import counted, echo, local_time, note, one_line, short
from instar.cli.transcript import markdown_of
from instar.message import Session
from instar.opencode.database import OpencodeDatabase, Summary, families, of_folder, read_family
from instar.runtime import Runtime
from instar.session.import_export import LIMIT, Choice, bring_in, read_archive, redacted
from instar.session.import_export import export as exported
from instar.session.state import now
from instar.session.transcript import ExchangeError, Here, Taken, Transcript, transcript_of
from instar.store import PutProject
from instar.wire.document import atomic_write

_folder = folder_option("In this folder's project.")


@click.command("export")
@click.argument("session", required=False, shell_complete=complete.sessions)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=complete.files,
    help="Write this new file instead of stdout.",
)
@click.option(
    "--format", type=click.Choice(["json", "markdown"]), default="json", help="Markdown is for reading."
)
@click.option("--children", is_flag=True, help="Include the sessions of its sub-agents.")
@click.option("--sanitize", is_flag=True, help="Leave out texts, paths and tool output.")
@_folder
@door
async def export(
    context: Context,
    session: str | None,
    output: str | None,
    format: str,
    children: bool,
    sanitize: bool,
    folder: str | None,
) -> None:
    """Print SESSION as `opencode export` does; without SESSION, the folder's last one. Output of tools is included."""
    if format == "markdown" and (children or sanitize):
        raise click.UsageError("--children and --sanitize are for JSON: leave out --format markdown")
    target = None if output is None else context.path(output)
    if target is not None and target.exists():
        raise click.UsageError(f"{target} exists; name a new file")
    if target is not None and not target.parent.is_dir():
        raise click.UsageError(f"there is no folder {target.parent}")
    async with context.runtime(folder) as runtime:
        found = await find(runtime, session) if session else await _last(runtime)
        if format == "markdown":
            data = markdown_of(found, await runtime.session.messages(found.id)).encode()
        else:
            plain = await exported(runtime.instance.store, found, children=children)
            data = msgspec.json.format(wire.encode(redacted(plain) if sanitize else plain)) + b"\n"
    if target is None:
        echo(data if format == "json" else data.decode(), nl=False)
    else:
        atomic_write(target, data, 0o600)


@click.command("import")
@click.argument("file", required=False, shell_complete=complete.files)
@click.option("--replace", is_flag=True, help="Replace the session that has the same id.")
@click.option("--copy", is_flag=True, help="Add it under new ids.")
@click.option(
    "--opencode-db",
    "database",
    metavar="FILE",
    shell_complete=complete.files,
    help="Read opencode's database instead of a FILE.",
)
@click.option("-s", "--session", metavar="ID", help="Import this session of the database, with its children.")
@click.option("--all", "everything", is_flag=True, help="Import every session of the database.")
@click.option(
    "--project",
    metavar="PATH",
    shell_complete=complete.folders,
    help="Import every session of the database that belongs to this folder.",
)
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
        raise click.UsageError("--replace and --copy exclude each other")
    choice: Choice = "replace" if replace else "copy" if copy else "refuse"
    if database is None:
        if session or everything or project:
            raise click.UsageError(
                "--session, --all and --project choose from a database: --opencode-db FILE"
            )
        data, name = _read(context, file)
        async with context.runtime(folder) as runtime:
            await _import_file(runtime, data, name, choice)
        return 0
    if file is not None or (bool(session) + everything + bool(project)) > 1:
        raise click.UsageError(
            "with --opencode-db there is no FILE, and one of --session, --all and --project"
        )
    path, owner = context.path(database).resolve(), context.path(project).resolve() if project else None
    async with context.runtime(folder) as runtime:
        with OpencodeDatabase(path) as opened:
            found = opened.summaries()
            if session:
                _print_imported(
                    await _one(runtime, opened, families(found, [_named(found, session)])[0], choice)
                )
                return 0
            if everything or owner is not None:
                chosen = found if owner is None else of_folder(found, owner)
                return await _many(runtime, opened, families(found, chosen), choice)
            return _list(runtime, found)


async def _last(runtime: Runtime) -> Session:
    found = await open_sessions(runtime)
    if not found:
        raise click.UsageError("there is no session here; name one that instar session list prints")
    note(f"exporting the last session here: {found[0].id}  {short(found[0].title, 72)}")
    return found[0]


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
    path = context.path(file)
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
    _print_imported(await bring_in(runtime.instance.store, found, row, choice))


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
            _print_imported(await _one(runtime, database, family, choice))
        except Taken as error:
            note(str(error))
        except ExchangeError as error:
            failed += 1
            note(str(error))
    if not groups:
        note("the database has no such session")
    return 1 if failed or not groups else 0


def _list(runtime: Runtime, found: list[Summary]) -> int:
    project = runtime.instance.project
    here = [one for one in of_folder(found, project.directory, project.id) if one.parent_id is None]
    for one in here:
        title = short(one.title, 60)
        echo(f"{one_line(one.id)}  {local_time(one.updated)}  {title}  ({counted(one.messages, 'message')})")
    what = f"{len(here)} of the database's {len(found)} sessions are this folder's"
    note(f"{what}; import with --session ID, --project PATH or --all")
    return 0


def _print_imported(transcripts: list[Transcript]) -> None:
    for one in transcripts:
        title = short(one.session.title, 72)
        echo(f"imported {one.session.id}  {title}  ({counted(len(one.messages), 'message')})")
        for text in one.notes:
            note(f"{one.session.id}: {text}")
