"""Files as tools meet them: where a path leads, which permissions it needs, how text is read and replaced.

Paths are compared after symlinks are resolved. A path whose resolved form differs from the written one
counts under both: the more severe rule decides.

A stamp is a file's time of change, size and inode. A session's stamps say as what it has seen each file, so that
nothing is overwritten unseen. They live as long as the runtime: after a restart a file is to be read again.
"""

import asyncio
import os
import re
import stat
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from difflib import get_close_matches, unified_diff
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from instar import event
from instar.plugin import points
from instar.plugin.tool import Ask, ToolContext, ToolFailure
from instar.process import Processes
from instar.wire import Plain
from instar.wire.document import atomic_write, open_regular

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
    root = base if path.is_relative_to(base) else real(base)
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def asks(permission: str, path: Path, ctx: ToolContext, metadata: Plain) -> list[Ask]:
    """Return what touching the file `path` needs: `permission` for it, and more when it lies outside.

    Raises `ToolFailure` for a guarded one, and for a loop of symlinks.
    """
    target = real(path)
    _check(target, ctx, writing=permission == "edit")
    patterns = list(dict.fromkeys(shown(one, ctx) for one in (path, target)))
    return [*_outside({path: target}, ctx), Ask(permission, patterns, ["*"], metadata)]


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
    return _outside({path: real(path) for path in paths}, ctx)


def _outside(targets: Mapping[Path, Path], ctx: ToolContext) -> list[Ask]:
    """Return the ask for what lies outside of paths with where each leads."""
    roots = [real(root) for root in {ctx.directory, ctx.worktree} if root != _ROOT]
    folders: dict[Path, Path] = {}
    for path, target in targets.items():
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
    _check(real(path), ctx, writing=writing)


def _check(target: Path, ctx: ToolContext, *, writing: bool) -> None:
    refusal = ctx.process.refusal(target, writing=writing)
    if refusal is not None:
        raise ToolFailure(refusal)


@asynccontextmanager
async def locked(path: Path, ctx: ToolContext) -> AsyncIterator[None]:
    """Hold `path` for one change at a time: calls of one step run together and may edit the same file.

    Raises `ToolFailure` for a guarded one: since it was asked about, a link may have come to lead there. The same for
    one with unsaved changes in an editor, which would be lost.
    """
    key = (str(real(path)), id(asyncio.get_running_loop()))
    lock = _LOCKS.setdefault(key, asyncio.Lock())
    async with lock:
        check_access(path, ctx, writing=True)
        if await unsaved(path, ctx) is not None:
            raise ToolFailure(
                f"{shown(path, ctx)} has changes in the person's editor that are not saved. Ask them to save it,"
                " then read it again."
            )
        yield


_LOCKS: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()

EDITORS: Final[dict[str, Callable[[Path], Awaitable[str | None]]]] = {}
"""By a session's id, what asks its editor for the text of a file that is not saved; None where it is."""


async def unsaved(path: Path, ctx: ToolContext) -> str | None:
    """Return a file's text as the session's editor holds it; None where that is as the file, or there is no editor."""
    asked = EDITORS.get(ctx.session_id)
    return await asked(path) if asked is not None else None


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


class Settled(msgspec.Struct, frozen=True):
    """What stands in files once plugins have had them, and what is added to the tool's output and metadata."""

    now: dict[Path, bytes]
    note: str
    metadata: Plain


async def settle(written: Mapping[Path, bytes | None], ctx: ToolContext) -> Settled:
    """Give the files that a tool wrote (None: removed) to plugins, which may format them; then tell everybody.

    Call it while they are locked: what plugins change of them belongs to the call, and the model reads it.
    """
    now = {path: data for path, data in written.items() if data is not None}
    stamps = {path: stamp(path) for path in written}
    for path, found in stamps.items():
        note_seen(path, ctx, found)
    given = points.FilesWrittenInput(
        tool=ctx.name, session_id=ctx.session_id, call_id=ctx.call_id, files=[str(path) for path in now]
    )
    try:
        output = await ctx.trigger(points.FILES_WRITTEN, given, points.FilesWrittenOutput())
    finally:
        # Also of a call that is aborted: they are changed.
        for path in stamps:
            await ctx.client.publish(event.make(event.FileEdited(file=str(path))))
    notes = []
    for path, first in stamps.items():
        if (found := stamp(path)) != first and path in now:
            note_seen(path, ctx, found)
            before, now[path] = now[path], await asyncio.to_thread(whole, path)
            notes += _changed(shown(path, ctx), before, now[path])
    return Settled(now, "".join(f"\n\n{note}" for note in [*notes, *output.notes]), output.metadata)


def _changed(name: str, before: bytes, now: bytes) -> list[str]:
    """What the model reads of a change that plugins made: it has not read that text."""
    diff = unified(name, before.decode(errors="replace"), now.decode(errors="replace"))
    if len(diff) > LARGEST_NOTE:
        return [f"{name} was formatted after that, in many places. Read it before you edit it again."]
    return [f"{name} was formatted after that:\n{diff.rstrip()}"] if diff else []


CONTEXT: Final = 3
"""Unchanged lines shown around a change."""
LARGEST_NOTE: Final = 8_000
"""Characters of a diff that the model is shown of what plugins changed."""
MAX_COMPARED: Final = 2000
"""Changed lines that are compared with each other; beyond, one side replaces the other as a whole."""

LARGEST_SHOWN: Final = 256 * 1024
"""Characters of a file whose change is shown."""


