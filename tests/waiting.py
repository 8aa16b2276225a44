"""Waiting for what a test cannot be told of: something that another task or process brings about."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")

PATIENCE = 30.0
"""Seconds after which a test gives up on what hangs."""
PAUSE = 0.01
SOON = 10.0
"""Seconds within which ends at once what would otherwise last for a minute or more: a busy machine stalls for some."""


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


async def quickest(attempt: Callable[[], Awaitable[float]], enough: float) -> float:
    """Return the seconds that the fastest of up to three attempts took; one that took less than `enough` is the last.

    For what is promised within a second or two: a machine that stalls makes it late now and then, not each time.
    """
    took = await attempt()
    for _ in range(2):
        if took < enough:
            break
        took = min(took, await attempt())
    return took


def take_quickest(attempt: Callable[[], float], enough: float) -> float:
    """The same for a test that is no coroutine."""
    took = attempt()
    for _ in range(2):
        if took < enough:
            break
        took = min(took, attempt())
    return took
