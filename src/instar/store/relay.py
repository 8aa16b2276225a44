"""What other processes commit and publish on the same server, in the order of their commits.

Durable events stand in the table `event`; what is not kept (pieces of text, what a session does, questions, messages
between processes) is passed on in `instar_relay`. Both have their places from one sequence, and one transaction writes
at a time: so they are one order. NOTIFY wakes; the tables are the truth: after a lost connection the reading goes on
at the last place.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, Final

import psycopg

from instar.store import Stored, StoreError
from instar.store.postgresql import PostgresConnection, PostgresServer
from instar.store.rows import stored_event

log = logging.getLogger("instar.store")

Observer = Callable[[Stored], None]

_AT_ONCE: Final = 500
_LOOK: Final = 1.0
"""Seconds after which the tables are read although nobody woke us."""
_PATIENCE: Final = 0.2
"""Seconds for which an answer waits for the events before it."""
_OWN: Final = 100_000
"""Ids of this process' events that are remembered until they are read back; those of failed commits never are."""


class Relay:
    """Hears what other processes publish. One for a process, made on its event loop."""

    def __init__(self, url: str) -> None:
        self.server = PostgresServer(url)
        self._loop = asyncio.get_running_loop()
        # As keys: what is removed twice, or after the end, is gone.
        self._observers: dict[Observer, None] = {}
        self._everybodys: dict[Observer, None] = {}
        self._read_back = asyncio.Event()
        self._wakes: dict[Callable[[str], None], None] = {}
        self._own: dict[str, None] = {}
        self._place: int | None = None
        self._closing = False
        self._begun = asyncio.Event()

    async def start(self) -> None:
        """Begin to listen: nothing that is published after this is missed. Who cannot be reached is tried again."""
        threading.Thread(target=self._run, name="instar-store-relay", daemon=True).start()
        await self._begun.wait()

    def close(self) -> None:
        """Hear nothing any more."""
        self._closing = True
        self._observers.clear()
        self._everybodys.clear()
        self._wakes.clear()

    def observe(self, observer: Observer, *, own: bool = False) -> Callable[[], object]:
        """Call `observer` on the event loop for each event of another process; returns a function that stops it.

        With `own` for this process' events too, in their place among the others.
        """
        observers = self._everybodys if own else self._observers
        observers[observer] = None
        return lambda: observers.pop(observer, None)

    async def caught_up(self) -> None:
        """Wait until what this process has published so far was read back, for a moment at most."""
        newest = next(reversed(self._own), None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while newest in self._own:
                    self._read_back.clear()
                    await self._read_back.wait()

    def on_wake(self, callback: Callable[[str], None]) -> Callable[[], object]:
        """Call `callback` with the key of a task that is done, or "" where one was written; returns what stops it."""
        self._wakes[callback] = None
        return lambda: self._wakes.pop(callback, None)

    def note_own(self, event_ids: Iterable[str]) -> None:
        """Note events that this process publishes itself, before they are written."""
        self._own.update(dict.fromkeys(event_ids))
        while len(self._own) > _OWN:
            del self._own[next(iter(self._own))]

    def _run(self) -> None:
        while not self._closing:
            try:
                with closing(self.server.listen()) as connection:
                    self._listen(connection)
            except (psycopg.Error, StoreError) as error:
                log.warning("what other processes publish is not heard: %s", self.server.explain(error))
                self._call(self._begun.set)
                time.sleep(_LOOK)

    def _listen(self, connection: PostgresConnection) -> None:
        if self._place is None:
            self._place = connection.run("last_place")[0][0]
        self._call(self._begun.set)
        while not self._closing:
            rows = connection.run("relayed_after", (self._place, _AT_ONCE))
            if rows:
                self._place = rows[-1][0]
                self._call(self._tell, [stored_event(row) for row in rows])
            if len(rows) == _AT_ONCE:
                continue
            for key in connection.wait(_LOOK):
                self._call(self._woken, key)

    def _call(self, callback: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _woken(self, key: str) -> None:
        for callback in tuple(self._wakes):
            callback(key)

    def _tell(self, events: list[Stored]) -> None:
        for event in events:
            is_own = event.event_id in self._own
            self._own.pop(event.event_id, None)
            for observer in (*self._everybodys, *(() if is_own else self._observers)):
                try:
                    observer(event)
                except Exception as error:  # one observer's fault must not keep the others from hearing
                    log.error("an event was not taken type=%s", event.type, exc_info=error)
        self._read_back.set()
