"""The sessions of a worker: a prompt is saved with the task that makes some worker run its turn.

A prompt to a session that another worker runs waits in the session's queue, which the turn that runs there takes up. A
task is done when nothing of its session is left to answer; who finds the session busy elsewhere looks again later.
"""

import logging
from collections.abc import Sequence

import msgspec

from instar import event, wire
from instar.approval.permissions import Approvals
from instar.approval.questions import Questions
from instar.cluster.asks import SharedApprovals, SharedQuestions, withdraw_all
from instar.cluster.engine import Engine
from instar.event import Busy, SessionStatus, make
from instar.limits.budget import RunningCalls
from instar.limits.stop import SharedStops
from instar.message import PERSON, Created, Origin, User, WithParts
from instar.plugin import Invalid, NotFound, PromptBody
from instar.project.workspace import Workspaces
from instar.runtime import Runtime
from instar.runtime.client import InProcessSessions
from instar.session.instance import Instance
from instar.session.state import SessionState, now
from instar.store import LeaseLost, Stored, Usage, Write
from instar.store.lease import SessionBusy, owner_name
from instar.store.relay import Relay
from instar.turn import loop, prompt
from instar.turn.compaction import last_answer
from instar.turn.turns import Turns
from instar.wire import ids

log = logging.getLogger("instar.cluster")


@event.declare("instar.session.abort", own=True)
class AbortWanted(event.OfSession):
    """A person ends a session's turn at whichever worker runs it."""


@event.declare("instar.provider.tried", own=True)
class ProviderTried(event.OfSession):
    """What came of a call, for all workers: a failure, of which so many in a row make a pause; 0: an answer."""

    provider_id: str
    failures: int


class SharedTurns(Turns):
    """The turns of one instance of a worker. Those of sub-agents run where their caller's does."""

    def __init__(self, instance: Instance, engine: Engine) -> None:
        super().__init__(instance)
        self._engine = engine

    def wanted(self, live: SessionState, body: PromptBody) -> Sequence[Write]:
        """Return the task of a prompt, also while a turn runs here: that may be over before the prompt is saved."""
        if body.no_reply or body.message_id is None or not _is_shared(live):
            return ()
        return [_task(self._engine, self._instance, live, body.message_id)]

    async def start(self, live: SessionState, asked: WithParts | None = None) -> None:
        """See that a turn runs: some worker's, if a prompt was saved with its task."""
        if asked is None or live.turn is not None or not _is_shared(live):
            await super().start(live, asked)

    async def answer(self, live: SessionState, asked: WithParts) -> WithParts:
        """Wait until a prompt was answered, wherever that is."""
        if not _is_shared(live):
            return await super().answer(live, asked)
        await self._engine.finished(asked.info.id)
        await self.wait(live)
        live = await self._instance.sessions.open(live.id)
        return last_answer(live.history, asked.info.id).copy()

    async def carry_on(self, session_id: str, stop: str) -> bool:
        """Run a session's turn until nothing is left to answer; False when another worker runs it, or none can here.

        `stop` was the last one when the prompt was let in: a later one keeps its turn from beginning.
        """
        sessions = self._instance.sessions
        try:
            live = await sessions.open(session_id)
            await sessions.hold(live)
        except NotFound:
            return True
        except SessionBusy:
            return False
        try:
            if live.turn is None:
                await withdraw_all(self._instance.store, session_id)
            if not await self._is_due(live):
                return True
            if await self._is_stopped(live, stop):
                return live.turn is None
            asked = loop.last_user(live.history)
            if asked is not None and live.turn is None and live.origin.is_person:
                await self.reset_counts(live, live.origin, asks=True)
            await super().start(live, None if asked is None else live.message(asked.id))
        except Invalid as error:
            log.info("not taken up session=%s: %s", session_id, error)
            return False
        except SessionBusy:
            return False
        finally:
            await sessions.let_go(live)
        await self.wait(live)
        if live.broken:
            return False
        # A turn that a limit or a person ended leaves what is queued; what `instar stop` ended waits for a person.
        waits = self._instance.stops.why(live.id) is not None
        return waits or not await self._instance.store.follow_ups(live.id)

    def leave(self) -> None:
        """Let every turn that is a task end before its next step: another worker goes on with it."""
        claimed = self._engine.claimed()
        for live in self._instance.sessions.running():
            live.leaves = live.id in claimed

    async def close(self, grace: float) -> None:
        """Break the turns off that leave, as if this worker were lost, and abort the others."""
        for live in self._instance.sessions.running():
            if live.leaves:
                live.broken = True
                self._instance.store.forfeit(live.id)
        await super().close(grace)

    async def _is_stopped(self, live: SessionState, stop: str) -> bool:
        stops, store = self._instance.stops, self._instance.store
        if stops.shared is not None:
            await store.ask(stops.shared.read)
        if live.turn is None and stops.why(live.id) is not None:
            stops.admitted(live.id, stop)
        return stops.why(live.id) is not None

    async def _is_due(self, live: SessionState) -> bool:
        asked = loop.last_user(live.history)
        if asked is not None and loop.final_answer(live.history, asked) is None:
            return True
        return bool(await self._instance.store.follow_ups(live.id))


