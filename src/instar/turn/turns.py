"""Turns as they run: admitted, started, waited for, aborted; each one a task that holds its session's lease.

`StopListener` ends them when `instar stop` comes, within a second.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from instar.event import AskedBy, Idle
from instar.limits.budget import (
    CallOwner,
    ReachedLimit,
)
from instar.limits.stop import RESUME, StopFileError
from instar.message import Origin, WithParts
from instar.plugin import Busy, Invalid, NotFound, PromptBody
from instar.session import changes
from instar.session.instance import Instance
from instar.session.state import SessionState
from instar.store import LeaseLost, StoreError, Write
from instar.store.lease import SessionBusy
from instar.tool import background
from instar.turn import loop
from instar.turn.compaction import last_answer
from instar.turn.model_call import STOPPED, announce, give_title, message_error, wants_title

log = logging.getLogger("instar.turn")


_SOON: Final = 0.1
"""Seconds between two looks while a turn runs."""
_IDLE: Final = 0.5
"""Seconds between two looks while none does: shells in the background may."""


def check_there(live: SessionState) -> None:
    """See that a session was not deleted meanwhile. Raises `NotFound`."""
    if live.deleted:
        raise NotFound(f"Session not found: {live.id}")


class Turns:
    """The turns of one instance, and the work that runs beside them (titles, forwarded events)."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._beside: dict[asyncio.Task[None], str] = {}
        self._closed = self._ending = False
        self.on_start: Callable[[], None] = lambda: None
        """Called when a turn begins."""

    async def admit(self, live: SessionState, origin: Origin, *, by_person: bool) -> None:
        """Check that nothing forbids a prompt's turn; a person's own prompt ends a stop. Raises `Invalid`.

        `by_person`: it came through a door, where nobody but a person prompts.
        """
        self.check(live)
        if (refused := self._instance.bars(live, origin)) is not None:
            raise Invalid(refused)
        if not origin.is_person:
            await self._check_calls(live, origin)
        why = self._instance.stops.why(live.id)
        if by_person:
            if why is not None:
                # What was stopped must not take this prompt for its own and go on.
                await self.abort(live)
            try:
                self._instance.stops.person_prompted(live.id)
            except StopFileError as error:
                raise Invalid(str(error)) from error
        elif why is not None:
            raise Invalid(f"session {live.id} waits until a person prompts it: {why}; {RESUME}")

    async def reset_counts(self, live: SessionState, origin: Origin, *, asks: bool) -> None:
        """Reset what is counted of a session that goes on by itself: a prompt of `origin` was saved.

        A person's resets all of its tree. Another one resets the session's own counts where it begins a turn (`asks`:
        an answer is wanted): what is said into a turn that runs must not free a hook that always continues, nor
        lengthen the turn.
        """
        if origin.is_person or (asks and live.turn is None):
            live.reset_counts()
        if origin.is_person:
            self._instance.budget.person_spoke(await self._instance.sessions.root_of(live))

    async def _check_calls(self, live: SessionState, origin: Origin) -> None:
        """Refuse a prompt that no person sent once its chain may call no model any more: it would fill the session."""
        whose = CallOwner(origin=origin, root_id=await self._instance.sessions.root_of(live))
        reached = self._instance.budget.in_a_row(self._instance.limits, whose)
        if reached is not None:
            announce(self._instance, live.id, reached)
            raise Invalid(f"{reached.message}. {reached.advice}")

    def wanted(self, live: SessionState, body: PromptBody) -> Sequence[Write]:
        """Return what is written with a prompt so that its turn is run: nothing where `start` does it."""
        return ()

    async def start(self, live: SessionState, asked: WithParts | None = None) -> None:
        """See that a turn runs in a session: the one that runs already takes up what was added.

        `asked` is a message that was just saved; a session's first one is given a title beside the turn.
        Raises `SessionBusy` when another process runs the session.
        """
        if asked is not None and wants_title(live):
            live.beside = self.spawn(give_title(self._instance, live, asked))
        self.check(live)
        live.wanted = True
        await self._instance.sessions.hold(live)
        if live.turn is not None:
            await self._instance.sessions.let_go(live)
            return
        live.begin(self._run(live))

    async def occupy(self, live: SessionState, work: Callable[[], Awaitable[None]]) -> None:
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

    def check(self, live: SessionState) -> None:
        """See that a turn may begin in a session, or one runs. Raises `Invalid` once the end has come near.

        While turns are drained, those that sub-agents do for them may still begin.
        """
        if self._closed or (self._ending and live.turn is None and live.session.parent_id is None):
            raise Invalid("instar is closing: no turn begins any more")

    async def wait(self, live: SessionState) -> None:
        """Wait until no turn runs in a session. Cancelling the wait leaves the turn alone."""
        # A turn that was cancelled while it cleaned up is over as well; its cancellation is not the waiter's.
        while (turn := live.turn) is not None and not turn.done():
            await asyncio.wait([turn])

    async def answer(self, live: SessionState, asked: WithParts) -> WithParts:
        """Wait for the turn of a prompt and return its last answer. Raises `NotFound`: the session was deleted."""
        await self.wait(live)
        check_there(live)
        return last_answer(live.history, asked.info.id).copy()

    async def abort(self, live: SessionState, why: str | None = None) -> bool:
        """End a session's turn and everything that belongs to it; True when one ran. `why`, if no person ends it.

        Where none runs yet, a prompt that plugins still look at is not taken.
        """
        turn = live.turn
        if turn is None:
            return await live.cancel_hooks()
        if live.stop(why):
            # A task that is cancelled before its first step never runs: it would not clean up.
            await asyncio.sleep(0)
            live.cancel(turn)
        # A second abort only waits: cancelling again would cut the cleaning up short.
        await asyncio.wait([turn])
        return True

    def spawn(self, work: Coroutine[Any, Any, None], session_id: str = "") -> asyncio.Task[None]:
        """Run something beside the turns, for a session if it is a sub-agent's work; a failure is logged."""
        task = asyncio.create_task(_logged(work))
        self._beside[task] = session_id
        task.add_done_callback(self._beside.pop)
        return task

    def end_behind(self, session_id: str) -> bool:
        """End the sub-agents that work for a session in the background, untold; True when there was one."""
        return sum(task.cancel() for task in self._working(session_id)) > 0

    async def wait_behind(self, live: SessionState) -> bool:
        """Wait for a session's sub-agents in the background, and for what comes of their work; True if any worked."""
        waited = False
        while working := self._working(live.id):
            await asyncio.wait(working)
            await self.wait(live)
            waited = True
        return waited

    def _working(self, session_id: str) -> list[asyncio.Task[None]]:
        return [task for task, whose in self._beside.items() if whose == session_id]

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
            await live.cancel_hooks()
        if self._beside:
            await asyncio.wait(self._beside, timeout=grace)
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)

    async def _run(self, live: SessionState, first: Callable[[], Awaitable[None]] | None = None) -> None:
        self._instance.stops.begin(live.id)
        self.on_start()
        beside: list[asyncio.Task[None]] = []
        if self._instance.limits.minutes is not None:
            beside.append(asyncio.create_task(self._watch(live, self._instance.limits.minutes)))
        # Most turns are over before their lease has to be renewed.
        renewing = asyncio.get_running_loop().call_later(
            self._instance.store.lease_ms / 3000,
            lambda: beside.append(asyncio.create_task(self._renew(live))),
        )
        try:
            with self._instance.children.lived():
                if first is not None:
                    await first()
                while live.take_wanted():
                    await self._instance.sessions.catch_up(live)
                    await loop.run(self._instance, live)
                await self._settle(live)
        except asyncio.CancelledError:
            log.info("turn aborted session=%s", live.id)
            self._tell_stopped(live)
        except LeaseLost as error:
            live.broken = True
            log.error("lease lost session=%s: %s", live.id, error)
        except Exception as error:
            if live.deleted:  # what it still had to save has no session to lie in
                log.info("turn ended with its session session=%s", live.id)
            else:
                live.broken = live.broken or isinstance(error, StoreError)
                log.error("turn failed session=%s", live.id, exc_info=error)
                self._instance.sessions.fail(live, message_error(error, ""))
        finally:
            renewing.cancel()
            for task in beside:
                task.cancel()
            await self._finish(live)

    async def _finish(self, live: SessionState) -> None:
        live.turn = None
        if live.broken:
            live.unread()
        self._instance.approvals.granted.pop(live.id, None)
        self._instance.stops.finish(live.id)
        goes_on = live.broken and self._instance.sessions.resumes
        if goes_on:
            # Nobody is told that the session is idle: another process, or this one, goes on with the turn.
            live.status = Idle()
        else:
            self._instance.sessions.set_status(live, Idle())
        if live.wanted and not self._closed:
            # Something was added while the turn failed or was aborted: it is not lost with it, and the next
            # turn has this one's hold.
            live.begin(self._run(live))
        else:
            await _logged(self._settle())
            if not (live.deleted or goes_on):
                await _logged(changes.summarise(self._instance, live))
            await _logged(self._instance.sessions.let_go(live))
            if self._instance.snapshot.is_due():
                self.spawn(self._instance.snapshot.cleanup())

    async def _settle(self, live: SessionState | None = None) -> None:
        """Decide about what changed of guarded places since the last call; without `live` nobody is asked."""
        places = self._instance.children.steering
        if places is None or not places.due:
            return
        # Start-up time: in most turns nothing of the kind changed.
        from instar.turn.steering import settle

        if live is None or not live.history:
            await settle(self._instance)
        else:
            caller = AskedBy(message_id=live.history[-1].info.id, call_id="")
            await settle(self._instance, live.id, caller)

    async def settle_outside(self) -> None:
        """Decide about what a child changed of guarded places; while a turn runs that one does."""
        if not self._instance.sessions.running():
            await self._settle()

    def _tell_stopped(self, live: SessionState) -> None:
        """Publish that `instar stop` ended the turn, if it did."""
        if (why := self._instance.stops.why(live.id)) is not None:
            reached = ReachedLimit("stop", live.origin.name, why, "Send another message to go on.")
            announce(self._instance, live.id, reached)

    async def _watch(self, live: SessionState, minutes: float) -> None:
        """End a turn that runs for longer than it may, whatever it is waiting for."""
        while True:
            left = minutes * 60 - live.quiet()
            if left <= 0:
                break
            await asyncio.sleep(left)
        message = f"it ran for {minutes:g} minutes, limits.turn.minutes allows no more"
        reached = ReachedLimit("limits.turn.minutes", live.origin.name, message)
        log.warning("limit reached session=%s limit=%s", live.id, reached.limit)
        announce(self._instance, live.id, reached)
        await self.abort(live, f"{STOPPED}{message}.")

    async def _renew(self, live: SessionState) -> None:
        """Keep the lease; a turn that lost it must not write on."""
        while True:
            try:
                await self._instance.sessions.renew(live)
            except SessionBusy as error:
                log.error("lease lost session=%s: %s", live.id, error)
                live.broken = True
                if live.turn is not None:
                    live.cancel(live.turn)
                return
            except StoreError as error:
                # The lease lasts three times as long as this waits: the next try may still save it.
                log.warning("lease not renewed session=%s: %s", live.id, error)
            await asyncio.sleep(self._instance.store.lease_ms / 3000)


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception as error:
        log.error("background work failed", exc_info=error)


