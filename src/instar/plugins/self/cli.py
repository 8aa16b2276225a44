"""``instar session self``: what the agent set of its own runtime in a session, from the session's last note."""

import asyncio
import json
import time
from typing import Any

import click

from instar.plugin import NotFound
from instar.plugins.self.messages import value as shown
from instar.plugins.self.note import NONE, PREFIX


@click.command("self")
@click.argument(
    "id", shell_complete=lambda ctx, argument, begun: ctx.obj.complete.sessions(ctx, argument, begun)
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def command(context: Any, id: str, as_json: bool) -> None:  # noqa: A002 - the word that a person types
    """Show what the agent set of its own runtime in a session, as it stood last. ID may be the first letters of one.

    It is shown only: what was set ended with the process.
    """
    session_id, note = asyncio.run(_found(context, id))
    if as_json:
        click.echo(json.dumps({"session": session_id, **note}, indent=2, ensure_ascii=False))
        return
    click.echo("\n".join(lines(session_id, note)))


async def _found(context: Any, named: str) -> tuple[str, dict[str, Any]]:
    async with context.means("self") as means:
        notes = await means.kv.list(PREFIX)
    known = {key.removeprefix(PREFIX): note for key, note in notes.items()}
    found = [one for one in known if one == named] or [one for one in known if one.startswith(named)]
    if len(found) > 1:
        raise click.UsageError(f"{named!r} means {len(found)} sessions: say more of the id")
    if not found:
        raise NotFound(NONE.format(named))
    return found[0], known[found[0]]


def lines(session_id: str, note: dict[str, Any]) -> list[str]:
    """Return the lines for a session. The values were masked when the note was written."""
    text = [f"{session_id}  {note['reads']} reads, {note['calls']} calls, {note['changes']} changes"]
    for title, held in (("set", note["values"]), ("variables", note["variables"])):
        set_to = [f"  {_plain(f'{name}: {shown(value)}')}" for name, value in held.items()]
        text += [f"{title}:", *set_to] if held else []
    for title in ("unregistered", "snapshots"):
        text += [f"{title}: {_plain(', '.join(note[title]))}"] if note[title] else []
    log = [f"  {_change(one)}" for one in note["log"]]
    return text + (["changes:", *log] if log else [])


def _change(one: dict[str, Any]) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["time"] / 1000))
    by = one["call"] or "no call of the agent's"
    old, new = shown(one["old"]), shown(one["new"])
    return _plain(f"{at}  {one['path']}: {old} -> {new}  ({by})")


def _plain(text: str) -> str:
    """Return a text with control characters escaped, so that a terminal prints them."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
