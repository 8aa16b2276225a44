"""The budgets, measured beside the real opencode in one run: `python -m bench.beside [--quick]` (`--help` has more).

Both programs serve a project of the same files and ask the same model, which answers at once (`bench.loopback`); what
is compared is measured by turns, so that a machine's slow minute meets both, and processor time says what the clock of
a busy machine does not. Each ratio stands beside its budget (the design's section 6). It exits with 1 when one does
not hold. A whole run takes some 15 minutes on two quiet cores.
"""

import argparse
import functools
import json
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from bench import contender, others, scenes
from bench.contender import Contender, House, Program, model_alone, modelled
from bench.program import cores
from bench.row import HEAD, Budget, Row, Show, both, empty, percentile

CALLS: Final = 10
"""Sequential tool calls of one measured turn."""
READ: Final = 'call read {"filePath": "part0/file0.txt", "limit": NUMBER}'
BASH: Final = 'call bash {"command": "true NUMBER", "description": "nothing"}'
TOOLS: Final = {"read": READ, "bash true": BASH}
SETTLE: Final = 1.0
"""Seconds of rest before memory is looked at."""


class Plan(NamedTuple):
    """How much is measured: starts of each, and blocks (`rounds`) of `turns`, and of `tools` with their calls.

    `crowds`: sessions at once, and the turns of each. `amounts` are those of the other scenes.
    """

    starts: int
    rounds: int
    turns: int
    tools: int
    crowds: Sequence[tuple[int, int]]
    amounts: scenes.Amounts


WHOLE: Final = Plan(
    starts=3,
    rounds=3,
    turns=10,
    tools=1,
    crowds=((1, 8), (8, 4), (32, 2), (64, 2)),
    amounts=scenes.Amounts(
        runs=5, deltas=10_000, clients=(1, 50), turns=400, parts=100_000, writes=9, told=50
    ),
)
QUICK: Final = Plan(
    starts=1,
    rounds=1,
    turns=8,
    tools=1,
    crowds=((1, 4), (64, 1)),
    amounts=scenes.Amounts(runs=1, deltas=200, clients=(1, 5), turns=50, parts=1000, writes=1, told=5),
)
LONG: Final = 1000
"""Turns of the growing session with `--long`."""
WARMING: Final = 2
"""Turns of each block that are not counted."""


class Limits(NamedTuple):
    """The budgets that differ between programs as shipped and both without snapshots: limits, and what is aimed at."""

    what: str
    snapshot: bool
    turn: float
    tools: dict[str, tuple[tuple[Budget, ...], Budget | None]]
    crowd: tuple[float, float]


SHIPPED: Final = Limits(
    "as shipped",
    snapshot=True,
    turn=0.04,
    tools={
        "read": ((Budget(0.06), Budget(12, ratio=False)), Budget(0.03)),
        "bash true": ((Budget(0.12), Budget(28, ratio=False)), Budget(0.06)),
    },
    crowd=(25, 40),
)
BARE: Final = Limits(
    "snapshots off",
    snapshot=False,
    turn=0.1,
    tools={"read": ((), None), "bash true": ((), None)},
    crowd=(6, 8),
)
MODES: Final = (SHIPPED, BARE)
CROWD: Final = 64
"""So many sessions at once have a budget."""


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
    yield Row(
        "start: first health answer",
        "ms",
        *both(ready),
        (Budget(0.18), Budget(340, ratio=False)),
        Budget(0.1),
    )
    yield Row("memory, idle", "MB", *both(idle), (Budget(56, ratio=False),), Budget(40, ratio=False))
    yield Row("memory, after one turn", "MB", *both(used))


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
    budgets = (Budget(mode.turn), Budget(8, ratio=False))
    yield Row(f"{mode.what}: warm turn, p50", "ms", *both(own), budgets, Budget(4, ratio=False))
    yield Row(f"{mode.what}: warm turn, p95", "ms", *both(own, functools.partial(percentile, share=0.95)))
    yield Row(f"{mode.what}: warm turn, processor time", "ms", *both(used, statistics.fmean))
    yield Row(f"{mode.what}: the model's own time, taken off", "ms", model[0], model[1])