class StopListener:
    """Ends the turns and the background commands of one instance when a stop holds for them."""

    def __init__(self, instance: Instance, turns: Turns) -> None:
        self._instance = instance
        self._turns = turns
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to listen."""
        self._tasks.append(asyncio.create_task(self._listen(), name="stopping"))
        if (shared := self._instance.stops.shared) is not None:
            # Beside `_listen`, which a server that does not answer must not hold up.
            self._tasks.append(asyncio.create_task(shared.follow(self._instance.store), name="reading stops"))

    async def close(self) -> None:
        """Listen no longer."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _listen(self) -> None:
        while True:
            try:
                await self._end()
            except Exception as error:
                # Who listens for the kill switch must go on listening.
                log.error("ending what was stopped failed", exc_info=error)
            await asyncio.sleep(_SOON if self._instance.sessions.running() else _IDLE)

    async def _end(self) -> None:
        """End what nothing may go on in: turns with their children, then what was left to run behind them."""
        why, children = self._instance.stops.why, self._instance.children
        running = [(live, why(live.id)) for live in self._instance.sessions.running()]
        ended = [(live, f"{STOPPED}{text}.") for live, text in running if text is not None]
        if ended:
            log.warning("stopped sessions=%s", ",".join(live.id for live, _ in ended))
        await asyncio.gather(
            *(self._turns.abort(live, text) for live, text in ended),
            *(background.end(children, one) for one in background.sessions(children) if why(one) is not None),
        )
