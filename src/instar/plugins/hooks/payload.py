"""What a rule gets of an event: JSON on stdin with both dialects' names, and environment variables. Pure.

The values are copies: what an evaluator does with them changes nothing here. They hold what the event holds and no
settings, so no secret of ours.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from instar.plugins.hooks.event import Dialect, HookEvent
from instar.plugins.hooks.names import DialectCall, views

LONGEST: Final = 256 << 10
"""Characters of one text in a tool's response; arguments and prompts stay whole, since a guard must see all of them."""
DEEPEST: Final = 100
"""Levels of maps and lists in a value."""


def payloads(event: HookEvent, dialect: Dialect) -> list[tuple[DialectCall | None, dict[str, Any]]]:
    """Return the payloads for a rule of `dialect`, each with the tool's call that it holds.

    One, but for a patch in a foreign dialect: there one for each file, and each is put to the rule (see
    `instar.plugins.hooks.names.views`).
    """
    if event.tool is None:
        return [(None, _payload(event, dialect, None))]
    return [(view, _payload(event, dialect, view)) for view in views(event.tool, dialect, event.directory)]


def encode(told: Mapping[str, Any]) -> bytes:
    """Return a payload as one line of JSON."""
    return json.dumps(told, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def environment(event: HookEvent, view: DialectCall | None, project: Path) -> dict[str, str]:
    """Return the environment variables that scripts of both dialects read."""
    found = {
        "CLAUDE_PROJECT_DIR": str(project),
        "OPENHANDS_PROJECT_DIR": str(project),
        "OPENHANDS_SESSION_ID": event.session_id,
        "OPENHANDS_EVENT_TYPE": event.name,
        "AI_AGENT": "instar",
        "INSTAR_PROJECT_DIR": str(project),
        "INSTAR_SESSION_ID": event.session_id,
        "INSTAR_HOOK_EVENT": event.name,
    }
    if view is not None:
        found |= {"OPENHANDS_TOOL_NAME": view.name, "INSTAR_TOOL_NAME": event.tool.name if event.tool else ""}
    return {name: value.replace("\0", "") for name, value in found.items()}


def _payload(event: HookEvent, dialect: Dialect, view: DialectCall | None) -> dict[str, Any]:
    fields = {key: _plain(value) for key, value in event.fields.items()}
    told: dict[str, Any] = {
        "hook_event_name": event.name,
        "event_type": event.name,
        "session_id": event.session_id,
        "cwd": str(event.directory),
        "working_dir": str(event.directory),
        "transcript_path": event.transcript_path,
        "permission_mode": event.permission_mode,
        "tool_name": None,
        "tool_input": None,
        "tool_response": None,
        "message": fields.get("prompt"),
        "metadata": {"reason": "agent_finished"} if event.name == "Stop" else None,
        **fields,
    }
    if event.name in ("Stop", "SubagentStop"):
        told.setdefault("stop_hook_active", False)
    if event.agent_id:
        told["agent_id"] = event.agent_id
    if event.agent:
        told.setdefault("agent_type", event.agent)
    if view is not None and event.tool is not None:
        told |= {"tool_name": view.name, "tool_input": _plain(view.input)}
        told["tool_use_id"] = event.tool.call_id
        told["tool_response"] = _response(event, dialect)
        if event.tool.error is not None:
            told["error"] = _plain(event.tool.error, LONGEST)
        if event.tool.duration is not None:
            told["duration_ms"] = event.tool.duration
    return told


def _response(event: HookEvent, dialect: Dialect) -> dict[str, Any] | None:
    """Return the tool's response, with the fields that scripts of the dialect read."""
    tool = event.tool
    if tool is None or (tool.response is None and tool.error is None):
        return None
    told: dict[str, Any] = _plain(dict(tool.response or {}), LONGEST)
    failed = tool.error is not None
    text = str(told.get("output", "")) or _plain(tool.error or "", LONGEST)
    if dialect == "openhands":
        told |= {"content": [{"type": "text", "text": text}], "is_error": failed}
    elif dialect == "claude" and tool.name == "bash":
        told |= {"stdout": text, "stderr": "", "interrupted": False}
    return told


def _plain(value: Any, longest: int | None = None, depth: int = 0) -> Any:
    """Return a plain copy in which longer texts are cut in the middle, with a note of how much is missing."""
    if isinstance(value, str):
        return _cut(value, longest)
    if depth >= DEEPEST:
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item, longest, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, longest, depth + 1) for item in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _cut(text: str, longest: int | None) -> str:
    if longest is None or len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n(… {len(text) - 2 * half} characters were left out …)\n{text[-half:]}"
