"""Rules from data: both spellings of events, the keys of each type of rule, and what was not understood.

A mistake costs its own rule at most, never a neighbour. What a rule cannot do without (`type`, what to run or ask,
`matcher`, ``if``) switches the rule off when it cannot be read. Any other key that cannot be read counts as not set:
a guard that runs too often is better than none. Each mistake is a `RuleProblem` with its place.
"""

import difflib
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from instar.plugins.hooks import condition, match
from instar.plugins.hooks.event import ELSEWHERE, EVENTS, SPELLINGS, Dialect, nearest
from instar.plugins.hooks.rule import AgentRule, CommandRule, Evaluator, HookRule, HttpRule, PromptRule

MOST: Final = 200
"""Rules of one source that are armed."""
LONGEST: Final = 86_400.0
"""Seconds that a rule may take at most."""
COMMON: Final = ("type", "name", "if", "timeout", "once", "on_error", "statusMessage", "description")
"""Keys of every rule."""
KEYS: Final[dict[Evaluator, tuple[str, ...]]] = {
    "command": ("command", "args", "shell", "async", "asyncRewake"),
    "http": ("url", "headers", "allowedEnvVars"),
    "prompt": ("prompt", "model", "continueOnBlock"),
    "agent": (
        *("prompt", "system_prompt", "model", "tools", "context", "max_turns", "max_iterations"),
        *("write", "network"),
    ),
}
"""Keys of each type of rule, besides the common ones."""

Keys = tuple[str | int, ...]
"""A place in a source: keys and list indexes from the top."""
Place = Callable[[Keys], tuple[int, int]]
"""Line and column, from 1, of the value at some keys; (0, 0) where a source has no lines."""
Settings = CommandRule | HttpRule | PromptRule | AgentRule

_SWITCH: Final = "disableAllHooks"
_BESIDE: Final = ("hooks", "$schema", "description", _SWITCH)
_OFF: Final = "; the rule is not armed"


class RuleProblem(msgspec.Struct, frozen=True):
    """Something in a source that was not understood. `line` 0: the source has no lines, and `keys` say where."""

    source: str
    message: str
    line: int = 0
    column: int = 0
    keys: str = ""

    def __str__(self) -> str:
        """``file:line:column: keys: message``."""
        place = f"{self.source}:{self.line}:{self.column}" if self.line else self.source
        return f"{place}: {self.keys}: {self.message}" if self.keys else f"{place}: {self.message}"


class ParsedRules(msgspec.Struct):
    """Rules in order, what was not understood of their sources, and notices for a person, a sentence each."""

    rules: list[HookRule] = []
    faults: list[RuleProblem] = []
    notices: list[str] = []


def parse(
    data: Any, source: str, dialect: Dialect, place: Place | None = None, agent: str = ""
) -> ParsedRules:
    """Return the rules in the value of a source. With `agent` they hold only in the turns of that agent.

    `source` names it in messages. Never raises for what the value holds.
    """
    return _Reading(source, dialect, place or (lambda _keys: (0, 0)), agent).read(data)


