"""Rules from data: both spellings of events, both dialects' keys, and what was not understood (issue 8, item 1).

A mistake costs its own rule at most, never a neighbour. What a rule cannot do without (`type`, what to run or ask,
`matcher`, ``if``) switches it off when it cannot be read; all else that is not understood counts as not said, since a
guard that runs too often is better than none. Each mistake is a `Fault` with its place.
"""

import difflib
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from instar.plugins.hooks import match
from instar.plugins.hooks.entry import Entry, Keys, kind_of
from instar.plugins.hooks.event import ELSEWHERE, EVENTS, SPELLINGS, Dialect
from instar.plugins.hooks.rule import Rule

MOST: Final = 200
"""Rules of one source that are armed."""

Place = Callable[[Keys], tuple[int, int]]
"""Line and column, from 1, of the value at some keys; (0, 0) where a source has no lines."""

_SWITCH: Final = "disableAllHooks"
_BESIDE: Final = ("hooks", "$schema", "description", _SWITCH)


class Fault(msgspec.Struct, frozen=True):
    """Something in a source that was not understood. `line` 0: the source has no lines; `keys` say where then."""

    source: str
    line: int
    column: int
    keys: str
    message: str

    def __str__(self) -> str:
        """``file:line:column: keys: message``."""
        place = f"{self.source}:{self.line}:{self.column}" if self.line else self.source
        return f"{place}: {self.keys}: {self.message}" if self.keys else f"{place}: {self.message}"


class Parsed(msgspec.Struct):
    """The rules of a source in the order written, and what was not understood. `off`: it switches itself off."""

    rules: list[Rule] = []
    faults: list[Fault] = []
    off: bool = False


def parse(data: Any, source: str, dialect: Dialect, place: Place | None = None, agent: str = "") -> Parsed:
    """Return the rules in the value of a source; `agent`: they hold in the turns of that agent alone.

    `source` names it in messages. Never raises for what the value holds.
    """
    return _Reading(source, dialect, place or (lambda _keys: (0, 0)), agent).read(data)


class _Reading:
    """The work on one source."""

    def __init__(self, source: str, dialect: Dialect, place: Place, agent: str) -> None:
        self._source, self._dialect, self._place, self._agent = source, dialect, place, agent
        self._found = Parsed()

    def read(self, data: Any) -> Parsed:
        if not isinstance(data, dict):
            self._fault((), f"expected a map of events, found {kind_of(data)}")
            return self._found
        wrapped = "hooks" in data
        if data.get(_SWITCH) is True:
            self._found.off = True
            return self._found
        if self._dialect == "claude" and not wrapped and not self._agent:
            loose = [key for key in data if key in SPELLINGS]
            for key in loose:
                self._fault((key,), 'expected events inside "hooks": {…}; here they are not heard')
            return self._found
        if wrapped and self._dialect != "claude":
            self._unknown((), data, _BESIDE, "is not heard beside hooks")
        events = data["hooks"] if wrapped else {k: v for k, v in data.items() if k not in _BESIDE}
        at: Keys = ("hooks",) if wrapped else ()
        if isinstance(events, dict):
            for name, groups in events.items():
                self._event((*at, name), name, groups)
        else:
            self._fault(at, f"expected a map of events, found {kind_of(events)}")
        return self._found

    def _fault(self, keys: Keys, message: str) -> None:
        line, column = self._place(keys)
        self._found.faults.append(Fault(self._source, line, column, ".".join(map(str, keys)), message))

    def _unknown(self, keys: Keys, data: dict[str, Any], known: Iterable[str], why: str) -> None:
        names = list(known)
        for key in data:
            if key not in names:
                near = difflib.get_close_matches(str(key), names, n=1)
                self._fault((*keys, key), f"{why}{f'; did you mean {near[0]}?' if near else ''}")

    def _event(self, keys: Keys, name: str, groups: Any) -> None:
        event = SPELLINGS.get(name)
        if event is None:
            near = difflib.get_close_matches(name, SPELLINGS, n=1)
            known = f"did you mean {near[0]}?" if near else f"known are {', '.join(EVENTS)}"
            why = (
                "this event never happens in instar"
                if name in ELSEWHERE
                else f"there is no such event; {known}"
            )
            self._fault(keys, f"{why}; its rules are not armed")
            return
        if not isinstance(groups, list):
            self._fault(keys, f"expected a list of groups, found {kind_of(groups)}")
            return
        for index, group in enumerate(groups):
            self._group((*keys, index), event, group)

    def _group(self, keys: Keys, event: str, group: Any) -> None:
        if not isinstance(group, dict):
            self._fault(keys, f'expected {{"matcher": …, "hooks": […]}}, found {kind_of(group)}')
            return
        if "hooks" not in group:
            bare = "type" in group or "command" in group
            why = 'expected "hooks": [rule, …] around the rule' if bare else 'expected "hooks": [rule, …]'
            self._fault(keys, f"{why}; nothing of it is armed")
            return
        self._unknown(keys, group, ("matcher", "hooks", "description"), "there is no such key in a group")
        matcher = self._matcher(keys, group)
        if not isinstance(group["hooks"], list):
            self._fault((*keys, "hooks"), f"expected a list of rules, found {kind_of(group['hooks'])}")
        elif matcher is not None:
            for index, rule in enumerate(group["hooks"]):
                self._rule((*keys, "hooks", index), event, matcher, rule)

    def _matcher(self, keys: Keys, group: dict[str, Any]) -> str | None:
        matcher = group.get("matcher")
        if matcher is None:
            return ""
        if not isinstance(matcher, str):
            self._fault(
                (*keys, "matcher"), f"expected a text, found {kind_of(matcher)}; its rules are not armed"
            )
            return None
        try:
            match.check(matcher)
        except ValueError as error:
            self._fault((*keys, "matcher"), f"{error}; its rules are not armed")
            return None
        return matcher

    def _rule(self, keys: Keys, event: str, matcher: str, data: Any) -> None:
        if len(self._found.rules) >= MOST:
            # One sentence for all that is beyond, not one for each.
            if not any(fault.message.startswith("more than") for fault in self._found.faults):
                self._fault(
                    keys, f"more than {MOST} rules in one file: this one and those after it are not armed"
                )
            return
        if not isinstance(data, dict):
            self._fault(keys, f"expected a rule (a map), found {kind_of(data)}")
            return
        one = Entry(self._fault, keys, data)
        settings = one.settings()
        where = one.condition(event)
        if settings is None or where is None:
            return
        if self._agent and event == "Stop":
            event = "SubagentStop"  # in an agent's own file, as in Claude Code: it is that agent that stops
        rule = Rule(
            event=event,
            settings=settings,
            dialect=self._dialect,
            source=self._source,
            timeout=0,
            matcher=matcher,
            condition=where,
            agent=self._agent,
        )
        line, column = self._place(keys)
        self._found.rules.append(one.finished(rule, line, column))
