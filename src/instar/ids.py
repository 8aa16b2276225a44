"""Identifiers that sort by the time they were made, in opencode's form.

An id is a prefix, an underscore, 12 hexadecimal digits that hold the low 48 bits of
``milliseconds * 4096 + counter``, and 14 random base-62 characters. ``ses_`` ids hold the bitwise
NOT of that number, so that the newest session sorts first. Source: the reference's section 3.1.
"""

import secrets
import threading
import time
from typing import Final

PREFIXES: Final = ("ses", "msg", "prt", "evt", "per", "que", "tool", "wrk", "job", "fup", "err")
"""Every prefix in use: opencode's, then our own (``fup`` a follow-up, ``err`` a logged failure)."""

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MASK: Final = (1 << 48) - 1
_lock = threading.Lock()
_last = 0


def new(prefix: str, *, now: int | None = None) -> str:
    """Return a fresh id with `prefix` (one of `PREFIXES`); `now` is in milliseconds since the epoch.

    Ids made by one process in one call order sort in that order, also when the clock steps back.
    Raises `ValueError` for a prefix that is not known.
    """
    if prefix not in PREFIXES:
        raise ValueError(f"unknown id prefix {prefix!r}; known: {', '.join(PREFIXES)}")
    stamp = _stamp(now if now is not None else time.time_ns() // 1_000_000)
    if prefix == "ses":
        stamp = ~stamp
    tail = "".join(_ALPHABET[byte % 62] for byte in secrets.token_bytes(14))
    return f"{prefix}_{stamp & _MASK:012x}{tail}"


def is_id(text: object, prefix: str) -> bool:
    """Whether `text` is a string that starts with `prefix` and an underscore."""
    return isinstance(text, str) and text.startswith(prefix + "_")


def _stamp(now: int) -> int:
    global _last
    with _lock:
        _last = max(now * 4096, _last + 1)
        return _last
