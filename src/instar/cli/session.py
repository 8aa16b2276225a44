"""``instar session``: look at the sessions of a folder's project, take them back, copy them, put them away."""

import time
from pathlib import Path

import click
import msgspec

from instar import wire
from instar.agent import parse_model
from instar.cli.context import Context
from instar.cli.door import door, opened_runtime
from instar.cli.failure import Failure
from instar.cli.line import money, short, tool_line
from instar.cli.text import harmless, one_line
from instar.message import (
    Assistant,
    FilePart,
    Part,
    ReasoningPart,
    Session,
    TextPart,
    ToolPart,
    UnknownPart,
    WithParts,
    error_text,
)
from instar.plugin import Reverted
from instar.revert import kept as stays
from instar.runtime import Options, Runtime


@click.group()
def command() -> None:
    """Look at and change the sessions of a folder's project."""


_folder = click.option("--dir", "folder", metavar="PATH", help="The sessions of this folder's project.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@command.command("list")
@_folder
@_json
@door
async def list_(context: Context, folder: str | None, as_json: bool) -> None:
    """List sessions, last used first."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        sessions = await runtime.session.list()
        here = str(runtime.instance.directory)
    if as_json:
        _print_json([wire.to_plain(session) for session in sessions])
        return
    if not sessions:
        click.echo("instar: no sessions here yet", err=True)
    for session in sessions:
        where = "" if session.directory == here else f"  ({_place(session)})"
        click.echo(f"{session.id}  {_when(session.time.updated)}  {short(session.title, 72)}{where}")


@command.command()
@click.argument("id")
@_folder
@_json
@click.option("--reasoning", is_flag=True, help="Also what the model thought.")
@door
async def show(context: Context, id: str, folder: str | None, as_json: bool, reasoning: bool) -> None:
    """Print a session's transcript. ID may be the first letters of one, or a session's slug."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        session = await find(runtime, id)
        messages = await runtime.session.messages(session.id)
        waiting = await runtime.instance.sessions.queued(session.id)
    if as_json:
        _print_json(
            {"info": wire.to_plain(session), "messages": [message.to_plain() for message in messages]}
        )
        return
    _print_head(session)
    kept = stays(session, messages)
    for message in kept:
        _print_message(message, reasoning=reasoning)
    for one in waiting:
        said = " ".join(part["text"] for part in one.prompt.get("parts", []) if "text" in part)
        click.echo(f"\n-- waits in the queue ({short(one.source, 40)}): {short(said)}")
    if len(kept) < len(messages):
        count = f"{len(messages) - len(kept)} messages" if len(messages) - len(kept) > 1 else "1 message"
        click.echo(
            f"\n-- {count} taken back; the next prompt removes them, instar session unrevert brings them back"
        )


@command.command()
@click.argument("id")
@_folder
@door
async def delete(context: Context, id: str, folder: str | None) -> None:
    """Delete a session with all that belongs to it. ID as for show."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        session = await find(runtime, id)
        await runtime.session.delete(session.id)
    click.echo(f"deleted {session.id}  {short(session.title, 72)}")


@command.command()
@click.argument("id")
@click.argument("message", required=False)
@click.option("--part", metavar="ID", help="Only from this part of MESSAGE on.")
@_folder
@door
async def revert(
    context: Context, id: str, message: str | None, folder: str | None, part: str | None
) -> None:
    """Take a session and the files that it changed back to before MESSAGE, else before your last one.

    The messages stay until the next prompt; `unrevert` brings them and the files back. ID as for show.
    """
    if part is not None and message is None:
        raise click.UsageError("--part needs the MESSAGE that it is a part of")
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        session = await find(runtime, id)
        done = await runtime.session.revert(session.id, message, part)
    mark = done.session.revert
    click.echo(f"reverted {session.id}  to before {mark.message_id if mark else message}")
    _print_files(done)


@command.command()
@click.argument("id")
@_folder
@door
async def unrevert(context: Context, id: str, folder: str | None) -> None:
    """Undo a revert: the messages and the files as they were before it. ID as for show."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        session = await find(runtime, id)
        done = await runtime.session.unrevert(session.id)
    if session.revert is None:
        click.echo(f"instar: {session.id} is not reverted", err=True)
        return
    click.echo(f"unreverted {session.id}")
    _print_files(done)


@command.command()
@click.argument("id")
@click.argument("message", required=False)
@_folder
@door
async def fork(context: Context, id: str, message: str | None, folder: str | None) -> None:
    """Copy a session, up to and without MESSAGE, and print the copy's id. ID as for show."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        session = await find(runtime, id)
        made = await runtime.session.fork(session.id, message)
    click.echo(f"{made.id}  {short(made.title, 72)}")


@command.command()
@click.argument("id")
@click.argument("message", required=False)
@_folder
@_json
@door
async def diff(context: Context, id: str, message: str | None, folder: str | None, as_json: bool) -> None:
    """Print what a session, or the turn of one MESSAGE, did to files. ID as for show."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        session = await find(runtime, id)
        found = await runtime.session.diff(session.id, message)
    if as_json:
        _print_json([wire.to_plain(one) for one in found])
        return
    for one in found:
        head = f"{one.status} {one.file} +{one.additions} -{one.deletions}"
        click.echo(harmless(one.patch) if one.patch else one_line(head), nl=not one.patch)


@command.command()
@click.argument("id")
@click.option("--undo", is_flag=True, help="Take it out of the archive.")
@_folder
@door
async def archive(context: Context, id: str, folder: str | None, undo: bool) -> None:
    """Put a session away: it is kept, and no longer listed. ID as for show; with --undo the whole id."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        session = await find(runtime, id)
        await runtime.session.update(session.id, archived=0 if undo else int(time.time() * 1000))
    click.echo(f"{'unarchived' if undo else 'archived'} {session.id}  {short(session.title, 72)}")


@command.command()
@click.argument("id")
@click.option("-m", "--model", metavar="PROVIDER/MODEL", help="The model that summarises.")
@_folder
@door
async def compact(context: Context, id: str, folder: str | None, model: str | None) -> None:
    """Summarise a session's earlier messages; the model goes on from the summary. ID as for show."""
    try:
        chosen = None if model is None else parse_model(model)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        session = await find(runtime, id)
        await runtime.session.summarize(session.id, chosen)
        (last,) = await runtime.session.messages(session.id, limit=1)
    if not isinstance(last.info, Assistant):
        raise Failure("no summary was written: a limit forbids the model call (`limits` in the settings)")
    if last.info.error is not None:
        raise Failure(f"no summary was written: {error_text(last.info.error)}")
    click.echo(f"compacted {session.id}  {short(session.title, 72)}")


async def find(runtime: Runtime, named: str) -> Session:
    """Return the session whose id is, or alone begins with, `named`, or whose slug it is.

    Raises `NotFound` when there is none, and `click.UsageError` when `named` means several.
    """
    sessions = await runtime.session.list()
    found = [one for one in sessions if named == one.id]
    found = found or [one for one in sessions if named == one.slug or _begins(one.id, named)]
    if len(found) > 1:
        several = ", ".join(one.id for one in found[:3])
        raise click.UsageError(f"{named!r} means {len(found)} sessions ({several} …): say more of the id")
    # An id that this project's list does not hold may be another project's: the store knows.
    return found[0] if found else await runtime.session.get(named)


def _place(session: Session) -> str:
    """The session's folder, and whether it is there no more."""
    gone = "" if Path(session.directory).is_dir() else ", which is gone"
    return f"{short(session.directory)}{gone}"


def _begins(id: str, named: str) -> bool:
    """Whether `named` is the beginning of an id, and more of it than what all ids have."""
    return id.startswith(named) and len(named) > len("ses_")


def _print_files(done: Reverted) -> None:
    """Say what became of the files, those first that a person may miss."""
    if done.note is not None:
        click.echo(f"instar: {one_line(done.note)}", err=True)
    for name in done.kept:
        click.echo(f"instar: left as it is, since no snapshot holds it: {one_line(name)}", err=True)
    for name in done.changed:
        click.echo(f"instar: had been changed since; unrevert brings that back: {one_line(name)}", err=True)
    for name in done.files:
        click.echo(f"  {one_line(name)}")


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(wire.encode(value)))


