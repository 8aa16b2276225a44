"""Where a tool's path leads, which permissions that place needs, and whether a file there changed since it was read.

Paths are compared after symlinks are resolved. A path whose resolved form differs from the written one
counts under both: the more severe rule decides.

A stamp is a file's time of change, size and inode. A session's stamps say as what it has seen each file, so that
nothing is overwritten unseen. They live as long as the runtime: after a restart a file is to be read again.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from instar.plugin.tool import Ask, ToolContext, ToolFailure
from instar.process import Processes
from instar.wire import Plain

_ROOT: Final = Path("/")


def locate(path: str, ctx: ToolContext) -> Path:
    """Return the absolute path that the model means: relative ones and ``~/`` are resolved, ``..`` folded.

    Symlinks are kept. Raises `ToolFailure` for an empty path or one with a NUL character.
    """
    if not path or "\0" in path:
        raise ToolFailure(f"Not a path: {path!r}. Give an absolute path, or one relative to {ctx.directory}.")
    if path == "~" or path.startswith("~/"):
        path = str(Path.home()) + path[1:]
    return Path(os.path.normpath(ctx.directory / path))


def real(path: Path) -> Path:
    """Return `path` with its symlinks resolved as far as it exists. Raises `ToolFailure` for a loop."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise ToolFailure(f"Cannot resolve {path}: {error}") from None


def shown(path: Path, ctx: ToolContext) -> str:
    """Return `path` as people and rules see it: relative to the worktree, absolute outside of it."""
    # Outside git the worktree is "/" (as in opencode): nothing would be outside of it.
    base = ctx.directory if ctx.worktree == _ROOT else ctx.worktree
    for one, root in ((path, base), (path, real(base))):
        if one.is_relative_to(root):
            return str(one.relative_to(root))
    return str(path)


def asks(permission: str, path: Path, ctx: ToolContext, metadata: Plain) -> list[Ask]:
    """Return what touching the file `path` needs: `permission` for it, and more when it lies outside.

    Raises `ToolFailure` for a guarded one, and for a loop of symlinks.
    """
    check_access(path, ctx, writing=permission == "edit")
    patterns = list(dict.fromkeys(shown(one, ctx) for one in (path, real(path))))
    return [*outside(path, ctx), Ask(permission, patterns, ["*"], metadata)]


def outside(path: Path, ctx: ToolContext) -> list[Ask]:
    """Return the ask for a file or folder that lies outside the directory and the worktree; else nothing.

    Raises `ToolFailure` for a hidden one, and for a loop of symlinks.
    """
    check_access(path, ctx, writing=False)
    return outside_all([path], ctx)


def outside_all(paths: Iterable[Path], ctx: ToolContext) -> list[Ask]:
    """Return one ask for all of the files and folders that lie outside; nothing when none does.

    Raises `ToolFailure` for a loop of symlinks.
    """
    roots = [real(root) for root in (ctx.directory, ctx.worktree) if root != _ROOT]
    folders: dict[Path, Path] = {}
    for path in paths:
        target = real(path)
        if not any(target.is_relative_to(root) for root in roots):
            folders.setdefault(target if target.is_dir() else target.parent, path)
    if not folders:
        return []
    patterns = [f"{str(folder).rstrip('/')}/*" for folder in folders]
    folder, path = next(iter(folders.items()))
    metadata = {"filepath": str(path), "parentDir": str(folder)}
    return [Ask("external_directory", patterns, patterns, metadata)]


def check_access(path: Path, ctx: ToolContext, *, writing: bool) -> None:
    """Raise `ToolFailure` when no tool may read, or write, what is at `path`."""
    refusal = ctx.process.refusal(real(path), writing=writing)
    if refusal is not None:
        raise ToolFailure(refusal)


@asynccontextmanager
async def locked(path: Path, ctx: ToolContext) -> AsyncIterator[None]:
    """Hold `path` for one change at a time: calls of one step run together and may edit the same file.

    Raises `ToolFailure` for a guarded one: since it was asked about, a link may have come to lead there.
    """
    key = (str(real(path)), id(asyncio.get_running_loop()))
    lock = _LOCKS.setdefault(key, asyncio.Lock())
    async with lock:
        check_access(path, ctx, writing=True)
        yield


_LOCKS: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()


MAX_STAMPS: Final = 20_000
"""Stamps that are kept; the oldest go first, and such a file is to be read again."""

Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp | None:
    """Return what a regular file is now, else None. Take it before reading: a later change then shows."""
    try:
        found = os.stat(path)  # noqa: PTH116 (follows links as reading does)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if S_ISREG(found.st_mode) else None


def note_seen(path: Path, ctx: ToolContext, found: Stamp | None) -> None:
    """Remember that the session has seen a file as `found`."""
    stamps, key = _stamps(ctx), _stamp_key(path, ctx)
    if found is None:
        stamps.pop(key, None)
        return
    stamps[key] = found
    stamps.move_to_end(key)
    while len(stamps) > MAX_STAMPS:
        stamps.popitem(last=False)


def check_unchanged(path: Path, ctx: ToolContext, *, must: bool = False) -> None:
    """Raise `ToolFailure` when a file changed since the session saw it.

    With `must` also when the session never saw a file that is there: for what replaces all of it.
    """
    now, before = stamp(path), _stamps(ctx).get(_stamp_key(path, ctx))
    if now is None or now == before:
        return
    name = shown(path, ctx)
    if before is not None:
        raise ToolFailure(
            f"{name} has changed since this session read it; read it again, so that nothing of it is lost."
        )
    if must:
        raise ToolFailure(
            f"{name} exists and this session has not read it; read it first, or change a part with edit."
        )


def _stamp_key(path: Path, ctx: ToolContext) -> tuple[str, str]:
    return ctx.session_id, str(real(path))


def _stamps(ctx: ToolContext) -> OrderedDict[tuple[str, str], Stamp]:
    return _STAMPS.setdefault(ctx.process, OrderedDict())


_STAMPS: Final[WeakKeyDictionary[Processes, OrderedDict[tuple[str, str], Stamp]]] = WeakKeyDictionary()
"""By the runtime's children: what lives exactly as long as the runtime."""
