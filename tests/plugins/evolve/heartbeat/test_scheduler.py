"""The heartbeat's scheduler: the real one over a real book, with a clock that the test moves."""

import asyncio
import logging
import os
import random
import resource
import signal
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from instar.plugins.evolve.database import Database
from instar.plugins.evolve.heartbeat import report, schedule
from instar.plugins.evolve.heartbeat.book import HeartbeatBook
from instar.plugins.evolve.heartbeat.owner import Owner
from instar.plugins.evolve.heartbeat.schedule import BeatOutcome, ScheduleRefused
from instar.plugins.evolve.heartbeat.scheduler import Scheduler, SystemClock
from instar.testing import FakeClock

MINUTE = 60_000
EVERY = 30 * MINUTE
START = 1_800_000_000_000
YEAR = 365 * 24 * 60 * MINUTE


class Killed(BaseException):
    """The process is killed here."""


class Stop(Exception):
    """The story has ended."""


class Time(FakeClock):
    """A clock that moves only when somebody waits; `meanwhile` may do things then."""

    def __init__(self) -> None:
        super().__init__(START)
        self.meanwhile = lambda: None

    def pass_by(self, ms: int) -> None:
        self.advance(ms / 1000)

    async def pause(self, wake: asyncio.Event, seconds: float) -> None:
        self.meanwhile()
        await super().pause(wake, seconds)


class House:
    """One workspace's heartbeat: each `process` is a new scheduler on the same folder."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.time = Time()
        self.runs = Counter()
        self.running = 0
        self.decided = 0
        self.every = EVERY
        self.busy = ""
        self.stopped = 0
        self.during = lambda begun: BeatOutcome("ses_1", 10, 0.5)
        self.written = folder.parent / "evolve.db-wal"
        self.book = HeartbeatBook(Database(folder.parent, durable=False), most=1 << 40)

    async def beat(self, begun):
        self.runs[begun.number] += 1
        assert self.running == 0, "two at once"
        self.running += 1
        try:
            return self.during(begun)
        finally:
            self.running -= 1

    async def _busy(self):
        self.decided += 1
        return self.busy

    def process(self, look=3600.0) -> Scheduler:
        book = HeartbeatBook(Database(self.folder.parent, durable=False), most=1 << 40)
        return Scheduler(
            book,
            Owner(self.folder),
            self.beat,
            lambda: self.every,
            self._busy,
            self.time,
            look,
            lambda: self.stopped,
        )

    async def until(self, condition, look=3600.0):
        """Run one process until `condition` holds while it waits."""

        def end():
            if condition():
                raise Stop

        self.time.meanwhile = end
        with pytest.raises(Stop):
            await self.process(look).run()

    @property
    def log(self):
        return [(entry.kind, entry.number, entry.times) for entry in self.book.entries()]


@pytest.fixture
def house(tmp_path):
    return House(tmp_path / "heartbeat")


def accounted(entries):
    """The occurrences that the log is about; each stands in it once and none is left out."""
    spans = sorted((entry.number, entry.number + entry.times) for entry in entries if entry.times)
    assert not spans or spans[0][0] == 0
    assert all(end == begin for (_, end), (begin, _) in pairwise(spans))
    return spans[-1][1] if spans else 0


class Weather:
    """What befalls a heartbeat: clocks that are set, sleep, kills, busy sessions, failures, pauses."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.dice = random.Random(7)
        house.time.meanwhile, house.during = self.meanwhile, self.during

    def meanwhile(self):
        time, chance = self.house.time, self.dice.random()
        if chance < 0.02:
            time.now += self.dice.choice((-1, 1)) * self.dice.choice((10 * MINUTE, 7 * 60 * MINUTE, YEAR))
        elif chance < 0.04:
            time.pass_by(self.dice.randrange(5 * EVERY))
        elif chance < 0.045:
            raise Killed
        elif chance < 0.1:
            self.house.busy = self.dice.choice(("session ses_2 is busy", "", "", ""))
        elif chance < 0.105:
            other = HeartbeatBook(Database(self.house.folder.parent, durable=False), most=1 << 40)
            other.change(self.dice.choice((_pausing, _pausing, _asking)))
        if self.house.decided >= 100_000:
            raise Stop

    def during(self, begun):
        chance = self.dice.random()
        self.house.time.pass_by(self.dice.randrange(2 * MINUTE if chance < 0.97 else 3 * EVERY))
        if chance < 0.02:
            raise Killed
        if chance < 0.05:
            raise RuntimeError("the model is away")
        return BeatOutcome("ses_1", 1, error="401" if chance < 0.07 else "")