def _print_head(session: Session) -> None:
    if not Path(session.directory).is_dir():
        click.echo(
            "instar: its folder is gone; going on with it works in the folder that you are in", err=True
        )
    tokens = session.tokens.input + session.tokens.output + session.tokens.reasoning
    click.echo(
        f"{short(session.title)}\n{session.id}  {one_line(session.directory)}  {_when(session.time.created)}"
    )
    click.echo(f"{tokens:,} tokens, {money(session.cost)}")


def _print_message(message: WithParts, *, reasoning: bool) -> None:
    info = message.info
    by = f"{info.provider_id}/{info.model_id}" if isinstance(info, Assistant) else "you"
    shown = [text for part in message.parts if (text := _text(part, reasoning=reasoning))]
    if isinstance(info, Assistant) and info.error is not None:
        shown.append(f"! {error_text(info.error)}")
    if shown:
        click.echo(f"\n-- {by}, {info.agent}, {_when(info.time.created)}")
        click.echo(harmless("\n".join(shown)))


def _text(part: Part, *, reasoning: bool) -> str | None:
    match part:
        case TextPart(ignored=True):
            return None
        case TextPart(text=text):
            return text
        case ReasoningPart(text=text):
            return "\n".join(f"~ {line}" for line in text.splitlines()) if reasoning else None
        case FilePart():
            return f"[file {part.filename or short(part.url)}]"
        case ToolPart():
            line = tool_line(part)
            mark = "+" if line.problem is None else "!"
            return " ".join(word for word in (mark, line.name, line.title, line.problem) if word)
        case UnknownPart():
            return f"[{one_line(part.type)}] {wire.encode(part.fields).decode()}"
        case _:
            return None


def _when(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))
