"""Claude Code's words in front matter: what its names of tools mean in rules, and its agents as ours.

``tools`` of an agent says which tools it has: what is not named is denied, and what is named stays as the person's
rules have it. ``allowed-tools`` of a skill or a command says what need not be asked while it is at work.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from instar.message import Rule
from instar.settings.permission import matches
from instar.wire import Plain
from instar.wire.pattern import late_pattern

_TOOLS: Final = {
    "Bash": "bash",
    "Read": "read",
    "Write": "edit",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "LS": "list",
    "Glob": "glob",
    "Grep": "grep",
    "WebFetch": "webfetch",
    "WebSearch": "websearch",
    "TodoWrite": "todowrite",
    "TodoRead": "todoread",
    "Task": "task",
    "Agent": "task",
    "Skill": "skill",
    "AskUserQuestion": "question",
}
"""The permission that each of Claude Code's tools asks for here."""
_GUARDS: Final = ("external_directory", "doom_loop")
"""Permissions that are asked beside a tool's own."""
_ENTRY: Final = late_pattern(r"([A-Za-z_][\w.-]*\*?)(?:\((.*)\))?", re.DOTALL)
_MODELS: Final = ("inherit", "sonnet", "opus", "haiku", "default", "best", "opusplan")
"""Names for models of one vendor; an agent that names one has the model of the conversation."""


def named_model(value: Any) -> str | None:
    """Return the model that a ``model`` field names; None where it leaves the choice to the conversation."""
    return value if isinstance(value, str) and value.partition("[")[0] not in ("", *_MODELS) else None


def granted(value: Any) -> tuple[Rule, ...]:
    """Return what ``allowed-tools`` lets pass unasked, as rules. What has no exact counterpart is left out."""
    found = (_rule(name, pattern) for name, pattern in _entries(value))
    return tuple(Rule(permission=one[0], pattern=one[1], action="allow") for one in found if one)


def denied(tools: Any, without: Any) -> Plain:
    """Return the rules of an agent by its ``tools`` and ``disallowedTools``: what it does not have is denied."""
    kept = {_permission(name) for name, _ in _entries(tools)}
    gone = {_permission(name) for name, pattern in _entries(without) if not pattern}
    if kept and not any(name == "*" for name, _ in _entries(tools)):
        gone |= {name for name in _TOOLS.values() if name not in kept}
    return dict.fromkeys(sorted(gone), "deny")


def _entries(value: Any) -> Iterator[tuple[str, str]]:
    """Yield each tool that a list, or a text with commas or blanks, names, with what stands in its brackets.

    What is not written as a tool names none: a part of it must not count for another tool.
    """
    for text in value if isinstance(value, list) else [value]:
        for word in _words(text) if isinstance(text, str) else ():
            if word == "*":
                yield "*", ""
            elif found := _ENTRY.fullmatch(word):
                yield found[1], (found[2] or "").strip()


def _words(text: str) -> Iterator[str]:
    """Split at commas and blanks that stand in no brackets."""
    word, depth = "", 0
    for char in f"{text},":
        if depth == 0 and (char == "," or char.isspace()):
            if word:
                yield word
            word = ""
        else:
            word += char
            depth += (char == "(") - (char == ")")


def _permission(name: str) -> str:
    """The permission of a tool; one of an MCP server is called ``server_tool`` here."""
    if name.startswith("mcp__"):
        server, _, tool = name[5:].removeprefix("plugin_").partition("__")
        return f"{server}_{tool or '*'}"
    return _TOOLS.get(name, name)


def _rule(name: str, pattern: str) -> tuple[str, str] | None:
    permission = _permission(name)
    # What a name of Claude Code's comes to must be a tool of a server, or the one that is meant: no other permission.
    own = [one for one in (*_TOOLS.values(), *_GUARDS) if matches(one, permission)]
    if own != [permission] * len(own) or permission in _GUARDS or (not own and not name.startswith("mcp__")):
        return None
    if pattern in ("", "*", "**"):
        return permission, "*"
    if permission == "bash":
        return permission, f"{pattern[:-2]} *" if pattern.endswith(":*") else pattern
    if permission == "webfetch":
        domain = pattern.removeprefix("domain:")
        return (permission, f"https://{domain}/*") if re.fullmatch(r"[\w.-]+", domain) else None
    if permission in ("skill", "task"):
        return permission, pattern
    below = pattern.removeprefix("./").removesuffix("/**")
    if permission in ("read", "edit") and re.fullmatch(r"[\w.@+-][\w.@+/-]*", below) and ".." not in below:
        return permission, f"{below}/*" if pattern.endswith("/**") else below
    return None
