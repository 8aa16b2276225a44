"""The heart: the scheduler at work in an instance, for as long as that lives.

Of several instances on one workspace one beats. A beat that was due while none was there does not begin at once: what a
person is about to ask for in a new `instar run` comes first.

One beat: the hook is asked, its session is prompted, and cleaned afterwards.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from instar.plugin import Invalid, NotFound, Origin, PluginInput, PromptBody, event, ids, message
from instar.plugins.evolve import protocol
from instar.plugins.evolve.dispatch import Dispatch
from instar.plugins.evolve.effects import no_agent
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.heartbeat import memory, schedule, scheduler
from instar.plugins.evolve.heartbeat.owner import Activity, Owner
from instar.plugins.evolve.heartbeat.schedule import BeatOutcome, Begun
from instar.plugins.evolve.heartbeat.session import HeartbeatSession, Words, busy, compose, open_sessions
from instar.plugins.evolve.points import HEARTBEAT, HeartbeatInput, asker
from instar.plugins.evolve.scripts import HookAnswer
from instar.plugins.evolve.settings import EvolveSettings, ModelName

log = logging.getLogger("instar.evolve")

HOOK: Final = "heartbeat"
"""The hook, and the name of a beat's origin and of the commits of what scripts change in one."""

GRACE: Final = 1.0
"""Seconds after its start in which an instance does not beat; never longer than the interval."""

_TOOLS: Final[Mapping[str, bool]] = MappingProxyType({"question": False})
"""A beat asks nobody: it would wait for an answer, and so would those after it. Each process offers it the same."""
_SETTINGS: Final = "config/evolve.jsonc"
_NOTHING: Final = "no script answers `heartbeat`, and prompts/heartbeat.md says nothing that was accepted"
_UNSAID: Final = (
    "the `heartbeat` hooks gave nothing to send, and prompts/heartbeat.md says nothing that was accepted"
)


