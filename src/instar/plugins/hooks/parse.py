"""Rules from data: both spellings of events, the keys of each type of rule, and what was not understood.

A mistake costs its own rule at most, never a neighbour. What a rule would be another without (`_NEEDED`) switches it
off when it cannot be read. Any other key that cannot be read counts as not set: a guard that runs too often is better
than none. Each mistake is a sentence with its place. In instar's own dialect what cannot be read at a gate stays there
as a `broken` rule, which refuses what it would judge.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, get_args

import msgspec

from instar.plugins.hooks import match
from instar.plugins.hooks.rule import (
    EVENTS,
    GATES,
    SPELLINGS,
    AgentRule,
    CommandRule,
    CommonKeys,
    Dialect,
    Evaluator,
    HookRule,
    HttpRule,
    PromptRule,
    meant,
    no_event,
)

MOST: Final = 200
"""Rules of one source that are armed."""

Keys = tuple[str | int, ...]
"""A place in a source: keys and list indexes from the top."""
Place = Callable[[Keys], tuple[int, int]]
"""Line and column, from 1, of the value at some keys; (0, 0) where a source has no lines."""


def _keys(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(kind))


KINDS: Final[dict[str, type[CommandRule | HttpRule | PromptRule | AgentRule]]] = {
    kind.kind: kind for kind in (CommandRule, HttpRule, PromptRule, AgentRule)
}
KEYS: Final = {name: _keys(kind) for name, kind in KINDS.items()}
"""Keys of each type of rule, besides the common ones."""
COMMON: Final = ("type", *_keys(CommonKeys), "statusMessage", "description")
"""Keys of every rule."""

_NEEDED: Final = ("command", "args", "shell", "url", "prompt", "if")
"""Keys without which a rule would run something else, or at other times."""
_UNREADABLE: Final[dict[str, Any]] = {"on_error": "deny", "tools": ()}
"""What a key is that cannot be read, where it must not be what it is when it is left out."""
_SWITCH: Final = "disableAllHooks"
_BESIDE: Final = ("hooks", "$schema", "description", _SWITCH)
_OFF: Final = "; the rule is not armed"
_ALL_OFF: Final = "; its rules are not armed"
_NOTHING: Final = "; nothing of it is armed"
_REFUSED: Final = "; what it would judge is refused"
_CERTAIN: Final = 0.9
"""How like a known event's name must be to an unknown one that is taken for a slip of the pen."""


class RuleSource(msgspec.Struct, frozen=True):
    """A value that holds rules; `source` names it in messages. With `agent` they hold only in that agent's turns.

    `environment` is what their programs get beside the usual variables.
    """

    data: Any
    source: str
    dialect: Dialect = "instar"
    agent: str = ""
    place: Place = lambda _keys: (0, 0)
    environment: Mapping[str, str] = {}

    @property
    def brought(self) -> bool:
        """Whether a plugin folder brings it: nobody here can mend it, so what only Claude Code knows is passed over."""
        return bool(self.environment)


class ParsedRules(msgspec.Struct):
    """Rules in order, and what a person must know of their sources, a sentence each: ``file:line:column: keys: …``.

    `broken` are the rules that could not be read and refuse what they would judge.
    """

    rules: list[HookRule] = []
    problems: list[str] = []
    broken: list[HookRule] = []


def parse(given: RuleSource, found: ParsedRules) -> None:
    """Add the rules of a source, and what was not understood. Never raises for what the value holds."""
    reading = _Reading(given)
    reading.read(given.data)
    found.rules += reading.rules[:MOST]
    found.problems += reading.problems
    found.broken += reading.broken
    for first in reading.rules[MOST : MOST + 1]:
        many = f"more than {MOST} rules in one file: {first.label} and those after it are not armed"
        found.problems.append(f"{first.place}: {many}")
        over = dict.fromkeys(rule.event for rule in reading.rules[MOST:])
        found.broken += broken(given, many, (first.line, first.column), over)