def _pausing(state):
    if state.paused is None:
        return schedule.pause(state, START, "a person")
    return schedule.resume(state, START)


def _asking(state):
    try:
        return schedule.ask(state, START)
    except ScheduleRefused:
        return schedule.Turned(state, [])


@pytest.mark.slow
async def test_of_100_000_heartbeats_each_runs_once_or_its_skip_is_written_down(house, caplog):
    caplog.set_level(logging.CRITICAL, "instar.evolve")
    weather, time, lives = Weather(house), house.time, 0
    while house.decided < 100_000:
        lives += 1
        try:
            await house.process().run()
        except Killed:
            time.pass_by(weather.dice.randrange(3 * EVERY) if weather.dice.random() < 0.5 else 0)
        except Stop:
            break
    house.book.change(lambda state: schedule.opened(state, time.now))
    entries = house.book.entries()
    assert accounted(entries) == house.book.state.number >= 100_000
    assert set(house.runs.values()) == {1}
    told = {entry.number for entry in entries if entry.kind in ("ran", "failed", "interrupted")}
    assert told == set(house.runs)
    assert {entry.kind for entry in entries} == {
        *("ran", "failed", "interrupted", "skipped", "paused", "resumed")
    }
    assert all(entry.why for entry in entries if entry.kind in ("skipped", "failed", "interrupted"))
    assert lives > 100
    # Nothing silences the heart for good: most of what came due are beats.
    assert len(told) > 50_000


async def test_a_beat_runs_each_interval_and_the_log_says_what_it_cost(house):
    await house.until(lambda: len(house.runs) == 3)
    entries = house.book.entries()
    assert [entry.at for entry in entries] == [START + EVERY, START + 2 * EVERY, START + 3 * EVERY]
    assert {(entry.kind, entry.session, entry.tokens, entry.cost) for entry in entries} == {
        ("ran", "ses_1", 10, 0.5)
    }
    assert house.book.state.tally.count == 3
    assert house.book.state.last == START + 3 * EVERY


async def test_after_a_restart_the_next_beat_is_due_when_it_was_due(house):
    await house.until(lambda: house.time.now >= START + 20 * MINUTE, look=60)
    house.time.uptime = 0
    house.time.pass_by(5 * MINUTE)
    await house.until(lambda: house.runs)
    assert house.book.entries()[0].at == START + EVERY


async def test_of_the_beats_that_were_due_while_nothing_ran_one_runs(house):
    await house.until(lambda: True)
    house.time.pass_by(10 * EVERY + MINUTE)
    await house.until(lambda: house.runs)
    assert house.log == [("skipped", 0, 9), ("ran", 9, 1)]
    assert len(house.runs) == 1
    assert "overdue" in house.book.entries()[0].why


@pytest.mark.parametrize("by", [-YEAR, -30 * MINUTE, -10 * MINUTE, 10 * MINUTE, 30 * MINUTE, YEAR])
async def test_a_clock_that_is_set_neither_silences_the_heart_nor_makes_it_race(house, by):
    await house.until(lambda: house.time.now >= START + 10 * MINUTE, look=60)
    process, jumped, waited = house.process(look=60), [], house.time.steady()

    def meanwhile():
        if not jumped:
            jumped.append(True)
            house.time.now += by
        if len(house.runs) == 2:
            raise Stop

    house.time.meanwhile = meanwhile
    with pytest.raises(Stop):
        await process.run()
    took = (house.time.steady() - waited) * 1000
    assert EVERY - 2 * MINUTE <= took <= 2 * EVERY + 2 * MINUTE
    assert Counter(kind for kind, _, _ in house.log)["ran"] == 2


