"""What is kept of a stream: its head in memory, and the whole of it in a file where asked."""

import os
from pathlib import Path
from typing import BinaryIO, Final

MIB: Final = 1 << 20
SPILL_LIMIT: Final = 100 * MIB
"""Bytes that a spill file holds at most: a child that never stops must not fill the disk."""


class Kept:
    """The first `limit` bytes of a stream; all of it in a file once there are more, if there is a path."""

    def __init__(self, limit: int, spill: Path | None = None) -> None:
        self.head = bytearray()
        self.size = 0
        self.spilled: Path | None = None
        self._limit = limit
        self._spill = spill
        self._file: BinaryIO | None = None

    @property
    def truncated(self) -> bool:
        """Whether more came than is kept."""
        return self.size > len(self.head)

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        room = self._limit - len(self.head)
        rest = data[room:] if room > 0 else data
        if room > 0:
            self.head += data[:room]
        if rest and self._spill is not None:
            self._save(rest)
        self.size += len(data)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _save(self, rest: bytes) -> None:
        # A full disk costs the saved rest, not the command: its kept head and exit code still count.
        assert self._spill is not None
        try:
            if self._file is None:
                self._file = os.fdopen(
                    os.open(self._spill, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
                )
                self._file.write(self.head)
                self.spilled = self._spill
            self._file.write(rest[: max(0, SPILL_LIMIT - self._file.tell())])
        except OSError:
            self._spill = self.spilled = None
            self.close()
