"""Telling the time: the date and time now, and when the last heartbeat was."""

import asyncio
import difflib
import zoneinfo
from datetime import UTC, datetime, tzinfo
from typing import Final

from instar.plugin import ToolContext, ToolFailure, ToolResult, wire
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.tools.definition import ToolDefinition, tool

_ZONE: Final = {
    "type": "string",
    "description": "The IANA name of a time zone, such as Europe/Berlin (default UTC).",
}


def tools(engine: EvolveEngine) -> dict[str, ToolDefinition]:
    """Return the tools by name."""

    async def heartbeat_time(args: wire.Plain, context: ToolContext) -> ToolResult:
        try:
            last = engine.storage.heartbeat.state.last
        except OSError as error:
            raise ToolFailure(f"the time of the last heartbeat cannot be read: {error}") from None
        return ToolResult(_said(datetime.fromtimestamp(last / 1000, UTC)) if last else "never")

    return {
        "datetime": tool(
            "Get the current date and time, in UTC or another time zone.",
            {"timezone": _ZONE},
            _datetime,
            optional=["timezone"],
            repeatable=True,
        ),
        "heartbeat_time": tool(
            'Get when the last heartbeat began, in UTC; "never" when there was none.',
            {},
            heartbeat_time,
            repeatable=True,
        ),
    }


async def _datetime(args: wire.Plain, context: ToolContext) -> ToolResult:
    name = args.get("timezone", "UTC")
    zone = await asyncio.to_thread(_zone, name)
    now = datetime.now(zone)
    return ToolResult(_said(now) if zone is UTC else f"{_said(now)} ({now.tzname()}, {name})")


def _zone(name: str) -> tzinfo:
    if name.upper() in ("UTC", "Z", "GMT"):
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        # OSError: the name of a folder, such as Europe.
        near = nearest(name, sorted(zoneinfo.available_timezones()))
        hint = f"the nearest are {', '.join(near)}" if near else "name one such as Europe/Berlin"
        raise ToolFailure(f"there is no time zone {name!r}: {hint}") from None


def nearest(name: str, known: list[str], most: int = 3) -> list[str]:
    """Return the names of `known` that are most like `name`, the best first: by spelling, by city, or in a folder.

    ``Etc/GMT+2`` and its like are left out: they mean the opposite of what they say.
    """
    names = {one.casefold().replace(" ", "_"): one for one in known if not one.startswith("Etc/")}
    wanted = name.strip().casefold().replace(" ", "_")
    cities: dict[str, str] = {}
    for low, one in names.items():
        cities.setdefault(low.rpartition("/")[2], one)
    found = [names[wanted]] if wanted in names else []
    found += [cities[wanted]] if wanted in cities else []
    found += [names[one] for one in difflib.get_close_matches(wanted, list(names), n=most, cutoff=0.7)]
    tail = wanted.rpartition("/")[2]
    found += [cities[one] for one in difflib.get_close_matches(tail, list(cities), n=most, cutoff=0.7)]
    found += [one for low, one in names.items() if wanted and low.startswith(f"{wanted}/")]
    return list(dict.fromkeys(found))[:most]


def _said(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
