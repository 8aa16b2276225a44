"""``instar session self``: what the agent set of its own runtime in a session, as it stood last (issue 9, item 6)."""

import asyncio
import json
import time
from typing import Any

import click

from instar.plugin import NotFound
from instar.plugins.self import words
from instar.plugins.self.note import NONE, PREFIX


@click.command("self")
@click.argument("id")
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
    click.echo("\n".join(told(session_id, note)))


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


def told(session_id: str, note: dict[str, Any]) -> list[str]:
    """Return the lines that tell of a session; what they show was masked when it was kept."""
    values = [f"  {_plain(words.line(name, value))}" for name, value in note["values"].items()]
    held = [f"  {_plain(words.line(name, value))}" for name, value in note["variables"].items()]
    counts = f"{note['reads']} reads, {note['calls']} calls, {note['changes']} changes"
    lines = [f"{session_id}  {counts}"]
    lines += ["set:", *values] if values else []
    lines += ["variables:", *held] if held else []
    lines += [f"unregistered: {_plain(', '.join(note['unregistered']))}"] if note["unregistered"] else []
    lines += [f"snapshots: {_plain(', '.join(note['snapshots']))}"] if note["snapshots"] else []
    log = [f"  {_change(one)}" for one in note["log"]]
    return lines + (["changes:", *log] if log else [])


def _change(one: dict[str, Any]) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["time"] / 1000))
    by = one["call"] or "no call of the agent's"
    old, new = words.value(one["old"]), words.value(one["new"])
    return _plain(f"{at}  {one['path']}: {old} -> {new}  ({by})")


def _plain(text: str) -> str:
    """One line that a terminal takes for nothing but text."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
