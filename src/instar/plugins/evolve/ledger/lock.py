"""One writer at a time: the lock of a ledger's folder, over processes and over the tasks of one."""

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from instar.plugin import accepted

_POLL: Final = 0.01


class WorkspaceBusy(Exception):
    """Another instar, or another task of this one, is at work on the workspace; the text says what to do."""


@contextlib.asynccontextmanager
async def held(folder: Path, seconds: float) -> AsyncIterator[None]:
    """Hold the lock of `folder`, made if need be; the end of a process lets go of it.

    Waits up to `seconds`, then raises `WorkspaceBusy`. Raises `OSError` where the folder cannot be made or opened.
    """
    deadline = time.monotonic() + seconds
    while (handle := _lock(folder)) is None:
        if time.monotonic() > deadline:
            raise WorkspaceBusy(
                f"another instar has been changing this workspace for more than {seconds:g} s "
                f"(it holds {folder}): wait for it or end it, then try again"
            )
        await asyncio.sleep(_POLL)
    try:
        yield
    finally:
        os.close(handle)


def _lock(folder: Path) -> int | None:
    accepted.make_folder(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Who waited for a folder that was removed meanwhile holds nothing.
        if os.path.samestat(os.fstat(handle), os.stat(folder)):  # noqa: PTH116
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None
