"""A schema's regular expressions, without those that could take for ever.

A schema may come from a stranger's server, and `re` cannot be interrupted: ``(a+)+$`` takes twice as long with
each further character. What could take too long is not looked for; it counts as found.
"""

import re
from functools import lru_cache
from typing import Final

MOST: Final = 20_000_000
"""Steps that a search may take at worst: some tenths of a second."""

_TOKEN: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\((?:\?(?:[a-zA-Z-]*:|P<\w+>|<?[=!]|>|))?)|(?P<count>[*+]|\{\d*,?\d*\})|(?P<sign>[)|?])",
    re.DOTALL,
)
_APART: Final = re.compile(
    r"(?:\\(?P<escaped>[^\w\s])|(?P<sign>[^\w\s\\()\[\]|*+?{}.^$]))(?:\[(?P<set>[\w-]*)\]|\\[wd]|\w)(?:[*+]|\{\d*,?\d*\})?"
)
"""A group that begins with a sign and goes on without it: however often it is repeated, it fits in one way."""


_LOOSE: Final = re.compile(r"\(\?(?:#|[a-zA-Z]*x)")
"""A comment, or the flag that lets blanks and comments stand anywhere: what a repeat belongs to is hidden."""


def is_found(pattern: str, text: str) -> bool:
    """Whether a text holds a match, or looking for it could take too long. Raises `re.error`."""
    expression = _compiled(pattern)
    power = _power(pattern)
    if power is None or max(len(text), 1) ** power > MOST:
        return True
    return expression.search(text) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@lru_cache(maxsize=256)
def _power(pattern: str) -> int | None:
    """The power of a text's length that a search takes at worst: its repeats, and where it may begin.

    None where it may be exponential: a repeated group with a repeat or a choice in it, as far as `_APART` does
    not know better.
    """
    if _LOOSE.search(pattern):
        return None
    power = 0 if pattern.startswith(("^", "\\A")) else 1
    varied, starts, closed = [False], [0], -1
    for token in _TOKEN.finditer(pattern):
        if token["open"]:
            varied.append(False)
            starts.append(token.end())
        elif token["count"]:
            if token.start() == closed:
                return None
            varied[-1], power = True, power + 1
        elif token[0] == ")" and len(varied) > 1:
            inner, start = varied.pop(), starts.pop()
            varied[-1] = varied[-1] or inner
            closed = token.end() if inner and not _is_apart(pattern[start : token.start()]) else -1
        elif token["sign"]:
            varied[-1] = True
    return power


def _is_apart(group: str) -> bool:
    found = _APART.fullmatch(group)
    if found is None:
        return False
    return (found["escaped"] or found["sign"]) not in re.sub(r"\w-\w", "", found["set"] or "")
