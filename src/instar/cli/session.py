"""``instar session``: look at the sessions of a folder's project, and delete them."""

import time

import click
import msgspec

from instar import wire
from instar.cli.context import Context
from instar.cli.door import door, opened_runtime
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
    WithParts,
    error_text,
)
from instar.runtime import Options, Runtime


@click.group()
def command() -> None:
    """List, show or delete the sessions of a folder's project."""


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
        where = "" if session.directory == here else f"  ({short(session.directory)})"
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
    if as_json:
        _print_json(
            {"info": wire.to_plain(session), "messages": [message.to_plain() for message in messages]}
        )
        return
    _print_head(session)
    for message in messages:
        _print_message(message, reasoning=reasoning)


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


def _begins(id: str, named: str) -> bool:
    """Whether `named` is the beginning of an id, and more of it than what all ids have."""
    return id.startswith(named) and len(named) > len("ses_")


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(wire.encode(value)))


def _print_head(session: Session) -> None:
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
        case _:
            return None


def _when(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))
