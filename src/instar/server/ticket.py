"""Tickets for terminals: what stands for the password in a web socket's address, where a page can set no header.

A ticket is good for one connection to one terminal of one directory, for a minute (as in opencode). It is no password:
what a history or a log keeps of the address opens nothing any more.
"""

import re
import secrets
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

LIFE: Final = 60
"""Seconds for which a ticket is good."""
_MOST: Final = 1024
_CONNECT: Final = re.compile(r"(?:/api)?/pty/(pty[^/]*)/connect")


class _Ticket(NamedTuple):
    pty_id: str
    directory: str
    until: float


class Tickets:
    """The tickets of one server that were not used yet. `now` is a clock in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._found: dict[str, _Ticket] = {}

    def issue(self, pty_id: str, directory: str) -> str:
        """Return a new ticket for a terminal of a directory's instance; the oldest goes where there are too many."""
        now = self._now()
        self._found = {one: kept for one, kept in self._found.items() if kept.until > now}
        if len(self._found) >= _MOST:
            del self._found[next(iter(self._found))]
        ticket = secrets.token_urlsafe(32)
        self._found[ticket] = _Ticket(pty_id, directory, now + LIFE)
        return ticket

    def redeem(self, ticket: str, pty_id: str) -> str | None:
        """Use a ticket up; return the directory that it is good for, None where it is not good for the terminal."""
        kept = self._found.pop(ticket, None)
        good = kept is not None and kept.pty_id == pty_id and kept.until > self._now()
        return kept.directory if kept is not None and good else None

    def admit(self, scope: Any) -> bool:
        """Whether a web socket comes with a ticket for the terminal that it asks for; the ticket stays good."""
        asked = _CONNECT.fullmatch(scope["path"]) if scope["type"] == "websocket" else None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("ticket", [""])[0] if asked else ""
        kept = self._found.get(given)
        return asked is not None and kept is not None and kept.pty_id == asked[1] and kept.until > self._now()
