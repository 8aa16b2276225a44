"""The body of an answer as it comes in: server-sent events, or one JSON object or page in their place."""

from typing import Final

from instar.provider.failure import Endpoint
from instar.sse import EventStream, EventTooLongError

MAX_WHOLE: Final = 32 << 20
"""Bytes of an answer that does not stream."""
MAX_STREAM: Final = 256 << 20
"""Bytes of an answer that streams: no model says so much, and a server that never ends must not fill memory."""


class Incoming:
    """Cuts the bytes of an answer into events. `whole` is what came in place of a stream, None for a stream."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.whole: bytearray | None = None
        self._endpoint = endpoint
        self._events = EventStream()
        self._head: bytes | None = b""
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the events that `data` completes. Raises `ProviderError` for one, or all, that is too long."""
        self._size += len(data)
        if self._size > MAX_STREAM:
            raise self._endpoint.malformed(data, f"more than {MAX_STREAM} bytes")
        if self._head is not None:
            data = self._sniff(data)
        if self.whole is not None:
            self.whole += data
            if len(self.whole) > MAX_WHOLE:
                raise self._endpoint.malformed(bytes(self.whole), f"more than {MAX_WHOLE} bytes")
            return []
        try:
            return self._events.feed(data)
        except EventTooLongError as error:
            raise self._endpoint.malformed(data, str(error)) from None

    def close(self) -> list[bytes]:
        """Return the events that the end of the body completes."""
        return self._events.close()

    def _sniff(self, data: bytes) -> bytes:
        """Decide by the first byte whether this is a stream, one JSON object or a page."""
        data = (self._head or b"") + data
        start = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if not start:
            self._head = data
            return b""
        self._head = None
        if start in b"{[<":
            self.whole = bytearray()
        return data
