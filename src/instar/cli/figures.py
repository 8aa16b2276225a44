"""The figures of ``instar stats`` as lines for people."""

import time
from collections.abc import Iterator, Mapping, Sequence

from instar.cli.line import money, short
from instar.figures import Figures
from instar.store.statistics import Line, Spent


def text(found: Figures, most: Mapping[str, int], limit: int) -> Iterator[str]:
    """Yield the lines for people; of a table the first `most` of its name, else `limit`."""
    if not found.total.calls:
        yield "no model calls are booked here"
    else:
        yield from _overview(found)
    for name, lines in found.by.items():
        if lines:
            yield ""
            yield from _table(name, lines, most.get(name, limit))
    if found.tools is not None:
        yield ""
        yield f"{'tool':<32}{'calls':>8}"
        for tool, count in list(found.tools.items())[: most["tool"]]:
            yield f"{short(tool, 30):<32}{count:>8,}"


def _overview(found: Figures) -> Iterator[str]:
    sum_ = found.total
    yield f"calls      {_counted(sum_.calls, 'call')} in {_counted(sum_.sessions, 'session')}, {_span(found)}"
    yield (
        f"input      {sum_.input + sum_.cache_read + sum_.cache_write:,} tokens, {_share(sum_.cached)} cached "
        f"({sum_.cache_read:,} read, {sum_.cache_write:,} written)"
    )
    yield f"output     {sum_.output:,} tokens, and {sum_.reasoning:,} of reasoning"
    yield f"cost       {money(sum_.cost)}"
    for model, count in found.unpriced.items():
        yield f"unpriced   {_counted(count, 'call')} of {short(model, 60)}: not in the cost"
    for one in found.evolution:
        unknown = f" ({one.unknown} more were deleted)" if one.unknown else ""
        yield f"evolution  {_counted(one.spent.calls, 'step')} with changes {one.kind}: {_used(one.spent)}{unknown}"
    for waste in found.waste:
        often = _counted(waste.times, "time")
        what = f"plugin {short(waste.plugin, 40)} changed the {waste.block} {often}"
        yield f"cache      {what}: {waste.lost:,} bytes sent anew"


def _table(name: str, lines: Sequence[Line], most: int) -> Iterator[str]:
    yield f"{name:<32}{'calls':>8}{'input':>14}{'cached':>9}{'output':>12}{'cost':>11}"
    for line in lines[:most]:
        sum_ = line.spent
        label = short(line.label or line.key or "(unknown)", 30)
        price = money(sum_.cost) + ("+" if sum_.unpriced else "")
        whole = sum_.input + sum_.cache_read + sum_.cache_write
        yield (
            f"{label:<32}{sum_.calls:>8,}{whole:>14,}{_share(sum_.cached):>9}"
            f"{sum_.output + sum_.reasoning:>12,}{price:>11}"
        )
    if len(lines) > most:
        yield f"… {len(lines) - most:,} more (--limit)"


def _used(sum_: Spent) -> str:
    tokens = sum_.input + sum_.cache_read + sum_.cache_write + sum_.output + sum_.reasoning
    return f"{tokens:,} tokens, {money(sum_.cost)}" + ("+" if sum_.unpriced else "")


def _share(cached: float | None) -> str:
    return "-" if cached is None else f"{cached:.1%}"


def _span(found: Figures) -> str:
    first, last = _day(found.first), _day(found.last)
    return first if first == last else f"{first} to {last}"


def _day(moment: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(moment / 1000))


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
