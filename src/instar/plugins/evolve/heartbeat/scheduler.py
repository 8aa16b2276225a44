"""The scheduler: it waits, and begins the beats that `schedule` decides on.

One task. A beat is written down as begun before it runs, so that no crash makes it run twice; what cannot be written
does not begin. Cancelling the task (Ctrl-C, the end of instar) cancels a beat that runs and writes that down.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from instar.plugins.evolve.heartbeat import schedule
from instar.plugins.evolve.heartbeat.book import HeartbeatBook
from instar.plugins.evolve.heartbeat.owner import Owner
from instar.plugins.evolve.heartbeat.schedule import BeatOutcome, Begun, State, Turned
from instar.plugins.evolve.heartbeat.shared import SharedSchedule

log = logging.getLogger("instar.evolve")

LOOK: Final = 1.0
"""Seconds after which a waiting scheduler looks whether another process asked for a beat, paused, or died."""

STOPPED: Final = "instar stop"
"""Why heartbeats are paused after one."""


class SystemClock:
    """The machine's own time."""

    def wall(self) -> int:
        """Return the time in ms since 1970."""
        return time.time_ns() // 1_000_000

    async def pause(self, wake: asyncio.Event, seconds: float) -> None:
        """Wait until `wake` is set, `seconds` at most."""
        try:
            async with asyncio.timeout(seconds):
                await wake.wait()
        except TimeoutError:
            return


class Scheduler:
    """Beats on one workspace, for as long as this process is the one that may.

    `beat` runs one beat and returns what became of it. `every` is the interval in ms as the settings have it now (below
    1: off). `busy` says why a beat may not run now, "" when it may; it is asked only when one is due. `halted` is the
    time in ms of the ``instar stop`` that holds, 0 for none. `shared` is the schedule of the workers that share the
    workspace, None where there are none.
    """

    def __init__(
        self,
        book: HeartbeatBook,
        owner: Owner,
        beat: Callable[[Begun], Awaitable[BeatOutcome]],
        every: Callable[[], int],
        busy: Callable[[], Awaitable[str]],
        clock: SystemClock | None = None,
        look: float = LOOK,
        halted: Callable[[], int] = lambda: 0,
        shared: SharedSchedule | None = None,
    ) -> None:
        self._book = book
        self._owner = owner
        self._run_beat = beat
        self._every = every
        self._busy = busy
        self._clock = clock or SystemClock()
        self._look = look
        self._halted = halted
        self._shared = shared
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Beat until this is cancelled. A book that cannot be read or written is said, and tried again."""
        try:
            while True:
                try:
                    await self._live()
                except OSError as error:
                    log.error("heartbeat=stuck problem=%r", str(error))
                await self._pause(self._look)
        finally:
            if self._shared is not None and self._owner.held:
                await self._shared.meet(beats=False)
            self._owner.release()

    def wake(self) -> None:
        """Look now: the settings changed, or somebody asked for a beat, paused or resumed."""
        self._wake.set()

    # -- the task ---------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        """Hold the right to beat and use it; returns when another process has it."""
        if not self._owner.held:
            if not self._owner.take():
                return
            if self._shared is None:
                self._change(schedule.opened)
        while True:
            if self._shared is not None and not await self._shared.meet():
                await self._pause(self._look)
                continue
            state = await self._turn()
            if state.beat is not None:
                # Whoever else would take over has to know that it begins.
                if self._shared is None or await self._shared.meet():
                    await self._beat(state.beat)
                continue
            left = schedule.wait(state, self._clock.wall())
            await self._pause(self._look if left is None else min(left / 1000, self._look))

    async def _turn(self) -> State:
        every, state, now = self._every(), self._book.state, self._clock.wall()
        if schedule.set_every(state, every, now).state != state:
            state = self._change(lambda state, now: schedule.set_every(state, every, now))
        if state.paused is None and self._halted():
            # A person ends that, as any pause; so it must outlast this process.
            state = self._change(lambda state, now: schedule.pause(state, now, STOPPED))
        if not schedule.is_due(state, now):
            return state
        busy = await self._why_not()
        return self._change(lambda state, now: schedule.passed(state, now, busy))

    async def _why_not(self) -> str:
        try:
            return await self._busy()
        except Exception as error:
            log.exception("heartbeat=skipped")
            return f"it could not be told whether other sessions are busy: {error}"

    async def _beat(self, begun: Begun) -> None:
        renewing = asyncio.create_task(self._renew())
        try:
            outcome = await self._run_beat(begun)
        except asyncio.CancelledError:
            self._cut_short()
            raise
        except Exception as error:
            log.exception("heartbeat=%d failed", begun.number)
            outcome = BeatOutcome(error=f"{type(error).__name__}: {error}")
        finally:
            # Nothing is waited for: what came of the beat is written before anything can cut that short.
            renewing.cancel()
        while True:
            try:
                self._change(lambda state, now: schedule.ended(state, now, outcome))
                return
            except OSError as error:
                # It ran; as long as that is not written, no other may begin.
                log.error("heartbeat=%d unwritten=%r", begun.number, str(error))
                await self._pause(self._look)

    async def _renew(self) -> None:
        while self._shared is not None:
            await asyncio.sleep(self._look)
            await self._shared.meet()

    def _cut_short(self) -> None:
        try:
            self._change(
                lambda state, now: schedule.interrupted(state, now, "instar ended, or ended the beat")
            )
        except OSError as error:
            # Whoever takes over finds a beat without its end, and writes that down.
            log.error("heartbeat=cancelled unwritten=%r", str(error))

    def _change(self, turn: Callable[[State, int], Turned]) -> State:
        now = self._clock.wall()
        return self._book.change(lambda state: turn(state, now))

    async def _pause(self, seconds: float) -> None:
        await self._clock.pause(self._wake, seconds)
        self._wake.clear()