def broken(
    given: RuleSource, why: str, place: tuple[int, int], events: Iterable[str] = GATES, matcher: str = ""
) -> list[HookRule]:
    """Return rules in the place of what could not be read at the gates among `events`; none in a foreign dialect.

    Claude Code and OpenHands let pass what a file with mistakes would have judged.
    """
    line, column = place
    made = HookRule(
        event="",
        settings=CommandRule(command=""),
        dialect=given.dialect,
        source=given.source,
        line=line,
        column=column,
        matcher=matcher,
        agent=given.agent,
        broken=why,
    )
    names = [name for name in events if name in GATES and given.dialect == "instar"]
    return [msgspec.structs.replace(made, event=name) for name in names]


class _Reading:
    """Reads one source; what is read now would judge `_events` and what `_matcher` fits."""

    def __init__(self, given: RuleSource) -> None:
        self._given = given
        self.rules: list[HookRule] = []
        self.problems: list[str] = []
        self.broken: list[HookRule] = []
        self._events: Iterable[str] = GATES
        self._matcher = ""

    def read(self, data: Any) -> None:
        if not self._is((), data, dict, "a map of events"):
            return
        wrapped = "hooks" in data
        if data.get(_SWITCH) is True:
            self.problems.append(f"{self._given.source}: {_SWITCH} is true: its rules are not armed")
            return
        if self._given.dialect == "claude" and not wrapped and not self._given.agent:
            for key in (key for key in data if key in SPELLINGS):
                self._fault((key,), 'expected events inside "hooks": {…}; here they are not heard')
            return
        if wrapped and self._given.dialect != "claude":
            self._unknown((), data, _BESIDE, "is not heard beside hooks")
        events = data["hooks"] if wrapped else {k: v for k, v in data.items() if k not in _BESIDE}
        at: Keys = ("hooks",) if wrapped else ()
        if self._is(at, events, dict, "a map of events"):
            for name, groups in events.items():
                self._event((*at, name), name, groups)

    def _event(self, keys: Keys, name: str, groups: Any) -> None:
        event, self._matcher = SPELLINGS.get(name), ""
        meant = [name] if event else difflib.get_close_matches(name, SPELLINGS, n=1, cutoff=_CERTAIN)
        self._events = [SPELLINGS[one] for one in meant]
        if event is None:
            if not self._given.brought:
                self._fault(keys, no_event(name), _ALL_OFF)
        elif self._is(keys, groups, list, "a list of groups"):
            for index, group in enumerate(groups):
                self._group((*keys, index), event, group)

    def _group(self, keys: Keys, event: str, group: Any) -> None:
        self._matcher = ""
        if not self._is(keys, group, dict, '{"matcher": …, "hooks": […]}'):
            return
        if not self._is((*keys, "hooks"), group.get("hooks"), list, '"hooks": [rule, …]'):
            return
        self._unknown(keys, group, ("matcher", "hooks", "description"), "there is no such key in a group")
        matcher = group.get("matcher") or ""
        try:
            match.check(msgspec.convert(matcher, str))
        except ValueError as error:
            self._fault((*keys, "matcher"), str(error), _ALL_OFF)
            return
        self._matcher = matcher
        for index, rule in enumerate(group["hooks"]):
            self._rule((*keys, "hooks", index), event, matcher, rule)

    def _rule(self, keys: Keys, event: str, matcher: str, data: Any) -> None:
        if not self._is(keys, data, dict, "a rule (a map)"):
            return
        named = data.get("type", "command")
        kind = KINDS.get(named) if isinstance(named, str) else None
        if kind is None:
            known = ", ".join(KINDS)
            self._fault((*keys, "type"), f"expected one of {known}, found {named!r:.40}", _OFF)
            return
        self._unknown(
            keys, data, (*COMMON, *KEYS[kind.kind]), f"means nothing for a rule of type {kind.kind}"
        )
        common = self._values(CommonKeys, keys, data)
        settings = self._values(kind, keys, data)
        if common is None or settings is None:
            return
        if kind is AgentRule and not (settings.get("prompt") or settings.get("system_prompt")):
            self._fault(keys, "expected a prompt or a system_prompt", _OFF)
            return
        if common.get("condition"):
            try:
                match.parse_condition(common["condition"])
            except ValueError as error:
                self._fault((*keys, "if"), str(error), _OFF)
                return
            if not EVENTS[event].tool:
                self._fault((*keys, "if"), f"{event} has no tool, so the rule never runs")
        line, column = self._given.place(keys)
        self.rules.append(
            HookRule(
                # As in Claude Code: in an agent's own file it is that agent that stops.
                event="SubagentStop" if self._given.agent and event == "Stop" else event,
                dialect=self._given.dialect,
                source=self._given.source,
                line=line,
                column=column,
                matcher=matcher,
                agent=self._given.agent,
                environment=self._given.environment,
                settings=kind(**settings),
                **{"timeout": usual_timeout(kind.kind, self._given.dialect, event), **common},
            )
        )

    def _values(self, kind: type[msgspec.Struct], keys: Keys, data: dict[str, Any]) -> dict[str, Any] | None:
        """Return the fields of a struct that the data of a rule holds. None: the rule is not armed."""
        found: dict[str, Any] = {}
        armed = True
        for field in msgspec.structs.fields(kind):
            name, value = field.encode_name, data.get(field.encode_name)
            try:
                if value is not None:
                    found[field.name] = msgspec.convert(value, field.type)
                elif field.required:
                    raise msgspec.ValidationError("it is not there")
            except msgspec.ValidationError as error:
                parts = [word for part in get_args(field.type) for word in get_args(part)]
                words = [word for word in parts if isinstance(word, str)]
                known = f", expected {' or '.join(words)}" if words else ""
                effect, off = "; it counts as not set", ""
                if name in _NEEDED:
                    armed, effect, off = False, "", _OFF
                elif name in _UNREADABLE:
                    found[field.name] = _UNREADABLE[name]
                    effect = f"; it counts as {msgspec.json.encode(_UNREADABLE[name]).decode()}"
                self._fault((*keys, name), f"{error}{known}{effect}", off)
        return found if armed else None

    def _is(self, keys: Keys, value: Any, kind: type, expected: str) -> bool:
        """Return whether a value is of a type; that it is not is a problem."""
        if not isinstance(value, kind):
            self._fault(keys, f"expected {expected}, found {value!r:.40}", _NOTHING)
        return isinstance(value, kind)

    def _unknown(self, keys: Keys, data: dict[str, Any], known: Sequence[str], why: str) -> None:
        for key in (key for key in data if key not in known and not self._given.brought):
            self._fault((*keys, key), f"{why}{meant(key, known)}")

    def _fault(self, keys: Keys, message: str, off: str = "") -> None:
        """Note a mistake; `off` says what is not armed for it, unless it is refused."""
        line, column = self._given.place(keys)
        place = [self._given.source, *([f"{line}:{column}"] if line else [])]
        named = [".".join(map(str, keys))] if keys else []
        why = ": ".join([*named, message])
        refused = broken(self._given, why, (line, column), self._events, self._matcher) if off else []
        self.broken += refused
        self.problems.append(f"{':'.join(place)}: {why}{_REFUSED if refused else off}")


def usual_timeout(kind: Evaluator, dialect: Dialect, event: str) -> float:
    """Return the timeout, in seconds, of a rule that sets none: ``docs/reference/hook-dialects.md``."""
    if kind in ("prompt", "agent"):
        return 30.0 if kind == "prompt" else 60.0
    if dialect == "claude":
        return 30.0 if event == "UserPromptSubmit" else 600.0
    return 60.0
