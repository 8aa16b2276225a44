"""Rules and events for tests of the hooks plugin."""

from pathlib import Path
from typing import Any

from instar.plugins.hooks.parse import ParsedRules, RuleSource, parse
from instar.plugins.hooks.rule import HookEvent, HookRule, ToolUse

SETTINGS: dict[str, dict[str, Any]] = {
    "command": {"type": "command", "command": "./check.sh"},
    "http": {"type": "http", "url": "http://127.0.0.1:1/hook"},
    "prompt": {"type": "prompt", "prompt": "Only safe things."},
    "agent": {"type": "agent", "prompt": "Look and decide."},
}


def read(data: Any, dialect: str = "instar", source: str = "hooks.json", **more: Any) -> ParsedRules:
    found = ParsedRules()
    parse(RuleSource(data, source, dialect, **more), found)
    return found


def rule(
    event: str = "PreToolUse", dialect: str = "instar", evaluator: str = "command", **keys: Any
) -> HookRule:
    """The rule that a file of the dialect gives; `matcher` stands in the group, all else in the rule."""
    matcher = keys.pop("matcher", "*")
    group = {"matcher": matcher, "hooks": [SETTINGS[evaluator] | keys]}
    found = read({"hooks": {event: [group]}}, dialect)
    assert not found.problems, found.problems
    return found.rules[0]


def event(name: str = "PreToolUse", tool: str | None = None, **keys: Any) -> HookEvent:
    """An event; `tool` with `input`, or `fields`."""
    use = None
    if tool is not None:
        use = ToolUse(tool, keys.pop("input", {}), **keys.pop("use", {}))
    return HookEvent(name, "ses_1", Path(keys.pop("directory", "/project")), use, **keys)
