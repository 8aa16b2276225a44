"""Scenes of `bench.beside` beyond turns and calls: cold commands, streams, growth, a large session, and evolve.

Each is done by both programs, through the routes and the commands that both have.
"""

import asyncio
import json
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import evolve, notify
from bench.contender import Contender, House, model_alone
from bench.figure import Figure, Show
from bench.listeners import listening
from bench.program import timed
from bench.row import Budget, Row, both, empty
from instar.plugin import process

EXAMPLE: Final = Path(__file__).parent.parent / "examples" / "hello"
"""A workspace of evolve with one hook script."""
SESSION: Final = "ses_7ffffffffffeAAAAAAAAAAAAAA"
PARTS: Final = 20
"""Parts of a question and its answer in the large session."""
EARLY: Final = (5, 15)
"""The turns around the tenth, whose median the later ones are compared with."""
LATE: Final = 20
"""So many turns up to one are its median."""
BLOCK: Final = 50
"""Turns of one program before the other's."""
STEP: Final = 100
"""A row for each so many turns."""
GROWN: Final = {400: Budget(1.4, ratio=False), 1000: Budget(1.8, ratio=False)}
FLAT: Final = Budget(1.1, ratio=False)


class Amounts(NamedTuple):
    """How much of each scene: cold `runs`, `deltas` of a long answer, `turns` of a growing session, `parts` reloaded.

    `clients` are listeners of a stream. `writes` are those of a hook script, and turns that notify `told` sessions.
    """

    runs: int
    deltas: int
    clients: Sequence[int]
    turns: int
    parts: int
    writes: int
    told: int


def cold(houses: Sequence[House], amounts: Amounts) -> Iterator[Row]:
    """A one-word answer by the command line. The first run of each makes its database."""
    wall, used = empty(), empty()
    for number in range(amounts.runs + 1):
        for one, house in enumerate(houses):
            cost = timed(["run", "hi"], house.project, house.environment, house.program.command)
            if number:
                wall[one].append(cost.wall * 1000)
                used[one].append(cost.cpu * 1000)
    sane = Budget(300, ratio=False)
    aim = Budget(120, ratio=False)
    yield Row("cold: run, one word", "ms", *both(wall), (Budget(0.12), sane), aim)
    yield Row("cold: run, one word, processor time", "ms", *both(used), (Budget(0.12), sane), aim)


def streaming(servers: Sequence[Contender], amounts: Amounts) -> Iterator[Row]:
    """An answer of many deltas to some clients of the event stream, until the last has its end.

    A model that says all at once shows what a delta costs; one that says them one by one also what each costs that is
    taken, saved and sent by itself.
    """
    ways = [("at once", "deltas", 1), *(("one by one", "paced", count) for count in amounts.clients)]
    for way, word, clients in ways:
        took, used, sent = empty(), empty(), empty()
        for one, server in enumerate(servers):
            server.rest()
            with listening(server.url, clients) as heard:
                session, before, started = server.session(), server.cpu(), time.perf_counter()
                server.turn(session, f"{word} {amounts.deltas}")
                sent[one].append(heard() / 1_000_000)
                took[one].append(time.perf_counter() - started)
                used[one].append((server.cpu() - before) * 1_000_000 / amounts.deltas)
        what = f"{amounts.deltas:,} deltas {way} to {clients} client{'s' * (clients > 1)}"
        budgets = (Budget(60, ratio=False),) if word == "deltas" else ()
        yield Row(f"{what}: all have the end", "s", *both(took))
        yield Row(f"{what}: processor time of one", "µs", *both(used), budgets)
        yield Row(f"{what}: bytes of all streams", "MB", *both(sent))
        yield Row(f"{what}: memory after", "MB", *remembered(servers))


def growth(servers: Sequence[Contender], amounts: Amounts, url: str) -> Iterator[Row]:
    """One session of many turns; the model's own time is taken off."""
    sessions = [server.session() for server in servers]
    took, model = empty(), empty()
    early = [0.0, 0.0]
    for done in range(BLOCK, amounts.turns + 1, BLOCK):
        for one, server in enumerate(servers):
            server.rest()
            for number in range(BLOCK):
                took[one].append(server.turn(sessions[one]) * 1000)
                if done == BLOCK and number + 1 == EARLY[1]:
                    early[one] = statistics.median(took[one][slice(*EARLY)]) - model_alone(url, 5) * 1000
            model[one].append(model_alone(url, 5) * 1000)
        if done % STEP and done != amounts.turns:
            continue
        late = [statistics.median(took[one][-LATE:]) - model[one][-1] for one in (0, 1)]
        yield Row(f"growth: turn {done}", "ms", late[0], late[1])
        grown = [late[one] / early[one] for one in (0, 1)]
        budgets = (GROWN[done],) if done in GROWN else ()
        yield Row(
            f"growth: turn {done} against turn 10",
            "×",
            grown[0],
            grown[1],
            budgets,
            FLAT if budgets else None,
        )
    yield Row(f"growth: memory after {amounts.turns} turns", "MB", *remembered(servers))


def remembered(servers: Sequence[Contender]) -> tuple[float, float]:
    """The memory of both once they rest."""
    for server in servers:
        server.rest()
    return servers[0].memory(), servers[1].memory()


