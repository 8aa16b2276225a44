"""``instar session``: list, show, revert, fork, archive, compact and delete the sessions of a folder's project."""

import functools
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import click

from instar import wire
from instar.cli import complete, person
from instar.cli.door import Context, Failure, door, folder_option, json_option, model_option
from instar.cli.output import tool_line
from instar.cli.text import (
    counted,
    echo,
    harmless,
    local_time,
    money,
    note,
    one_line,
    print_json,
    print_list,
    short,
)
from instar.definitions.agent import parse_model
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
from instar.runtime import Runtime
from instar.session.revert import kept as stays
from instar.store.store import database_at


@click.group()
def command() -> None:
    """List, show and change the sessions of a folder's project.

    ID is a session's id, the first letters of it, or the session's slug.
    """


_folder = folder_option("The sessions of this folder's project.")


def _on_session(function: Callable[..., Awaitable[None]]) -> click.Command:
    """Make a command of what is done with the runtime of its ``--dir`` and the session that its ID names."""
    own = vars(function).pop("__click_params__", [])

    @_folder
    @door
    @functools.wraps(function)
    async def opened(context: Context, id: str, folder: str | None, **given: Any) -> None:
        async with context.runtime(folder) as runtime:
            await function(runtime, await find(runtime, id), **given)

    vars(opened)["__click_params__"] += own
    return command.command()(click.argument("id", shell_complete=complete.sessions)(opened))


@command.command("list")
@click.argument("words", nargs=-1)
@_folder
@json_option
@door
async def list_(context: Context, words: tuple[str, ...], folder: str | None, as_json: bool) -> None:
    """List sessions, last used first; with WORDS those whose title or text holds them."""
    async with context.runtime(folder) as runtime:
        sessions = await runtime.session.list()
        if words:
            wanted = " ".join(words).lower()
            saying = await runtime.instance.store.saying(wanted)
            sessions = [one for one in sessions if one.id in saying or wanted in one.title.lower()]
        here = str(runtime.instance.directory)

    def line(session: Session) -> str:
        gone = "" if Path(session.directory).is_dir() else ", which is gone"
        where = "" if session.directory == here else f"  ({short(session.directory)}{gone})"
        return f"{session.id}  {local_time(session.time.updated)}  {short(session.title, 72)}{where}"

    print_list(
        sessions,
        line,
        as_json=as_json,
        otherwise="no session here holds that" if words else "no sessions here yet",
    )


@_on_session
@json_option
@click.option("--reasoning", is_flag=True, help="Also what the model thought.")
async def show(runtime: Runtime, session: Session, as_json: bool, reasoning: bool) -> None:
    """Print a session's transcript. ID may be shortened, or be a slug."""
    messages = await runtime.session.messages(session.id)
    waiting = await runtime.instance.store.follow_ups(session.id)
    if as_json:
        print_json({"info": wire.to_plain(session), "messages": [message.to_plain() for message in messages]})
        return
    _print_head(session)
    kept = stays(session, messages)
    for message in kept:
        _print_message(message, reasoning=reasoning)
    for one in waiting:
        said = " ".join(part["text"] for part in one.prompt.get("parts", []) if "text" in part)
        echo(f"\n-- waits in the queue ({short(one.source, 40)}): {short(said)}")
    if len(kept) < len(messages):
        count = counted(len(messages) - len(kept), "message")
        echo(f"\n-- {count} reverted; the next prompt removes them, instar session unrevert restores them")


@_on_session
async def delete(runtime: Runtime, session: Session) -> None:
    """Delete a session with all that belongs to it. ID may be shortened, or be a slug."""
    await runtime.session.delete(session.id)
    echo(f"deleted {session.id}  {short(session.title, 72)}")


