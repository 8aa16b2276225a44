"""A folder for one session apart: its store, and a copy of the project where no overlay can be laid over it.

A folder whose process died is removed by the next one that makes a folder here.
"""

import fcntl
import os
import tempfile
from pathlib import Path

from instar.document import locked
from instar.sandbox.copies import remove


class Place:
    """The folder `folder`, held by a lock for as long as this process uses it."""

    def __init__(self, data: Path) -> None:
        """Make the folder below the data folder, which no child can see. Raises `OSError`."""
        parent = data / "aside"
        with locked(parent):
            for left in parent.iterdir():
                _remove_unused(left)
            self.folder = Path(tempfile.mkdtemp(dir=parent))
            self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder with all that is in it. Raises `OSError`; then the next one to come does it."""
        try:
            remove(self.folder)
        finally:
            os.close(self._lock)


def _remove_unused(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # somebody works in it
    else:
        remove(folder)
    finally:
        os.close(handle)
