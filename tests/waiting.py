"""Waiting for what a test cannot be told of: something that another task or process brings about."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")

PATIENCE = 60.0
"""Seconds after which a test gives up on what hangs."""
PAUSE = 0.01


async def until(condition: Callable[[], Found | Awaitable[Found]]) -> Found:
    """Return what a condition gives once that is true; it may be a coroutine function."""
    async with asyncio.timeout(PATIENCE):
        while True:
            given = condition()
            found = await given if inspect.isawaitable(given) else given
            if found:
                return found
            await asyncio.sleep(PAUSE)


def wait_until(condition: Callable[[], Found]) -> Found:
    """The same for a test that is no coroutine."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(PAUSE)
    return found