@command.command()
@click.option("--older", "age", metavar="AGE", required=True, help="Not used for so long: 24h, 90d, 12w.")
@click.option("--all", "everywhere", is_flag=True, help="Those of every project.")
@click.option("--dry-run", is_flag=True, help="Only list them.")
@click.option("--yes", is_flag=True, help="Delete without being asked.")
@_folder
@json_option
@door
async def prune(context: Context, age: str, folder: str | None, **asked: bool) -> None:
    """Delete sessions that were not used for a while, archived ones too, and make the database smaller.

    A sub-agent's session goes with that of its caller.
    """
    latest, database = time.time() * 1000 - _milliseconds(age), database_at(context.paths.database)
    async with context.runtime(folder) as runtime:
        project = None if asked["everywhere"] else runtime.instance.project.id
        known = await runtime.instance.store.sessions(project, archived=True)
        found = [one for one in known if one.parent_id is None and one.time.updated < latest]
        before, count = database.size(), counted(len(found), "session")
        if not asked["as_json"]:
            for one in found:
                echo(f"{one.id}  {local_time(one.time.updated)}  {short(one.title, 72)}")
        if found and not asked["dry_run"]:
            sure = asked["yes"] or (person.is_there() and await person.yes(f"Delete {count} for good?"))
            if not sure:
                raise Failure(f"{count} would go and nothing was deleted: say --yes to delete them")
            for one in found:
                await runtime.session.delete(one.id)
    if not asked["dry_run"]:
        database.shrink()
    after = database.size()
    if asked["as_json"]:
        deleted = [one.id for one in found]
        print_json({"sessions": deleted, "dryRun": asked["dry_run"], "before": before, "after": after})
    elif asked["dry_run"]:
        note(f"{count} would go; nothing was deleted")
    else:
        mib = 1 << 20
        note(f"deleted {count}; the database had {before / mib:.1f} MiB and has {after / mib:.1f}")


def _milliseconds(age: str) -> int:
    match = re.fullmatch(r"(\d{1,5})([hdw])", age)
    if match is None:
        raise click.UsageError(f"--older {age}: write a number and h, d or w, as in 90d")
    return int(match[1]) * {"h": 1, "d": 24, "w": 7 * 24}[match[2]] * 3600 * 1000


@_on_session
@click.argument("message", required=False)
@click.option("--part", metavar="ID", help="Only from this part of MESSAGE on.")
async def revert(runtime: Runtime, session: Session, message: str | None, part: str | None) -> None:
    """Undo messages of a session, with their changes to files.

    MESSAGE and all after it are undone; without MESSAGE, your last message and all after it. The messages stay until
    the next prompt; `unrevert` brings them and the files back. ID may be shortened, or be a slug.
    """
    if part is not None and message is None:
        raise click.UsageError("--part needs the MESSAGE that it is a part of")
    done = await runtime.session.revert(session.id, message, part)
    mark = done.session.revert
    echo(f"reverted {session.id}  to before {mark.message_id if mark else message}")
    _print_files(done)


@_on_session
async def unrevert(runtime: Runtime, session: Session) -> None:
    """Undo a revert: bring messages and files back. ID may be shortened, or be a slug."""
    done = await runtime.session.unrevert(session.id)
    if session.revert is None:
        note(f"{session.id} is not reverted")
        return
    echo(f"unreverted {session.id}")
    _print_files(done)


@_on_session
@click.argument("message", required=False)
async def fork(runtime: Runtime, session: Session, message: str | None) -> None:
    """Copy a session and print the copy's id. The copy ends before MESSAGE. ID may be shortened, or be a slug."""
    made = await runtime.session.fork(session.id, message)
    echo(f"{made.id}  {short(made.title, 72)}")


@_on_session
@click.argument("message", required=False)
@json_option
async def diff(runtime: Runtime, session: Session, message: str | None, as_json: bool) -> None:
    """Print what a session, or the turn of one MESSAGE, did to files. ID may be shortened, or be a slug."""
    found = await runtime.session.diff(session.id, message)
    if as_json:
        print_json([wire.to_plain(one) for one in found])
        return
    for one in found:
        head = f"{one.status} {one.file} +{one.additions} -{one.deletions}"
        echo(harmless(one.patch) if one.patch else one_line(head), nl=not one.patch)