def tools(servers: Sequence[Contender], plan: Plan, mode: Limits) -> Iterator[Row]:
    """Turns of ten calls, one after another; a figure is of one call and the step that asks for it."""
    for name in mode.tools:
        call = TOOLS[name]
        took, used = empty(), empty()
        for _ in range(plan.rounds):
            for one, server in enumerate(servers):
                rested(servers)
                before = server.cpu()
                times = [tool_turn(server, call) * 1000 / CALLS for _ in range(plan.tools + 1)]
                used[one].append((server.cpu() - before) * 1000 / CALLS / len(times))
                took[one].extend(times[1:])
        what = f"{mode.what}: a call of {name}"
        yield Row(what, "ms", *both(took), *mode.tools[name])
        yield Row(f"{what}, processor time", "ms", *both(used, statistics.fmean))


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
        middle, late = (both(took, functools.partial(percentile, share=share)) for share in (0.5, 0.99))
        floor, aim = (Budget(limit, least=True) for limit in mode.crowd)
        sane = Budget(110, ratio=False, least=True)
        yield Row(name, "turns/s", *both(rates), *(((floor, sane), aim) if judged else ()))
        yield Row(f"{name}, p50", "ms", *middle)
        yield Row(f"{name}, p99", "ms", *late)
        spread = (Budget(10, ratio=False),) if judged else ()
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


def measure(programs: Sequence[Program], plan: Plan, files: int, show: Show) -> None:
    """Measure everything in a project of so many files, and show each row as it comes."""
    with (
        tempfile.TemporaryDirectory(prefix="instar-beside-", ignore_cleanup_errors=True) as folder,
        modelled() as url,
    ):
        for mode in MODES:
            given = contender.settings(url, snapshot=mode.snapshot)
            houses = [House(Path(folder) / mode.what / one.name, one, given, files) for one in programs]
            for row in played(houses, plan, mode, url):
                show(row)
        for row in evolving(Path(folder), programs, plan, files, url):
            show(row)


def played(houses: Sequence[House], plan: Plan, mode: Limits, url: str) -> Iterator[Row]:
    """All scenes of two houses; those with `snapshot` alone are not done twice."""
    if mode.snapshot:
        yield from scenes.cold(houses, plan.amounts)
        yield from starts(houses, plan)
    with ExitStack() as stack:
        servers = [warmed(stack.enter_context(house.serving())) for house in houses]
        yield from turns(servers, plan, mode, url)
        yield from tools(servers, plan, mode)
        yield from crowds(servers, plan, mode)
    if mode.snapshot:
        with ExitStack() as stack:
            servers = [warmed(stack.enter_context(house.serving())) for house in houses]
            yield from scenes.streaming(servers, plan.amounts)
    else:
        with ExitStack() as stack:
            servers = [warmed(stack.enter_context(house.serving())) for house in houses]
            yield from scenes.growth(servers, plan.amounts, url)
        yield from scenes.reloads(houses, plan.amounts)


def warmed(server: Contender) -> Contender:
    """Let a server do what it does once, after its first turns: it is no part of a warm one."""
    for _ in range(WARMING):
        server.turn(server.session())
    return server