class _Reading:
    """Reads one source."""

    def __init__(self, source: str, dialect: Dialect, place: Place, agent: str) -> None:
        self._source, self._dialect, self._place, self._agent = source, dialect, place, agent
        self._found = ParsedRules()

    def read(self, data: Any) -> ParsedRules:
        if not self._is((), data, dict, "a map of events"):
            return self._found
        wrapped = "hooks" in data
        if data.get(_SWITCH) is True:
            self._found.notices.append(f"{self._source}: {_SWITCH} is true: its rules are not armed")
            return self._found
        if self._dialect == "claude" and not wrapped and not self._agent:
            for key in (key for key in data if key in SPELLINGS):
                self._fault((key,), 'expected events inside "hooks": {…}; here they are not heard')
            return self._found
        if wrapped and self._dialect != "claude":
            self._unknown((), data, _BESIDE, "is not heard beside hooks")
        events = data["hooks"] if wrapped else {k: v for k, v in data.items() if k not in _BESIDE}
        at: Keys = ("hooks",) if wrapped else ()
        if self._is(at, events, dict, "a map of events"):
            for name, groups in events.items():
                self._event((*at, name), name, groups)
        return self._found

    def _fault(self, keys: Keys, message: str) -> None:
        line, column = self._place(keys)
        self._found.faults.append(RuleProblem(self._source, message, line, column, ".".join(map(str, keys))))

    def _is(self, keys: Keys, value: Any, kind: type, expected: str, effect: str = "") -> bool:
        """Return whether a value is of a type; that it is not is a problem."""
        fits = isinstance(value, kind)
        if not fits:
            self._fault(keys, f"expected {expected}, found {_type_name(value)}{effect}")
        return fits

    def _unknown(self, keys: Keys, data: dict[str, Any], known: Sequence[str], why: str) -> None:
        for key in (key for key in data if key not in known):
            self._fault((*keys, key), f"{why}{_meant(key, known)}")

    def _event(self, keys: Keys, name: str, groups: Any) -> None:
        event = SPELLINGS.get(name)
        if event is None:
            unknown = f"there is no such event; {nearest(name)}"
            why = "this event never happens in instar" if name in ELSEWHERE else unknown
            self._fault(keys, f"{why}; its rules are not armed")
        elif self._is(keys, groups, list, "a list of groups"):
            for index, group in enumerate(groups):
                self._group((*keys, index), event, group)

    def _group(self, keys: Keys, event: str, group: Any) -> None:
        if not self._is(keys, group, dict, '{"matcher": …, "hooks": […]}'):
            return
        if "hooks" not in group:
            around = " around the rule" if "type" in group or "command" in group else ""
            self._fault(keys, f'expected "hooks": [rule, …]{around}; nothing of it is armed')
            return
        self._unknown(keys, group, ("matcher", "hooks", "description"), "there is no such key in a group")
        matcher = self._matcher((*keys, "matcher"), group.get("matcher"))
        if self._is((*keys, "hooks"), group["hooks"], list, "a list of rules") and matcher is not None:
            for index, rule in enumerate(group["hooks"]):
                self._rule((*keys, "hooks", index), event, matcher, rule)

    def _matcher(self, keys: Keys, matcher: Any) -> str | None:
        """Return the matcher of a group, "" for none. None: its rules are not armed."""
        effect = "; its rules are not armed"
        if matcher is None:
            return ""
        if not self._is(keys, matcher, str, "a text", effect):
            return None
        try:
            match.check(matcher)
        except ValueError as error:
            self._fault(keys, f"{error}{effect}")
            return None
        return str(matcher)

    def _rule(self, keys: Keys, event: str, matcher: str, data: Any) -> None:
        if len(self._found.rules) >= MOST:
            # One problem for all rules beyond the limit.
            if not any(fault.message.startswith("more than") for fault in self._found.faults):
                many = f"more than {MOST} rules in one file: this one and those after it are not armed"
                self._fault(keys, many)
            return
        if not self._is(keys, data, dict, "a rule (a map)"):
            return
        read = _RuleData(self._fault, keys, data).read(event, self._dialect)
        if read is None:
            return
        if self._agent and event == "Stop":
            event = "SubagentStop"  # as in Claude Code: in an agent's own file it is that agent that stops
        line, column = self._place(keys)
        self._found.rules.append(
            HookRule(
                event=event,
                dialect=self._dialect,
                source=self._source,
                line=line,
                column=column,
                matcher=matcher,
                agent=self._agent,
                **read,
            )
        )


