"""What many workers on one database would do: `python -m bench.scale`; a simulation of queues.

Sessions prompt at random. A turn is a number of commits; before each its worker works for a while on its one core. A
commit waits for its worker's writer, which takes all that waits as one transaction, and for the database's write lock,
which one writer has at a time. A transaction costs the lock something, and so does each commit in it. Each transaction
wakes every worker of its database, which reads what is new. `--databases` divides the workers and their sessions among
so many.
"""

import heapq
import itertools
import random
import statistics
from collections import deque
from pathlib import Path
from typing import NamedTuple

from bench.figure import Figure, Show, play

COMMITS = 12
"""Commits of a turn."""
WORK = 8.8e-3 / COMMITS
"""Seconds of a worker's core before each: a turn's processor time by `bench.workers`, divided."""
TRANSACTION = 0.2e-3
COMMIT = 0.16e-3
"""Seconds for which the lock is held: for a transaction, and for each commit in it. `bench.writers` has the sum of one
transaction and sixteen commits, 2.8 ms; the division is a guess."""
WAKE = 0.1e-3
"""Seconds of a worker's core for each transaction of another one: to be woken and to read. A guess."""
SHARE = 0.9
"""So much of the lock's time is asked for at most."""
WAIT = 600
"""Seconds between the prompts of one session."""
TURNS = 4000


class Outcome(NamedTuple):
    """Turns a second, their p50 and p99 in seconds, and how busy the lock and a worker were."""

    rate: float
    middle: float
    late: float
    lock: float
    worker: float


Turn = tuple[float, int]
"""When it began, and its commits so far."""


class Simulation:
    """Let `rate` turns a second begin at `workers` of one database; `run` it once."""

    def __init__(self, workers: int, rate: float, seed: int = 1) -> None:
        self._rate = rate
        self._chance = random.Random(seed)
        self._order = itertools.count()
        self._events: list[tuple[float, int, str, int, Turn]] = []
        self._cores = [0.0] * workers
        self._used = [0.0] * workers
        self._waiting: list[deque[Turn]] = [deque() for _ in range(workers)]
        self._line: deque[int] = deque()
        """The workers that wait for the lock."""
        self._lock_free = self._lock_used = 0.0
        self._transactions = 0
        self._took: list[float] = []

    def run(self, turns: int) -> Outcome:
        """Return what came of it when `turns` have ended."""
        now = 0.0
        self._put(now, "prompt", 0, (0.0, 0))
        while len(self._took) < turns:
            now, _, what, worker, turn = heapq.heappop(self._events)
            getattr(self, f"_{what}")(now, worker, turn)
        late = statistics.quantiles(self._took, n=100)[98]
        busy = self._lock_used / now, max(self._used) / now
        return Outcome(turns / now, statistics.median(self._took), late, *busy)

    def _put(self, when: float, what: str, worker: int, turn: Turn) -> None:
        heapq.heappush(self._events, (when, next(self._order), what, worker, turn))

    def _prompt(self, now: float, worker: int, turn: Turn) -> None:
        self._work(now, self._chance.randrange(len(self._cores)), (now, 0))
        self._put(now + self._chance.expovariate(self._rate), "prompt", 0, turn)

    def _work(self, now: float, worker: int, turn: Turn) -> None:
        # The core reads what the other workers write meanwhile too.
        busy = WORK / max(0.02, 1 - self._transactions / max(now, 1.0) * WAKE)
        self._cores[worker] = max(self._cores[worker], now) + busy
        self._used[worker] += busy
        self._put(self._cores[worker], "written", worker, turn)

    def _written(self, now: float, worker: int, turn: Turn) -> None:
        self._waiting[worker].append(turn)
        if len(self._waiting[worker]) == 1:
            self._line.append(worker)
            self._put(max(now, self._lock_free), "write", worker, turn)

    def _write(self, now: float, worker: int, turn: Turn) -> None:
        if self._lock_free > now or not self._line:
            return
        worker = self._line.popleft()
        group = list(self._waiting[worker])
        self._waiting[worker].clear()
        held = TRANSACTION + COMMIT * len(group)
        self._lock_free, self._lock_used = now + held, self._lock_used + held
        self._transactions += 1
        for begun, done in group:
            self._put(self._lock_free, "durable", worker, (begun, done + 1))
        self._put(self._lock_free, "write", worker, turn)

    def _durable(self, now: float, worker: int, turn: Turn) -> None:
        if turn[1] == COMMITS:
            self._took.append(now - turn[0])
        else:
            self._work(now, worker, turn)


def measure(_: Path, sessions: int, workers: int, databases: int, show: Show) -> None:
    """Simulate one of the databases, at no more than it can bear."""
    asked = sessions / WAIT / databases
    borne = min(asked, SHARE / (COMMITS * (TRANSACTION + COMMIT)))
    found = Simulation(max(1, workers // databases), borne).run(TURNS)
    for what, value, unit in (
        ("asked", asked * databases, "/s"),
        ("simulated: what is asked, or what the lock can bear", found.rate * databases, "/s"),
        ("a turn, p50", found.middle * 1000, "ms"),
        ("a turn, p99", found.late * 1000, "ms"),
        ("the lock is held", found.lock * 100, "%"),
        ("the busiest worker's core, without what it reads", found.worker * 100, "%"),
        ("a worker's core reads what others write", found.rate * COMMITS * WAKE * 100, "%"),
    ):
        show(Figure(what, [value], unit))


if __name__ == "__main__":
    play(
        "bench.scale",
        __doc__,
        measure,
        sessions=(1_000_000, f"sessions, each of which prompts every {WAIT} seconds"),
        workers=(1000, "workers"),
        databases=(1, "databases"),
    )
