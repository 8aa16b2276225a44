"""Which rules match an event: matchers by dialect, Claude Code's ``if``, the tool names of both dialects."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from instar.plugins.hooks import condition, expression
from instar.plugins.hooks.event import HookEvent
from instar.plugins.hooks.names import names
from instar.plugins.hooks.rule import HookRule

_NAMES: Final = re.compile(r"[\w\- ,|]*")
"""A matcher that is a list of names, or one."""


class RuleMatch(NamedTuple):
    """A rule that matches an event. With `doubt` its allow and its rewrites do not count.

    It may not have been meant, or nobody has seen it (`HookRule.new`).
    """

    rule: HookRule
    doubt: bool


def check(matcher: str) -> None:
    """Raise `ValueError` for a matcher that cannot be used."""
    pattern = _expression(matcher)
    if pattern is not None:
        expression.check(pattern)


def matched(rules: Iterable[HookRule], event: HookEvent, home: Path) -> list[RuleMatch]:
    """Return the rules that match an event, in order. `home` is what ``~`` means in an ``if``."""
    found = []
    for rule in rules:
        if rule.event == event.name and rule.agent in ("", event.agent):
            verdict = _meets(rule, event, home)
            if verdict is not False:
                found.append(RuleMatch(rule, doubt=verdict is None or rule.new))
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
    answers = [expression.fits(pattern, name, whole=whole) for name in _subjects(rule, event, listed=False)]
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
