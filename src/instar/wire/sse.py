"""Server-sent events out of a byte stream, for any way in which the network cuts it.

Follows the WHATWG event stream rules, for the one field that model providers use (``data``). httpx2's
own ``EventSource`` was weighed: it needs the right content type, which several compatible servers do
not send, and cannot be fed bytes, so a cut stream cannot be tested without a socket.
"""

from typing import Final

MAX_EVENT: Final = 16 << 20
"""Bytes of one event; more is no answer of a model."""


class EventTooLongError(ValueError):
    """One event exceeded `MAX_EVENT` bytes."""


class EventParser:
    """Feed it bytes, get the data of each event that is whole. Comments and other fields are dropped."""

    __slots__ = ("_begun", "_data", "_pending", "_return", "_size")

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0
        self._return = False
        self._begun = False

    @property
    def midway(self) -> bool:
        """Whether a line that is no comment has begun and not ended."""
        return bool(self._pending) and not self._pending[0].startswith(b":")

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of every event that `chunk` completes. Raises `EventTooLongError`."""
        if self._return or b"\r" in chunk:
            chunk = self._plain_newlines(chunk)
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._hold(rest)
            return []
        if self._pending:
            head = b"".join((*self._pending, head))
            self._pending.clear()
        # What is held is the lines of an event that no blank line has ended yet.
        self._size = sum(map(len, self._data)) + len(self._data)
        if not self._begun:
            self._begun = True
            head = head.removeprefix(b"\xef\xbb\xbf")
        found = self._lines(head.split(b"\n"))
        self._hold(rest)
        return found

    def close(self) -> list[bytes]:
        """Return the data of a last event that no blank line ended."""
        if self._return:
            self._pending.append(b"\n")
            self._return = False
        tail = b"".join(self._pending)
        if not self._begun:
            tail = tail.removeprefix(b"\xef\xbb\xbf")
        self._pending.clear()
        return self._lines([*tail.split(b"\n"), b""])

    def _hold(self, rest: bytes) -> None:
        if rest:
            self._pending.append(rest)
            self._size += len(rest)
        if self._size > MAX_EVENT:
            raise EventTooLongError(f"one event of the stream is longer than {MAX_EVENT} bytes")

    def _plain_newlines(self, chunk: bytes) -> bytes:
        """Make CR and CRLF a LF; a CR at the very end waits, as the next chunk may begin with its LF."""
        if self._return:
            chunk = b"\r" + chunk
        self._return = chunk.endswith(b"\r")
        if self._return:
            chunk = chunk[:-1]
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _lines(self, lines: list[bytes]) -> list[bytes]:
        found = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
                self._size += len(line)
            elif not line and data:
                found.append(data[0] if len(data) == 1 else b"\n".join(data))
                data.clear()
                self._size = 0
        return found
