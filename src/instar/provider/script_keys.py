"""The lines of a script's section, one reader for each key."""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from instar.provider.script import FAILURES, Ask, Expect, Fail, Pause, Say, ScriptError, Section
from instar.wire import Plain

_REASONS: Final = ("stop", "tool-calls", "length", "content-filter", "unknown")
_COUNTS: Final = ("input", "output", "reasoning", "cache_read", "cache_write")
_KEY: Final = re.compile(r"([a-z_]+):(?: (.*))?$", re.DOTALL)
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)$")


def apply(section: Section, text: str, where: str) -> None:
    """Do what a line says to its section. Raises `ScriptError` beginning with `where` (``file:line``)."""
    found = _KEY.match(text)
    read = _KEYS.get(found[1]) if found else None
    if found is None or read is None:
        shown = text.splitlines()[0]
        raise ScriptError(f"{where}: {shown!r} is no line of a script; keys: {', '.join(_KEYS)}")
    if section.line == 0 and found[1] not in ("chunk", "pace"):
        raise ScriptError(f"{where}: `{found[1]}:` must stand below a heading such as `== turn`")
    read(section, found[2] or "", where)


def _say(section: Section, value: str, where: str) -> None:
    section.items.append(Say(value))


def _think(section: Section, value: str, where: str) -> None:
    section.items.append(Say(value, reasoning=True))


def _tool(section: Section, value: str, where: str) -> None:
    name, text = _named(value, where)
    section.items.append(Ask(name, _json_object(text, where)))


def _raw(section: Section, value: str, where: str) -> None:
    name, text = _named(value, where)
    section.items.append(Ask(name, {}, raw=text))


def _arg(section: Section, value: str, where: str) -> None:
    """An argument as plain text, so that code need not be written as a JSON string."""
    last = section.items[-1] if section.items else None
    if not isinstance(last, Ask) or last.raw is not None:
        raise ScriptError(f"{where}: `arg:` must follow a `tool:` line")
    name, text = _named(value, where)
    section.items[-1] = Ask(last.name, {**last.arguments, name: text})


def _fail(section: Section, value: str, where: str) -> None:
    words = value.split()
    facts: dict[str, str] = {}
    while words and (pair := re.match(r"(times|retry-after)=(\d+(?:\.\d+)?)$", words[-1])):
        facts[pair[1]] = pair[2]
        words.pop()
    first = words[0] if words else ""
    status = int(first) if re.fullmatch(r"[1-5]\d\d", first) else None
    kind = first if first in FAILURES else None
    if status is None and kind is None:
        kinds = ", ".join(FAILURES)
        raise ScriptError(
            f"{where}: expected `error: STATUS text` or `error: KIND text`, KIND one of {kinds}"
        )
    times, wait = facts.get("times"), facts.get("retry-after")
    fail = Fail(
        message=" ".join(words[1:]) or "scripted error",
        line=int(where.rpartition(":")[2]),
        kind=kind,
        status=status,
        retry_after=float(wait) if wait else None,
        times=int(float(times)) if times else None,
    )
    section.items.append(fail)


def _expect(of: str) -> Callable[[Section, str, str], None]:
    def read(section: Section, value: str, where: str) -> None:
        text = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
        section.items.append(Expect(of, pattern(text, where), int(where.rpartition(":")[2])))

    return read


def _usage(section: Section, value: str, where: str) -> None:
    counts = {}
    for word in value.split():
        name, _, number = word.partition("=")
        if name not in _COUNTS or not number.isdigit():
            raise ScriptError(f"{where}: {word!r} is no count; write NAME=NUMBER with {', '.join(_COUNTS)}")
        counts[name] = int(number)
    section.usage = counts


def _delay(section: Section, value: str, where: str) -> None:
    section.items.append(Pause(_seconds(value, where)))


def _pace(section: Section, value: str, where: str) -> None:
    section.pace = _seconds(value, where)


def _chunk(section: Section, value: str, where: str) -> None:
    if not value.isdigit() or int(value) < 1:
        raise ScriptError(f"{where}: `chunk:` is a number of characters, 1 or more; it is {value!r}")
    section.chunk = int(value)


def _finish(section: Section, value: str, where: str) -> None:
    if value not in _REASONS:
        raise ScriptError(f"{where}: {value!r} is no reason to finish; there are {', '.join(_REASONS)}")
    section.finish = value


_KEYS: Final[dict[str, Callable[[Section, str, str], None]]] = {
    "text": _say,
    "reasoning": _think,
    "tool": _tool,
    "arg": _arg,
    "raw": _raw,
    "error": _fail,
    "expect": _expect("expect"),
    "expect_not": _expect("expect_not"),
    "expect_system": _expect("expect_system"),
    "expect_tool": _expect("expect_tool"),
    "usage": _usage,
    "finish": _finish,
    "delay": _delay,
    "pace": _pace,
    "chunk": _chunk,
}


def _seconds(value: str, where: str) -> float:
    found = _TIME.match(value)
    if not found:
        raise ScriptError(f"{where}: {value!r} is no time; write 50ms or 1.5s")
    return float(found[1]) / (1000 if found[2] == "ms" else 1)


def pattern(text: str, where: str) -> re.Pattern[str]:
    """Compile a script's regular expression; ``^`` and ``$`` match at lines. Raises `ScriptError`."""
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as error:
        raise ScriptError(f"{where}: {text!r} is no regular expression: {error}") from None


def _named(value: str, where: str) -> tuple[str, str]:
    """A name, and the text after the one space or newline that ends it."""
    found = re.match(r"(\S+)(?:\s(.*))?$", value, re.DOTALL)
    if not found:
        raise ScriptError(f"{where}: expected a name, then a space and its text")
    return found[1], found[2] or ""


def _json_object(text: str, where: str) -> Plain:
    if not text.strip():
        return {}
    try:
        value: Any = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ScriptError(
            f"{where}: the tool's arguments are not JSON ({error}); `raw:` sends text as it stands"
        ) from None
    if not isinstance(value, dict):
        raise ScriptError(f"{where}: the tool's arguments must be a JSON object; `raw:` sends anything")
    return value
