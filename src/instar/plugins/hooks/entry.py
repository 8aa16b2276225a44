"""One rule from its data: what each type of rule may say, and what is not understood of it (issue 8, items 4 to 6)."""

import difflib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from instar.plugins.hooks import condition
from instar.plugins.hooks.event import EVENTS
from instar.plugins.hooks.rule import Agent, Command, Evaluator, Http, OnError, Prompt, Rule

LONGEST: Final = 86_400.0
"""Seconds that a rule may take at most."""

Keys = tuple[str | int, ...]
"""A place in a source: keys and list indexes from the top."""
_EVERY: Final = ("type", "name", "if", "timeout", "once", "on_error", "statusMessage", "description")
_OF: Final[dict[Evaluator, tuple[str, ...]]] = {
    "command": ("command", "args", "shell", "async", "asyncRewake"),
    "http": ("url", "headers", "allowedEnvVars"),
    "prompt": ("prompt", "model", "continueOnBlock"),
    "agent": (
        *("prompt", "system_prompt", "model", "tools", "context", "max_turns", "max_iterations"),
        *("write", "network"),
    ),
}


class Entry:
    """The data of one rule at `keys`; what is not understood goes to `fault`, with its keys."""

    def __init__(self, fault: Callable[[Keys, str], None], keys: Keys, data: dict[str, Any]) -> None:
        self._fault, self._keys, self._data = fault, keys, data

    def settings(self) -> Command | Http | Prompt | Agent | None:
        """What it runs or asks; None: it is off."""
        kind = self._data.get("type", "command")
        makers: dict[str, Callable[[], Command | Http | Prompt | Agent | None]] = {
            "command": self._command,
            "http": self._http,
            "prompt": self._prompt,
            "agent": self._agent,
        }
        if not isinstance(kind, str) or kind not in makers:
            known = (
                "this type is not run by instar"
                if kind == "mcp_tool"
                else "expected one of " + ", ".join(makers)
            )
            self._fault((*self._keys, "type"), f"{known}, found {str(kind)[:40]!r}; the rule is not armed")
            return None
        known_keys = (*_EVERY, *_OF[kind])  # type: ignore[index]
        everything = {key for keys in _OF.values() for key in keys}
        for key in (key for key in self._data if key not in known_keys):
            if key in everything:
                self._fault((*self._keys, key), f"means nothing for a rule of type {kind}")
            else:
                near = difflib.get_close_matches(str(key), known_keys, n=1)
                meant = f"; did you mean {near[0]}?" if near else ""
                self._fault(
                    (*self._keys, key), f"there is no such key in a rule{meant}; the rule holds without it"
                )
        return makers[kind]()

    def condition(self, event: str) -> str | None:
        """Its ``if``, empty for none; None: it is off."""
        text = self._text("if")
        if not text:
            return "" if self._data.get("if") in (None, "") else None
        try:
            condition.parse(text)
        except ValueError as error:
            self._fault((*self._keys, "if"), f"{error}; the rule is not armed")
            return None
        if not EVENTS[event].tool:
            self._fault((*self._keys, "if"), f"{event} has no tool, so the rule never runs")
        return text

    def finished(self, rule: Rule, line: int, column: int) -> Rule:
        """`rule` with what every kind of rule may say."""
        return msgspec.structs.replace(
            rule,
            line=line,
            column=column,
            name=self._text("name"),
            timeout=self._timeout(rule),
            on_error=self._on_error(),
            once=self._flag("once"),
            background=(self._flag("async") or self._flag("asyncRewake")) and rule.evaluator == "command",
        )

    def _command(self) -> Command | None:
        command = self._needed("command")
        shell = self._text("shell")
        if shell not in ("", "bash", "sh"):
            self._fault(
                (*self._keys, "shell"), f"expected bash or sh, found {shell!r}; the rule is not armed"
            )
            return None
        if "args" in self._data and self._list("args") is None:
            return None  # without them another command would run
        return Command(command, self._list("args"), shell) if command else None

    def _http(self) -> Http | None:
        url = self._needed("url")
        if url and not url.startswith(("http://", "https://")):
            self._fault((*self._keys, "url"), "expected http:// or https://; the rule is not armed")
            return None
        headers = self._data.get("headers") or {}
        if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
            self._fault((*self._keys, "headers"), "expected a map of texts; none is sent")
            headers = {}
        return Http(url, tuple(headers.items()), self._list("allowedEnvVars") or ()) if url else None

    def _prompt(self) -> Prompt | None:
        prompt = self._needed("prompt")
        return Prompt(prompt, self._text("model"), self._flag("continueOnBlock")) if prompt else None

    def _agent(self) -> Agent | None:
        system = self._text("system_prompt")
        prompt = self._text("prompt") if system else self._needed("prompt")
        if not prompt and not system:
            return None
        return Agent(
            prompt=prompt,
            model=self._text("model"),
            # A list that cannot be read allows nothing, rather than what is usual.
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
        found = (
            "it is empty"
            if value == ""
            else f"found {kind_of(value)}"
            if key in self._data
            else "there is none"
        )
        self._fault(
            (*self._keys, key) if key in self._data else self._keys,
            f"expected a text as {key}, {found}; the rule is not armed",
        )
        return ""

    def _text(self, key: str) -> str:
        value = self._data.get(key)
        if value is None or isinstance(value, str):
            return value or ""
        self._fault((*self._keys, key), f"expected a text, found {kind_of(value)}")
        return ""

    def _flag(self, key: str) -> bool:
        value = self._data.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self._fault((*self._keys, key), f"expected true or false, found {kind_of(value)}; it counts as false")
        return False

    def _list(self, key: str) -> tuple[str, ...] | None:
        value = self._data.get(key)
        if value is None:
            return None
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self._fault((*self._keys, key), f"expected a list of texts, found {kind_of(value)}")
        return None

    def _count(self, key: str) -> int | None:
        value = self._data.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 500):
            return value
        self._fault((*self._keys, key), f"expected a whole number from 1 to 500, found {str(value)[:40]}")
        return None

    def _timeout(self, rule: Rule) -> float:
        value = self._data.get("timeout")
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LONGEST:
            return float(value)
        usual = usual_timeout(rule)
        if value is not None:
            wanted = f"expected seconds above 0, at most {LONGEST:g}"
            self._fault((*self._keys, "timeout"), f"{wanted}, found {str(value)[:40]!r}; {usual:g} holds")
        return usual

    def _on_error(self) -> OnError:
        value = self._data.get("on_error")
        if value is None or value == "allow" or value == "deny":
            return value or ""
        self._fault(
            (*self._keys, "on_error"), f"expected allow or deny, found {str(value)[:40]!r}; deny holds"
        )
        return "deny"


def usual_timeout(rule: Rule) -> float:
    """Return the seconds that a rule may take when it says nothing: ``docs/hooks.md``, "Dialects"."""
    if rule.evaluator in ("prompt", "agent"):
        return 30.0 if rule.evaluator == "prompt" else 60.0
    if rule.dialect == "claude":
        return 30.0 if rule.event == "UserPromptSubmit" else 600.0
    return 60.0


def kind_of(value: Any) -> str:
    """Name the JSON type of a value, not the value."""
    kinds = {
        str: "a text",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "a map",
        bool: "true or false",
    }
    return "nothing" if value is None else kinds.get(type(value), type(value).__name__)
