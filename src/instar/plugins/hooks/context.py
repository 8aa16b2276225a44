"""What an agent rule's ``context`` names: files of the project, and the session's history (issue 8, item 6)."""

import os
import stat
from pathlib import Path
from typing import Final

from instar.plugins.hooks.evaluate import Means
from instar.plugins.hooks.event import Event
from instar.plugins.hooks.history import told
from instar.plugins.hooks.judged import speaker

HISTORY: Final = "history"
LARGEST: Final = 64 << 10
"""Bytes of one file that are given."""
MOST: Final = 256 << 10
"""Bytes of all files together."""


async def gather(names: tuple[str, ...], event: Event, means: Means) -> list[tuple[str, str]]:
    """Return what `names` name, each with a name to show it by. What cannot be had is said in its place."""
    found: list[tuple[str, str]] = []
    left = MOST
    for name in dict.fromkeys(names):
        if name == HISTORY:
            found.append((HISTORY, await _history(event, means)))
            continue
        text = file(name, event.directory, means, min(LARGEST, left))
        left -= len(text.encode())
        found.append((f"file {' '.join(name.split())}", text))
    return found


def file(name: str, directory: Path, means: Means, most: int) -> str:
    """Return a file of the project, its first `most` bytes; in brackets why there is none.

    Relative names start at `directory`. A file outside the project, also through a link, is not read.
    """
    try:
        path = (directory / name).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        return f"(it cannot be found: {error})"
    if not any(path.is_relative_to(root.resolve()) for root in (means.project, directory)):
        return "(it lies outside the project and is not read)"
    refusal = means.children.refusal(path, writing=False)
    if refusal is not None:
        return f"(it is not read: {refusal})"
    return _read(path, max(0, most))


async def _history(event: Event, means: Means) -> str:
    if means.client is None:
        return "(there is none)"
    history = await means.client.session.messages(speaker(event))
    return told(history, means.settings.history_tokens) or "(it is empty)"


def _read(path: Path, most: int) -> str:
    try:
        # A pipe in its place must not be waited for, nor a link that came since be followed.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return "(there is no such file)"
    except OSError as error:
        return f"(it cannot be read: {error.strerror})"
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return "(it is no file)"
        text = os.read(handle, most).decode(errors="replace")
    finally:
        os.close(handle)
    return text if status.st_size <= most else f"{text}\n(… {status.st_size - most} bytes are left out …)"
