"""Turns as they run: started, waited for, aborted; each one a task that holds its session's lease."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from instar import changes, loop, title
from instar.account import STOPPED, announce
from instar.event import Idle
from instar.failure import message_error
from instar.instance import Instance
from instar.lease import RENEW_MS, SessionBusy
from instar.live import Live
from instar.message import WithParts
from instar.plugin import Busy, Invalid
from instar.store import StoreError
from instar.usage import Reached

log = logging.getLogger("instar.turn")


class Turns:
    """The turns of one instance, and the work that runs beside them (titles, forwarded events)."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._beside: set[asyncio.Task[None]] = set()
        self._closed = self._ending = False

    async def start(self, live: Live, asked: WithParts | None = None) -> None:
        """See that a turn runs in a session: the one that runs already takes up what was added.

        `asked` is a message that was just saved; a session's first one is given a title beside the turn.
        Raises `SessionBusy` when another process runs the session.
        """
        if asked is not None and title.is_wanted(live):
            live.accompany(self.spawn(title.give(self._instance, live, asked)))
        self.check(live)
        live.want()
        await self._instance.sessions.hold(live)
        if live.turn is not None:
            await self._instance.sessions.let_go(live)
            return
        live.begin(self._run(live))

    async def occupy(self, live: Live, work: Callable[[], Awaitable[None]]) -> None:
        """Run something else as a session's turn: it is busy, can be aborted, and looks at prompts afterwards.

        Raises `Busy` while a turn runs, and `SessionBusy` as `start`.
        """
        if self._closed:
            raise Invalid("instar is closing: no turn begins any more")
        await self._instance.sessions.hold(live)
        if live.turn is not None:
            await self._instance.sessions.let_go(live)
            raise Busy(live.id, "runs nothing else: wait until its turn has ended, or abort it")
        live.begin(self._run(live, work))

    def check(self, live: Live) -> None:
        """See that a turn may begin in a session, or one runs. Raises `Invalid` once the end has come near.

        While turns are drained, those that sub-agents do for them may still begin.
        """
        if self._closed or (self._ending and live.turn is None and live.session.parent_id is None):
            raise Invalid("instar is closing: no turn begins any more")

    async def wait(self, live: Live) -> None:
        """Wait until no turn runs in a session. Cancelling the wait leaves the turn alone."""
        # A turn that was cancelled while it cleaned up is over as well; its cancellation is not the waiter's.
        while (turn := live.turn) is not None and not turn.done():
            await asyncio.wait([turn])

    async def abort(self, live: Live, why: str | None = None) -> bool:
        """End a session's turn and everything that belongs to it; True when one ran. `why`, if no person ends it.

        Where none runs yet, a prompt that plugins still look at is not taken.
        """
        turn = live.turn
        if turn is None:
            return await live.dismiss()
        if live.stop(why):
            # A task that is cancelled before its first step never runs: it would not clean up.
            await asyncio.sleep(0)
            live.cancel(turn)
        # A second abort only waits: cancelling again would cut the cleaning up short.
        await asyncio.wait([turn])
        return True

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside the turns; a failure is logged."""
        task = asyncio.create_task(_logged(work))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
        return task

    async def drain(self) -> None:
        """Let no turn begin but those of sub-agents, and wait until none runs. Cancelled, it leaves them alone."""
        self._ending = True
        while running := [live.turn for live in self._instance.sessions.running() if live.turn is not None]:
            await asyncio.wait(running)

    async def close(self, grace: float) -> None:
        """Abort every turn and what looks at prompts; give the work beside them `grace` seconds, then cancel it."""
        self._closed = self._instance.closed = True
        for live in self._instance.sessions.running():
            await self.abort(live)
        for live in self._instance.sessions.present():
            await live.dismiss()
        if self._beside:
            await asyncio.wait(self._beside, timeout=grace)
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)

    async def _run(self, live: Live, first: Callable[[], Awaitable[None]] | None = None) -> None:
        self._instance.halt.begin(live.id)
        beside = [asyncio.create_task(self._renew(live)), asyncio.create_task(self._watch(live))]
        try:
            if first is not None:
                await first()
            while live.take_up():
                await loop.run(self._instance, live)
        except asyncio.CancelledError:
            log.info("turn aborted session=%s", live.id)
            self._tell_stopped(live)
        except Exception as error:
            if live.deleted:  # what it still had to save has no session to lie in
                log.info("turn ended with its session session=%s", live.id)
            else:
                log.error("turn failed session=%s", live.id, exc_info=error)
                self._instance.sessions.fail(live, message_error(error, ""))
        finally:
            for task in beside:
                task.cancel()
            await self._finish(live)

    async def _finish(self, live: Live) -> None:
        live.finish()
        self._instance.halt.finish(live.id)
        self._instance.sessions.set_status(live, Idle())
        if live.wanted and not self._closed:
            # Something was added while the turn failed or was aborted: it is not lost with it, and the next
            # turn has this one's hold.
            live.begin(self._run(live))
        else:
            if not live.deleted:
                await _logged(changes.summarise(self._instance, live))
            await self._instance.sessions.let_go(live)
            if self._instance.snapshot.is_due():
                self.spawn(self._instance.snapshot.cleanup())

    def _tell_stopped(self, live: Live) -> None:
        """Publish that `instar stop` ended the turn, if it did."""
        if (why := self._instance.halt.why(live.id)) is not None:
            reached = Reached("stop", live.origin.name, why, "Send another message to go on.")
            announce(self._instance, live.id, reached)

    async def _watch(self, live: Live) -> None:
        """End a turn that runs for longer than it may, whatever it is waiting for."""
        minutes = self._instance.limits.minutes
        if minutes is None:
            return
        while True:
            left = minutes * 60 - live.quiet()
            if left <= 0:
                break
            await asyncio.sleep(left)
        message = f"it ran for {minutes:g} minutes, limits.turn.minutes allows no more"
        reached = Reached("limits.turn.minutes", live.origin.name, message)
        log.warning("limit reached session=%s limit=%s", live.id, reached.limit)
        announce(self._instance, live.id, reached)
        await self.abort(live, f"{STOPPED}{message}.")

    async def _renew(self, live: Live) -> None:
        """Keep the lease; a turn that lost it must not write on."""
        while True:
            await asyncio.sleep(RENEW_MS / 1000)
            try:
                await self._instance.sessions.renew(live)
            except SessionBusy as error:
                log.error("lease lost session=%s: %s", live.id, error)
                if live.turn is not None:
                    live.cancel(live.turn)
                return
            except StoreError as error:
                # The lease lasts three times as long as this waits: the next try may still save it.
                log.warning("lease not renewed session=%s: %s", live.id, error)


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception as error:
        log.error("background work failed", exc_info=error)