class Heart:
    """The heartbeat of one workspace in one instance: it runs beats, one at a time.

    `settings` are those in use, None while there are none. `refresh` takes up what changed in the workspace.
    `keep_system` makes texts a session's own system prompt.
    """

    def __init__(
        self,
        given: PluginInput,
        engine: EvolveEngine,
        dispatch: Dispatch,
        *,
        settings: Callable[[], EvolveSettings | None],
        refresh: Callable[[], Awaitable[None]],
        keep_system: Callable[[str, list[str]], Awaitable[None]],
    ) -> None:
        self._client = given.client
        self._engine = engine
        self._scripts = engine.scripts
        self._dispatch = dispatch
        self._automatic = given.automatic
        self._settings = settings
        self._refresh = refresh
        self._keep_system = keep_system
        self._object = asker(given, HEARTBEAT)
        self._place = HeartbeatSession(given.client, engine.storage, str(given.directory))
        folder = engine.storage.heartbeat.folder
        self._activity = Activity(folder)
        self._scheduler = scheduler.Scheduler(
            engine.storage.heartbeat,
            Owner(folder),
            self._run,
            self._every,
            self._busy,
            look=scheduler.LOOK,
            halted=given.halted,
            shared=engine.beats,
        )
        self._version = ""
        self._model: ModelName | None = None
        self._limited = ""
        self._idle = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Beat from now on, in a task. A safe run does not, nor does a command that only passes by."""
        if self._engine.safe is None and self._automatic:
            self._version = self._engine.version(_SETTINGS)
            self._spawn(self._live)

    def wake(self) -> None:
        """Look now: the settings changed."""
        self._scheduler.wake()

    async def close(self) -> None:
        """Stop beating. A beat that runs is cut short, and that is written down."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._activity.close()

    async def heard(self, happened: event.Event) -> None:
        """Take note of which sessions work, of what ends a beat's turn, and of the model that a person used."""
        given = happened.properties
        if isinstance(given, event.SessionStatusChanged):
            work = self._activity
            with contextlib.suppress(OSError):
                (work.ended if isinstance(given.status, event.Idle) else work.began)(given.session_id)
        elif isinstance(given, event.LimitReached) and given.ends and given.session_id == self._place.id:
            self._limited = given.message
        elif isinstance(given, event.SessionIdle) and given.session_id == self._place.id:
            self._idle.set()
        elif isinstance(given, event.MessageUpdated) and isinstance(given.info, message.Assistant):
            await self._answered(given.info)

    async def _answered(self, info: message.Assistant) -> None:
        model = ModelName(info.provider_id, info.model_id)
        if model == self._model or info.summary or info.error or info.time.completed is None:
            return
        if self._engine.safe is not None or info.session_id == self._place.id:
            return
        with contextlib.suppress(NotFound):
            if (await self._client.session.get(info.session_id)).parent_id is None:
                self._model = model
                memory.note(self._engine.storage, self._engine.real.root, model)

    async def _live(self) -> None:
        every = self._every()
        await asyncio.sleep(min(GRACE, every / 1000) if every > 0 else GRACE)
        await self._scheduler.run()

    def _every(self) -> int:
        """The interval as it is now. Settings that cannot be used leave it as it was: the time that is due stays."""
        ledger = self._engine.storage.ledger
        ledger.refresh()
        version = self._engine.version(_SETTINGS)
        if version != self._version:
            self._version = version
            self._spawn(self._take_up)
        settings = self._settings()
        return self._engine.storage.heartbeat.state.every if settings is None else settings.heartbeat_ms

    async def _take_up(self) -> None:
        await self._refresh()
        self.wake()

    async def _busy(self) -> str:
        settings = self._settings()
        others = settings is None or settings.heartbeat_skip_active
        doing = await self._client.session.status()
        titles = {one.id: one.title for one in await self._client.session.list()} if doing else {}
        why = busy(doing, titles, self._place.id, others=others)
        if why or not others or doing:
            return why
        return "a session of another instar on this workspace is busy" if self._activity.elsewhere() else ""

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- one beat --------------------------------------------------------------------------------------

    async def _run(self, begun: Begun) -> BeatOutcome:
        """Run a beat, and return what became of it."""
        await self._refresh()
        settings = self._settings()
        if settings is None:
            return BeatOutcome(skipped="the settings in config/evolve.jsonc cannot be used")
        if not self._scripts.answers(HOOK) and not self._default():
            return BeatOutcome(skipped=_NOTHING)
        try:
            return await self._beat(begun, settings)
        except (Invalid, NotFound) as error:
            agents, wanted = await self._client.agents(), settings.heartbeat_agent
            why = str(error) if wanted in agents else no_agent(wanted, agents)
            return BeatOutcome(self._place.id, error=why)

    async def _beat(self, begun: Begun, settings: EvolveSettings) -> BeatOutcome:
        session = await self._place.find()
        known = "" if session is None else session.id
        async with self._engine.recording.recording(HOOK, known, f"{HOOK} {begun.number}"):
            answered = await self._scripts.call_all(HOOK, await self._input(known))
            if not (answered.answer or answered.failures or self._default()):
                return BeatOutcome(skipped=_UNSAID if self._scripts.answers(HOOK) else _NOTHING)
            session = session or await self._place.make(settings)
            said = await self._words(begun, session.id, settings, answered)
        failed = "; ".join(str(failure) for failure in answered.failures if not failure.recovered)
        recovered = "; ".join(str(failure) for failure in answered.failures if failure.recovered)
        if said is None:
            why = f"{_UNSAID}; recovered from: {recovered}" if recovered else _UNSAID
            return BeatOutcome(session.id, skipped="" if failed else why, error=failed)
        if said.problem:
            log.warning("heartbeat=%d problem=%r", begun.number, said.problem)
            return BeatOutcome(session.id, error="; ".join(filter(None, [failed, said.problem])))
        why = await self._object(
            HeartbeatInput(
                number=begun.number, session_id=session.id, system=list(said.system), user=said.user
            )
        )
        if why:
            return BeatOutcome(session.id, skipped=why, error=failed)
        if said.system:
            await self._keep_system(session.id, said.system)
        spent = await self._prompt(session.id, said.user, settings, self._origin(begun))
        cleaned = await self._clean(begun, session.id, settings, spent.tokens)
        return msgspec.structs.replace(
            spent,
            error="; ".join(filter(None, [failed, spent.error])),
            recovered=f"recovered from: {recovered}" if recovered else "",
            cleaned=cleaned,
        )

    async def _input(self, own: str) -> dict[str, Any]:
        """What the hook is given: the sessions that are open, and the heartbeat's own history."""
        doors = self._client.session
        sessions, doing = await doors.list(), await doors.status()
        history = await self._dispatch.history(own) if own else []
        return {
            "sessions": open_sessions(sessions, doing, own),
            "history": protocol.once(history),
        }

    async def _words(
        self, begun: Begun, session_id: str, settings: EvolveSettings, answered: HookAnswer
    ) -> Words | None:
        """What is sent. What recovery wants said goes with the beat: one prompt, and one turn that is accounted for."""
        emergency: list[str] = []

        async def queue(text: str) -> bool:
            emergency.append(text)
            return True

        # A book that was lost counts from 0 again.
        key = f"{HOOK} {begun.number} {begun.at}"
        await self._dispatch.settle(
            HOOK,
            session_id,
            settings.heartbeat_agent,
            answered,
            key=key,
            recover_by=queue,
            origin=self._origin(begun),
        )
        users = [*emergency, protocol.text(answered.answer, "user")]
        answer = {**answered.answer, "user": "\n".join(filter(str.strip, users))}
        # A hook that failed has not chosen to leave the default as it is.
        default = [] if answered.failures and not emergency else self._default()
        if default and not protocol.texts(answer, "system"):
            for stage in ("preamble", "heartbeat"):
                self._engine.storage.uses.add(f"prompts/{stage}.md", HOOK)
        return compose(answer, default)

    async def _prompt(
        self, session_id: str, text: str, settings: EvolveSettings, origin: Origin
    ) -> BeatOutcome:
        message_id = ids.new("msg")
        agent, model = settings.heartbeat_agent, settings.model or await self._last(settings)
        body = PromptBody.text(
            text, synthetic=True, agent=agent, model=_ref(model), message_id=message_id, tools=dict(_TOOLS)
        )
        self._limited = ""
        self._idle.clear()
        try:
            await self._client.session.prompt(session_id, body, origin=origin)
        except Invalid as error:
            if model is None or settings.model is not None or model.model_id not in str(error):
                raise
            # Scripts may write down a model too: one that is none must not keep the heart from beating.
            log.warning("heartbeat=model problem=%r", f"{memory.FILE}: {error}")
            body.model = None
            await self._client.session.prompt(session_id, body, origin=origin)
        # Idle is published before a turn counts as over, and limits before that.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), 1)
        spent = await self._spent(session_id, message_id)
        if self._limited and not spent.interrupted:
            spent = msgspec.structs.replace(spent, error=self._limited)
        return spent

    async def _spent(self, session_id: str, message_id: str) -> BeatOutcome:
        history = await self._client.session.messages(session_id)
        begin = next((at for at, one in enumerate(history) if one.info.id == message_id), len(history))
        answers = [one.info for one in history[begin:] if isinstance(one.info, message.Assistant)]
        if not answers:
            return BeatOutcome(session_id, error="the model was not asked")
        used, cost = [one.tokens for one in answers], sum(one.cost for one in answers)
        tokens = sum(
            one.input + one.output + one.reasoning + one.cache.read + one.cache.write for one in used
        )
        spent = BeatOutcome(session_id, tokens, cost)
        error = answers[-1].error
        if error is None:
            return spent
        if isinstance(error, message.MessageAbortedError):
            return msgspec.structs.replace(spent, interrupted=f"its turn was ended: {error.data.message}")
        said = getattr(error.data, "message", "") or error.name
        return msgspec.structs.replace(spent, error=str(said))

    async def _clean(
        self, begun: Begun, session_id: str, settings: EvolveSettings, tokens: int
    ) -> schedule.Decision:
        tally = schedule.tallied(self._engine.storage.heartbeat.state.tally, session_id, tokens)
        verdict = schedule.clean(
            settings.heartbeat_cleanup,
            settings.heartbeat_cleanup_count,
            settings.heartbeat_cleanup_tokens,
            tally,
            busy=session_id in await self._client.session.status(),
        )
        origin = self._origin(begun)
        # With an id of its own: a beat that used up `limits.heartbeat` may be the one that needs a shorter session.
        origin = Origin(origin.name, f"{origin.id}/cleanup")
        return await self._place.clean(session_id, verdict, origin)

    async def _last(self, settings: EvolveSettings) -> ModelName | None:
        """The model that was used last; None where the agent has one of its own, or it is not known."""
        agents = (await self._client.config()).get("agent")
        agent = agents.get(settings.heartbeat_agent) if isinstance(agents, dict) else None
        if isinstance(agent, dict) and agent.get("model"):
            return None
        try:
            return memory.last_model(self._engine.real.root)
        except memory.Unusable as error:
            log.warning("heartbeat=model problem=%r", str(error))
            return None

    def _default(self) -> list[str]:
        return self._scripts.prompts.default("heartbeat")

    def _origin(self, begun: Begun) -> Origin:
        # Other workspaces count their beats too.
        return Origin(HOOK, f"{self._engine.storage.folder.name}/{begun.number}")


def _ref(model: ModelName | None) -> message.ModelRef | None:
    return None if model is None else message.ModelRef(provider_id=model.provider_id, model_id=model.model_id)


async def _logged(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:
        log.exception("heartbeat=ended")