def evolving(folder: Path, programs: Sequence[Program], plan: Plan, files: int, url: str) -> Iterator[Row]:
    """instar with evolve and one hook script beside opencode without its evolve, as shipped; then evolve's own work.

    opencode-evolve is in no registry, and one written anew from its README would measure its writer.
    """
    given = contender.settings(url, snapshot=True)
    bot = scenes.workspace(folder / "bot")
    variables: Sequence[dict[str, str]] = ({"INSTAR_WORKSPACE": str(bot), "INSTAR_TRUST": "all"}, {})
    houses = [
        House(folder / "evolve" / one.name, one, given, files, more)
        for one, more in zip(programs, variables, strict=True)
    ]
    budgets = (Budget(92, ratio=False),), Budget(30, ratio=False)
    mode = Limits("with evolve", snapshot=True, turn=1, tools={"read": budgets}, crowd=(0, 0))
    ready = empty()
    for _ in range(plan.starts):
        for one, house in enumerate(houses):
            with house.serving() as server:
                ready[one].append(server.ready * 1000)
    yield Row("with evolve: start, first health answer", "ms", *both(ready))
    with ExitStack() as stack:
        servers = [warmed(stack.enter_context(house.serving())) for house in houses]
        for row in turns(servers, plan, mode, url):
            yield row._replace(budgets=(), aim=None)
        yield from tools(servers, plan, mode)
        yield Row("with evolve: memory after", "MB", *scenes.remembered(servers))
    yield from scenes.writes(folder / "writes", plan.amounts)


def machine(opencode: Path, contenders: Path) -> dict[str, Any]:
    """What the figures were taken on and of."""
    package = json.loads((opencode / "node_modules" / "opencode-ai" / "package.json").read_text())
    info = Path("/proc/cpuinfo").read_text()
    models = [line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")]
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": models[0] if models else platform.machine(),
        "cores": cores(),
        "versions": {"opencode": package["version"], **others.versions(contenders)},
    }


def compared(url: str, installed: Path, runs: int) -> dict[str, Any]:
    """Measure instar beside nanobot and the OpenHands SDK, and print it; the run as JSON."""
    rows: list[others.Measured] = []
    print(f"\n{'':<40}{''.join(f'{name:>12}' for name in others.NAMES)}")

    def show(row: others.Measured) -> None:
        rows.append(row)
        print(row.line(), flush=True)

    with tempfile.TemporaryDirectory(prefix="instar-beside-", ignore_cleanup_errors=True) as folder:
        missing = others.measure(Path(folder), url, installed, runs, show)
    for name, why in missing.items():
        print(f"{name}: not measured: {why}")
    return {
        "ran": others.RAN,
        "lacks": others.LACKS,
        "missing": missing,
        "rows": [row._asdict() for row in rows],
    }


def main() -> int:
    """Parse the command line, measure, and say what was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.beside", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything: 3 minutes")
    parser.add_argument("--long", action="store_true", help=f"let the growing session have {LONG} turns")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the run to FILE, one JSON object")
    parser.add_argument(
        "--opencode",
        type=Path,
        metavar="FOLDER",
        default=Path(".venv/opencode"),
        help="where npm installed opencode (default %(default)s)",
    )
    parser.add_argument(
        "--contenders",
        type=Path,
        metavar="FOLDER",
        default=others.FOLDER,
        help="where nanobot and the OpenHands SDK are installed (default %(default)s)",
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
    plan = QUICK if chosen.quick else WHOLE
    if chosen.long:
        plan = plan._replace(amounts=plan.amounts._replace(turns=LONG))
    print(f"Python {sys.version.split()[0]}, {cores()} cores, a project of {chosen.files} files")
    print(HEAD)
    rows: list[Row] = []

    def show(row: Row) -> None:
        rows.append(row)
        print(row.line(), flush=True)

    started = time.perf_counter()
    measure(programs, plan, chosen.files, show)
    with modelled() as url:
        other = compared(url, chosen.contenders, plan.starts)
    took = round(time.perf_counter() - started)
    if chosen.json:
        run = {
            "machine": machine(chosen.opencode, chosen.contenders),
            "quick": chosen.quick,
            "files": chosen.files,
            "seconds": took,
            "rows": [row.said() for row in rows],
            "others": other,
        }
        chosen.json.write_text(json.dumps(run, ensure_ascii=False, indent=1) + "\n", "utf-8")
    missed = [row.what for row in rows if row.held is False]
    verdict = f"missed: {', '.join(missed)}" if missed else "every budget holds"
    print(f"{took} s; {verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
