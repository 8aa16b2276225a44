"""Which rules match an event: matchers by dialect, Claude Code's ``if``, the tool names of both dialects.

Regular expressions are bounded in time and in memory. A file with rules may come from a stranger, and `re` cannot be
interrupted; `regex` can, and reads what JavaScript's expressions have (looking ahead and behind). Compiling is bounded
by what is compiled: ``{…}`` repeats are written out.

An ``if`` is a permission rule that a call must fit before a rule runs. ``Bash(git push *)``: any simple command of the
shell command; ``Edit(src/**)``, ``Read(...)``: the files of the call, by the patterns of ignore files;
``WebFetch(domain:example.com)``; ``Task(name)``, ``Skill(name)``; a tool's name alone, where ``*`` may stand for any
characters. It only says when to look: what cannot be told apart with certainty fits in doubt (None), and the rule runs.
"""

import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from instar.plugin import permission
from instar.plugins.hooks.payload import names, views
from instar.plugins.hooks.programs import simple_commands
from instar.plugins.hooks.rule import HookEvent, HookRule, ToolUse

LONGEST_EXPRESSION: Final = 500
"""Characters of an expression."""
REPEATS: Final = 1000
"""The numbers in all ``{…}`` of an expression, multiplied."""
SEARCH_SECONDS: Final = 0.02
"""Seconds that a search in one name may take."""
LONGEST_NAME: Final = 4096
"""Characters of a name that is searched."""

_NAMES: Final = re.compile(r"[\w\- ,|]*")
"""A matcher that is a list of names, or one."""
_COUNT: Final = re.compile(r"\{\s*(\d*)\s*(?:,\s*(\d*)\s*)?\}")
_BEYOND: Final = re.compile(r"\(\?(?:R|&|[+-]?\d|P>|P&|\|)|(?<!\\)(?<!\\[pP])\{[^}]*[a-z<]|\\L<")
"""What `regex` has beyond JavaScript's expressions: recursion, fuzzy matching, lists."""
_slow: set[str] = set()


class RuleMatch(NamedTuple):
    """A rule that matches an event. With `doubt` its allow and its rewrites do not count.

    It may not have been meant, or nobody has seen it (`HookRule.new`).
    """

    rule: HookRule
    doubt: bool


def matched(rules: Iterable[HookRule], event: HookEvent, home: Path) -> list[RuleMatch]:
    """Return the rules that match an event, in order. `home` is what ``~`` means in an ``if``."""
    found = []
    for rule in rules:
        if rule.event == event.name and rule.agent in ("", event.agent):
            verdict = _meets(rule, event, home)
            if verdict is not False:
                found.append(RuleMatch(rule, doubt=verdict is None or rule.new))
    return found


def _meets(rule: HookRule, event: HookEvent, home: Path) -> bool | None:
    first = _matcher(rule, event)
    if first is False or not rule.condition:
        return first
    if event.tool is None:
        return False
    second = _fits_condition(parse_condition(rule.condition), event.tool, event.directory, home)
    return False if second is False else None if None in (first, second) else True


def _matcher(rule: HookRule, event: HookEvent) -> bool | None:
    matcher = rule.matcher.strip()
    if matcher in ("", "*"):
        return True
    if event.tool is None and not event.kind.subject and rule.dialect != "openhands":
        return True
    pattern = _expression(matcher)
    if pattern is None:
        wanted = {name.strip() for name in re.split(r"[|,]", matcher)}
        return not wanted.isdisjoint(_subjects(rule, event, listed=True))
    whole = rule.dialect != "claude"
    answers = [_fits(pattern, name, whole=whole) for name in _subjects(rule, event, listed=False)]
    return True if True in answers else None if None in answers else False


def _expression(matcher: str) -> str | None:
    """Return a matcher's regular expression, None for a list of names."""
    matcher = matcher.strip()
    if len(matcher) > 1 and matcher.startswith("/") and matcher.endswith("/"):
        return matcher[1:-1]
    return None if matcher == "*" or _NAMES.fullmatch(matcher) else matcher


