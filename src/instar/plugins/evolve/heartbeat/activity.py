"""Whether sessions of another instar on the same workspace are at work.

Each process holds a shared lock (flock) on one file for as long as a session of its own works, so that the end of a
process, however it comes, ends what it holds.
"""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

from instar.plugins.evolve.ledger import vault

FILE: Final = "busy"


class Activity:
    """What sessions do, kept in `folder`. Methods raise `OSError`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._handle: int | None = None
        self._at_work: set[str] = set()

    def began(self, session_id: str) -> None:
        """A session of this process works. Taken at its next step if somebody just looks."""
        self._at_work.add(session_id)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self._open(), fcntl.LOCK_SH | fcntl.LOCK_NB)

    def ended(self, session_id: str) -> None:
        """A session of this process is idle."""
        self._at_work.discard(session_id)
        if not self._at_work and self._handle is not None:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def elsewhere(self) -> bool:
        """Whether a session of another process works. Ask only while none of this one does."""
        try:
            fcntl.flock(self._open(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            fcntl.flock(self._open(), fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Let go of everything."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _open(self) -> int:
        if self._handle is None:
            vault.make_folder(self._path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._handle = os.open(self._path, flags, 0o600)
        return self._handle
