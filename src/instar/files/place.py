"""Paths that a client names: inside the directory, links followed, or refused."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from instar.api.request import Invalid

LARGEST: Final = 16 << 20
"""Bytes of a file that are answered."""


def locate(directory: Path, named: str) -> Path:
    """Return what a client's path names, links resolved: relative to the directory, or absolute and inside it.

    `directory` is a real path. Nothing need be there. Raises `Invalid` for what lies outside, also by way of a link.
    """
    try:
        # Of an absolute name only the name itself is left.
        path = Path(os.path.realpath(directory / named))
    except (OSError, ValueError) as error:
        raise Invalid(f"{named!r} is no path: {error}") from None
    if not path.is_relative_to(directory):
        raise Invalid(f"{named!r} leads out of {directory}")
    return path


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file. Raises `FileNotFoundError`, and `Invalid` for a folder, a pipe, a device, or no right."""
    try:
        # A link that took the file's place since it was resolved is not followed; a pipe is not waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(str(path)) from None
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Invalid(f"cannot read {path}: it is no file")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def whole(path: Path) -> bytes:
    """Return what a file holds. Raises as `opened`, and `Invalid` when it is larger than `LARGEST`."""
    with opened(path) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Invalid(f"{path} is larger than {LARGEST >> 20} MiB")
    return data
