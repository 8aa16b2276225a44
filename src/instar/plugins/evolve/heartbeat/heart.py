"""The heart: the scheduler at work in an instance, for as long as that lives.

Of several instances on one workspace one beats. A beat that was due while none was there does not begin at once: what a
person is about to ask for in a new `instar run` comes first.

One beat: the hook is asked, its session is prompted, and cleaned afterwards.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from instar.plugin import Client, Invalid, NotFound, Origin, PluginInput, PromptBody, event, ids, message
from instar.plugins.evolve import protocol
from instar.plugins.evolve.dispatch import Dispatch
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.heartbeat import cleanup, memory, schedule, scheduler, words
from instar.plugins.evolve.heartbeat.memory import HeartbeatSession
from instar.plugins.evolve.heartbeat.owner import Owner
from instar.plugins.evolve.heartbeat.schedule import BeatOutcome, Begun
from instar.plugins.evolve.heartbeat.words import Words
from instar.plugins.evolve.ledger import vault
from instar.plugins.evolve.points import HEARTBEAT, HeartbeatInput, asker
from instar.plugins.evolve.scripts import HookAnswer as Answered
from instar.plugins.evolve.settings import EvolveSettings, ModelName

FILE: Final = "busy"


class Activity:
    """What sessions do, kept in `folder`. Methods raise `OSError`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._handle: int | None = None
        self._at_work: set[str] = set()

    def began(self, session_id: str) -> None:
        """A session of this process works. Taken at its next step if somebody just looks."""
        self._at_work.add(session_id)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self._open(), fcntl.LOCK_SH | fcntl.LOCK_NB)

    def ended(self, session_id: str) -> None:
        """A session of this process is idle."""
        self._at_work.discard(session_id)
        if not self._at_work and self._handle is not None:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def elsewhere(self) -> bool:
        """Whether a session of another process works. Ask only while none of this one does."""
        try:
            fcntl.flock(self._open(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            fcntl.flock(self._open(), fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Let go of everything."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _open(self) -> int:
        if self._handle is None:
            vault.make_folder(self._path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._handle = os.open(self._path, flags, 0o600)
        return self._handle


log = logging.getLogger("instar.evolve")

HOOK = "heartbeat"
NAME = "heartbeat"
"""The name of a beat's origin, and of the commits of what scripts change in one."""


_TOOLS: Final[Mapping[str, bool]] = MappingProxyType({"question": False})
"""A beat asks nobody: it would wait for an answer, and so would those after it. Each process offers it the same."""


class BeatUsage(msgspec.Struct, frozen=True):
    """What a beat used, in tokens of all kinds and US dollars, and how its last answer ended, "" for well."""

    tokens: int = 0
    cost: float = 0.0
    error: str = ""
    interrupted: str = ""


class Beat:
    """Runs beats of one workspace, one at a time.

    `settings` are those in use, None while there are none. `refresh` takes up what changed in the workspace.
    `keep_system` makes texts a session's own system prompt. `object` returns why another plugin objects to a beat.
    """

    def __init__(
        self,
        client: Client,
        engine: EvolveEngine,
        dispatch: Dispatch,
        place: HeartbeatSession,
        *,
        settings: Callable[[], EvolveSettings | None],
        refresh: Callable[[], Awaitable[None]],
        keep_system: Callable[[str, list[str]], Awaitable[None]],
        object: Callable[[HeartbeatInput], Awaitable[str]],  # noqa: A002 - the verb
    ) -> None:
        self._client = client
        self._engine = engine
        self._scripts = engine.scripts
        self._dispatch = dispatch
        self._place = place
        self._settings = settings
        self._refresh = refresh
        self._keep_system = keep_system
        self._object = object

    async def __call__(self, begun: Begun) -> BeatOutcome:
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
            about = "heartbeat_agent: " if "no agent" in str(error) else ""
            return BeatOutcome(self._place.id, error=f"{about}{error}")

    async def _beat(self, begun: Begun, settings: EvolveSettings) -> BeatOutcome:
        session = await self._place.find()
        known = "" if session is None else session.id
        async with self._engine.recording.recording(NAME, known, f"{NAME} {begun.number}"):
            answered = await self._dispatch.call(HOOK, await self._input(known))
            if not (answered.answer or answered.failures or self._default()):
                return BeatOutcome(skipped=_UNSAID if self._scripts.answers(HOOK) else _NOTHING)
            session = session or await self._place.make(settings)
            said = await self._words(begun, session.id, settings, answered)
            if said is not None:
                self._write_down()
        failed = "; ".join(map(str, answered.failures))
        if said is None:
            return BeatOutcome(session.id, skipped="" if failed else _UNSAID, error=failed)
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
        return BeatOutcome(
            session.id,
            spent.tokens,
            spent.cost,
            error="; ".join(filter(None, [failed, spent.error])),
            interrupted=spent.interrupted,
            cleaned=cleaned,
        )

    async def _input(self, own: str) -> dict[str, Any]:
        """What the hook is given: the sessions that are open, and the heartbeat's own history."""
        doors = self._client.session
        sessions, doing = await doors.list(), await doors.status()
        history = await self._dispatch.history(own) if own else []
        return {
            "sessions": words.open_sessions(sessions, doing, own),
            "history": protocol.once(history),
        }

    async def _words(
        self, begun: Begun, session_id: str, settings: EvolveSettings, answered: Answered
    ) -> Words | None:
        """What is sent. What recovery wants said goes with the beat: one prompt, and one turn that is accounted for."""
        emergency: list[str] = []

        async def queue(text: str) -> bool:
            emergency.append(text)
            return True

        # A book that was lost counts from 0 again.
        key = f"{NAME} {begun.number} {begun.at}"
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
        return words.compose(answer, default)

    async def _prompt(
        self, session_id: str, text: str, settings: EvolveSettings, origin: Origin
    ) -> BeatUsage:
        message_id = ids.new("msg")
        agent, model = settings.heartbeat_agent, settings.model or await self._last(settings)
        body = PromptBody.text(
            text, synthetic=True, agent=agent, model=_ref(model), message_id=message_id, tools=dict(_TOOLS)
        )
        async with _limits(self._client, session_id) as limited:
            try:
                await self._client.session.prompt(session_id, body, origin=origin)
            except Invalid as error:
                if model is None or settings.model is not None or model.model_id not in str(error):
                    raise
                # Scripts may write down a model too: one that is none must not keep the heart from beating.
                log.warning("heartbeat=model problem=%r", f"{memory.FILE}: {error}")
                body.model = None
                await self._client.session.prompt(session_id, body, origin=origin)
        spent = await self._spent(session_id, message_id)
        if limited and not spent.interrupted:
            spent = msgspec.structs.replace(spent, error=limited[-1])
        return spent

    async def _spent(self, session_id: str, message_id: str) -> BeatUsage:
        history = await self._client.session.messages(session_id)
        begin = next((at for at, one in enumerate(history) if one.info.id == message_id), len(history))
        answers = [one.info for one in history[begin:] if isinstance(one.info, message.Assistant)]
        if not answers:
            return BeatUsage(error="the model was not asked")
        tokens, cost = sum(_all(one.tokens) for one in answers), sum(one.cost for one in answers)
        error = answers[-1].error
        if isinstance(error, message.MessageAbortedError):
            return BeatUsage(tokens, cost, interrupted=f"its turn was ended: {error.data.message}")
        return BeatUsage(tokens, cost, error="" if error is None else _told(error))

    async def _clean(
        self, begun: Begun, session_id: str, settings: EvolveSettings, tokens: int
    ) -> schedule.Decision:
        tally = schedule.tallied(self._engine.books.heartbeat.state.tally, session_id, tokens)
        verdict = cleanup.decide(
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

    def _write_down(self) -> None:
        """Write into the workspace which model was used last, with what the beat commits."""
        try:
            memory.write_down(self._engine.books, self._engine.real.root)
        except (memory.Unusable, OSError) as error:
            log.warning("heartbeat=model problem=%r", str(error))

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
        return Origin(NAME, f"{self._engine.books.folder.name}/{begun.number}")


_NOTHING = "no script answers `heartbeat`, and prompts/heartbeat.md says nothing"
_UNSAID = "the `heartbeat` hooks gave nothing to send, and prompts/heartbeat.md says nothing"


@contextlib.asynccontextmanager
async def _limits(client: Client, session_id: str) -> AsyncIterator[list[str]]:
    """Gather what limits say that end the session's turn in here."""
    found: list[str] = []
    idle = asyncio.Event()

    async def listen() -> None:
        async for happened in client.events():
            given = happened.properties
            if getattr(given, "session_id", None) != session_id:
                continue
            if isinstance(given, event.LimitReached) and given.ends:
                found.append(given.message)
            elif isinstance(given, event.SessionIdle):
                idle.set()

    task = asyncio.create_task(listen())
    # It listens from its first step on.
    await asyncio.sleep(0)
    try:
        yield found
        # Idle is published before a turn counts as over, and limits before that.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(idle.wait(), 1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _ref(model: ModelName | None) -> message.ModelRef | None:
    return None if model is None else message.ModelRef(provider_id=model.provider_id, model_id=model.model_id)


def _all(tokens: message.Tokens) -> int:
    return tokens.input + tokens.output + tokens.reasoning + tokens.cache.read + tokens.cache.write


def _told(error: message.MessageError) -> str:
    return str(getattr(error.data, "message", "") or error.name)


GRACE: Final = 1.0
"""Seconds after its start in which an instance does not beat; never longer than the interval."""

_SETTINGS: Final = "config/evolve.jsonc"


class Heart:
    """The heartbeat of one workspace in one instance. The arguments are those of `Beat`."""

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
        self._automatic = given.automatic
        self._settings = settings
        self._refresh = refresh
        self._place = HeartbeatSession(given.client, engine.books, str(given.directory))
        folder = engine.books.heartbeat.folder
        self._activity = Activity(folder)
        beat = Beat(
            given.client,
            engine,
            dispatch,
            self._place,
            settings=settings,
            refresh=refresh,
            keep_system=keep_system,
            object=asker(given, HEARTBEAT),
        )
        self._scheduler = scheduler.Scheduler(
            engine.books.heartbeat,
            Owner(folder),
            beat,
            self._every,
            self._busy,
            look=scheduler.LOOK,
            halted=given.halted,
        )
        self._version = ""
        self._last: ModelName | None = None
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
        """Take note of which sessions work, and of the model that a person used."""
        given = happened.properties
        if isinstance(given, event.SessionStatusChanged):
            with contextlib.suppress(OSError):
                self._at_work(given)
        elif isinstance(given, event.MessageUpdated) and isinstance(given.info, message.Assistant):
            await self._answered(given.info)

    def _at_work(self, given: event.SessionStatusChanged) -> None:
        if isinstance(given.status, event.Idle):
            self._activity.ended(given.session_id)
        else:
            self._activity.began(given.session_id)

    async def _answered(self, info: message.Assistant) -> None:
        model = ModelName(info.provider_id, info.model_id)
        if model == self._last or info.summary or info.error or info.time.completed is None:
            return
        if self._engine.safe is not None or info.session_id == self._place.id:
            return
        with contextlib.suppress(NotFound):
            if (await self._client.session.get(info.session_id)).parent_id is None:
                self._last = model
                memory.note(self._engine.books, model)

    async def _live(self) -> None:
        every = self._every()
        await asyncio.sleep(min(GRACE, every / 1000) if every > 0 else GRACE)
        await self._scheduler.run()

    def _every(self) -> int:
        """The interval as it is now. Settings that cannot be used leave it as it was: the time that is due stays."""
        ledger = self._engine.books.ledger
        ledger.refresh()
        version = self._engine.version(_SETTINGS)
        if version != self._version:
            self._version = version
            self._spawn(self._take_up)
        settings = self._settings()
        return self._engine.books.heartbeat.state.every if settings is None else settings.heartbeat_ms

    async def _take_up(self) -> None:
        await self._refresh()
        self.wake()

    async def _busy(self) -> str:
        settings = self._settings()
        others = settings is None or settings.heartbeat_skip_active
        doing = await self._client.session.status()
        titles = {one.id: one.title for one in await self._client.session.list()} if doing else {}
        why = words.busy(doing, titles, self._place.id, others=others)
        if why or not others or doing:
            return why
        return "a session of another instar on this workspace is busy" if self._activity.elsewhere() else ""

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _logged(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:
        log.exception("heartbeat=ended")
