"""The event loop of a command. A plugin shares it: what it raises ends nobody else, and who makes it stand is named."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import FrameSummary, extract_stack
from typing import Any, Final, TypeVar

import instar

T = TypeVar("T")

PATIENCE: Final = 5
"""Seconds that the event loop may stand."""
_INSTAR: Final = str(Path(instar.__file__).parent)
_LIBRARY: Final = (str(Path(os.__file__).parent), "<frozen")
_PACKAGES: Final = ("site-packages", "dist-packages")

# A person is shown it at once, as what is waited for.
log = logging.getLogger("instar.waiting")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Return what `main` returns, as `asyncio.run` does.

    A `SystemExit` or `KeyboardInterrupt` of another task, which a plugin has started, is logged, and `main` goes on.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(main)
        with watched(loop):
            while True:
                try:
                    return runner.run(_result(task))
                except (SystemExit, KeyboardInterrupt) as error:
                    # A signal has cancelled the task before it raises.
                    if task.done() or task.cancelling():
                        raise
                    log.warning("code of a plugin raised %r in a task of its own; instar goes on", error)


async def _result(task: asyncio.Task[T]) -> T:
    return await task


@contextmanager
def watched(loop: asyncio.AbstractEventLoop, patience: int = PATIENCE) -> Iterator[None]:
    """Log who holds the loop of this thread when it stands for `patience` seconds, once each time it stands."""
    ended = threading.Event()
    args = (loop, threading.get_ident(), patience, ended)
    watch = threading.Thread(target=_watch, args=args, name="instar-watch", daemon=True)
    watch.start()
    try:
        yield
    finally:
        ended.set()


def _watch(loop: asyncio.AbstractEventLoop, thread: int, patience: int, ended: threading.Event) -> None:
    while not ended.wait(patience):
        turned = threading.Event()
        loop.call_soon_threadsafe(turned.set)
        # In pieces: a process that was stopped finds one of them over when it goes on.
        if any(turned.wait(1) for _ in range(patience)) or ended.is_set():
            continue
        frame = sys._current_frames().get(thread)
        log.warning(
            "nothing has gone on for %d s: %s. A plugin must not block: let it await, or use asyncio.to_thread."
            " Signals wait too; kill -9 %d ends it and loses nothing that was told",
            patience,
            _said(extract_stack(frame)),
            os.getpid(),
        )
        turned.wait()


def _said(stack: list[FrameSummary]) -> str:
    """Name the code that instar has called, or that runs in a task of its own, with what it has called last."""
    begun = max((at for at, one in enumerate(stack) if _turns_loop(one)), default=-1)
    stack = stack[begun + 1 :]
    own = max((at for at, one in enumerate(stack) if one.filename.startswith(_INSTAR)), default=-1)
    foreign = [one for one in stack[own + 1 :] if not _is_library(one)]
    held = foreign[0] if foreign else stack[own]
    whose = "" if foreign else "instar itself, "
    return f"{whose}{held.filename}, line {held.lineno}, in {held.name}: {held.line}"


def _turns_loop(frame: FrameSummary) -> bool:
    return frame.name == "_run" and frame.filename.endswith("asyncio/events.py")


def _is_library(frame: FrameSummary) -> bool:
    return frame.filename.startswith(_LIBRARY) and not any(one in frame.filename for one in _PACKAGES)
