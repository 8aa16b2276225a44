"""How the heartbeat of a workspace stands, and what a person orders of it, by a command or through the server."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from instar.plugins.evolve import settings
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.heartbeat import schedule
from instar.plugins.evolve.heartbeat.book import HeartbeatBook
from instar.plugins.evolve.heartbeat.owner import Owner
from instar.plugins.evolve.heartbeat.schedule import BeatEntry, Begun, Pause, ScheduleRefused, Tally
from instar.plugins.evolve.heartbeat.scheduler import STOPPED, SystemClock
from instar.plugins.evolve.history.timeline import moment
from instar.plugins.evolve.history.trailers import counted, one_line
from instar.plugins.evolve.install import NotChanged
from instar.plugins.evolve.person import who

LOOK: Final = 0.1
"""Seconds between two looks for the end of a beat."""
_GONE: Final = 100
"""Looks without a process that beats after which nobody waits for a beat any more."""
_SHOWN: Final = 5
"""Entries of the log that are shown."""


class Thresholds(msgspec.Struct, frozen=True):
    """When the heartbeat's session is cleaned, and how; None: never for that reason."""

    cleanup: settings.Cleanup
    count: int | None
    tokens: int | None


class HeartbeatStatus(msgspec.Struct, frozen=True):
    """How the heartbeat stands; times in ms since 1970.

    `every` is the interval (below 1: off; None: the settings cannot be used), `process` the one that beats, None for
    none, `session` the heartbeat's with its beats and tokens since it was cleaned, `running` the beat that runs, `last`
    the newest beat that ended, `log` the newest entries, oldest first.
    """

    workspace: str
    every: int | None
    next: int | None
    process: int | None
    paused: Pause | None
    running: Begun | None
    session: Tally
    thresholds: Thresholds | None
    last: BeatEntry | None
    log: list[BeatEntry]
    problems: list[str]

    def text(self) -> str:
        """Return it for a terminal."""
        lines = [("workspace", self.workspace), ("every", _every(self.every)), ("next", self._next())]
        if self.paused is not None:
            since = f"since {moment(self.paused.since)}: {self.paused.why}"
            lines.append(("paused", f"{since}; instar heartbeat resume ends that"))
        lines.append(("process", _process(self.process)))
        if self.running is not None:
            lines.append(("running", f"heartbeat {self.running.number} since {moment(self.running.at)}"))
        if self.session.session:
            lines.append(("session", self._session()))
        lines += [("log", line(one)) for one in self.log]
        lines += [("problem", problem) for problem in self.problems]
        return "\n".join(f"{name:11}{one_line(said)}" for name, said in lines)

    def _next(self) -> str:
        if self.every is not None and self.every < 1:
            return "none: heartbeats are off (heartbeat_ms)"
        if self.paused is not None:
            return "none: heartbeats are paused"
        if self.next is None:
            return "an interval after instar has begun to run on this workspace"
        late = "" if self.process else ", when instar serve runs here"
        return moment(self.next) + late

    def _session(self) -> str:
        said = self.session
        had = f"{said.session}: {counted(said.count, 'heartbeat')}, {counted(said.tokens, 'token')}"
        one = self.thresholds
        if one is None or one.cleanup == "none" or (one.count, one.tokens) == (None, None):
            return had
        limits = [counted(one.count, "heartbeat")] if one.count is not None else []
        limits += [counted(one.tokens, "token")] if one.tokens is not None else []
        return f"{had}; {one.cleanup} after {' or '.join(limits)}"


class Paused(msgspec.Struct, frozen=True):
    """Whether heartbeats are paused after an order, and why, or why they were."""

    paused: bool
    why: str = ""


def status(
    engine: EvolveEngine, chosen: settings.EvolveSettings | None, problems: list[str], stopped: int
) -> HeartbeatStatus:
    """Return how the heartbeat stands; `stopped` is when `instar stop` was, in ms, that still holds (0: none does)."""
    book = engine.storage.heartbeat
    state, log = book.state, book.entries(_SHOWN)
    beats = [one for one in book.entries() if one.kind in ("ran", "failed", "interrupted")]
    paused = state.paused
    if paused is None and stopped:
        paused = Pause(stopped, STOPPED)
    return HeartbeatStatus(
        workspace=str(engine.real.root),
        every=None if chosen is None else chosen.heartbeat_ms,
        next=None if paused is not None else state.due,
        process=Owner(book.folder).who(),
        paused=paused,
        running=state.beat,
        session=state.tally,
        thresholds=None
        if chosen is None
        else Thresholds(
            chosen.heartbeat_cleanup, chosen.heartbeat_cleanup_count, chosen.heartbeat_cleanup_tokens
        ),
        last=beats[-1] if beats else None,
        log=log,
        problems=[*engine.storage.database.notices, *problems],
    )