class SharedSessions(InProcessSessions):
    """The sessions of one instance of a worker, as clients see them: the same at every worker."""

    def __init__(self, instance: Instance, turns: Turns, workspaces: Workspaces, sharing: "Sharing") -> None:
        super().__init__(instance, turns, workspaces)
        self._engine = sharing.engine
        instance.sessions.resumes = True
        instance.budget.pass_on = self._pass_on
        assert isinstance(instance.approvals, SharedApprovals)
        assert isinstance(instance.questions, SharedQuestions)
        self._stop_hearing = [
            sharing.relay.observe(self._heard),
            instance.approvals.share(sharing.relay),
            instance.questions.share(sharing.relay, instance.store),
        ]

    async def close(self) -> None:
        """End every session, and hear of no other worker any more."""
        await super().close()
        for stop in self._stop_hearing:
            stop()

    async def abort(self, session_id: str) -> bool:
        """End a session's turn at whichever worker runs it; True when one does."""
        if await super().abort(session_id):
            return True
        if not await self._runs_elsewhere(session_id):
            return False
        self._instance.store.publish(make(AbortWanted(session_id=session_id)))
        return True

    async def wait(self, session_id: str) -> None:
        """Return when the session's prompts are answered, wherever that is. Raises `NotFound`."""
        live = await self._sessions.open(session_id)
        asked = loop.last_user(live.history)
        queued = [one.prompt.get("messageID") for one in await self._instance.store.follow_ups(session_id)]
        for key in (None if asked is None else asked.id, *queued):
            if key is not None:
                await self._engine.finished(key)
        await super().wait(session_id)

        async def rests() -> bool:
            return not await self._runs_elsewhere(session_id)

        await self._engine.until(rests)

    async def status(self) -> dict[str, SessionStatus]:
        """Return what each session that is not idle does; of one that another worker runs, that it is busy."""
        found: dict[str, SessionStatus] = {}
        for session_id, directory, owner in await self._instance.store.leased(now()):
            if owner != owner_name() and directory == str(self._instance.directory):
                found[session_id] = Busy()
        return found | await super().status()

    async def _submit(
        self, session_id: str, body: PromptBody, origin: Origin | None
    ) -> tuple[SessionState, WithParts]:
        if body.no_reply:
            return await super()._submit(session_id, body, origin)
        body = wire.replace(body, message_id=body.message_id or ids.new("msg"))
        live = await self._sessions.open(session_id)
        try:
            await self._sessions.hold(live)
        except SessionBusy:
            return live, await self._queue(live, body, origin)
        try:
            if await self._instance.store.follow_ups(session_id):
                # What was said before stays before it.
                return live, await self._queue(live, body, origin)
            return await super()._submit(session_id, body, origin)
        except (Invalid, LeaseLost) as error:
            is_lost = isinstance(error, LeaseLost) or isinstance(error.__cause__, SessionBusy)
            if not is_lost and not await self._runs_elsewhere(session_id):
                raise
            # The session was taken over meanwhile; who did that may be done with it.
            return live, await self._queue(live, body, origin)
        finally:
            await self._sessions.let_go(live)

    async def _queue(self, live: SessionState, body: PromptBody, origin: Origin | None) -> WithParts:
        """Queue a prompt for the worker that runs the session; return what stands for its message until then."""
        assert body.message_id is not None
        self._check_home(live.session)
        await self._admit(live, origin)
        agent = self._instance.agents.get(body.agent or live.session.agent)
        user = User(
            id=body.message_id,
            session_id=live.id,
            time=Created(created=now()),
            agent=agent.name,
            model=prompt.choose_model(self._instance, live, body, agent),
        )
        spoken = origin or self._origin.traced()
        task = _task(self._engine, self._instance, live, body.message_id)
        source = PERSON if spoken.is_person else spoken.name
        await self._sessions.queue(live.id, source, wire.to_plain(body), spoken, [task])
        return WithParts(info=user, parts=[])

    async def _runs_elsewhere(self, session_id: str) -> bool:
        holder = await self._instance.store.holder(session_id)
        return holder is not None and holder.owner != owner_name()

    def _pass_on(self, usage: Usage, failures: int) -> None:
        tried = ProviderTried(session_id=usage.session_id, provider_id=usage.provider_id, failures=failures)
        self._instance.store.publish(make(tried))

    def _heard(self, happened: Stored) -> None:
        live = self._sessions.known(happened.session_id)
        if live is None:
            return
        if happened.seq is not None:
            live.stale = True
        elif happened.type == "instar.session.abort" and live.turn is not None:
            self._turns.spawn(_ended(self._turns, live))


