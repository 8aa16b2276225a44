"""The text of a scripted model's script (``docs/reference/scripted.md``), read into sections."""

import re
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from instar.wire import Plain
from instar.wire.pattern import late_pattern

PURPOSES: Final = ("title", "compaction", "generate")
"""Model calls that are not a session's turn; each has a section of its own name."""
_KINDS: Final = ("api", "auth", "overflow", "filter", "network")
_REASONS: Final = ("stop", "tool-calls", "length", "content-filter", "unknown")
COUNTS: Final = ("input", "output", "reasoning", "cache_read", "cache_write")
_HEADING: Final = late_pattern(r"==\s*(\w+)\s*(.*?)\s*(?:=*)$")
_HEREDOC: Final = late_pattern(r"(?:^|\s)<<([A-Z_]+)$")
_SPACES: Final = late_pattern(r"^(\w+):[ \t]+")
_KEY: Final = late_pattern(r"([a-z_]+):(?: (.*))?$", re.DOTALL)
_TIME: Final = late_pattern(r"(\d+(?:\.\d+)?)\s*(ms|s)$")


class ScriptError(ValueError):
    """A mistake in a script; the text begins with ``file:line:``."""


class Say(msgspec.Struct, frozen=True):
    """Text, or thinking."""

    text: str
    reasoning: bool = False


class CallTool(msgspec.Struct, frozen=True):
    """A tool call: its arguments, or their `raw` text as it stands."""

    name: str
    arguments: Plain
    raw: str | None = None


class Delay(msgspec.Struct, frozen=True):
    """A pause, in seconds."""

    seconds: float


class Fail(msgspec.Struct, frozen=True):
    """A failed call, the first `times` times that the section is played; None is every time."""

    message: str
    line: int
    kind: str | None = None
    status: int | None = None
    retry_after: float | None = None
    times: int | None = None


class Expect(msgspec.Struct, frozen=True):
    """What the model must have been sent; `key` is the key of the line: ``expect``, ``expect_not`` …"""

    key: str
    pattern: re.Pattern[str]
    line: int


Item = Say | CallTool | Delay | Fail | Expect


class ScriptSection(msgspec.Struct):
    """One answer: its items in order. `when` makes it a rule; `once` lets it answer once in a session."""

    line: int
    items: list[Item] = []
    when: re.Pattern[str] | None = None
    once: bool = False
    usage: dict[str, int] | None = None
    finish: str | None = None
    chunk: int = 0
    pace: float = 0.0

    @property
    def answers(self) -> bool:
        """False for a section that only fails."""
        return any(isinstance(item, Say | CallTool) for item in self.items)


class ModelScript(msgspec.Struct):
    """A script: `turns` in order, `rules` that answer when they match, and the sections of each purpose."""

    source: str
    turns: list[ScriptSection] = []
    rules: list[ScriptSection] = []
    purposes: dict[str, list[ScriptSection]] = {}


class _Mistake(Exception):
    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


class _Line(msgspec.Struct):
    """A key and its whole value, with the number of the line on which it begins."""

    number: int
    text: str
    quoted: bool = False


def parse(text: str, source: str) -> ModelScript:
    """Read a script. Raises `ScriptError` with ``source:line`` and what is wrong there."""
    script = ModelScript(source)
    section = defaults = ScriptSection(0)
    try:
        for line in _lines(text.removeprefix("\ufeff").splitlines()):
            if line.text.startswith("==") and not line.quoted:
                section = _heading(script, line, defaults)
            else:
                _add(section, line)
        purposes = [one for many in script.purposes.values() for one in many]
        for one in (*script.turns, *script.rules, *purposes):
            if not any(isinstance(item, Say | CallTool | Fail) for item in one.items):
                raise _Mistake(one.line, "this section says nothing; add a line `text: …`")
        script.turns = _merged(script.turns)
    except _Mistake as mistake:
        raise ScriptError(f"{source}:{mistake.line}: {mistake}") from None
    return script