def chosen(
    engine: EvolveEngine, path: Path, environment: Mapping[str, str]
) -> tuple[settings.EvolveSettings | None, list[str]]:
    """Return the settings as they stand in the file `path`, and what is wrong with them."""
    ledger = engine.storage.ledger
    departed = [one.text for one in ledger.check() if one.path == "config/evolve.jsonc"]
    if not ledger.is_known():
        departed = []
    try:
        loaded = settings.load(path, environment)
    except settings.SettingsError as error:
        return None, [str(error), *departed]
    return loaded.settings, [*loaded.warnings, *departed]


def demand_on(chosen: settings.EvolveSettings | None, problems: list[str], path: Path) -> None:
    """Raise `NotChanged` where the settings, of the file `path`, let no heart beat."""
    if chosen is None:
        raise NotChanged(problems[0])
    if chosen.heartbeat_ms < 1:
        raise NotChanged(_OFF.format(chosen.heartbeat_ms, path))


async def ask(book: HeartbeatBook) -> BeatEntry:
    """Ask for a beat and wait for its end; return what the log says of it. Raises `NotChanged`."""
    owner, gone = Owner(book.folder), 0
    # Whoever takes over first writes down how a beat ended that a dead process had begun.
    while owner.who() is None and gone < _GONE:
        gone += 1
        await asyncio.sleep(LOOK)
    try:
        number = change(book, schedule.ask).number
    except ScheduleRefused as error:
        raise NotChanged(str(error)) from None
    while True:
        await asyncio.sleep(LOOK)
        ended = [one for one in book.entries(50) if one.number >= number and one.times and one.asked]
        if ended:
            return ended[-1]
        state = book.state
        if state.paused is not None and state.beat is None:
            raise NotChanged(f"no heart beats now: heartbeats were paused ({state.paused.why})")
        gone = 0 if owner.who() is not None else gone + 1
        if gone > _GONE:
            raise NotChanged("the instar that was to beat has ended: start instar serve, or try again")


def pause(book: HeartbeatBook, reason: str) -> Paused:
    """Let no heartbeat begin until they are resumed. Raises `OSError`."""
    why = f"by {who()}" + (f": {one_line(reason)}" if reason else "")
    state = change(book, lambda state, now: schedule.pause(state, now, why))
    return Paused(True, "" if state.paused is None else state.paused.why)


def resume(book: HeartbeatBook, stopped: int, lift: Callable[[], None]) -> Paused:
    """Let heartbeats go on; `lift` ends what an `instar stop` of the time `stopped` (0: none) keeps from beginning."""
    before = book.state.paused
    why = before.why if before is not None else STOPPED if stopped else ""
    # First the stop: a heart that still found it would be paused again.
    lift()
    change(book, schedule.resume)
    return Paused(False, why)


def change(book: HeartbeatBook, turn: schedule.Turn) -> schedule.State:
    """Turn the schedule as it stands now. Raises what `turn` raises, and `OSError`."""
    now = SystemClock().wall()
    return book.change(lambda state: turn(state, now))


def line(one: BeatEntry) -> str:
    """Return an entry of the log as one line."""
    spans = f"{one.number}" if one.times < 2 else f"{one.number} to {one.number + one.times - 1}"
    about = f"heartbeat {spans} " if one.times else ""
    said = f"{moment(one.at)}  {about}{one.kind}"
    if one.end is not None and one.kind != "skipped":
        said += f" in {(one.end - one.at) / 1000:.1f} s"
    if one.session:
        said += f" in {one.session}"
    if one.tokens or one.cost:
        said += f", {counted(one.tokens, 'token')}, ${one.cost:.4f}"
    return f"{said}: {one.why}" if one.why else said


_OFF: Final = (
    "heartbeats are off: heartbeat_ms is {} (in {} or EVOLVE_HEARTBEAT_MS); set it to the milliseconds between two, "
    "1800000 for half an hour"
)


def _every(every: int | None) -> str:
    if every is None:
        return "unknown: the settings cannot be used"
    return f"{every} ms ({every / 60_000:g} minutes)" if every > 0 else f"off (heartbeat_ms is {every})"


def _process(process: int | None) -> str:
    return f"{process}" if process else "none: nobody beats until instar serve (or instar run) is started"
