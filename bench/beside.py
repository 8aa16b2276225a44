"""The budgets, measured beside the real opencode in one run: `python -m bench.beside [--quick]` (`--help` has more).

Both programs serve a project of the same files and ask the same model, which answers at once (`bench.loopback`); what
is compared is measured by turns, so that a machine's slow minute meets both, and processor time says what the clock of
a busy machine does not. Each ratio stands beside its budget (the design's section 6). It exits with 1 when one does
not hold. A whole run takes some 3 to 4 minutes on two quiet cores.
"""

import argparse
import functools
import json
import math
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from bench import contender
from bench.contender import Contender, House, Program, model_alone, modelled
from bench.program import cores

CALLS: Final = 10
"""Sequential tool calls of one measured turn."""
READ: Final = 'call read {"filePath": "part0/file0.txt", "limit": NUMBER}'
BASH: Final = 'call bash {"command": "true NUMBER", "description": "nothing"}'
TOOLS: Final = {"read": READ, "bash true": BASH}
SETTLE: Final = 1.0
"""Seconds of rest before memory is looked at."""


class Budget(NamedTuple):
    """What a figure may be: `limit` of opencode's own (`ratio`) or in the figure's unit, at most or at least."""

    limit: float
    ratio: bool = True
    least: bool = False

    def holds(self, ours: float, theirs: float) -> bool:
        """Judge a figure of instar's beside opencode's."""
        value = ours / theirs if self.ratio else ours
        return value >= self.limit if self.least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.least else '≤'} {self.limit:g}{' ×' if self.ratio else ''}"


class Row(NamedTuple):
    """One line of the table: what was measured in which unit, of both, and what instar's may be."""

    what: str
    unit: str
    instar: float
    opencode: float
    budget: Budget | None = None

    @property
    def held(self) -> bool | None:
        """Whether the budget holds; None without one."""
        return self.budget and self.budget.holds(self.instar, self.opencode)

    def line(self) -> str:
        """The line as it is printed."""
        said = {None: "", True: "holds", False: "MISSED"}[self.held]
        ratio = f"{self.instar / self.opencode:.3f} ×" if self.opencode else "-"
        limit = str(self.budget or "")
        return f"{self.what:<46}{self.instar:>9.2f}{self.opencode:>10.2f} {self.unit:<8}{ratio:>10}  {limit:<8} {said}"


class Plan(NamedTuple):
    """How much is measured: starts of each, and blocks (`rounds`) of `turns`, and of `tools` with their calls.

    `crowds`: sessions at once, and the turns of each.
    """

    starts: int
    rounds: int
    turns: int
    tools: int
    crowds: Sequence[tuple[int, int]]


WHOLE: Final = Plan(starts=3, rounds=3, turns=10, tools=1, crowds=((1, 8), (8, 4), (32, 2), (64, 2)))
QUICK: Final = Plan(starts=1, rounds=1, turns=8, tools=1, crowds=((1, 4), (64, 1)))
WARMING: Final = 2
"""Turns of each block that are not counted."""


class Limits(NamedTuple):
    """The budgets that differ between programs as shipped and both without snapshots."""

    what: str
    snapshot: bool
    turn: float
    tools: dict[str, float]
    crowd: float