def _lines(lines: list[str]) -> Iterator[_Line]:
    """Yield each line with its indented continuation or its heredoc; comments and blank lines are skipped."""
    at = 0
    while at < len(lines):
        number, line = at + 1, _SPACES.sub(r"\1: ", lines[at].rstrip())
        at += 1
        if not line or line.startswith("#"):
            continue
        mark = _HEREDOC.search(line)
        if mark and not line.startswith("=="):
            end = next((index for index in range(at, len(lines)) if lines[index].rstrip() == mark[1]), None)
            if end is None:
                raise _Mistake(
                    number, f"the text begun with <<{mark[1]} has no line `{mark[1]}` that ends it"
                )
            yield _Line(number, _glued(line[: mark.start()], "\n".join(lines[at:end])), quoted=True)
            at = end + 1
            continue
        end = at
        while end < len(lines) and (lines[end][:2] == "  " or not lines[end].strip()):
            end += 1
        block = textwrap.dedent("\n".join(lines[at:end])).rstrip()
        if line[:1].isspace():
            raise _Mistake(number, "an indented line must follow a `key:` line")
        yield _Line(number, _glued(line, block), quoted=bool(block))
        at = end


def _glued(line: str, block: str) -> str:
    """Return the key's line and its block: on one line if the key has no value yet, else below it."""
    if not block:
        return line
    return f"{line.rstrip()} {block}" if line.rstrip().endswith(":") else f"{line.rstrip()}\n{block}"


def _heading(script: ModelScript, line: _Line, defaults: ScriptSection) -> ScriptSection:
    found = _HEADING.match(line.text)
    kind, rest = (found[1], found[2]) if found else ("", "")
    section = ScriptSection(line.number, chunk=defaults.chunk, pace=defaults.pace)
    if kind == "turn" and not rest:
        script.turns.append(section)
    elif kind in PURPOSES and not rest:
        script.purposes.setdefault(kind, []).append(section)
    elif kind == "when":
        quoted = re.match(r'"(.*)"(\s+once)?$', rest)
        if not quoted:
            raise _Mistake(
                line.number, 'expected `== when "regular expression"`, perhaps with `once` after it'
            )
        section.when, section.once = _pattern(quoted[1], line.number), bool(quoted[2])
        script.rules.append(section)
    else:
        raise _Mistake(
            line.number,
            f'{line.text!r} is no heading; there are `== turn`, `== when "…"`, '
            + ", ".join(f"`== {name}`" for name in PURPOSES),
        )
    return section


def _merged(turns: list[ScriptSection]) -> list[ScriptSection]:
    """Join sections that only fail to the turn that follows them: a failure is not an answer and takes no turn."""
    found: list[ScriptSection] = []
    failing: list[Item] = []
    for turn in turns:
        if turn.answers:
            turn.items = failing + turn.items
            found.append(turn)
            failing = []
            continue
        endless = next((item for item in turn.items if isinstance(item, Fail) and item.times is None), None)
        if endless is not None and turn is not turns[-1]:
            raise _Mistake(endless.line, "this error has no times=N: the turns below are never reached")
        failing += turn.items
    if failing:
        found.append(ScriptSection(turns[-1].line, failing))
    return found


def _add(section: ScriptSection, line: _Line) -> None:
    """Add what a line says to its section."""
    found = _KEY.match(line.text)
    key, value = (found[1], found[2] or "") if found else ("", "")
    keys = (*_ITEMS, "arg", *_FIELDS)
    if key not in keys:
        shown = line.text.splitlines()[0]
        raise _Mistake(line.number, f"{shown!r} is no line of a script; keys: {', '.join(keys)}")
    if section.line == 0 and key not in ("chunk", "pace"):
        raise _Mistake(line.number, f"`{key}:` must stand below a heading such as `== turn`")
    if key in _FIELDS:
        setattr(section, key, _FIELDS[key](value, line.number))
    elif key in _ITEMS:
        section.items.append(_ITEMS[key](value, line.number))
    else:
        # An argument as plain text, so that code need not be written as a JSON string.
        call = section.items[-1] if section.items else None
        if not isinstance(call, CallTool) or call.raw is not None:
            raise _Mistake(line.number, "`arg:` must follow a `tool:` line")
        name, text = _named(value, line.number)
        section.items[-1] = CallTool(call.name, {**call.arguments, name: text})


