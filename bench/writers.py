"""What several processes write to one database: `python -m bench.writers`; Debian's `postgresql` is needed.

Each process has a `Store` and `SESSIONS` sessions, each of which commits one step after another: an answer, a part and
their events. The write lock of PostgreSQL gives the events of all processes one order; its price is the difference to
a run in which nobody takes it, where that order does not hold.
"""

import asyncio
import contextlib
import multiprocessing
import statistics
import time
from pathlib import Path

from bench.figure import Figure, Show, play
from instar.event import MessageUpdated, PartUpdated, make
from instar.message import AnswerTime, Assistant, MessagePath, Session, SessionTime, TextPart, Tokens
from instar.store import PutMessage, PutPart, PutProject, PutSession
from instar.store.store import Store, open_store
from instar.wire import ids

SESSIONS = 16
TEXT = "word " * 200
DURABLE = ("shared_buffers=128MB",)
WAITS = {"a commit waits for the disk": (), "for the system": ("synchronous_commit=off",)}


def unlocked() -> None:
    """From here on nobody in this process takes the write lock."""
    from instar.store import postgresql

    taken = postgresql.PostgresConnection._lock

    def lock(self: "postgresql.PostgresConnection", number: int) -> None:
        if number != postgresql._WRITING:
            taken(self, number)

    postgresql.PostgresConnection._lock = lock  # type: ignore[method-assign]


def writes(where: Path | str, locks: bool, seconds: float) -> tuple[int, list[float]]:
    """Commit steps for `seconds`; how many, and the ms of each."""
    if not locks:
        unlocked()
    return asyncio.run(_writes(where, seconds))


async def _writes(where: Path | str, seconds: float) -> tuple[int, list[float]]:
    store = await open_store(where, lambda _: None)
    took: list[float] = []
    sessions = [ids.new("ses") for _ in range(SESSIONS)]
    await store.commit([PutProject("global", "/", None, 1)])
    until = time.perf_counter() + seconds
    await asyncio.gather(*(_session(store, one, until, took) for one in sessions))
    await store.close()
    return len(took), took


async def _session(store: Store, name: str, until: float, took: list[float]) -> None:
    times = SessionTime(created=1, updated=1)
    session = Session(
        id=name, slug="s", project_id="global", directory="/", title="t", version="1", time=times
    )
    await store.commit([PutSession(session)])
    while (begun := time.perf_counter()) < until:
        answer = Assistant(
            id=ids.new("msg"),
            session_id=name,
            time=AnswerTime(created=1),
            parent_id="msg_0",
            model_id="m",
            provider_id="p",
            mode="build",
            agent="build",
            path=MessagePath(cwd="/", root="/"),
            cost=0.0,
            tokens=Tokens.zero(),
        )
        part = TextPart(id=ids.new("prt"), session_id=name, message_id=answer.id, text=TEXT)
        events = [
            make(MessageUpdated(session_id=name, info=answer)),
            make(PartUpdated(session_id=name, part=part, time=1)),
        ]
        await store.commit([PutMessage(answer), PutPart(part)], events)
        took.append((time.perf_counter() - begun) * 1000)


def together(where: Path | str, processes: int, locks: bool, seconds: float) -> tuple[float, list[float]]:
    """Let so many processes write at once; commits a second, and the ms of each."""
    context = multiprocessing.get_context("spawn")
    with contextlib.closing(context.Pool(processes)) as pool:
        found = pool.starmap(writes, [(where, locks, seconds)] * processes)
    return sum(count for count, _ in found) / seconds, [one for _, took in found for one in took]


def measure(root: Path, seconds: int, show: Show) -> None:
    """Measure SQLite, then PostgreSQL with and without its lock."""
    from tests import postgresql

    for processes in (1, 2, 4):
        rate, took = together(root / f"of{processes}.db", processes, True, seconds)
        _figures(f"SQLite, {processes} at once", rate, took, show)
    for waits, settings in WAITS.items():
        cluster = postgresql.cluster((*DURABLE, *settings))
        for processes in (1, 2, 4):
            for locks in (True, False):
                rate, took = together(cluster.database(), processes, locks, seconds)
                lock = "locked" if locks else "no lock"
                _figures(f"PostgreSQL ({waits}), {processes} at once, {lock}", rate, took, show)


def _figures(what: str, rate: float, took: list[float], show: Show) -> None:
    show(Figure(f"{what}: commits", [rate], "/s"))
    show(Figure(f"{what}: p50", [statistics.median(took)], "ms"))
    show(Figure(f"{what}: p99", [statistics.quantiles(took, n=100)[98]], "ms"))


if __name__ == "__main__":
    play("bench.writers", __doc__, measure, seconds=(5, "seconds of each run"))