MODES: Final = (
    Limits("as shipped", snapshot=True, turn=0.03, tools={"read": 0.03, "bash true": 0.06}, crowd=40),
    Limits("snapshots off", snapshot=False, turn=0.1, tools={"read": 0.06, "bash true": 0.06}, crowd=8),
)
CROWD: Final = 64
"""So many sessions at once have a budget."""


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of `values` that at least `share` (0 to 1) of them do not exceed. Raises `ValueError` of none."""
    if not values:
        raise ValueError("a percentile of nothing")
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def starts(houses: Sequence[House], plan: Plan) -> Iterator[Row]:
    """First health answers, and memory before and after one turn. The first start of each makes its database."""
    ready, idle, used = (empty(), empty(), empty())
    for number in range(plan.starts + 1):
        for one, house in enumerate(houses):
            with house.serving() as server:
                if number == 0:
                    continue
                ready[one].append(server.ready * 1000)
                time.sleep(SETTLE)
                idle[one].append(server.memory())
                server.turn(server.session())
                time.sleep(SETTLE)
                used[one].append(server.memory())
    yield Row("start: first health answer", "ms", *both(statistics.median, ready), Budget(0.1))
    yield Row("memory, idle", "MB", *both(statistics.median, idle), Budget(56, ratio=False))
    yield Row("memory, after one turn", "MB", *both(statistics.median, used))


def turns(servers: Sequence[Contender], plan: Plan, mode: Limits, url: str) -> Iterator[Row]:
    """Turns of one session each, a block of instar's and one of opencode's; the model's own time is taken off."""
    sessions = [server.session() for server in servers]
    took, used, model = empty(), empty(), [0.0, 0.0]
    for _ in range(plan.rounds):
        for one, server in enumerate(servers):
            rested(servers)
            before = server.cpu()
            times = [server.turn(sessions[one]) * 1000 for _ in range(plan.turns + WARMING)]
            used[one].append((server.cpu() - before) * 1000 / len(times))
            took[one].extend(times[WARMING:])
            model[one] = model_alone(url) * 1000
    own = [[value - model[one] for value in took[one]] for one in (0, 1)]
    yield Row(f"{mode.what}: warm turn, p50", "ms", *both(statistics.median, own), Budget(mode.turn))
    yield Row(f"{mode.what}: warm turn, p95", "ms", *both(functools.partial(percentile, share=0.95), own))
    yield Row(f"{mode.what}: warm turn, processor time", "ms", *both(statistics.fmean, used))
    yield Row(f"{mode.what}: the model's own time, taken off", "ms", model[0], model[1])


def tools(servers: Sequence[Contender], plan: Plan, mode: Limits) -> Iterator[Row]:
    """Turns of ten calls, one after another; a figure is of one call and the step that asks for it."""
    for name, call in TOOLS.items():
        took, used = empty(), empty()
        for _ in range(plan.rounds):
            for one, server in enumerate(servers):
                rested(servers)
                before = server.cpu()
                times = [tool_turn(server, call) * 1000 / CALLS for _ in range(plan.tools + 1)]
                used[one].append((server.cpu() - before) * 1000 / CALLS / len(times))
                took[one].extend(times[1:])
        what = f"{mode.what}: a call of {name}"
        yield Row(what, "ms", *both(statistics.median, took), Budget(mode.tools[name]))
        yield Row(f"{what}, processor time", "ms", *both(statistics.fmean, used))


def rested(servers: Sequence[Contender]) -> None:
    """Wait until none of them works."""
    for server in servers:
        server.rest()


def tool_turn(server: Contender, call: str) -> float:
    """Run a turn of `CALLS` calls in a new session and return its seconds.

    Raises `RuntimeError` unless all of them went well.
    """
    session = server.session()
    # Each call differs from the last: three like ones in a row would ask a person (doom_loop).
    took = server.turn(session, "\n".join(call.replace("NUMBER", str(number + 1)) for number in range(CALLS)))
    if (states := server.states(session)) != ["completed"] * CALLS:
        raise RuntimeError(f"{server.name}: the calls of {call!r} ended as {states}")
    return took


def crowds(servers: Sequence[Contender], plan: Plan, mode: Limits) -> Iterator[Row]:
    """So many sessions at once. instar goes before and after opencode, which takes many times as long."""
    for sessions, each in plan.crowds:
        rates, took = empty(), empty()
        for one in (0, 1, 0):
            rested(servers)
            rate, times = crowd(servers[one], sessions, each)
            rates[one].append(rate)
            took[one].extend(times)
        name = f"{mode.what}: {sessions} at once" if sessions > 1 else f"{mode.what}: 1 session"
        judged = sessions == CROWD
        middle, late = (both(functools.partial(percentile, share=share), took) for share in (0.5, 0.99))
        limit = Budget(mode.crowd, least=True) if judged else None
        yield Row(name, "turns/s", *both(statistics.median, rates), limit)
        yield Row(f"{name}, p50", "ms", *middle)
        yield Row(f"{name}, p99", "ms", *late)
        spread = Budget(10, ratio=False) if judged else None
        yield Row(f"{name}, p99 / p50", "", late[0] / middle[0], late[1] / middle[1], spread)


