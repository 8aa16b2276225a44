"""The heart: the scheduler at work in an instance, for as long as that lives.

Of several instances on one workspace one beats. A beat that was due while none was there does not begin at once: what a
person is about to ask for in a new `instar run` comes first.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from instar.plugin import NotFound, PluginInput, event, message
from instar.plugins.evolve.dispatch import Dispatch
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.heartbeat import memory, scheduler, words
from instar.plugins.evolve.heartbeat.activity import Activity
from instar.plugins.evolve.heartbeat.beat import Beat
from instar.plugins.evolve.heartbeat.owner import Owner
from instar.plugins.evolve.heartbeat.place import HeartbeatSession
from instar.plugins.evolve.points import HEARTBEAT, asker
from instar.plugins.evolve.settings import EvolveSettings, ModelName

log = logging.getLogger("instar.evolve")

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
