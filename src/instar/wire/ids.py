"""Identifiers that sort by the time they were made, in opencode's form.

An id is a prefix, an underscore, 12 hexadecimal digits that hold the low 48 bits of
``milliseconds * 4096 + counter``, and 14 random base-62 characters. ``ses_`` ids hold the bitwise
NOT of that number, so that the newest session sorts first.
"""

import os
import threading
import time
from typing import Annotated, Final

import msgspec

PREFIXES: Final = ("ses", "msg", "prt", "evt", "per", "que", "tool", "wrk", "pty", "job", "fup", "err", "req")
"""Every prefix in use: opencode's, then our own (a follow-up, a logged failure, an HTTP request)."""

SessionID = Annotated[str, msgspec.Meta(pattern="^ses_")]
MessageID = Annotated[str, msgspec.Meta(pattern="^msg_")]
PartID = Annotated[str, msgspec.Meta(pattern="^prt_")]
PermissionID = Annotated[str, msgspec.Meta(pattern="^per_")]
QuestionID = Annotated[str, msgspec.Meta(pattern="^que_")]
WorkspaceID = Annotated[str, msgspec.Meta(pattern="^wrk_")]

_ALPHABET: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHARACTERS: Final = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))
"""The character of an id that each random byte becomes."""
_MASK: Final = (1 << 48) - 1
_ROUND: Final = 1 << 36
"""Milliseconds after which the time in an id begins anew."""
_AHEAD: Final = 30 * 24 * 3600 * 1000
_TAIL: Final = 14
_AT_ONCE: Final = 512
"""Random bytes that are asked of the system at once: each time costs as much as the rest of an id."""
_lock = threading.Lock()
_last = 0
_random = b""


def new(prefix: str, *, now: int | None = None) -> str:
    """Return a fresh id with `prefix` (one of `PREFIXES`); `now` is in milliseconds since the epoch.

    Ids made by one process in one call order sort in that order, also when the clock steps back.
    Raises `ValueError` for a prefix that is not known.
    """
    global _last, _random
    if prefix not in PREFIXES:
        raise ValueError(f"unknown id prefix {prefix!r}; known: {', '.join(PREFIXES)}")
    with _lock:
        time_now = now if now is not None else time.time_ns() // 1_000_000
        _last = stamp = max(time_now * 4096, _last + 1)
        if len(_random) < _TAIL:
            _random = os.urandom(_AT_ONCE)
        drawn, _random = _random[:_TAIL], _random[_TAIL:]
    if prefix == "ses":
        stamp = ~stamp
    return f"{prefix}_{stamp & _MASK:012x}{drawn.translate(_CHARACTERS).decode()}"


def age(made: str, now: int) -> int:
    """Return how many ms before `now` an id was made; less than 0 when by a clock that was ahead, for up to a month.

    The time in an id begins anew every two years: one that is older counts from there.
    """
    ago = (now - (int(made[-26:-14], 16) >> 12)) % _ROUND
    return ago if ago < _ROUND - _AHEAD else ago - _ROUND


def is_id(text: object, prefix: str) -> bool:
    """Whether `text` is a string that starts with `prefix` and an underscore."""
    return isinstance(text, str) and text.startswith(prefix + "_")


def _forget() -> None:
    global _random, _lock
    _random, _lock = b"", threading.Lock()


# A child that goes on with our memory would make the ids that we make.
os.register_at_fork(after_in_child=_forget)
