"""How long a plugin may take: its code runs in a task of its own, and what does not end is left behind.

Nothing can interrupt code that never awaits; what awaits is cancelled, and what ignores that is closed.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from typing import Any, Final

log = logging.getLogger("instar.plugin")

PATIENCE: Final = 60.0
"""Seconds that a handler, or a plugin's function at load, may take."""
DISPOSE: Final = 5.0
"""Seconds that a plugin's ``dispose`` may take."""
GRACE: Final = 0.8
"""Seconds that cancelled code has to end: within one second of an abort nothing of a turn may run."""
_TRIES: Final = 3


class Late(Exception):
    """Code that did not return in time, or that was cancelled from within; the text says which."""


class Exited(Exception):
    """Code that asked for the end of the program (``sys.exit``): it would end every plugin, and instar."""

    def __init__(self, error: SystemExit) -> None:
        code = "" if error.code is None else repr(error.code)
        super().__init__(f"it called sys.exit({code}), which would end instar: that is not done here")


async def kept(work: Awaitable[Any]) -> Any:
    """Return what `work` gives. Raises `Exited`, and what the work raises."""
    try:
        return await work
    except SystemExit as error:
        raise Exited(error) from error


async def in_time(work: Any, seconds: float | None) -> Any:
    """Return what `work`, an awaitable or already the result, gives; None seconds are as many as it wants.

    When the caller is cancelled, the work is cancelled too, and has `GRACE` seconds to end. Raises `Late`,
    `Exited`, and what the work raises.
    """
    if not inspect.isawaitable(work):
        return work
    if seconds is None:
        return await _own_limits(work)
    task: asyncio.Task[Any] = asyncio.ensure_future(kept(work))
    try:
        await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        await _end(task)
        raise
    if not task.done():
        await _end(task)
        raise Late(f"it did not return within {seconds:g} s and was ended")
    if task.cancelled():
        raise Late("it was cancelled from within")
    return task.result()


async def _own_limits(work: Awaitable[Any]) -> Any:
    try:
        return await kept(work)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise Late("it was cancelled from within") from None


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel `task`; when it ignores that, close its coroutine, so that the end of the program can go on."""
    task.add_done_callback(_forget)
    task.cancel()
    try:
        await asyncio.wait([task], timeout=GRACE)
    finally:
        if not task.done():
            _close(task)


def _close(task: asyncio.Task[Any]) -> None:
    for _ in range(_TRIES):
        try:
            task.get_coro().close()
            break
        except RuntimeError as error:
            log.warning("a plugin's code goes on: %s", error)
    # It wakes to a coroutine that is closed, and is done.
    task.cancel()


def _forget(task: asyncio.Task[Any]) -> None:
    # Asked for, so that the event loop does not report as forgotten what was already named.
    if not task.cancelled():
        task.exception()
