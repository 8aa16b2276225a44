"""Regular expressions of rule files, bounded in time and in memory.

A file may come from a stranger, and `re` cannot be interrupted; `regex` can, and reads what JavaScript's expressions
have (looking ahead and behind). Compiling is bounded by what is compiled: ``{…}`` repeats are written out.
"""

import re
from functools import lru_cache
from typing import Any, Final

LONGEST: Final = 500
"""Characters of an expression."""
MOST: Final = 1000
"""The numbers in all ``{…}`` of an expression, multiplied."""
SECONDS: Final = 0.02
"""Seconds that a search in one name may take."""
LONGEST_NAME: Final = 4096
"""Characters of a name that is searched."""

_COUNT: Final = re.compile(r"\{\s*(\d*)\s*(?:,\s*(\d*)\s*)?\}")
_BEYOND: Final = re.compile(r"\(\?(?:R|&|[+-]?\d|P>|P&|\|)|(?<!\\)(?<!\\[pP])\{[^}]*[a-z<]|\\L<")
"""What `regex` has beyond JavaScript's expressions: recursion, fuzzy matching, lists."""
_slow: set[str] = set()


class BadExpression(ValueError):
    """An expression that cannot be used; the text says why."""


def check(pattern: str) -> None:
    """Raise `BadExpression` for an expression that cannot be used."""
    if len(pattern) > LONGEST:
        raise BadExpression(f"expected at most {LONGEST} characters, found {len(pattern)}")
    if _BEYOND.search(pattern):
        raise BadExpression(f"{pattern!r} repeats itself or counts errors, which no other dialect can")
    size = 1
    for count in _COUNT.finditer(pattern):
        digits = max(count[1] or "1", count[2] or "1", key=lambda number: (len(number), number))
        size *= int(digits[:6])
        if size > MOST:
            raise BadExpression(f"expected at most {MOST} repeats by number, found {count[0]}")
    _compiled(pattern)


def fits(pattern: str, name: str, *, whole: bool) -> bool | None:
    """Return whether `pattern` fits the `whole` name, or a part of it; None when the time is up.

    Raises `BadExpression`.
    """
    check(pattern)
    if pattern in _slow or len(name) > LONGEST_NAME:
        return None
    compiled = _compiled(pattern)
    try:
        look = compiled.fullmatch if whole else compiled.search
        return look(name, timeout=SECONDS) is not None
    except (TimeoutError, MemoryError, RecursionError):
        _slow.add(pattern)  # not again at each call of each tool
        return None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    # Imported here: it takes 18 ms, which only a rule with an expression spends.
    import regex

    try:
        return regex.compile(pattern, regex.V0, cache_pattern=False)
    except regex.error as error:
        raise BadExpression(f"{pattern!r} is no regular expression: {error}") from None
    except (MemoryError, RecursionError):
        raise BadExpression(f"{pattern[:40]!r} has too many levels") from None
