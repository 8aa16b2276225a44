"""Requests for a terminal interface that asks for them one by one."""

import asyncio
from collections import deque
from typing import Final

from instar.api.tui import TuiRequest

MOST: Final = 100
"""Requests that wait; one more and the oldest is let go of."""


class Requests:
    """What waits for the interface, oldest first; each is given out once."""

    def __init__(self) -> None:
        self._waiting: deque[TuiRequest] = deque(maxlen=MOST)
        self._came = asyncio.Event()

    def put(self, request: TuiRequest) -> None:
        """Take a request."""
        self._waiting.append(request)
        self._came.set()

    async def next(self) -> TuiRequest:
        """Wait for a request, take it and return it."""
        while not self._waiting:
            self._came.clear()
            await self._came.wait()
        return self._waiting.popleft()
