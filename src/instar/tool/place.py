"""Where a tool's path leads, and which permissions that place needs.

Paths are compared after symlinks are resolved. A path whose resolved form differs from the written one
counts under both: the more severe rule decides.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from instar.plugin.tool import Ask, ToolContext, ToolFailure
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
    base = _base(ctx)
    for one, root in ((path, base), (path, real(base))):
        if one.is_relative_to(root):
            return str(one.relative_to(root))
    return str(path)


def asks(permission: str, path: Path, ctx: ToolContext, metadata: Plain) -> list[Ask]:
    """Return what touching the file `path` needs: `permission` for it, and more when it lies outside.

    Raises `ToolFailure` for a guarded one, and for a loop of symlinks.
    """
    guarded(path, ctx, writing=permission == "edit")
    patterns = list(dict.fromkeys(shown(one, ctx) for one in (path, real(path))))
    return [*outside(path, ctx), Ask(permission, patterns, ["*"], metadata)]


def outside(path: Path, ctx: ToolContext) -> list[Ask]:
    """Return the ask for a file or folder that lies outside the directory and the worktree; else nothing.

    Raises `ToolFailure` for a hidden one, and for a loop of symlinks.
    """
    guarded(path, ctx, writing=False)
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


def guarded(path: Path, ctx: ToolContext, *, writing: bool) -> None:
    """Raise `ToolFailure` when no tool may read, or write, what is at `path` (issue 5, item 1)."""
    refusal = ctx.process.refusal(real(path), writing=writing)
    if refusal is not None:
        raise ToolFailure(refusal)


@asynccontextmanager
async def alone(path: Path, ctx: ToolContext) -> AsyncIterator[None]:
    """Hold `path` for one change at a time: calls of one step run together and may edit the same file.

    Raises `ToolFailure` for a guarded one: since it was asked about, a link may have come to lead there.
    """
    key = (str(real(path)), id(asyncio.get_running_loop()))
    lock = _LOCKS.setdefault(key, asyncio.Lock())
    async with lock:
        guarded(path, ctx, writing=True)
        yield


_LOCKS: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()


def _base(ctx: ToolContext) -> Path:
    # Outside git the worktree is "/" (the reference's section 3.1): nothing would be outside of it.
    return ctx.directory if ctx.worktree == _ROOT else ctx.worktree
