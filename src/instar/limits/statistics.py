"""Figures: what model calls used and cost, of all of them or of some, for `instar stats` and for the server."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.api.stats import (
    CacheBreaks,
    EvolutionSum,
    SpentCacheTokens,
    SpentLine,
    SpentSum,
    SpentTokens,
    Stats,
)
from instar.git.project import GLOBAL, discover
from instar.limits.stop import scope_of
from instar.plugin import Invalid, NotFound
from instar.process import Processes
from instar.provider import prompt_cache
from instar.settings.builtin_plugins import FLAGSHIPS
from instar.settings.paths import Paths
from instar.store import statistics
from instar.store.sqlite import SqliteStore
from instar.store.statistics import BY, Line, Spent, Step, Wanted

OVERVIEW: Final = ("model", "cause", "origin")
"""What is summed by where nothing was asked for."""


class Evolution(msgspec.Struct, frozen=True):
    """What the steps used in which an agent changed itself; `kind` says what became of the changes.

    `unknown` of them belong to messages that were deleted.
    """

    kind: str
    spent: Spent
    unknown: int


class Figures(msgspec.Struct, frozen=True):
    """All that was asked for. `first` and `last` are the times (ms) of the calls; `tools` is None if not wanted."""

    wanted: Wanted
    first: int
    last: int
    total: Spent
    by: Mapping[str, Sequence[Line]]
    unpriced: Mapping[str, int]
    tools: Mapping[str, int] | None
    evolution: Sequence[Evolution]
    waste: Sequence[CacheBreaks]


async def gather(
    store: SqliteStore, paths: Paths, wanted: Wanted, by: Sequence[str], *, tools: bool
) -> Figures:
    """Return the figures of the calls that are wanted, summed by words of `BY`."""
    total, first, last = await store.ask(partial(statistics.total, wanted))
    return Figures(
        wanted=wanted,
        first=first,
        last=last,
        total=total,
        by={name: await store.ask(partial(statistics.lines, name, wanted)) for name in by},
        unpriced=await store.ask(partial(statistics.unpriced, wanted)) if total.unpriced else {},
        tools=await store.ask(partial(statistics.tools, wanted)) if tools else None,
        evolution=await _evolution(store, paths, wanted),
        waste=await _waste(store, wanted),
    )


def answer(found: Figures) -> Stats:
    """Return figures in the form in which they go out."""
    return Stats(
        since=found.wanted.since,
        until=found.wanted.until,
        first=found.first,
        last=found.last,
        total=SpentSum(**_spent(found.total)),
        by={name: [_line(line) for line in lines] for name, lines in found.by.items()},
        unpriced=dict(found.unpriced),
        evolution=[
            EvolutionSum(kind=one.kind, unknown=one.unknown, **_spent(one.spent)) for one in found.evolution
        ],
        cache_breaks=list(found.waste),
        tools=msgspec.UNSET if found.tools is None else dict(found.tools),
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


async def session(store: SqliteStore, text: str) -> str:
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


async def _evolution(store: SqliteStore, paths: Paths, wanted: Wanted) -> list[Evolution]:
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
            spent, unknown = await store.ask(partial(statistics.of_steps, steps, wanted))
            if spent.calls:
                found.append(Evolution(kind, spent, unknown))
    return found


async def _waste(store: SqliteStore, wanted: Wanted) -> list[CacheBreaks]:
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


def _line(line: Line) -> SpentLine:
    return SpentLine(key=line.key, title=line.label or msgspec.UNSET, **_spent(line.spent))


def _spent(sum_: Spent) -> dict[str, Any]:
    """The fields of a sum."""
    cache = SpentCacheTokens(sum_.cache_read, sum_.cache_write)
    return {
        "calls": sum_.calls,
        "sessions": sum_.sessions,
        "tokens": SpentTokens(sum_.input, sum_.output, sum_.reasoning, cache),
        "cached": sum_.cached,
        "cost": sum_.cost,
        "unpriced": sum_.unpriced,
    }


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
