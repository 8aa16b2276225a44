"""A made-up event from the words of a command line."""

import difflib
import json
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from instar.plugins.hooks.event import EVENTS, SPELLINGS, Event, ToolUse
from instar.plugins.hooks.names import CLAUDE, OPENHANDS

_USUAL: Final[dict[str, dict[str, Any]]] = {
    "SessionStart": {"source": "startup"},
    "SessionEnd": {"reason": "other"},
    "PreCompact": {"trigger": "manual", "custom_instructions": ""},
    "PostCompact": {"trigger": "manual"},
    "Stop": {"stop_hook_active": False, "last_assistant_message": ""},
    "SubagentStop": {"stop_hook_active": False, "last_assistant_message": ""},
    "Notification": {"notification_type": "idle_prompt", "message": ""},
    "Heartbeat": {"title": "heartbeat"},
    "Evolve": {"files": []},
}
"""What an event says where the command line does not: so that a rule finds the fields that it reads."""


class Given(msgspec.Struct, frozen=True):
    """What the command line says of an event. `answer` is the tool's; `fields` are ``NAME=VALUE``."""

    event: str
    tool: str = ""
    arguments: str = ""
    answer: str | None = None
    prompt: str | None = None
    fields: tuple[str, ...] = ()
    agent: str = ""
    session: str = ""


def named(begun: str) -> list[str]:
    """Return the events whose name begins so, for a shell that completes it."""
    return [name for name in SPELLINGS if name.startswith(begun) and (begun or name in EVENTS)]


def event_of(given: Given, directory: Path) -> Event:
    """Return the event that was made up. Raises `click.UsageError` for words that make none."""
    name = SPELLINGS.get(given.event) or _meant(given.event)
    kind = EVENTS[name]
    if kind.tool and not given.tool:
        raise click.UsageError(f"{name} is about a tool: name one, as in --tool bash --input '{{…}}'")
    if not kind.tool and (given.tool or given.arguments or given.answer is not None):
        raise click.UsageError(f"{name} is about no tool: leave out --tool, --input and --output")
    fields = dict(_USUAL.get(name, {}))
    if given.agent and kind.subject == "agent_type":
        fields["agent_type"] = given.agent
    if given.prompt is not None or name == "UserPromptSubmit":
        fields["prompt"] = given.prompt or ""
    fields |= dict(_field(text) for text in given.fields)
    tool = _tool(given, name) if kind.tool else None
    return Event(name, given.session, directory, tool, agent=given.agent, fields=fields)


def _tool(given: Given, event: str) -> ToolUse:
    said = given.answer or ""
    arguments = _arguments(given.arguments)
    name = _ours(given.tool)
    if event == "PostToolUse":
        return ToolUse(name, arguments, "call_test", response={"output": said}, duration=0)
    if event == "PostToolUseFailure":
        return ToolUse(name, arguments, "call_test", error=said or "it failed", duration=0)
    return ToolUse(name, arguments, "call_test")


def _ours(name: str) -> str:
    """Our name of a tool that may be named as the other systems do. A name that nobody has is an MCP server's."""
    if name in CLAUDE:
        return name
    found = [
        tool for tool in CLAUDE if tool != "apply_patch" and name in (*CLAUDE[tool], *OPENHANDS.get(tool, ()))
    ]
    if len(found) > 1:
        raise click.UsageError(f"{name} is {', '.join(found[:-1])} or {found[-1]} here: name one of them")
    return found[0] if found else name


def _arguments(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"--input is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.UsageError(f'--input is to be an object, as in \'{{"command": "ls"}}\', not {text[:40]}')
    return found


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f"--set {text[:40]}: expected NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _meant(event: str) -> str:
    near = difflib.get_close_matches(event, SPELLINGS, n=1)
    known = f"did you mean {near[0]}?" if near else f"known are {', '.join(EVENTS)}"
    raise click.UsageError(f"there is no event {event!r}; {known}")
