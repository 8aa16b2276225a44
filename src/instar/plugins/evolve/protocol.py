"""What a hook script prints, and how answers are merged. Pure functions.

Source: opencode-evolve's README, "Hook protocol" and "Composability".
"""

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

Answer = dict[str, Any]
"""What one call, or one hook over all scripts, returned."""

OBSERVATIONAL: Final = frozenset({"observe_message", "format_notification", "tool_before", "tool_after"})
"""Hooks whose failure does not call `recover`."""

ARRAYS: Final = frozenset({"system", "tools", "notify", "actions", "modified"})
"""Keys whose values are lists, concatenated."""

ALIASES: Final = {"notifications": "notify"}
"""The README's list of arrays says ``notifications``, its examples say ``notify``."""

SCALARS: Final = frozenset({"continue", "prompt", "user", "message", "result"})
"""Keys whose values are texts, joined by a newline."""

_SHOWN = 300


class Malformed(ValueError):
    """Output that is not JSONL of objects; the text says which line, what was expected and found."""


class ScriptOutput(msgspec.Struct, frozen=True):
    """A script's output: its merged answer, and its log lines in order."""

    answer: Answer
    logs: list[str]


def once(value: Any) -> Any:
    """Return `value` as JSON that is put into each script's input as it is, rather than encoded for each.

    What cannot be encoded is returned itself: the call that it is given to says so.
    """
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except (ValueError, TypeError):
        return value


def parse(stdout: bytes) -> ScriptOutput:
    """Return what `stdout` says: one JSON object a line, empty lines left out.

    A line with ``log`` is a log line and nothing else. Raises `Malformed`.
    """
    try:
        text = stdout.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = stdout.count(b"\n", 0, error.start) + 1
        raise Malformed(f"line {at} of its output is not UTF-8 (byte {error.start})") from None
    answers: list[Answer] = []
    logs: list[str] = []
    # Not str.splitlines: it also splits at U+2028, which JSON allows inside a string.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            value = _object(line, number)
            if "log" in value:
                logs.append(as_text(value["log"]))
            else:
                answers.append(value)
    return ScriptOutput(merge(answers), logs)


def merge(answers: Iterable[Answer]) -> Answer:
    """Merge answers in order: of several lines of one script, and of several scripts.

    The law: lists under one key are concatenated; texts under a key of `SCALARS` are joined by a newline;
    of anything else the last one stands. A key of `ALIASES` counts as what it stands for, a single value under a key of
    `ARRAYS` as a list of one, and null as not said.
    """
    merged: Answer = {}
    for answer in answers:
        for said, value in answer.items():
            if value is not None:
                key = ALIASES.get(said, said)
                merged[key] = _join(key, merged.get(key), value)
    return merged


def unknown_hook(answer: Answer, hook: str) -> bool:
    """Whether a script that ended with an exit code other than 0 said that it does not know `hook`.

    The minimal script of opencode-evolve's README prints ``{"error": "unknown hook: <hook>"}``.
    """
    said = answer.get("error")
    return (
        isinstance(said, str) and re.search(rf"unknown hook\b.*\b{re.escape(hook)}\b", said, re.I) is not None
    )


def says_unknown(printed: bytes, hook: str) -> bool:
    """Whether a line of what a script printed says, as plain text, that it does not know `hook`.

    Only a line that says nothing else counts: a stack trace may hold the words too.
    """
    line = rf"^(?:[\w./-]+:\s*)?unknown hook\W{{1,4}}{re.escape(hook)}\W*$"
    return re.search(line, printed.decode(errors="replace"), re.I | re.M) is not None


def as_text(value: Any) -> str:
    """Return a value as text for a model or a log: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def texts(answer: Answer, key: str) -> list[str]:
    """Return the list under `key` as texts, empty ones left out."""
    return [text for item in answer.get(key) or [] if (text := as_text(item))]


def text(answer: Answer, key: str) -> str:
    """Return the text under `key`, or an empty one."""
    value = answer.get(key)
    return "" if value is None else as_text(value)


def clip(value: str, limit: int = _SHOWN) -> str:
    """Return `value` on one line, cut to `limit` characters, for a log line or an error."""
    flat = " ".join(value.split())
    return flat if len(flat) <= limit else f"{flat[:limit]}… ({len(flat)} characters)"


def _object(line: str, number: int) -> Answer:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Malformed(f"line {number} of its output is not JSON ({error}): {clip(line)}") from None
    if not isinstance(value, dict):
        kind = {list: "a list", str: "a string", type(None): "null"}.get(type(value), "a number or boolean")
        raise Malformed(f"line {number} of its output should be a JSON object, not {kind}: {clip(line)}")
    return value


def _join(key: str, earlier: Any, value: Any) -> Any:
    if key in ARRAYS and not isinstance(value, list):
        value = [value]
    if earlier is None:
        return value
    if isinstance(earlier, list) and isinstance(value, list):
        return earlier + value
    if key in SCALARS:
        return f"{as_text(earlier)}\n{as_text(value)}"
    return value