async def test_a_clock_that_was_put_back_while_nothing_ran_makes_nobody_wait_for_years(house):
    await house.until(lambda: len(house.runs) == 1)
    house.time.now -= YEAR
    before = house.time.steady()
    await house.until(lambda: len(house.runs) == 2)
    assert (house.time.steady() - before) * 1000 <= EVERY


async def test_a_machine_that_slept_beats_once_when_it_wakes(house):
    slept = []

    def end():
        if not slept and len(house.runs) == 1:
            slept.append(True)
            house.time.pass_by(8 * 60 * MINUTE)
        if len(house.runs) == 3:
            raise Stop

    house.time.meanwhile = end
    with pytest.raises(Stop):
        await house.process().run()
    assert [kind for kind, _, times in house.log] == ["ran", "skipped", "ran", "ran"]


async def test_a_beat_is_skipped_with_the_reason_while_another_session_works(house):
    house.busy = "session ses_2 (work) is busy"
    await house.until(lambda: len(house.log) == 2)
    house.busy = ""
    await house.until(lambda: house.runs)
    assert [kind for kind, _, _ in house.log] == ["skipped", "skipped", "ran"]
    assert house.book.entries()[0].why == "session ses_2 (work) is busy"


async def test_a_beat_is_skipped_where_it_cannot_be_told_who_works(house):
    async def broken():
        raise RuntimeError("no answer")

    house._busy = broken
    await house.until(lambda: house.log)
    assert house.log == [("skipped", 0, 1)]
    assert "no answer" in house.book.entries()[0].why


async def test_what_came_due_while_a_long_beat_ran_is_skipped(house):
    def during(begun):
        house.time.pass_by(2 * EVERY + MINUTE if begun.number == 0 else 0)
        return BeatOutcome("ses_1")

    house.during = during
    await house.until(lambda: len(house.runs) == 2)
    assert house.log == [("ran", 0, 1), ("skipped", 1, 2), ("ran", 3, 1)]
    assert house.book.entries()[2].at == START + 4 * EVERY


async def test_a_beat_that_fails_is_written_down_and_the_next_one_runs(house):
    def during(begun):
        if begun.number == 0:
            raise RuntimeError("the model is away")
        return BeatOutcome("ses_1", error="429") if begun.number == 1 else BeatOutcome("ses_1")

    house.during = during
    await house.until(lambda: len(house.runs) == 3)
    assert [(entry.kind, entry.why) for entry in house.book.entries()] == [
        ("failed", "RuntimeError: the model is away"),
        ("failed", "429"),
        ("ran", ""),
    ]


async def test_a_stop_pauses_once_outlasts_a_restart_and_what_came_due_is_skipped_when_it_is_resumed(house):
    house.stopped = START
    await house.until(lambda: house.time.now > START + 3 * EVERY)
    await house.until(lambda: house.time.now > START + 4 * EVERY)
    assert not house.runs
    assert house.log == [("paused", 0, 0)]
    house.stopped = 0
    house.book.change(lambda state: schedule.resume(state, house.time.now))
    await house.until(lambda: len(house.runs) == 1)
    assert [kind for kind, _, _ in house.log] == ["paused", "skipped", "resumed", "ran"]
    assert accounted(house.book.entries()) == house.book.state.number


async def test_a_beat_that_a_crash_cut_short_is_not_run_again(house):
    def during(begun):
        raise Killed

    house.during = during
    with pytest.raises(Killed):
        await house.process().run()
    assert house.book.state.beat is not None
    house.during = lambda begun: BeatOutcome("ses_1")
    await house.until(lambda: len(house.runs) == 2)
    assert house.log == [("interrupted", 0, 1), ("ran", 1, 1)]
    assert set(house.runs.values()) == {1}


async def test_cancelling_ends_a_beat_and_says_so(tmp_path):
    begun, ended = asyncio.Event(), []

    async def beat(one):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(one.number)

    async def free():
        return ""

    owner = Owner(tmp_path)
    book = HeartbeatBook(Database(tmp_path))
    scheduler = Scheduler(book, owner, beat, lambda: -1, free)
    report.change(book, schedule.ask)
    task = asyncio.create_task(scheduler.run())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [0]
    assert not owner.held
    assert [entry.kind for entry in book.entries()] == ["interrupted"]
    assert book.state.beat is None


