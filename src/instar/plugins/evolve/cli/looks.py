"""The commands that show a workspace.

``status``, ``log``, ``show``, ``diff``, ``why``, ``attempts``, ``pending`` and ``pins``.
"""

import click

from instar.plugins.evolve import person
from instar.plugins.evolve.cli import names
from instar.plugins.evolve.cli.command import NamedWorkspace, Printed, command, fail, look, opened
from instar.plugins.evolve.gate.attempts import SHOWN, past
from instar.plugins.evolve.gate.pending import PendingEntry
from instar.plugins.evolve.history import blame, timeline
from instar.plugins.evolve.history.commits import is_repository
from instar.plugins.evolve.history.timeline import Shown, Timeline, TimelinePage
from instar.plugins.evolve.history.trailers import one_line
from instar.plugins.evolve.status import departed, read, unread

_REF = "REF is the start of a commit's id, HEAD, HEAD~2, an epoch such as @12, or initial."


@command()
@click.option("--safe", is_flag=True, help="As instar run --safe would start.")
async def status(found: NamedWorkspace, safe: bool) -> Printed:
    """Show scripts, tools, history, what is on probation or waits, and problems.

    Exit code 1 when evolve would be off.
    """
    source = found.located.source
    if not found.trusted:
        report = unread(found.workspace, source, [found.distrust])
        return Printed(report, report.text(), "")
    async with look(found, safe=safe) as at:
        if at.chosen is None:
            report = unread(found.workspace, source, at.problems + departed(at.engine))
            return Printed(report, report.text(), "")
        await at.engine.shared.check()
        report = await read(at.engine, at.engine.scripts, source, at.problems)
    return Printed(report, report.text())


@command()
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, help="How many changes (default 20).")
async def log(found: NamedWorkspace, limit: int) -> Printed:
    """List changes, refusals and orders, newest first: when, by whom, by which call, what the gate said."""
    _demand_history(found)
    async with opened(found) as at:
        storage = at.engine.storage
        told = await timeline.page(storage.revisions, storage.audit_log, TimelinePage(limit))
    return Printed(told, Timeline(told.changes).text(), "\n".join(told.problems) or None)


@command(epilog=_REF)
@click.argument("ref", default="HEAD", shell_complete=names.refs)
async def show(found: NamedWorkspace, ref: str) -> Printed:
    """Show the change REF (default: the newest): its cause, what the gate said, and its diff."""
    shown = await _shown(found, ref)
    return Printed(shown, shown.text())


@command(epilog=_REF)
@click.argument("ref", default="HEAD", shell_complete=names.refs)
async def diff(found: NamedWorkspace, ref: str) -> Printed:
    """Show what the change REF (default: the newest) changed."""
    shown = await _shown(found, ref)
    return Printed(shown, shown.diff_text())


@command()
@click.argument("place", metavar="FILE:LINE", shell_complete=names.files)
async def why(found: NamedWorkspace, place: str) -> Printed:
    """Show which change wrote a line of a file, and the message that led to it."""
    _demand_history(found)
    line = blame.parse_place(place, found.root, found.cwd)
    async with opened(found) as at:
        storage = at.engine.storage
        told = await blame.why(storage.revisions, storage.audit_log, at.means.messages, line)
    return Printed(told, told.text())


@command()
@click.argument("file", shell_complete=names.files)
@click.option("-n", "--limit", type=click.IntRange(min=1), default=SHOWN, help=f"How many (default {SHOWN}).")
async def attempts(found: NamedWorkspace, file: str, limit: int) -> Printed:
    """List what was tried at FILE and is not live, newest first: refused, passed over, rejected or taken back, and why.

    The agent reads the same before it proposes again.
    """
    path = found.path(file)
    async with opened(found) as at:
        tried = past(at.engine.storage.audit_log, at.engine.storage.reports, path, limit)
    text = "\n".join(one.line() for one in tried)
    return Printed(tried, text or f"nothing was tried at {path} that is not live")


@command()
@click.argument("id", required=False, shell_complete=names.waiting)
@click.option("--all", "rejected", is_flag=True, help="Also what was rejected.")
async def pending(found: NamedWorkspace, id: str | None, rejected: bool) -> Printed:  # noqa: A002
    """List the changes that wait for a person; with ID show one: its diff, its test's output, its replay."""
    async with opened(found) as at:
        if id is not None:
            entry = at.engine.storage.pending.get(id)
            return Printed(entry, entry.text())
        listed = person.pending(at.engine, rejected=rejected)
    text = "\n".join([*map(_line, listed.entries), *(f"problem: {one}" for one in listed.problems)])
    return Printed(listed, text or "nothing waits")


@command()
async def pins(found: NamedWorkspace) -> Printed:
    """List the files that the agent may not change."""
    async with opened(found) as at:
        listed = at.engine.storage.pins.all()
    lines = [f"{one.file}  (pinned by {one.by or 'a person'})" for one in listed]
    return Printed(listed, "\n".join(lines) or "nothing is pinned")


def _demand_history(found: NamedWorkspace) -> None:
    if not is_repository(found.root):
        fail(person.NO_REPOSITORY.format(found.root))


async def _shown(found: NamedWorkspace, ref: str) -> Shown:
    _demand_history(found)
    async with opened(found) as at:
        return await timeline.show(at.engine.storage.revisions, at.engine.storage.audit_log, ref)


def _line(one: PendingEntry) -> str:
    raised = one_line("; ".join(one.proposal.raised))
    return f"{one.id}  {timeline.moment(one.time)}  {one.state}  {one_line(one.proposal.file)}: {raised}"