def _tool(value: str, line: int) -> Item:
    name, text = _named(value, line)
    arguments: Any = {}
    if text.strip():
        try:
            arguments = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise _Mistake(
                line, f"the tool's arguments are not JSON ({error}); `raw:` sends text as it stands"
            ) from None
    if not isinstance(arguments, dict):
        raise _Mistake(line, "the tool's arguments must be a JSON object; `raw:` sends anything")
    return CallTool(name, arguments)


def _raw(value: str, line: int) -> Item:
    name, text = _named(value, line)
    return CallTool(name, {}, raw=text)


def _fail(value: str, line: int) -> Item:
    words = value.split()
    facts: dict[str, str] = {}
    while words and (pair := re.match(r"(times|retry-after)=(\d+(?:\.\d+)?)$", words[-1])):
        facts[pair[1]] = pair[2]
        words.pop()
    first = words[0] if words else ""
    status = int(first) if re.fullmatch(r"[1-5]\d\d", first) else None
    kind = first if first in _KINDS else None
    if status is None and kind is None:
        kinds = ", ".join(_KINDS)
        raise _Mistake(line, f"expected `error: STATUS text` or `error: KIND text`, KIND one of {kinds}")
    times, wait = facts.get("times"), facts.get("retry-after")
    return Fail(
        message=" ".join(words[1:]) or "scripted error",
        line=line,
        kind=kind,
        status=status,
        retry_after=float(wait) if wait else None,
        times=int(float(times)) if times else None,
    )


def _expect(key: str, value: str, line: int) -> Item:
    text = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    return Expect(key, _pattern(text, line), line)


def _usage(value: str, line: int) -> dict[str, int]:
    counts = {}
    for word in value.split():
        name, _, number = word.partition("=")
        if name not in COUNTS or not number.isdigit():
            raise _Mistake(line, f"{word!r} is no count; write NAME=NUMBER with {', '.join(COUNTS)}")
        counts[name] = int(number)
    return counts


def _finish(value: str, line: int) -> str:
    if value not in _REASONS:
        raise _Mistake(line, f"{value!r} is no reason to finish; there are {', '.join(_REASONS)}")
    return value


def _seconds(value: str, line: int) -> float:
    found = _TIME.match(value)
    if not found:
        raise _Mistake(line, f"{value!r} is no time; write 50ms or 1.5s")
    return float(found[1]) / (1000 if found[2] == "ms" else 1)


def _chunk(value: str, line: int) -> int:
    if not value.isdigit() or int(value) < 1:
        raise _Mistake(line, f"`chunk:` is a number of characters, 1 or more; it is {value!r}")
    return int(value)


def _pattern(text: str, line: int) -> re.Pattern[str]:
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as error:
        raise _Mistake(line, f"{text!r} is no regular expression: {error}") from None


def _named(value: str, line: int) -> tuple[str, str]:
    """Return a name, and the text after the one space or newline that ends it."""
    found = re.match(r"(\S+)(?:\s(.*))?$", value, re.DOTALL)
    if not found:
        raise _Mistake(line, "expected a name, then a space and its text")
    return found[1], found[2] or ""


_ITEMS: Final[dict[str, Callable[[str, int], Item]]] = {
    "text": lambda value, line: Say(value),
    "reasoning": lambda value, line: Say(value, reasoning=True),
    "tool": _tool,
    "raw": _raw,
    "error": _fail,
    **{key: partial(_expect, key) for key in ("expect", "expect_not", "expect_system", "expect_tool")},
    "delay": lambda value, line: Delay(_seconds(value, line)),
}
"""Lines that the model plays one after the other; ``arg`` adds to the call before it."""
_FIELDS: Final[dict[str, Callable[[str, int], Any]]] = {
    "usage": _usage,
    "finish": _finish,
    "pace": _seconds,
    "chunk": _chunk,
}
"""Lines that hold for their whole section."""