@_on_session
@click.option("--undo", is_flag=True, help="Take it out of the archive.")
async def archive(runtime: Runtime, session: Session, undo: bool) -> None:
    """Hide a session from lists; it is kept. ID may be shortened, or be a slug.

    With --undo, give the whole id.
    """
    await runtime.session.update(session.id, archived=0 if undo else int(time.time() * 1000))
    echo(f"{'unarchived' if undo else 'archived'} {session.id}  {short(session.title, 72)}")


@_on_session
@model_option("The model that summarises.")
async def compact(runtime: Runtime, session: Session, model: str | None) -> None:
    """Summarise a session's earlier messages for the model. ID may be shortened, or be a slug."""
    try:
        chosen = None if model is None else parse_model(model)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    await runtime.session.summarize(session.id, chosen)
    (last,) = await runtime.session.messages(session.id, limit=1)
    if not isinstance(last.info, Assistant):
        raise Failure("no summary was written: a limit forbids the model call (`limits` in the settings)")
    if last.info.error is not None:
        raise Failure(f"no summary was written: {error_text(last.info.error)}")
    echo(f"compacted {session.id}  {short(session.title, 72)}")


async def find(runtime: Runtime, named: str) -> Session:
    """Return the session that `named_one` finds. Raises `NotFound` when there is none, and as that does."""
    # An id that this project's list does not hold may be another project's: the store knows.
    return named_one(await runtime.session.list(), named) or await runtime.session.get(named)


def named_one(sessions: Sequence[Session], named: str) -> Session | None:
    """Return the session with the id or slug `named`, or the only one whose id begins with it.

    Raises `click.UsageError` when there are several.
    """
    found = [one for one in sessions if named == one.id]
    # All ids begin with ses_: that alone names none.
    is_start = len(named) > len("ses_")
    found = found or [one for one in sessions if named == one.slug or (is_start and one.id.startswith(named))]
    if len(found) > 1:
        several = ", ".join(one.id for one in found[:3])
        raise click.UsageError(f"{named!r} means {len(found)} sessions ({several} …): say more of the id")
    return found[0] if found else None


async def open_sessions(runtime: Runtime) -> list[Session]:
    """Return the sessions of the runtime's folder, last used first, without archived and sub-agents' ones."""
    here = str(runtime.instance.directory)
    return [
        one
        for one in await runtime.session.list()
        if one.directory == here and one.parent_id is None and one.time.archived is None
    ]


def _print_files(done: Reverted) -> None:
    """Print what became of the files, those first that a person may miss."""
    if done.note is not None:
        note(done.note)
    for name in done.kept:
        note(f"left as it is, since no snapshot holds it: {name}")
    for name in done.changed:
        note(f"had been changed since; unrevert brings that back: {name}")
    for name in done.files:
        echo(f"  {one_line(name)}")


def _print_head(session: Session) -> None:
    if not Path(session.directory).is_dir():
        note("its folder is gone; going on with it works in the folder that you are in")
    tokens = session.tokens.input + session.tokens.output + session.tokens.reasoning
    echo(
        f"{short(session.title)}\n{session.id}  {one_line(session.directory)}  {local_time(session.time.created)}"
    )
    echo(f"{tokens:,} tokens, {money(session.cost)}")


def _print_message(message: WithParts, *, reasoning: bool) -> None:
    info = message.info
    by = f"{info.provider_id}/{info.model_id}" if isinstance(info, Assistant) else "you"
    shown = [text for part in message.parts if (text := _text(part, reasoning=reasoning))]
    if isinstance(info, Assistant) and info.error is not None:
        shown.append(f"! {error_text(info.error)}")
    if shown:
        echo(f"\n-- {by}, {info.agent}, {local_time(info.time.created)}")
        echo(harmless("\n".join(shown)))


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