class Sharing:
    """What the instances of one worker have in common."""

    approvals: type[Approvals] = SharedApprovals
    questions: type[Questions] = SharedQuestions

    def __init__(self, engine: Engine, relay: Relay, stops: SharedStops, running: RunningCalls) -> None:
        self.engine = engine
        self.relay = relay
        self.stops = stops
        self._running = running
        relay.observe(self._heard)

    def turns(self, instance: Instance) -> Turns:
        """Return the turns of an instance."""
        return SharedTurns(instance, self.engine)

    def sessions(self, instance: Instance, turns: Turns, workspaces: Workspaces) -> InProcessSessions:
        """Return the sessions of an instance."""
        return SharedSessions(instance, turns, workspaces, self)

    def _heard(self, happened: Stored) -> None:
        if happened.type == "instar.provider.tried":
            call = msgspec.json.decode(happened.data, type=ProviderTried)
            self._running.tried(call.provider_id, call.failures)

    async def carry_on(self, runtime: Runtime, session_id: str, stop: str) -> bool:
        """Run the turn of a session, as `SharedTurns.carry_on`."""
        return await _shared(runtime).carry_on(session_id, stop)

    def leave(self, runtimes: Sequence[Runtime]) -> None:
        """Take up nothing more, and leave the turns that run here to other workers."""
        self.engine.pause()
        for runtime in runtimes:
            _shared(runtime).leave()


def _shared(runtime: Runtime) -> SharedTurns:
    assert isinstance(runtime.turns, SharedTurns)
    return runtime.turns


def _task(engine: Engine, instance: Instance, live: SessionState, message_id: str) -> Write:
    """Return the task of a prompt that was let in."""
    return engine.wanted(live.id, live.session.directory, message_id, instance.stops.last_id())


def _is_shared(live: SessionState) -> bool:
    return live.session.parent_id is None


async def _ended(turns: Turns, live: SessionState) -> None:
    await turns.abort(live)
