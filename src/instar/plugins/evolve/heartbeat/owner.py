"""What instars on one workspace know of one another: which of them may beat, and whether a session of one works.

Both are the kernel's locks (flock) on files that are never removed, so the end of a process lets go of them.
"""

import contextlib
import fcntl
import os
from pathlib import Path

from instar.plugin import accepted


class _Lock:
    """A file `name` in `folder` that is opened when it is first needed. Methods raise `OSError`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / name
        self._handle: int | None = None

    def _locked(self, kind: int) -> bool:
        """Take or let go of the lock; False where another process has it."""
        if self._handle is None:
            accepted.make_folder(self._path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._handle = os.open(self._path, flags, 0o600)
        try:
            fcntl.flock(self._handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Let go of everything."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


class Owner(_Lock):
    """The right to beat: of several instars one has it, and another takes over when that ends. The file says who."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "owner")

    @property
    def held(self) -> bool:
        """Whether this one holds it."""
        return self._handle is not None

    def take(self) -> bool:
        """Take it if nobody has it; whether this one holds it now."""
        if self.held:
            return True
        try:
            taken = self._locked(fcntl.LOCK_EX)
            assert self._handle is not None
            # Unless another file stands there now.
            if taken and os.path.samestat(os.fstat(self._handle), self._path.lstat()):
                os.ftruncate(self._handle, 0)
                os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)
                return True
        except OSError:
            self.close()
            raise
        self.close()
        return False

    def release(self) -> None:
        """Let go of it."""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, 0)
            self.close()

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


class Activity(_Lock):
    """Which sessions work, of this process and of others."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "busy")
        self._at_work: set[str] = set()

    def began(self, session_id: str) -> None:
        """A session of this process works. Taken at its next step if somebody just looks."""
        self._at_work.add(session_id)
        self._locked(fcntl.LOCK_SH)

    def ended(self, session_id: str) -> None:
        """A session of this process is idle."""
        self._at_work.discard(session_id)
        if not self._at_work and self._handle is not None:
            self._locked(fcntl.LOCK_UN)

    def elsewhere(self) -> bool:
        """Whether a session of another process works. Ask only while none of this one does."""
        taken = self._locked(fcntl.LOCK_EX)
        self._locked(fcntl.LOCK_UN)
        return not taken
