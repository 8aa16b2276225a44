"""Which rules match an event: matchers by dialect, Claude Code's ``if``, the tool names of both dialects.

Regular expressions are bounded in time and in memory. A file with rules may come from a stranger, and `re` cannot be
interrupted; `regex` can, and reads what JavaScript's expressions have (looking ahead and behind). Compiling is bounded
by what is compiled: ``{…}`` repeats are written out.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from instar.plugins.hooks import condition
from instar.plugins.hooks.event import HookEvent
from instar.plugins.hooks.names import names
from instar.plugins.hooks.rule import HookRule

LONGEST_EXPRESSION: Final = 500
"""Characters of an expression."""
REPEATS: Final = 1000
"""The numbers in all ``{…}`` of an expression, multiplied."""
SEARCH_SECONDS: Final = 0.02
"""Seconds that a search in one name may take."""
LONGEST_NAME: Final = 4096
"""Characters of a name that is searched."""

_NAMES: Final = re.compile(r"[\w\- ,|]*")
"""A matcher that is a list of names, or one."""
_COUNT: Final = re.compile(r"\{\s*(\d*)\s*(?:,\s*(\d*)\s*)?\}")
_BEYOND: Final = re.compile(r"\(\?(?:R|&|[+-]?\d|P>|P&|\|)|(?<!\\)(?<!\\[pP])\{[^}]*[a-z<]|\\L<")
"""What `regex` has beyond JavaScript's expressions: recursion, fuzzy matching, lists."""
_slow: set[str] = set()


class RuleMatch(NamedTuple):
    """A rule that matches an event. In `doubt` whether it was meant, its allow and its rewrites do not count."""

    rule: HookRule
    doubt: bool


def matched(rules: Iterable[HookRule], event: HookEvent, home: Path) -> list[RuleMatch]:
    """Return the rules that match an event, in order. `home` is what ``~`` means in an ``if``."""
    found = []
    for rule in rules:
        if rule.event == event.name and rule.agent in ("", event.agent):
            verdict = _meets(rule, event, home)
            if verdict is not False:
                found.append(RuleMatch(rule, doubt=verdict is None))
    return found


def _meets(rule: HookRule, event: HookEvent, home: Path) -> bool | None:
    first = _matcher(rule, event)
    if first is False or not rule.condition:
        return first
    if event.tool is None:
        return False
    second = condition.fits(condition.parse(rule.condition), event.tool, event.directory, home)
    return False if second is False else None if None in (first, second) else True


def _matcher(rule: HookRule, event: HookEvent) -> bool | None:
    matcher = rule.matcher.strip()
    if matcher in ("", "*"):
        return True
    if event.tool is None and not event.kind.subject and rule.dialect != "openhands":
        return True
    pattern = _expression(matcher)
    if pattern is None:
        wanted = {name.strip() for name in re.split(r"[|,]", matcher)}
        return not wanted.isdisjoint(_subjects(rule, event, listed=True))
    whole = rule.dialect != "claude"
    answers = [_fits(pattern, name, whole=whole) for name in _subjects(rule, event, listed=False)]
    return True if True in answers else None if None in answers else False


def _expression(matcher: str) -> str | None:
    """Return a matcher's regular expression, None for a list of names."""
    matcher = matcher.strip()
    if len(matcher) > 1 and matcher.startswith("/") and matcher.endswith("/"):
        return matcher[1:-1]
    return None if matcher == "*" or _NAMES.fullmatch(matcher) else matcher


def _subjects(rule: HookRule, event: HookEvent, *, listed: bool) -> tuple[str, ...]:
    """Return what a matcher is compared with: the tool's names, or the event's subject.

    A list names tools as one likes; an expression was written with the names of its dialect in mind: ``^(?!Bash$)``
    must not fit ``bash`` because our name of it is another.
    """
    if event.tool is not None:
        return names(event.tool, None if listed or rule.dialect == "instar" else rule.dialect)
    if rule.dialect == "openhands":
        return ("",)
    value = event.fields.get(event.kind.subject, "")
    found = tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),)
    # Claude Code knows no session that is archived or deleted; it calls all that it has no name for so.
    return (*found, "other") if event.name == "SessionEnd" else found


def check(matcher: str) -> None:
    """Raise `ValueError` for a matcher that cannot be used."""
    pattern = _expression(matcher)
    if pattern is None:
        return
    if len(pattern) > LONGEST_EXPRESSION:
        raise ValueError(f"expected at most {LONGEST_EXPRESSION} characters, found {len(pattern)}")
    if _BEYOND.search(pattern):
        raise ValueError(f"{pattern!r} repeats itself or counts errors, which no other dialect can")
    size = 1
    for count in _COUNT.finditer(pattern):
        digits = max(count[1] or "1", count[2] or "1", key=lambda number: (len(number), number))
        size *= int(digits[:6])
        if size > REPEATS:
            raise ValueError(f"expected at most {REPEATS} repeats by number, found {count[0]}")
    _compiled(pattern)


def _fits(pattern: str, name: str, *, whole: bool) -> bool | None:
    """Return whether `pattern` fits the `whole` name, or a part of it; None when the time is up."""
    if pattern in _slow or len(name) > LONGEST_NAME:
        return None
    compiled = _compiled(pattern)
    try:
        look = compiled.fullmatch if whole else compiled.search
        return look(name, timeout=SEARCH_SECONDS) is not None
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
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    except (MemoryError, RecursionError):
        raise ValueError(f"{pattern[:40]!r} has too many levels") from None
