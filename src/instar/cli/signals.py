"""Ctrl-C, SIGTERM and a terminal that closes: the first ends the turn, the second quits at once."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self

CODE: Final = 130
"""The exit code of a run that a person ended."""
_LAST_WORDS: Final = 0.6
"""Seconds that a second signal leaves for ending children."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """Listens for signals while it is entered; use it in the main task of the loop.

    `abort` ends the turn and says whether there was one; until it is set, or when there was none, the main
    task is cancelled instead. `hurry` is started by the second signal, before the process ends.
    """

    def __init__(self) -> None:
        self.pressed = 0
        self.abort: Callable[[], Awaitable[bool]] | None = None
        self.hurry: Callable[[], Awaitable[Any]] | None = None
        self._tasks: set[asyncio.Future[Any]] = set()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        main = asyncio.current_task()
        assert main is not None
        self._main = main
        # What `nohup` started goes on when its terminal closes.
        ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        self._heard = [number for number in _SIGNALS if number != signal.SIGHUP or not ignored]
        for number in self._heard:
            self._loop.add_signal_handler(number, self._press)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._heard:
            self._loop.remove_signal_handler(number)

    def _press(self) -> None:
        self.pressed += 1
        if self.pressed == 1:
            self._start(self._end())
            return
        # Quitting at once must not leave the turn's children behind.
        if self.hurry is not None:
            self._start(self.hurry())
        self._loop.call_later(_LAST_WORDS if self.hurry else 0, os._exit, CODE)

    async def _end(self) -> None:
        if self.abort is None or not await self.abort():
            self._main.cancel()

    def _start(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
