"""Turns as they run: started, waited for, aborted; each one a task that holds its session's lease."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from instar import changes, loop, title
from instar.event import Idle
from instar.failure import message_error
from instar.instance import Instance
from instar.lease import LEASE_MS, SessionBusy
from instar.live import Live
from instar.message import WithParts
from instar.store import StoreError

log = logging.getLogger("instar.turn")


class Turns:
    """The turns of one instance, and the work that runs beside them (titles, forwarded events)."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._beside: set[asyncio.Task[None]] = set()
        self._closed = False

    async def start(self, live: Live, asked: WithParts | None = None) -> None:
        """See that a turn runs in a session: the one that runs already takes up what was added.

        `asked` is a message that was just saved; a session's first one is given a title beside the turn.
        Raises `SessionBusy` when another process runs the session.
        """
        if asked is not None and title.is_wanted(live):
            live.accompany(self.spawn(title.give(self._instance, live, asked)))
        live.want()
        await self._instance.sessions.hold(live)
        if live.turn is not None:
            await self._instance.sessions.let_go(live)
            return
        live.begin(self._run(live))

    async def wait(self, live: Live) -> None:
        """Wait until no turn runs in a session. Cancelling the wait leaves the turn alone."""
        while live.turn is not None:
            await asyncio.shield(live.turn)

    async def abort(self, live: Live) -> bool:
        """End a session's turn and everything that belongs to it; True when one ran."""
        turn = live.turn
        if turn is None:
            return False
        if live.stop():
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

    async def close(self, grace: float) -> None:
        """Abort every turn, then give the work beside them `grace` seconds before it is cancelled."""
        self._closed = True
        for live in self._instance.sessions.running():
            await self.abort(live)
        if self._beside:
            await asyncio.wait(self._beside, timeout=grace)
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)

    async def _run(self, live: Live) -> None:
        renewing = asyncio.create_task(self._renew(live))
        try:
            while live.take_up():
                await loop.run(self._instance, live)
        except asyncio.CancelledError:
            log.info("turn aborted session=%s", live.id)
        except Exception as error:
            log.error("turn failed session=%s", live.id, exc_info=error)
            self._instance.sessions.fail(live, message_error(error, ""))
        finally:
            renewing.cancel()
            await self._finish(live)

    async def _finish(self, live: Live) -> None:
        live.finish()
        self._instance.sessions.set_status(live, Idle())
        if live.wanted and not self._closed:
            # Something was added while the turn failed or was aborted: it is not lost with it, and the next
            # turn has this one's hold.
            live.begin(self._run(live))
        else:
            await _logged(changes.summarise(self._instance, live))
            await self._instance.sessions.let_go(live)
            if self._instance.snapshot.is_due():
                self.spawn(self._instance.snapshot.cleanup())

    async def _renew(self, live: Live) -> None:
        """Keep the lease; a turn that lost it must not write on."""
        while True:
            await asyncio.sleep(LEASE_MS / 3000)
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
