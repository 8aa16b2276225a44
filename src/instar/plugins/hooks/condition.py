"""Claude Code's ``if``: a permission rule that a call must fit before a rule runs.

``Bash(git push *)``: any simple command of the shell command; ``Edit(src/**)``, ``Read(...)``: the files of the call,
by the patterns of ignore files; ``WebFetch(domain:example.com)``; ``Task(name)``, ``Skill(name)``; a tool's name alone,
where ``*`` may stand for any characters. A condition only says when to look: what cannot be told apart with certainty
fits in doubt (None), and the rule runs.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from instar.plugin import permission
from instar.plugins.hooks.event import ToolUse
from instar.plugins.hooks.names import names, views
from instar.plugins.hooks.programs import simple_commands

LONGEST: Final = 500
"""Characters of a condition."""

_FORM: Final = re.compile(r"([A-Za-z_*][\w*.-]*)(?:\((.*)\))?", re.DOTALL)
_RUNS_ANOTHER: Final = (
    "sudo doas env timeout time nice nohup stdbuf xargs eval exec command builtin source . sh "
    "bash zsh dash ksh fish ssh find watch parallel if then else elif for while until do case "
    "function ! { coproc"
)
_WRAPPERS: Final = frozenset(_RUNS_ANOTHER.split())
"""Commands whose arguments may hold another command."""
_NESTED: Final = re.compile(r"`|\$\(|<\(|>\(|<<|\\\n")
"""Shell syntax that holds commands, or text, which this parser does not see."""
_UNKNOWN: Final = re.compile(r"[$*?\[{~]")
"""Characters that a shell may expand."""
_BREAKS: Final = ";&|()\n"
_EDITING: Final = ("edit", "write", "apply_patch")
_READING: Final = ("read", "grep", "glob", "list")


class CallCondition(NamedTuple):
    """A parsed condition: a tool's name, and the pattern that its call must fit (None: any call)."""

    tool: str
    pattern: str | None


def parse(text: str) -> CallCondition:
    """Read a condition. Raises `ValueError` saying what was expected."""
    found = _FORM.fullmatch(text.strip())
    if found is None or len(text) > LONGEST:
        raise ValueError(f"expected a permission rule such as Bash(git push *), found {text[:60]!r}")
    pattern = (found[2] or "").strip()
    return CallCondition(found[1], None if pattern in ("", "*", "**") else pattern)


def fits(condition: CallCondition, tool: ToolUse, directory: Path, home: Path) -> bool | None:
    """Return whether a call fits, None for perhaps. `home` is what ``~`` means, `directory` where relative paths
    begin.
    """
    if not _names_tool(condition.tool, tool):
        return False
    if condition.pattern is None:
        return True
    if tool.is_shell:
        return _command(condition.pattern, tool)
    if tool.name in (*_EDITING, *_READING):
        return _files(condition.pattern, tool, directory, home)
    if tool.name == "webfetch":
        return _domain(condition.pattern, str(tool.input.get("url", "")))
    key = {"task": "subagent_type", "skill": "name"}.get(tool.name)
    return permission.matches(str(tool.input.get(key, "")), condition.pattern) if key else None


def _names_tool(wanted: str, tool: ToolUse) -> bool:
    # As in Claude Code: Edit speaks of every tool that edits files, Read of every one that reads them.
    if (wanted == "Edit" and tool.name in _EDITING) or (wanted == "Read" and tool.name in _READING):
        return True
    whole_server = bool(tool.server) and wanted == f"mcp__{tool.server}"
    return whole_server or any(permission.matches(name, wanted) for name in names(tool))


def _command(pattern: str, tool: ToolUse) -> bool | None:
    wanted = f"{pattern[:-2]} *" if pattern.endswith(":*") else pattern
    if tool.commands is not None:
        doubtful = any(text.startswith(permission.DOUBT) for text in tool.commands)
        commands = [text.removeprefix(permission.DOUBT).split() for text in tool.commands]
    else:
        text = str(tool.input.get("command", ""))
        commands, doubtful = simple_commands(text, _BREAKS)
        doubtful = doubtful or _NESTED.search(text) is not None
    answers = [_one(wanted, words) for words in commands if words]
    return True if True in answers else None if doubtful or None in answers else False


def _one(wanted: str, words: Sequence[str]) -> bool | None:
    """Return whether one simple command fits, None for perhaps."""
    first = words[0].rpartition("/")[2] or words[0]
    if any(permission.matches(" ".join((name, *words[1:])), wanted) for name in (words[0], first)):
        return True
    program = (wanted.split() or [""])[0]
    if first in _WRAPPERS or _UNKNOWN.search(words[0]):
        hidden = any(_UNKNOWN.search(word) for word in words)
        return None if hidden or "*" in program or program in " ".join(words) else False
    may = permission.matches(first, program) and any(_UNKNOWN.search(word) for word in words[1:])
    return None if may else False


def _files(pattern: str, tool: ToolUse, directory: Path, home: Path) -> bool | None:
    keys = ("file_path", "path", "filePath")
    given = [view.input.get(key) for view in views(tool, "claude", directory) for key in keys]
    paths = [directory / path for path in given if isinstance(path, str) and path]
    if tool.name in ("grep", "glob", "list"):
        return None if not paths or _any(pattern, paths, directory, home) is False else True
    return _any(pattern, paths, directory, home) if paths else None


def _any(pattern: str, paths: Sequence[Path], directory: Path, home: Path) -> bool:
    """Return whether one of the paths fits, as written or with its links resolved."""
    anchored = _anchored(pattern, directory, home)
    forms = {form for path in paths for form in (_plain(path), path.resolve())}
    return any(_glob(anchored, form.parts[1:]) for form in forms)


def _plain(path: Path) -> Path:
    done: list[str] = []
    for part in path.parts[1:]:
        done = done[:-1] if part == ".." else [*done, part]
    return Path("/", *done)


def _anchored(pattern: str, directory: Path, home: Path) -> tuple[str, ...]:
    """Return the pieces of a pattern from the root: ``//`` is the root, ``~/`` the home, all else the directory."""
    if pattern.startswith("//"):
        root, rest = Path("/"), pattern[2:]
    elif pattern.startswith("~/"):
        root, rest = home, pattern[2:]
    else:
        root, rest = directory, pattern.removeprefix("./").removeprefix("/")
        # As in ignore files: a name without a slash fits at any depth.
        rest = f"**/{rest}" if "/" not in pattern.rstrip("/") else rest
    literal = (part.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]") for part in root.parts[1:])
    return (*literal, *(piece for piece in rest.split("/") if piece))


def _glob(pieces: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Return whether a path or a folder above it fits. The time is bounded for any number of ``**``."""
    reached = {0}
    for piece in pieces:
        if piece == "**":
            reached = set(range(min(reached), len(parts) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], piece)}
        if not reached:
            return False
    return True


def _domain(pattern: str, url: str) -> bool | None:
    kind, _, wanted = pattern.partition(":")
    if kind != "domain":
        return None
    try:
        host = (urlsplit(url).hostname or "").rstrip(".").lower()
    except ValueError:
        return None
    bare = wanted.strip().lower()
    return host == bare or host.endswith(f".{bare}") or permission.matches(host, bare)