def reloads(houses: Sequence[House], amounts: Amounts) -> Iterator[Row]:
    """A session of many parts: taken in by each program's `import`, then read from a server that starts on it."""
    taken, ready, first, again, used, memory = (empty() for _ in range(6))
    for one, house in enumerate(houses):
        file = house.project.parent / "large.json"
        file.write_text(json.dumps(large(amounts.parts, str(house.project))))
        cost = timed(["import", str(file)], house.project, house.environment, house.program.command)
        taken[one].append(cost.wall)
        with house.serving() as server:
            ready[one].append(server.ready * 1000)
            before = server.cpu()
            for times in (first, again):
                started = time.perf_counter()
                answer = server.fetch("GET", f"/session/{SESSION}/message")
                times[one].append((time.perf_counter() - started) * 1000)
                found = sum(len(message["parts"]) for message in json.loads(answer))
                if found != amounts.parts:
                    raise RuntimeError(f"{server.name}: {found} parts of {amounts.parts} came back")
            used[one].append((server.cpu() - before) * 1000 / 2)
            server.rest()
            memory[one].append(server.memory())
    what = f"a session of {amounts.parts:,} parts"
    yield Row(f"{what}: import", "s", *both(taken))
    yield Row(f"{what}: start, first health answer", "ms", *both(ready))
    yield Row(f"{what}: read whole, first", "ms", *both(first))
    yield Row(f"{what}: read whole, again", "ms", *both(again))
    yield Row(f"{what}: read whole, processor time", "ms", *both(used))
    yield Row(f"{what}: memory after", "MB", *both(memory))


def large(parts: int, directory: str) -> dict[str, Any]:
    """A session as both programs' `export` prints it, of questions with answers of text and calls of `read`."""
    turns, made = parts // PARTS, 1_780_000_000_000
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        asked, answer, at = number("msg", turn * 2), number("msg", turn * 2 + 1), made + turn * 1000
        info = {"id": asked, "sessionID": SESSION, "role": "user", "time": {"created": at}, "agent": "build"}
        own = {"id": number("prt", turn * PARTS), "sessionID": SESSION, "messageID": asked}
        messages += [
            {
                "info": {**info, "model": {"providerID": "fake", "modelID": "m"}},
                "parts": [{**own, "type": "text", "text": f"question {turn}"}],
            },
            {
                "info": answered(answer, asked, at, directory),
                "parts": [part(turn, one, answer, at) for one in range(1, PARTS)],
            },
        ]
    info = {"id": SESSION, "slug": "large", "projectID": "global", "directory": directory, "title": "large"}
    times = {"created": made, "updated": made + turns * 1000}
    return {
        "info": {**info, "version": "1.18.33", "time": times, "cost": 0, "tokens": tokens()},
        "messages": messages,
    }


def number(prefix: str, value: int) -> str:
    """An id that sorts by `value`."""
    return f"{prefix}_{value:012x}AAAAAAAAAAAAAA"


def tokens() -> dict[str, Any]:
    """The tokens of an answer."""
    return {"input": 10, "output": 10, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def answered(answer: str, asked: str, at: int, directory: str) -> dict[str, Any]:
    """The head of an answer."""
    return {
        "id": answer,
        "sessionID": SESSION,
        "role": "assistant",
        "parentID": asked,
        "mode": "build",
        "agent": "build",
        "modelID": "m",
        "providerID": "fake",
        "cost": 0,
        "tokens": tokens(),
        "finish": "stop",
        "time": {"created": at + 1, "completed": at + 900},
        "path": {"cwd": directory, "root": directory},
    }


def part(turn: int, one: int, answer: str, at: int) -> dict[str, Any]:
    """A part of an answer: every third is a text, the others are calls of `read`."""
    own = {"id": number("prt", turn * PARTS + one), "sessionID": SESSION, "messageID": answer}
    times = {"start": at, "end": at + 1}
    if one % 3 == 1:
        return {**own, "type": "text", "text": "some words of an answer " * 5, "time": times}
    state = {
        "status": "completed",
        "input": {"filePath": f"part0/file{one}.txt"},
        "title": "file",
        "metadata": {},
        "output": "a line of the file\n" * 10,
        "time": times,
    }
    return {**own, "type": "tool", "callID": f"call_{turn}_{one}", "tool": "read", "state": state}


def workspace(folder: Path) -> Path:
    """Copy the example into a folder of its own and return it."""
    return shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))


def writes(root: Path, amounts: Amounts) -> Iterator[Row]:
    """A validated write of a hook script, and a tool that notifies sessions: instar's alone."""
    found: dict[str, Figure] = {}

    def show(figure: Figure) -> None:
        found[figure.what] = figure

    (root / "write").mkdir(parents=True)
    asyncio.run(writing(root / "write", amounts.writes, show))
    what = "evolve: a validated hook write"
    yield Row(f"{what}, with its test", "ms", median(found, "write: whole"))
    yield Row(f"{what}, the test by itself", "ms", median(found, "write: the test's own"))
    rest = median(found, "write: the rest")
    yield Row(
        f"{what}, without its test", "ms", rest, None, (Budget(150, ratio=False),), Budget(60, ratio=False)
    )
    asyncio.run(notify.measure(root / "notify", amounts.told, amounts.writes, show))
    what = f"evolve: a tool that notifies {amounts.told} sessions"
    yield Row(f"{what}, its turn", "ms", median(found, f"{amounts.told} sessions: the turn"))
    yield Row(f"{what}, all told", "ms", median(found, f"{amounts.told} sessions: all told"))


async def writing(root: Path, runs: int, show: Show) -> None:
    """Measure writes of a small workspace."""
    processes = process.Processes()
    try:
        one = evolve.Writing(root, processes, 0)
        await one.start()
        await evolve.measure(one, "write", runs, show)
        await one.engine.close()
    finally:
        await processes.close()


def median(found: dict[str, Figure], what: str) -> float:
    """The median of a figure that was shown."""
    return statistics.median(found[what].values)
