"""Workers on PostgreSQL beside one server on SQLite: `python -m bench.workers`; Debian's `postgresql` is needed.

The turns of 64 sessions at once, spread over the workers; what one step and one turn cost a single session; and what a
turn leaves in the database. All is as shipped but for snapshots, as in `bench.beside`, whose figures of opencode stand
beside these.
"""

import itertools
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psycopg
from tests import postgresql

from bench import contender
from bench.beside import READ, crowd
from bench.contender import Contender, House, modelled
from bench.figure import Figure, Show, play

SESSIONS = 64
EACH = 3
CALLS = 10
TURNS = 100
"""Turns after which the database is looked at."""
STATISTICS = 1.5
"""Seconds after which PostgreSQL's statistics have what was done."""
SETTINGS = ("shared_buffers=128MB", "max_connections=200")


class Workers:
    """Several servers of one database, met as one: each session at the worker that made it."""

    def __init__(self, servers: Sequence[Contender]) -> None:
        self._next = itertools.cycle(servers)
        self._of: dict[str, Contender] = {}

    def session(self) -> str:
        """Make a session at the next worker."""
        server = next(self._next)
        made = server.session()
        self._of[made] = server
        return made

    def turn(self, session: str) -> float:
        """Prompt, and return the seconds until the answer."""
        return self._of[session].turn(session)


def measure(root: Path, rounds: int, show: Show) -> None:
    """Measure SQLite, then 1, 2 and 4 workers."""
    cluster = postgresql.cluster(SETTINGS)
    with modelled() as url:
        settings = contender.settings(url, snapshot=False)
        for what, count in (("SQLite", 1), ("1 worker", 1), ("2 workers", 2), ("4 workers", 4)):
            house = House(root / what, contender.instar(), settings)
            database = cluster.database() if "worker" in what else None
            given = ("--database", database) if database else ()
            with ExitStack() as stack:
                servers = [stack.enter_context(house.serving(*given)) for _ in range(count)]
                if count == 1:
                    _alone(what, servers[0], rounds, show)
                    if database:
                        _left(what, servers[0], database, show)
                _crowd(what, servers, rounds, show)


def _alone(what: str, server: Contender, rounds: int, show: Show) -> None:
    session = server.session()
    took = [server.turn(session) * 1000 for _ in range(rounds * 10 + 2)][2:]
    show(Figure(f"{what}: a turn of one step", took, "ms"))
    steps = []
    for _ in range(rounds + 1):
        # Each call differs from the last: three like ones in a row would ask a person (doom_loop).
        text = "\n".join(READ.replace("NUMBER", str(number + 1)) for number in range(CALLS))
        steps.append(server.turn(server.session(), text) * 1000 / CALLS)
    show(Figure(f"{what}: a step with a call of read", steps[1:], "ms"))


def _left(what: str, server: Contender, database: str, show: Show) -> None:
    """What turns of one step, in sessions of ten, leave in the database."""
    with psycopg.connect(database, autocommit=True) as connection:
        before = _sizes(connection)
        for _ in range(TURNS // 10):
            session = server.session()
            for _ in range(10):
                server.turn(session)
        names = ("rows", "commits", "reads", "data", "log (WAL)")
        for name, value, first in zip(names, _sizes(connection), before, strict=True):
            unit, scale = ("kB", 1000) if name in names[3:] else ("", 1)
            show(Figure(f"{what}: {name} of a turn", [(value - first) / scale / TURNS], unit))


def _sizes(connection: "psycopg.Connection[tuple[int]]") -> list[int]:
    time.sleep(STATISTICS)
    connection.execute("VACUUM ANALYZE")
    names = [
        str(row[0])
        for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    ]
    return [
        sum(connection.execute(f"SELECT {ask}").fetchall()[0][0] for ask in asks)
        for asks in (
            [f"count(*) FROM {name}" for name in names],
            # A transaction that reads is rolled back.
            ["xact_commit FROM pg_stat_database WHERE datname = current_database()"],
            ["xact_rollback FROM pg_stat_database WHERE datname = current_database()"],
            [f"pg_total_relation_size('{name}')" for name in names],
            ["(pg_current_wal_lsn() - '0/0')::bigint"],
        )
    ]


def _crowd(what: str, servers: Sequence[Contender], rounds: int, show: Show) -> None:
    rates: list[float] = []
    took: list[float] = []
    used: list[float] = []
    for number in range(rounds + 1):
        for server in servers:
            server.rest()
        before = [server.cpu() for server in servers]
        begun = time.perf_counter()
        rate, times = crowd(Workers(servers), SESSIONS, EACH)
        seconds = time.perf_counter() - begun
        if number:
            rates.append(rate)
            took += times
            spent = sum(server.cpu() - first for server, first in zip(servers, before, strict=True))
            used.append(spent / seconds * 100)
    show(Figure(f"{what}: {SESSIONS} sessions at once", rates, "/s"))
    show(Figure(f"{what}: a turn of these, p50", [statistics.median(took)], "ms"))
    show(Figure(f"{what}: a turn of these, p99", [statistics.quantiles(took, n=100)[98]], "ms"))
    show(Figure(f"{what}: processor of all workers", used, "%"))


if __name__ == "__main__":
    play("bench.workers", __doc__, measure, rounds=(3, "rounds of each measurement"))
