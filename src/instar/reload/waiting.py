"""Waiting for files to change, for as long as somebody listens or a session lives; one reload at a time."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol

from instar.reload.places import Places, Signature
from instar.settings import Settings
from instar.watch.notice import Batch, Notice, Unwatched

log = logging.getLogger("instar.reload")

_Told = Batch | Unwatched | None
_Queue = asyncio.Queue[tuple[int, _Told]]
"""What watches told, each with the number of the watch."""
QUIET: Final = 0.2
"""Seconds without a change after which files are looked at: an editor writes several at once."""
LONGEST: Final = 2.0
"""Seconds for which changes are gathered at most."""
POLL: Final = 2.0
"""Seconds between two looks where the system tells of no changes, or is not asked."""
_GRAIN: Final = 20_000_000
"""Nanoseconds by which a file's time of change may be behind the clock."""
_ENDING: Final = 5.0
"""Seconds that closing waits for a reload to come to its end."""


class HasSettings(Protocol):
    """Whatever has the settings as they are now: the runtime."""

    settings: Settings


class Waiting:
    """Calls `reload`, with their paths, when files of `places` are others than `seen`; nothing runs before `start`.

    Each time the settings are asked which plugins they name, and whether it is wanted still.
    """

    def __init__(
        self,
        places: Places,
        seen: Signature,
        reload: Callable[[Sequence[str]], Awaitable[None]],
        settings: "HasSettings",
    ) -> None:
        self._places = places
        self._reload = reload
        self._of = settings
        self._seen = seen
        self._name()
        self._now = asyncio.Event()
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._notice: Notice | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._number = 0

    def start(self, after: float = 0.0) -> None:
        """Begin to wait in `after` seconds; a later call with less brings it forward."""
        if self._task is None and not self._closed and self._of.settings.config.reload:
            self._task = asyncio.create_task(self._run(after), name="reload")
        if after <= 0:
            self._now.set()

    async def close(self) -> None:
        """Wait no more; a reload that is at work is ended. May be called twice."""
        self._closed = True
        if self._notice is not None:
            self._notice.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_ENDING)

    async def _run(self, after: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._now.wait(), after or None)
        told: _Queue = asyncio.Queue()
        self._watch(told)
        self._poll(told, self._places.unheard())
        try:
            await self._listen(told)
        finally:
            if self._timer is not None:
                self._timer.cancel()

    async def _listen(self, told: "_Queue") -> None:
        while isinstance(batch := await self._told(told), Batch):
            # The first one is empty: what changed before the watch began is found by looking.
            if batch.changes:
                await self._settled(told)
            await self._look()
            if self._places.grown:
                self._watch(told)
        if batch is not None:
            log.warning("files are looked at every %g s: %s", POLL, batch)
            while True:
                await asyncio.sleep(POLL)
                await self._look()

    def _poll(self, told: "_Queue", before: Signature) -> None:
        """Tell of the file that the system is not asked about: it would tell of each write to the database, too."""
        found = self._places.unheard()
        if found != before:
            told.put_nowait((self._number, Batch(dict.fromkeys(found, "change"))))
        self._timer = asyncio.get_running_loop().call_later(POLL, self._poll, told, found)

    def _watch(self, told: "_Queue") -> None:
        """Watch the folders that there are now; what another watch still says is not heard."""
        if self._notice is not None:
            self._notice.stop()
        self._places.grown = False
        self._number += 1
        tell = partial(_tell, asyncio.get_running_loop(), told, self._number)
        self._notice = Notice(self._places, frozenset(), tell, "instar-reload")
        self._notice.start()

    async def _told(self, told: "_Queue") -> _Told:
        while True:
            number, batch = await told.get()
            if number == self._number:
                return batch

    async def _settled(self, told: "_Queue") -> None:
        """Return once nothing changed for `QUIET` seconds; the end of the watch stays to be read."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST):
                while True:
                    batch = await asyncio.wait_for(self._told(told), QUIET)
                    if not isinstance(batch, Batch):
                        told.put_nowait((self._number, batch))
                        return

    async def _look(self) -> None:
        """Reload for as long as files are others than before: some may change meanwhile."""
        while await self._looked():  # noqa: ASYNC110 - nobody could set an event: it is asked whether there is more
            # What a plugin writes each time that it is loaded must not keep the loop busy.
            await asyncio.sleep(QUIET)

    async def _looked(self) -> bool:
        found = await asyncio.to_thread(self._places.signature)
        if found == self._seen or not self._of.settings.config.reload:
            return False
        before, self._seen = self._seen, found
        began = time.time_ns() - _GRAIN
        try:
            await self._reload([path for path in {*before, *found} if before.get(path) != found.get(path)])
        except Exception as error:
            # The next change is another try.
            log.error("reload failed", exc_info=error)
        self._seen = found
        await asyncio.to_thread(self._name, began)
        return True

    def _name(self, began: int | None = None) -> None:
        """Look at the plugins too that the settings name by now; they were read with those.

        A file of theirs that changed since the reading `began` (ns) may have been read before: it is not seen yet.
        """
        self._places.name(entry.target for entry in self._of.settings.plugins)
        if self._places.grown:
            found = self._places.signature()
            read = {path: one for path, one in found.items() if one is None or not began or one[2] < began}
            self._seen = {**read, **self._seen}


def _tell(loop: asyncio.AbstractEventLoop, told: _Queue, number: int, batch: _Told) -> None:
    # A closed loop has nobody left to hear of it.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(told.put_nowait, (number, batch))
