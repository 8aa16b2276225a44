"""What a rule gets of an event: JSON on stdin with both dialects' names, and environment variables. Pure.

The values are copies: what an evaluator does with them changes nothing here. They hold what the event holds and no
settings, so no secret of ours. Scripts of a dialect read its names of tools and arguments: a guard that looks for
``file_path`` and finds none lets the call pass. So a rule is told of a call by the names of its own dialect, and its
rewrites are read by them.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugins.hooks.rule import Dialect, HookEvent, ToolUse

_EDITOR: Final = ("file_editor", "str_replace_editor")
NAMES: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "bash": (("Bash",), ("terminal", "execute_bash", "exec")),
    "background": (("BashOutput", "KillShell", "TaskOutput", "TaskStop"), ()),
    "read": (("Read",), (*_EDITOR, "read_file")),
    "write": (("Write",), (*_EDITOR, "write_file")),
    "edit": (("Edit", "MultiEdit"), (*_EDITOR, "edit_file")),
    "apply_patch": (("Edit", "Write", "MultiEdit"), (*_EDITOR, "apply_patch")),
    "list": (("LS",), (*_EDITOR, "list_directory", "list_dir")),
    "glob": (("Glob",), ("glob",)),
    "grep": (("Grep",), ("grep",)),
    "webfetch": (("WebFetch",), ("fetch", "web_fetch")),
    "todowrite": (("TodoWrite",), ("task_tracker",)),
    "todoread": (("TodoRead",), ("task_tracker",)),
    "task": (("Task", "Agent"), ("task", "delegate", "spawn")),
    "skill": (("Skill",), ("invoke_skill",)),
    "question": (("AskUserQuestion",), ()),
}
"""Claude Code's, and OpenHands' and others', names of our tools; a script is told the first of its dialect."""

_KEYS: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "claude": {
        "read": {"filePath": "file_path"},
        "write": {"filePath": "file_path"},
        "edit": {
            "filePath": "file_path",
            "oldString": "old_string",
            "newString": "new_string",
            "replaceAll": "replace_all",
        },
        "grep": {"include": "glob"},
        "skill": {"name": "skill"},
    },
    "openhands": {
        "read": {"filePath": "path"},
        "write": {"filePath": "path", "content": "file_text"},
        "edit": {"filePath": "path", "oldString": "old_str", "newString": "new_str"},
    },
}
"""The dialects' names of our tools' arguments, where they are others."""
_VERBS: Final = {"read": "view", "list": "view", "write": "create", "edit": "str_replace"}
"""The ``command`` of a call of OpenHands' file editor, by our tool."""
_PATHS: Final = ("file_path", "path")
_HEAD: Final = re.compile(r"^\*\*\* (Add File|Update File|Delete File|Move to): *(.*?)\s*$", re.MULTILINE)


class DialectCall(msgspec.Struct, frozen=True):
    """A call in the words of a dialect: the tool's name and its input."""

    name: str
    input: dict[str, Any]


def names(tool: ToolUse, dialect: Dialect | None = None) -> tuple[str, ...]:
    """Return the names that a tool goes by: all of them, its own first; with a `dialect`, those that it uses.

    A tool of an MCP server is ``mcp__server__tool`` to Claude Code. instar's own dialect uses all.
    """
    kind = "bash" if tool.is_shell else tool.name
    claude, openhands = NAMES.get(kind, ((), ()))
    if tool.server:
        bare = tool.name.removeprefix(f"{tool.server}_")
        claude, openhands = (f"mcp__{tool.server}__{bare}",), (bare,)
    if dialect == "claude":
        return claude or (tool.name,)
    if dialect == "openhands":
        return openhands or (tool.name,)
    return tuple(dict.fromkeys((tool.name, kind, *claude, *openhands)))


def tools() -> list[str]:
    """Return the names of our tools, then those that other dialects have for them."""
    others = (name for claude, openhands in NAMES.values() for name in (*claude, *openhands))
    return list(dict.fromkeys((*NAMES, *others)))


def ours(name: str) -> list[str]:
    """Return our tools that go by a name; the name itself where none does."""
    found = [tool for tool, (claude, openhands) in NAMES.items() if name in (*claude, *openhands)]
    return [name] if name in NAMES else found or [name]


