"""Files as tools meet them: opened without surprises, told apart from what is no text, named when missing."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, Final

from instar.document import atomic_write
from instar.plugin.tool import ToolFailure
from instar.tool import diff

SAMPLE: Final = 8192
"""Bytes at the start of a file that say whether it is text."""
PREVIEW: Final = 4 * (diff.LARGEST + 1)
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
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ToolFailure(missing(path)) from None
    except OSError as error:
        raise ToolFailure(f"Cannot read {path}: {error.strerror}") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise ToolFailure(f"Cannot read {path}: it is a {_kind(mode)}")
    with os.fdopen(descriptor, "rb") as file:
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
    """Whether a file that starts with `sample` is no text: a NUL, or more than 30 % control characters."""
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


def _kind(mode: int) -> str:
    return "folder" if stat.S_ISDIR(mode) else "pipe or device"
