"""Which files a session has seen, and as what: what changed since must not be overwritten unseen.

A stamp is the file's time of change, size and inode. Stamps live as long as the runtime: after a restart a
file is to be read again, which is the safe side.
"""

import os
from collections import OrderedDict
from pathlib import Path
from stat import S_ISREG
from typing import Final
from weakref import WeakKeyDictionary

from instar.plugin.tool import ToolContext, ToolFailure
from instar.process import Processes
from instar.tool import place

KEPT: Final = 20_000
"""Stamps that are kept; the oldest go first, and such a file is to be read again."""

Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp | None:
    """Return what a regular file is now, else None. Take it before reading: a later change then shows."""
    try:
        found = os.stat(path)  # noqa: PTH116 (follows links as reading does)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if S_ISREG(found.st_mode) else None


def note(path: Path, ctx: ToolContext, found: Stamp | None) -> None:
    """Remember that the session has seen a file as `found`."""
    stamps, key = _stamps(ctx), _key(path, ctx)
    if found is None:
        stamps.pop(key, None)
        return
    stamps[key] = found
    stamps.move_to_end(key)
    while len(stamps) > KEPT:
        stamps.popitem(last=False)


def check(path: Path, ctx: ToolContext, *, must: bool = False) -> None:
    """Raise `ToolFailure` when a file changed since the session saw it.

    With `must` also when the session never saw a file that is there: for what replaces all of it.
    """
    now, before = stamp(path), _stamps(ctx).get(_key(path, ctx))
    if now is None or now == before:
        return
    name = place.shown(path, ctx)
    if before is not None:
        raise ToolFailure(
            f"{name} has changed since this session read it; read it again, so that nothing of it is lost."
        )
    if must:
        raise ToolFailure(
            f"{name} exists and this session has not read it; read it first, or change a part with edit."
        )


def _key(path: Path, ctx: ToolContext) -> tuple[str, str]:
    return ctx.session_id, str(place.real(path))


def _stamps(ctx: ToolContext) -> OrderedDict[tuple[str, str], Stamp]:
    return _STAMPS.setdefault(ctx.process, OrderedDict())


_STAMPS: Final[WeakKeyDictionary[Processes, OrderedDict[tuple[str, str], Stamp]]] = WeakKeyDictionary()
"""By the runtime's children: what lives exactly as long as the runtime."""