def views(tool: ToolUse, dialect: Dialect, directory: Path) -> tuple[DialectCall, ...]:
    """Return a call in the words of `dialect`: one, or one for each file of a patch.

    Paths of files are absolute there, as the dialects' scripts expect; `directory` is where they begin.
    """
    if dialect == "instar":
        return (DialectCall(tool.name, dict(tool.input)),)
    if tool.name == "apply_patch" and isinstance(tool.input.get("patchText"), str):
        found = _patched(tool.input["patchText"], dialect, directory)
        if found:
            return found
    keys = _KEYS[dialect].get(tool.name, {})
    added, dropped = _fixed(tool, dialect)
    given = added | {keys.get(key, key): value for key, value in tool.input.items() if key not in dropped}
    for key in _PATHS:
        if key in keys.values() and given.get(key) and isinstance(given[key], str):
            given[key] = str(directory / given[key])
    return (DialectCall(names(tool, dialect)[0], given),)


def _fixed(tool: ToolUse, dialect: Dialect) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments that only a dialect has for a call, and those that only we have."""
    if tool.is_shell and tool.name != "bash":
        return {"run_in_background": True}, {"action": "start"}
    if dialect == "openhands" and tool.name in _VERBS:
        return {"command": _VERBS[tool.name]}, {}
    return {}, {}


def rewritten(
    tool: ToolUse, dialect: Dialect, view: DialectCall, updated: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the input that a rule wrote for the call `view`, by our names.

    Raises `ValueError` where a patch's file was renamed: a patch says that in its text.
    """
    if dialect == "instar":
        return dict(updated)
    if tool.name == "apply_patch":
        wrong = [key for key in updated if key != "patchText" and updated[key] != view.input.get(key)]
        if wrong or "patchText" not in updated:
            raise ValueError(
                f"a patch is rewritten in its patchText, not in {wrong[0] if wrong else 'nothing'}"
            )
        return {"patchText": updated["patchText"]}
    back = {theirs: ours for ours, theirs in _KEYS[dialect].get(tool.name, {}).items()}
    added, dropped = _fixed(tool, dialect)
    return dropped | {back.get(key, key): value for key, value in updated.items() if key not in added}


def _patched(text: str, dialect: Dialect, directory: Path) -> tuple[DialectCall, ...]:
    """Return a call for each file that a patch names, including the targets of moves."""
    found: dict[str, DialectCall] = {}
    for head, path in _HEAD.findall(text):
        added = head in ("Add File", "Move to")
        where = str(directory / path.strip())
        if dialect == "claude":
            name, given = "Write" if added else "Edit", {"file_path": where}
        else:
            name, given = _EDITOR[0], {"command": "create" if added else "str_replace", "path": where}
        found[where] = DialectCall(name, {**given, "patchText": text})
    return tuple(found.values())


LONGEST: Final = 256 << 10
"""Characters of one text in a tool's response; arguments and prompts stay whole, since a guard must see all of them."""
DEEPEST: Final = 100
"""Levels of maps and lists in a value."""


def payloads(event: HookEvent, dialect: Dialect) -> list[tuple[DialectCall | None, dict[str, Any]]]:
    """Return the payloads for a rule of `dialect`, each with the tool's call that it holds.

    One, but for a patch in a foreign dialect: there one for each file, and each is put to the rule (see
    `views`).
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
    return found


def _payload(event: HookEvent, dialect: Dialect, view: DialectCall | None) -> dict[str, Any]:
    fields = {key: _plain(value) for key, value in event.fields.items()}
    told: dict[str, Any] = {
        "hook_event_name": event.name,
        "event_type": event.name,
        "session_id": event.session_id,
        "cwd": str(event.directory),
        "working_dir": str(event.directory),
        "transcript_path": event.transcript_path,
        "permission_mode": "plan" if event.agent == "plan" else "default",
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
        return value if longest is None else cut(value, longest)
    if depth >= DEEPEST:
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item, longest, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, longest, depth + 1) for item in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def cut(text: str, longest: int) -> str:
    """Return a text; of a longer one the beginning and the end, with a note of how much is missing."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n(… {len(text) - 2 * half} characters were left out …)\n{text[-half:]}"
