"""Figures: what model calls used and cost, of all of them or of some, for `instar stats` and for the server."""

import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from instar.api.stats import CacheBreaks, EvolutionSum, Stats
from instar.git.project import GLOBAL, discover
from instar.limits.stop import scope_of
from instar.plugin import Invalid, NotFound
from instar.process import Processes
from instar.provider import prompt_cache
from instar.settings.builtin_plugins import FLAGSHIPS
from instar.settings.paths import Paths
from instar.store import statistics
from instar.store.statistics import BY, Step, Wanted
from instar.store.store import Store

OVERVIEW: Final = ("model", "cause", "origin")
"""What is summed by where nothing was asked for."""


async def gather(store: Store, paths: Paths, wanted: Wanted, by: Sequence[str], *, tools: bool) -> Stats:
    """Return the figures of the calls that are wanted, summed by words of `BY`."""
    total, first, last = await store.ask(partial(statistics.total, wanted))
    return Stats(
        since=wanted.since,
        until=wanted.until,
        first=first,
        last=last,
        total=total,
        by={name: await store.ask(partial(statistics.lines, name, wanted)) for name in by},
        unpriced=await store.ask(partial(statistics.unpriced, wanted)) if total.unpriced else {},
        evolution=await _evolution(store, paths, wanted),
        cache_breaks=await _waste(store, wanted),
        tools=await store.ask(partial(statistics.tools, wanted)) if tools else msgspec.UNSET,
    )


def words(text: str) -> list[str]:
    """Return what to sum by, from a text with commas. Raises `Invalid` for a word that is none of `BY`."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    wrong = [word for word in found if word not in BY]
    if wrong:
        raise Invalid(f"by: {wrong[0]!r} is none of {', '.join(BY)}")
    return list(dict.fromkeys(found))


def period(days: int | None, since: str | None, until: str | None, mark: str = "") -> tuple[int, int | None]:
    """Return from when to before when, in ms. Raises `Invalid`; `mark` stands before the names in its text."""
    if days is not None and (since or until):
        raise Invalid(f"{mark}days stands alone, without {mark}since and {mark}until")
    if days is not None:
        today = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
        start = today.timestamp() if days == 0 else time.time() - days * 86_400
        return int(start * 1000), None
    begin = min(_moments(since, f"{mark}since"), default=0)
    end = max(_moments(until, f"{mark}until"), default=None)
    if end is not None and begin >= end:
        raise Invalid(f"{mark}since is not before {mark}until")
    return begin, end


async def session(store: Store, text: str) -> str:
    """Return the session that a text means. Raises `NotFound` for none, `Invalid` for several."""
    found = await store.ask(partial(statistics.sessions, text))
    if not found:
        raise NotFound(f"there is no session {text!r}: see instar session list")
    if len(found) > 1:
        raise Invalid(f"{text!r} may be {len(found)} sessions: {', '.join(found[:3])} …; write more of it")
    return found[0]


async def in_project(wanted: Wanted, folder: Path) -> Wanted:
    """Narrow to the calls of the project that a folder is of."""
    processes = Processes()
    try:
        project = await discover(folder, processes)
    finally:
        await processes.close()
    named = "" if project.id == GLOBAL else project.id
    return msgspec.structs.replace(wanted, project=named, folder=scope_of(folder))


async def _evolution(store: Store, paths: Paths, wanted: Wanted) -> list[EvolutionSum]:
    """What the steps used in which an agent changed itself, by what became of the change."""
    found = []
    for name, flagship in FLAGSHIPS.items():
        if flagship.changes is None:
            continue
        module, _, attribute = flagship.changes.partition(":")
        folder = paths.of_plugin(name)
        # Start-up time: a flagship that has kept nothing is not loaded.
        made = getattr(import_module(module), attribute)(folder) if folder.is_dir() else []
        for kind, group in groupby(sorted(made, key=lambda one: one.kind), lambda one: one.kind):
            steps = [Step(one.session, one.call, one.message) for one in group]
            spent = await store.ask(partial(statistics.of_steps, kind, steps, wanted))
            if spent.calls:
                found.append(spent)
    return found


async def _waste(store: Store, wanted: Wanted) -> list[CacheBreaks]:
    """The plugins that changed what a prompt cache holds, those that cost most first."""
    # Of all projects and sessions: a break names the session, not its folder.
    breaks = await prompt_cache.breaks(store, wanted.since, wanted.session or None)
    named = [one for one in breaks if one.plugin and (wanted.until is None or one.created < wanted.until)]
    groups = groupby(
        sorted(named, key=lambda one: (one.plugin, one.block)), lambda one: (one.plugin, one.block)
    )
    found = [
        CacheBreaks(plugin, block, len(same), sum(one.lost for one in same))
        for (plugin, block), group in groups
        if (same := list(group))
    ]
    return sorted(found, key=lambda one: -one.lost)


def _moments(text: str | None, name: str) -> Iterator[int]:
    """The first and the last moment (ms) of a day, or the moment that a text names; nothing for None."""
    if text is None:
        return
    try:
        moment = datetime.fromisoformat(text).astimezone()
        ends = moment + timedelta(days=1)
    except (ValueError, OverflowError):
        raise Invalid(f"{name} {text!r} is no date such as 2026-01-31 or 2026-01-31T12:00") from None
    yield int(moment.timestamp() * 1000)
    if len(text.strip()) <= len("2026-01-31"):
        yield int(ends.timestamp() * 1000)