def _subjects(rule: HookRule, event: HookEvent, *, listed: bool) -> tuple[str, ...]:
    """Return what a matcher is compared with: the tool's names, or the event's subject.

    A list names tools as one likes; an expression was written with the names of its dialect in mind: ``^(?!Bash$)``
    must not fit ``bash`` because our name of it is another.
    """
    if event.tool is not None:
        return names(event.tool, None if listed or rule.dialect == "instar" else rule.dialect)
    if rule.dialect == "openhands":
        return ("",)
    value = event.fields.get(event.kind.subject, "")
    found = tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),)
    # Claude Code knows no session that is archived or deleted; it calls all that it has no name for so.
    return (*found, "other") if event.name == "SessionEnd" else found


def check(matcher: str) -> None:
    """Raise `ValueError` for a matcher that cannot be used."""
    pattern = _expression(matcher)
    if pattern is None:
        return
    if len(pattern) > LONGEST_EXPRESSION:
        raise ValueError(f"expected at most {LONGEST_EXPRESSION} characters, found {len(pattern)}")
    if _BEYOND.search(pattern):
        raise ValueError(f"{pattern!r} repeats itself or counts errors, which no other dialect can")
    size = 1
    for count in _COUNT.finditer(pattern):
        digits = max(count[1] or "1", count[2] or "1", key=lambda number: (len(number), number))
        size *= int(digits[:6])
        if size > REPEATS:
            raise ValueError(f"expected at most {REPEATS} repeats by number, found {count[0]}")
    _compiled(pattern)


def _fits(pattern: str, name: str, *, whole: bool) -> bool | None:
    """Return whether `pattern` fits the `whole` name, or a part of it; None when the time is up."""
    if pattern in _slow or len(name) > LONGEST_NAME:
        return None
    compiled = _compiled(pattern)
    try:
        look = compiled.fullmatch if whole else compiled.search
        return look(name, timeout=SEARCH_SECONDS) is not None
    except (TimeoutError, MemoryError, RecursionError):
        _slow.add(pattern)  # not again at each call of each tool
        return None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    # Imported here: it takes 18 ms, which only a rule with an expression spends.
    import regex

    try:
        return regex.compile(pattern, regex.V0, cache_pattern=False)
    except regex.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    except (MemoryError, RecursionError):
        raise ValueError(f"{pattern[:40]!r} has too many levels") from None


_CONDITION: Final = re.compile(r"([A-Za-z_*][\w*.-]*)(?:\((.*)\))?", re.DOTALL)
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


def parse_condition(text: str) -> CallCondition:
    """Read an ``if``. Raises `ValueError` saying what was expected."""
    found = _CONDITION.fullmatch(text.strip())
    if found is None or len(text) > LONGEST_EXPRESSION:
        raise ValueError(f"expected a permission rule such as Bash(git push *), found {text[:60]!r}")
    pattern = (found[2] or "").strip()
    return CallCondition(found[1], None if pattern in ("", "*", "**") else pattern)


def _fits_condition(condition: CallCondition, tool: ToolUse, directory: Path, home: Path) -> bool | None:
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
    """Return whether one of the paths fits, as written or with its links resolved.

    ``//`` in a pattern is the root, ``~/`` the home, all else begins at the directory.
    """
    if pattern.startswith("//"):
        root, rest = Path("/"), pattern[2:]
    elif pattern.startswith("~/"):
        root, rest = home, pattern[2:]
    else:
        root, rest = directory, pattern.removeprefix("./").removeprefix("/")
        # As in ignore files: a name without a slash fits at any depth.
        rest = f"**/{rest}" if "/" not in pattern.rstrip("/") else rest
    forms = {form for path in paths for form in (Path(os.path.normpath(path)), path.resolve())}
    below = [form.relative_to(root).parts for form in forms if form.is_relative_to(root)]
    return any(_glob([piece for piece in rest.split("/") if piece], parts) for parts in below)


def _glob(pieces: Sequence[str], parts: tuple[str, ...]) -> bool:
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