class Server(Protocol):
    """What answers the turns of a crowd."""

    def session(self) -> str: ...

    def turn(self, session: str) -> float: ...


def crowd(server: Server, sessions: int, each: int) -> tuple[float, list[float]]:
    """Let new sessions run `each` turns at once; return turns a second, and each turn's ms.

    Raises what the first that failed raised.
    """
    ids = [server.session() for _ in range(sessions)]
    took: list[float] = []
    failed: list[BaseException] = []
    begin = threading.Barrier(sessions + 1)

    def run(session: str) -> None:
        try:
            begin.wait()
            took.extend([server.turn(session) * 1000 for _ in range(each)])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=[one], daemon=True) for one in ids]
    for thread in threads:
        thread.start()
    begin.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    took_whole = time.perf_counter() - started
    if failed:
        raise failed[0]
    return sessions * each / took_whole, took


def empty() -> tuple[list[float], list[float]]:
    """Figures of both, none yet."""
    return [], []


def both(reckon: Callable[[Sequence[float]], float], found: Sequence[Sequence[float]]) -> tuple[float, float]:
    """What `reckon` makes of the figures of instar, and of those of opencode."""
    return reckon(found[0]), reckon(found[1])


def measure(programs: Sequence[Program], plan: Plan, files: int, show: Callable[[Row], None]) -> None:
    """Measure everything in a project of so many files, and show each row as it comes."""
    with (
        tempfile.TemporaryDirectory(prefix="instar-beside-", ignore_cleanup_errors=True) as folder,
        modelled() as url,
    ):
        for mode in MODES:
            given = contender.settings(url, snapshot=mode.snapshot)
            houses = [House(Path(folder) / mode.what / one.name, one, given, files) for one in programs]
            if mode.snapshot:
                for row in starts(houses, plan):
                    show(row)
            with ExitStack() as stack:
                servers = [stack.enter_context(house.serving()) for house in houses]
                for server in servers:
                    # What a program does once, after its first turn, is no part of a warm one.
                    for _ in range(WARMING):
                        server.turn(server.session())
                for row in turns(servers, plan, mode, url):
                    show(row)
                for row in tools(servers, plan, mode):
                    show(row)
                for row in crowds(servers, plan, mode):
                    show(row)


def said(row: Row) -> dict[str, Any]:
    """A row as JSON: its fields, the budget in words, and whether it holds."""
    return {**row._asdict(), "budget": str(row.budget) if row.budget else None, "holds": row.held}


def main() -> int:
    """Parse the command line, measure, and say what was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.beside", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything: 75 seconds")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the rows to FILE, one JSON object a line"
    )
    parser.add_argument(
        "--opencode",
        type=Path,
        metavar="FOLDER",
        default=Path(".venv/opencode"),
        help="where npm installed opencode (default .venv/opencode)",
    )
    parser.add_argument(
        "--files",
        type=int,
        metavar="N",
        default=contender.FILES,
        help="files of the project (default %(default)s)",
    )
    chosen = parser.parse_args()
    try:
        programs = [contender.instar(), contender.opencode(chosen.opencode)]
    except FileNotFoundError as error:
        parser.error(str(error))
    print(f"Python {sys.version.split()[0]}, {cores()} cores, a project of {chosen.files} files")
    print(f"{'':<46}{'instar':>9}{'opencode':>10} {'':<8}{'ratio':>10}  budget")
    rows: list[Row] = []

    def show(row: Row) -> None:
        rows.append(row)
        print(row.line(), flush=True)

    started = time.perf_counter()
    measure(programs, QUICK if chosen.quick else WHOLE, chosen.files, show)
    if chosen.json:
        chosen.json.write_text("".join(json.dumps(said(row), ensure_ascii=False) + "\n" for row in rows))
    missed = [row.what for row in rows if row.held is False]
    verdict = f"missed: {', '.join(missed)}" if missed else "every budget holds"
    print(f"{time.perf_counter() - started:.0f} s; {verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
