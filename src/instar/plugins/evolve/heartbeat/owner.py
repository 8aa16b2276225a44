"""Which process may beat: of several instars on one workspace one holds a lock, and another takes over when it dies.

The lock is the kernel's (flock) on a file that is never removed, so the end of a process lets go of it. The file says
who holds it, for people.
"""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

from instar.plugin import accepted

FILE: Final = "owner"


class Owner:
    """The right to beat, kept in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._handle: int | None = None

    @property
    def held(self) -> bool:
        """Whether this one holds it."""
        return self._handle is not None

    def take(self) -> bool:
        """Take it if nobody has it; whether this one holds it now. Raises `OSError`."""
        if self._handle is not None:
            return True
        accepted.make_folder(self._path.parent)
        handle = os.open(
            self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(handle), self._path.lstat()):
                raise BlockingIOError("another file stands there now")
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            os.close(handle)
            return False
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        return True

    def release(self) -> None:
        """Let go of it."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, 0)
            os.close(handle)

    def who(self) -> int | None:
        """Return the process that holds it; None when none does, or it cannot be told."""
        try:
            text = self._path.read_text("ascii", errors="replace").strip()
        except OSError:
            return None
        return int(text) if text.isdigit() and len(text) < 10 and self._taken() else None

    def _taken(self) -> bool:
        with contextlib.suppress(OSError), self._path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False
