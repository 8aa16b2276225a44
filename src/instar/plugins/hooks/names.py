"""The names of tools and arguments in Claude Code's and OpenHands' dialects.

Scripts of a dialect read its names: a guard that looks for ``file_path`` and finds none lets the call pass. So a rule
is told of a call by the names of its own dialect, and its rewrites are read by them.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugins.hooks.event import Dialect, ToolUse

_EDITOR: Final = ("file_editor", "str_replace_editor")
_NAMES: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "bash": (("Bash",), ("terminal", "execute_bash")),
    "background": (("BashOutput", "KillShell", "TaskOutput", "TaskStop"), ()),
    "read": (("Read",), _EDITOR),
    "write": (("Write",), _EDITOR),
    "edit": (("Edit", "MultiEdit"), _EDITOR),
    "apply_patch": (("Edit", "Write", "MultiEdit"), (*_EDITOR, "apply_patch")),
    "list": (("LS",), _EDITOR),
    "glob": (("Glob",), ("glob",)),
    "grep": (("Grep",), ("grep",)),
    "webfetch": (("WebFetch",), ("fetch",)),
    "todowrite": (("TodoWrite",), ("task_tracker",)),
    "todoread": (("TodoRead",), ("task_tracker",)),
    "task": (("Task", "Agent"), ("task", "delegate")),
    "skill": (("Skill",), ("invoke_skill",)),
    "question": (("AskUserQuestion",), ()),
}
"""Claude Code's and OpenHands' names of our tools; a script is told the first of its dialect."""
CLAUDE: Final[Mapping[str, tuple[str, ...]]] = {ours: claude for ours, (claude, _) in _NAMES.items()}
OPENHANDS: Final[Mapping[str, tuple[str, ...]]] = {
    ours: theirs for ours, (_, theirs) in _NAMES.items() if theirs
}

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
    own = _bare(tool)
    shell = ("bash",) if tool.is_shell else ()
    kind = "bash" if tool.is_shell else tool.name
    claude = CLAUDE.get(kind, ())
    if tool.server:
        claude = (*claude, f"mcp__{tool.server}__{own}")
    openhands = OPENHANDS.get(kind, (own,) if tool.server else ())
    if dialect == "claude":
        return claude or (tool.name,)
    if dialect == "openhands":
        return openhands or (tool.name,)
    return tuple(dict.fromkeys((tool.name, *shell, *claude, *openhands)))


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
    given = {keys.get(key, key): value for key, value in tool.input.items()}
    for key in _PATHS:
        if key in keys.values() and isinstance(given.get(key), str):
            given[key] = _absolute(directory, given[key])
    if tool.is_shell and tool.name != "bash":
        given = {key: value for key, value in given.items() if key != "action"} | {"run_in_background": True}
    if dialect == "openhands" and tool.name in _VERBS:
        given = {"command": _VERBS[tool.name], **given}
    return (DialectCall(names(tool, dialect)[0], given),)


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
    keys = _KEYS[dialect].get(tool.name, {})
    back = {theirs: ours for ours, theirs in keys.items()}
    known = dict(updated)
    if dialect == "openhands" and tool.name in _VERBS:
        known.pop("command", None)
    if tool.is_shell and tool.name != "bash":
        known.pop("run_in_background", None)
        known["action"] = "start"
    return {back.get(key, key): value for key, value in known.items()}


def _bare(tool: ToolUse) -> str:
    return tool.name.removeprefix(f"{tool.server}_") if tool.server else tool.name


def _absolute(directory: Path, path: str) -> str:
    return str(directory / path) if path else path


def _patched(text: str, dialect: Dialect, directory: Path) -> tuple[DialectCall, ...]:
    """Return a call for each file that a patch names, including the targets of moves."""
    name, key = ("", "file_path") if dialect == "claude" else (_EDITOR[0], "path")
    found: dict[str, DialectCall] = {}
    for head, path in _HEAD.findall(text):
        added = head in ("Add File", "Move to")
        where = _absolute(directory, path.strip())
        given = {key: where, "patchText": text}
        if dialect == "openhands":
            given = {"command": "create" if added else "str_replace", **given}
        found[where] = DialectCall(name or ("Write" if added else "Edit"), given)
    return tuple(found.values())