def unified(name: str, before: str, after: str) -> str:
    """Return the unified diff of a file's text, "" when nothing changed.

    The time is bounded: equal lines at both ends are set aside first, and a change of more than `MAX_COMPARED`
    lines is given as a whole, since comparing costs their product.
    """
    if before == after:
        return ""
    if max(len(before), len(after)) > LARGEST_SHOWN:
        return f"--- {name}\n+++ {name}\n@@ too large to show @@\n"
    old, new = _lines(before), _lines(after)
    start = _equal(old, new)
    end = _equal(old[start:][::-1], new[start:][::-1])
    lead, tail = max(0, start - CONTEXT), max(0, end - CONTEXT)
    old_part, new_part = old[lead : len(old) - tail], new[lead : len(new) - tail]
    if len(old_part) + len(new_part) > MAX_COMPARED:
        old_size, new_size = len(old_part), len(new_part)
        header = f"@@ -{lead + bool(old_size)},{old_size} +{lead + bool(new_size)},{new_size} @@"
        lines = [header, *("-" + line for line in old_part), *("+" + line for line in new_part)]
    else:
        lines = [
            _moved(line, lead) for line in list(unified_diff(old_part, new_part, lineterm="", n=CONTEXT))[2:]
        ]
    if not lines:
        lines = ["@@ only the newline at the end differs @@"]
    return "\n".join([f"--- {name}", f"+++ {name}", *lines]) + "\n"


def counted(path: Path, name: str, before: str, after: str) -> Plain:
    """Return the metadata of a change: its `diff`, and as `filediff` it and the lines added and deleted.

    `name` is what the diff calls the file.
    """
    diff = unified(name, before, after)
    lines = diff.splitlines()[2:]
    added, deleted = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    change = {"file": str(path), "patch": diff, "additions": added, "deletions": deleted}
    return {"diff": diff, "filediff": change}


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _equal(one: list[str], other: list[str]) -> int:
    """How many lines at the start are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((count for count, (first, second) in pairs if first != second), min(len(one), len(other)))


def _moved(line: str, lead: int) -> str:
    """A hunk header counted from the part's start, counted from the file's."""
    if not line.startswith("@@ "):
        return line
    return re.sub(r"([-+])(\d+)", lambda place: f"{place[1]}{int(place[2]) + lead}", line)


SAMPLE: Final = 8192
"""Bytes at the start of a file that say whether it is text."""
PREVIEW: Final = 4 * (LARGEST_SHOWN + 1)
"""Bytes of a file that are read for a diff."""
LARGEST: Final = 32 << 20
"""Bytes of a file that can be edited."""

_TEXT_CONTROLS: Final = frozenset(b"\t\n\r\f\b\x1b\v")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; a pipe or device is refused instead of waited for.

    Raises `ToolFailure` when it is missing (naming the nearest), no file, or may not be read.
    """
    try:
        file = open_regular(path)
    except FileNotFoundError:
        raise ToolFailure(missing(path)) from None
    except IsADirectoryError:
        raise ToolFailure(f"Cannot read {path}: it is a folder") from None
    except OSError as error:
        raise ToolFailure(f"Cannot read {path}: {error.strerror}") from None
    with file:
        yield file


def missing(path: Path) -> str:
    """Return what to say of a file that is not there, with up to three names near it."""
    text = f"File not found: {path}"
    try:
        names = sorted(os.listdir(path.parent))  # noqa: PTH208 (names are all that is needed)
    except OSError:
        return (
            f"{text}\nIts folder {path.parent} does not exist either." if not path.parent.exists() else text
        )
    lowered = path.name.lower()
    near = [name for name in names if lowered in name.lower() or (len(name) > 2 and name.lower() in lowered)]
    near += get_close_matches(path.name, names[:5000], n=3)
    if not near:
        return text
    found = "\n".join(str(path.parent / name) for name in list(dict.fromkeys(near))[:3])
    return f"{text}\n\nDid you mean one of these?\n{found}"


def is_binary(sample: bytes) -> bool:
    """True if a file that starts with `sample` is binary: a NUL, or more than 30 % control characters."""
    if b"\0" in sample:
        return True
    controls = sum(byte < 32 and byte not in _TEXT_CONTROLS for byte in sample)
    return controls > 0.3 * len(sample)


def preview(path: Path) -> str:
    """Return the text of a file for a diff: "" when there is none, its first part when it is large."""
    try:
        with opened(path) as file:
            return file.read(PREVIEW).decode(errors="replace")
    except ToolFailure:
        return ""


def whole(path: Path) -> bytes:
    """Return all of a text file. Raises `ToolFailure` as `opened`, and for a binary or too large one."""
    with opened(path) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ToolFailure(
            f"{path} is larger than {LARGEST >> 20} MiB; change it with a program, through bash"
        )
    if is_binary(data[:SAMPLE]):
        raise ToolFailure(f"Cannot edit binary file: {path}")
    return data


def replace(path: Path, data: bytes) -> bool:
    """Put `data` in the place of a file at once or not at all; True when there was one.

    Missing folders are made, a symlink's target is written and the link kept, and so are the file's
    permission bits. Raises `ToolFailure` when the place cannot hold a file.
    """
    target = path.resolve()
    try:
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            raise ToolFailure(
                f"Cannot write {path}: it is a {'folder' if stat.S_ISDIR(mode) else 'pipe or device'}"
            )
        if mode is not None and not os.access(target, os.W_OK):
            raise ToolFailure(f"Cannot write {path}: it is write-protected")
        target.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(target, data)
    except (FileExistsError, NotADirectoryError):
        raise ToolFailure(f"Cannot write {path}: a part of its path is a file, not a folder") from None
    except OSError as error:
        raise ToolFailure(f"Cannot write {path}: {error.strerror or error}") from None
    return mode is not None


def encoded(text: str) -> bytes:
    """Return what the model wrote as UTF-8. Raises `ToolFailure` when it holds half of a character."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(text[error.start]):04X} at {error.start}"
        raise ToolFailure(f"The text holds half of a character ({half}); write the whole one.") from None
