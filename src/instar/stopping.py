"""Listening for `instar stop`: what runs when it comes is ended, within a second."""

import asyncio
import logging
from typing import Final

from instar.account import STOPPED
from instar.instance import Instance
from instar.tool import background
from instar.turns import Turns

log = logging.getLogger("instar.turn")

_SOON: Final = 0.1
"""Seconds between two looks while a turn runs."""
_IDLE: Final = 0.5
"""Seconds between two looks while none does: shells in the background may."""


class Stopping:
    """What ends the turns and the background commands of one instance when a stop holds for them."""

    def __init__(self, instance: Instance, turns: Turns) -> None:
        self._instance = instance
        self._turns = turns
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to listen."""
        self._task = asyncio.create_task(self._listen(), name="stopping")

    async def close(self) -> None:
        """Listen no longer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

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
        why, children = self._instance.halt.why, self._instance.children
        running = [(live, why(live.id)) for live in self._instance.sessions.running()]
        ended = [(live, f"{STOPPED}{text}.") for live, text in running if text is not None]
        if ended:
            log.warning("stopped sessions=%s", ",".join(live.id for live, _ in ended))
        await asyncio.gather(
            *(self._turns.abort(live, text) for live, text in ended),
            *(background.end(children, one) for one in background.sessions(children) if why(one) is not None),
        )