class _RuleData:
    """The data of one rule at `keys`. What is not understood goes to `fault`, with its keys."""

    def __init__(self, fault: Callable[[Keys, str], None], keys: Keys, data: dict[str, Any]) -> None:
        self._report, self._keys, self._data = fault, keys, data

    def read(self, event: str, dialect: Dialect) -> dict[str, Any] | None:
        """Return the fields of `HookRule` that the data holds. None: the rule is not armed."""
        kind = self._data.get("type", "command")
        settings = self._settings(kind)
        condition = self._condition(event)
        if settings is None or condition is None:
            return None
        usual = usual_timeout(kind, dialect, event)
        name = self._text("name")
        seconds = f"expected seconds above 0, at most {LONGEST:g}"
        timeout = self._value("timeout", _is_seconds, seconds, f"; {usual:g} holds", quoted=True)
        decisions = ("allow", "deny").__contains__
        decision = self._value(
            "on_error", decisions, "expected allow or deny", "; deny holds", "deny", quoted=True
        )
        return {
            "settings": settings,
            "condition": condition,
            "name": name,
            "timeout": float(timeout or usual),
            "on_error": decision or "",
            "once": self._flag("once"),
            "background": (self._flag("async") or self._flag("asyncRewake")) and kind == "command",
        }

    def _settings(self, kind: Any) -> Settings | None:
        """Return what the rule runs or asks. None: it is not armed."""
        if not isinstance(kind, str) or kind not in KEYS:
            known = f"expected one of {', '.join(KEYS)}"
            why = "this type is not run by instar" if kind == "mcp_tool" else known
            self._fault("type", f"{why}, found {str(kind)[:40]!r}{_OFF}")
            return None
        own = (*COMMON, *KEYS[kind])
        of_others = {key for keys in KEYS.values() for key in keys}
        for key in (key for key in self._data if key not in own):
            unknown = f"there is no such key in a rule{_meant(key, own)}; the rule holds without it"
            self._fault(key, f"means nothing for a rule of type {kind}" if key in of_others else unknown)
        readers: dict[str, Callable[[], Settings | None]] = {
            "command": self._command,
            "http": self._http,
            "prompt": self._prompt,
            "agent": self._agent,
        }
        return readers[kind]()

    def _condition(self, event: str) -> str | None:
        """Return the rule's ``if``, "" for none. None: the rule is not armed."""
        text = self._text("if")
        if not text:
            return "" if self._data.get("if") in (None, "") else None
        try:
            condition.parse(text)
        except ValueError as error:
            self._fault("if", f"{error}{_OFF}")
            return None
        if not EVENTS[event].tool:
            self._fault("if", f"{event} has no tool, so the rule never runs")
        return text

    def _command(self) -> CommandRule | None:
        command = self._needed("command")
        shell = self._text("shell")
        if shell not in ("", "bash", "sh"):
            self._fault("shell", f"expected bash or sh, found {shell!r}{_OFF}")
            return None
        args = self._list("args")
        if args is None and "args" in self._data:
            return None  # without its arguments it would be another command
        return CommandRule(command, args, shell) if command else None

    def _http(self) -> HttpRule | None:
        url = self._needed("url")
        if url and not url.startswith(("http://", "https://")):
            self._fault("url", f"expected http:// or https://{_OFF}")
            return None
        headers = self._data.get("headers") or {}
        if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
            self._fault("headers", "expected a map of texts; none is sent")
            headers = {}
        return HttpRule(url, tuple(headers.items()), self._list("allowedEnvVars") or ()) if url else None

    def _prompt(self) -> PromptRule | None:
        prompt = self._needed("prompt")
        return PromptRule(prompt, self._text("model"), self._flag("continueOnBlock")) if prompt else None

    def _agent(self) -> AgentRule | None:
        system = self._text("system_prompt")
        prompt = self._text("prompt") if system else self._needed("prompt")
        if not prompt and not system:
            return None
        return AgentRule(
            prompt=prompt,
            model=self._text("model"),
            # A list that cannot be read allows no tool, rather than the usual ones.
            tools=(self._list("tools") or ()) if self._data.get("tools") is not None else None,
            context=self._list("context") or (),
            max_turns=self._count("max_turns") or self._count("max_iterations"),
            system_prompt=system,
            write=self._flag("write"),
            network=self._flag("network"),
        )

    def _needed(self, key: str) -> str:
        value = self._data.get(key)
        if isinstance(value, str) and value.strip():
            return value
        if key not in self._data:
            self._report(self._keys, f"expected a text as {key}, there is none{_OFF}")
        else:
            found = "it is empty" if value == "" else f"found {_type_name(value)}"
            self._fault(key, f"expected a text as {key}, {found}{_OFF}")
        return ""

    def _text(self, key: str) -> str:
        return self._value(key, lambda value: isinstance(value, str), "expected a text") or ""

    def _flag(self, key: str) -> bool:
        expected = "expected true or false"
        return bool(self._value(key, lambda value: isinstance(value, bool), expected, "; it counts as false"))

    def _list(self, key: str) -> tuple[str, ...] | None:
        value = self._value(key, _is_list_of_texts, "expected a list of texts")
        return None if value is None else tuple(value)

    def _count(self, key: str) -> int | None:
        value = self._data.get(key)
        if value is None or (type(value) is int and 1 <= value <= 500):
            return value
        self._fault(key, f"expected a whole number from 1 to 500, found {str(value)[:40]}")
        return None

    def _value(
        self,
        key: str,
        fits: Callable[[Any], bool],
        expected: str,
        effect: str = "",
        unfit: Any = None,
        *,
        quoted: bool = False,
    ) -> Any:
        """Return the value of a key, None where there is none, `unfit` for one that does not fit: a problem."""
        value = self._data.get(key)
        if value is None or fits(value):
            return value
        found = repr(str(value)[:40]) if quoted else _type_name(value)
        self._fault(key, f"{expected}, found {found}{effect}")
        return unfit

    def _fault(self, key: str, message: str) -> None:
        self._report((*self._keys, key), message)


def _is_seconds(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value <= LONGEST


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _meant(key: Any, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(key), known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def usual_timeout(kind: Evaluator, dialect: Dialect, event: str) -> float:
    """Return the timeout, in seconds, of a rule that sets none: ``docs/hooks.md``, "Dialects"."""
    if kind in ("prompt", "agent"):
        return 30.0 if kind == "prompt" else 60.0
    if dialect == "claude":
        return 30.0 if event == "UserPromptSubmit" else 600.0
    return 60.0


def _type_name(value: Any) -> str:
    """Return the JSON type of a value in words."""
    if value is None:
        return "nothing"
    kinds = {str: "a text", list: "a list", dict: "a map", bool: "true or false", float: "a number"}
    return kinds.get(type(value), "a number" if isinstance(value, int) else type(value).__name__)
