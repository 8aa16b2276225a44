"""Clients of a server's events: `python -m bench.listeners ADDRESS COUNT` reads so many streams of /event until ended.

It prints a line once each stream has said something, and one each time that all have said that a session is idle: the
bytes that came so far. One process without a parser, so that what is measured is the server.
"""

import selectors
import socket
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

IDLE: Final = b'"session.idle"'
READ: Final = 1 << 18
"""Bytes read at once."""


class Stream:
    """One open stream: the bytes that came, and how often it said that a session is idle."""

    def __init__(self, place: tuple[str, int]) -> None:
        self.bytes = self.idle = 0
        self.socket = socket.create_connection(place)
        self.socket.sendall(
            b"GET /event HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n" % place[0].encode()
        )
        self._end = b""

    def read(self) -> None:
        """Take what has come. Raises `RuntimeError` when the server has closed it."""
        data = self.socket.recv(READ)
        if not data:
            raise RuntimeError("the server closed a stream of events")
        self.bytes += len(data)
        # A word may come in two pieces.
        whole = self._end + data
        self.idle += whole.count(IDLE)
        self._end = whole[-(len(IDLE) - 1) :]


def listen(address: str, count: int) -> Iterator[int]:
    """Read `count` streams; yields the bytes so far when each has begun, and at each end of a turn."""
    url = urllib.parse.urlsplit(address)
    streams = [Stream((url.hostname or "", url.port or 80)) for _ in range(count)]
    selector = selectors.DefaultSelector()
    for one in streams:
        selector.register(one.socket, selectors.EVENT_READ, one)
    begun, turns = False, 0
    while True:
        for key, _ in selector.select():
            key.data.read()
        if not begun and all(one.bytes for one in streams):
            begun = True
            yield sum(one.bytes for one in streams)
        if begun and min(one.idle for one in streams) > turns:
            turns += 1
            yield sum(one.bytes for one in streams)


@contextmanager
def listening(address: str, count: int) -> Iterator[Callable[[], int]]:
    """Listen in a process of its own; the function yielded waits for the next turn's end and returns the bytes.

    It raises `RuntimeError` when a stream ended before.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.listeners", address, str(count)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = process.stdout

    def heard() -> int:
        if not (line := lines.readline()):
            raise RuntimeError(f"{address}: a client of the event stream ended before the turn did")
        return int(line)

    try:
        heard()
        yield heard
    finally:
        process.kill()
        process.wait()
        lines.close()


if __name__ == "__main__":
    for total in listen(sys.argv[1], int(sys.argv[2])):
        print(total, flush=True)
