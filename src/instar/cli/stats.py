"""``instar stats``: what model calls used and cost, by day, session, agent, model, cause and origin."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click
import msgspec

from instar.api.stats import SpentLine, SpentSum, Stats
from instar.cli import complete
from instar.cli.door import Context, Failure, door, json_option
from instar.cli.text import counted, echo, money, print_json, short
from instar.limits.statistics import OVERVIEW, gather, in_project, period, session
from instar.plugin import Invalid, NotFound
from instar.store.statistics import BY, Wanted
from instar.store.store import open_store

_FEW: Final = 10
"""Lines of a table where none were asked for."""


@click.command()
@click.option("--by", "by", multiple=True, type=click.Choice(BY), help="Sum by this; repeatable.")
@click.option("--days", type=click.IntRange(0), metavar="N", help="The last N days; 0 is today.")
@click.option("--since", metavar="DATE", help="From this day or time on (2026-01-31, 2026-01-31T12:00).")
@click.option("--until", metavar="DATE", help="To the end of this day, or to this time.")
@click.option(
    "--session", metavar="ID", shell_complete=complete.sessions, help="One session and its sub-agents."
)
@click.option(
    "--project",
    metavar="FOLDER",
    shell_complete=complete.folders,
    help='One project: a folder of it or its id; "" is the one here.',
)
@click.option(
    "--models",
    metavar="N",
    is_flag=False,
    flag_value=_FEW,
    type=click.IntRange(1),
    help="The N models that cost most.",
)
@click.option(
    "--tools",
    metavar="N",
    is_flag=False,
    flag_value=_FEW,
    type=click.IntRange(1),
    help="The N tools that were called most.",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Print at most N lines of a table.",
)
@json_option
@door
async def command(context: Context, **given: Any) -> None:
    """Show what model calls used and cost: all calls, or those that the options select."""
    try:
        since, until = period(given["days"], given["since"], given["until"], "--")
    except Invalid as error:
        raise click.UsageError(str(error)) from None
    wanted = Wanted(since=since, until=until)
    project = given["project"]
    if project and not context.path(project).is_dir():
        wanted = msgspec.structs.replace(wanted, project=project)
    elif project is not None:
        wanted = await in_project(wanted, context.folder(project))
    tables = list(dict.fromkeys([*given["by"], *(["model"] if given["models"] else [])]))
    if not tables and given["tools"] is None:
        tables = list(OVERVIEW)
    store = await open_store(context.paths.database, lambda event: None)
    try:
        if given["session"]:
            wanted = msgspec.structs.replace(wanted, session=await session(store, given["session"]))
        found = await gather(store, context.paths, wanted, tables, tools=given["tools"] is not None)
    except (NotFound, Invalid) as error:
        raise Failure(str(error), 2) from None
    finally:
        await store.close()
    if given["as_json"]:
        print_json(found)
        return
    most = {"model": given["models"] or given["limit"], "tool": given["tools"] or _FEW}
    for line in _lines(found, most, given["limit"]):
        echo(line)


def _lines(found: Stats, most: Mapping[str, int], limit: int) -> Iterator[str]:
    """The lines for people; of a table the first `most[name]`, else `limit`."""
    if not found.total.calls:
        yield "no model calls are recorded here"
    else:
        yield from _overview(found)
    for name, lines in found.by.items():
        if lines:
            yield ""
            yield from _table(name, lines, most.get(name, limit))
    if found.tools is not msgspec.UNSET:
        yield ""
        yield f"{'tool':<32}{'calls':>8}"
        for tool, count in list(found.tools.items())[: most["tool"]]:
            yield f"{short(tool, 30):<32}{count:>8,}"


def _overview(found: Stats) -> Iterator[str]:
    sum_, tokens = found.total, found.total.tokens
    yield f"calls      {counted(sum_.calls, 'call')} in {counted(sum_.sessions, 'session')}, {_span(found)}"
    yield (
        f"input      {_input(sum_):,} tokens, {_share(sum_.cached)} cached "
        f"({tokens.cache.read:,} read, {tokens.cache.write:,} written)"
    )
    yield f"output     {tokens.output:,} tokens, and {tokens.reasoning:,} of reasoning"
    yield f"cost       {money(sum_.cost)}"
    for model, count in found.unpriced.items():
        yield f"unpriced   {counted(count, 'call')} of {short(model, 60)}: not in the cost"
    for one in found.evolution:
        unknown = f" ({one.unknown} more were deleted)" if one.unknown else ""
        used = f"{_input(one) + one.tokens.output + one.tokens.reasoning:,} tokens, {_price(one)}"
        yield f"evolution  {counted(one.calls, 'step')} with changes {one.kind}: {used}{unknown}"
    for waste in found.cache_breaks:
        often = counted(waste.times, "time")
        what = f"plugin {short(waste.plugin, 40)} changed the {waste.block} {often}"
        yield f"cache      {what}: {waste.lost:,} bytes sent anew"


def _table(name: str, lines: Sequence[SpentLine], most: int) -> Iterator[str]:
    yield f"{name:<32}{'calls':>8}{'input':>14}{'cached':>9}{'output':>12}{'cost':>11}"
    for line in lines[:most]:
        label = short(line.title or line.key or "(unknown)", 30)
        yield (
            f"{label:<32}{line.calls:>8,}{_input(line):>14,}{_share(line.cached):>9}"
            f"{line.tokens.output + line.tokens.reasoning:>12,}{_price(line):>11}"
        )
    if len(lines) > most:
        yield f"… {len(lines) - most:,} more (--limit)"


def _input(sum_: SpentSum) -> int:
    return sum_.tokens.input + sum_.tokens.cache.read + sum_.tokens.cache.write


def _price(sum_: SpentSum) -> str:
    return money(sum_.cost) + ("+" if sum_.unpriced else "")


def _share(cached: float | None) -> str:
    return "-" if cached is None else f"{cached:.1%}"


def _span(found: Stats) -> str:
    first, last = _day(found.first), _day(found.last)
    return first if first == last else f"{first} to {last}"


def _day(moment: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(moment / 1000))