async def test_asking_wakes_the_scheduler_even_where_the_timer_is_off(tmp_path):
    ran = asyncio.Event()

    async def beat(one):
        ran.set()
        return BeatOutcome("ses_1")

    async def busy():
        return "session ses_2 is busy"

    book = HeartbeatBook(Database(tmp_path))
    waits = asyncio.Event()

    class Watched(SystemClock):
        async def pause(self, wake, seconds):
            waits.set()
            await super().pause(wake, seconds)

    scheduler = Scheduler(book, Owner(tmp_path), beat, lambda: -1, busy, Watched(), look=3600)
    task = asyncio.create_task(scheduler.run())
    await waits.wait()
    report.change(book, schedule.ask)
    scheduler.wake()
    async with asyncio.timeout(5):
        await ran.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [(entry.kind, entry.asked, entry.due) for entry in book.entries()] == [("ran", True, None)]


async def test_nothing_beats_where_the_setting_says_so(house):
    house.every = -1
    await house.until(lambda: house.time.now > START + YEAR, look=YEAR / 10_000)
    assert not house.runs
    assert house.log == []
    house.every = EVERY
    await house.until(lambda: house.runs)
    assert house.book.entries()[0].at <= house.time.now


async def test_a_shorter_interval_holds_at_once_and_counts_from_the_last_beat(house):
    await house.until(lambda: house.time.now >= START + EVERY + 10 * MINUTE, look=60)
    house.every = 15 * MINUTE
    await house.until(lambda: len(house.runs) == 2)
    assert house.book.entries()[1].at == START + EVERY + 15 * MINUTE


async def test_a_beat_that_is_asked_for_takes_the_place_of_the_next_one(house):
    await house.until(lambda: house.time.now >= START + 20 * MINUTE, look=60)
    asked_at = house.time.now
    house.book.change(lambda state: schedule.ask(state, asked_at))
    await house.until(lambda: len(house.runs) == 2)
    first, second = house.book.entries()
    assert (first.asked, second.asked) == (True, False)
    assert asked_at <= first.at <= asked_at + MINUTE
    assert second.at == first.at + EVERY


async def test_one_of_two_processes_beats_and_the_other_takes_over(house):
    here, there = Owner(house.folder), Owner(house.folder)
    assert here.take()
    assert not there.take()
    assert there.who() == os.getpid()
    other = house.process(look=60)

    def meanwhile():
        if here.held and house.time.now > START + 5 * EVERY:
            here.release()
        if len(house.runs) == 2:
            raise Stop

    house.time.meanwhile = meanwhile
    with pytest.raises(Stop):
        await other.run()
    assert house.book.entries()[0].at > START + 5 * EVERY


def test_the_death_of_the_process_that_beats_makes_room(tmp_path):
    code = (
        "import sys, pathlib; from instar.plugins.evolve.heartbeat.owner import Owner\n"
        "owner = Owner(pathlib.Path(sys.argv[1])); print(owner.take(), flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout.readline() == b"True\n"
        owner = Owner(tmp_path)
        assert not owner.take()
        assert owner.who() == child.pid
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert owner.who() is None
    assert owner.take()


async def test_a_beat_that_cannot_be_written_down_does_not_begin(house):
    await house.until(lambda: True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # From here on a write that makes the file longer is refused, as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (house.written.stat().st_size + 5, hard))
    before = house.book.state, house.log
    try:
        await house.until(lambda: house.time.now > START + 3 * EVERY)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not house.runs
    assert (house.book.state, house.log) == before
    await house.until(lambda: house.runs)
    (skipped, first, times), ran = house.log
    assert (skipped, first, ran) == ("skipped", 0, ("ran", times, 1))
    assert times >= 2


async def test_a_beat_whose_end_cannot_be_written_down_keeps_the_next_one_waiting(house):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def during(begun):
        if begun.number == 0:
            size = house.written.stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        return BeatOutcome("ses_1")

    house.during = during
    try:
        await house.until(lambda: house.time.now > START + 3 * EVERY)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert set(house.runs) == {0}
    await house.until(lambda: len(house.runs) == 2)
    assert house.log[0][:2] == ("interrupted", 0)
    assert set(house.runs.values()) == {1}
