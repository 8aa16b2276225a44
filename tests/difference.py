"""What differs between two traces of `tests/story.py`, one line each.

A line is ``WHERE - WORD`` (only the first has it), ``WHERE + WORD`` (only the second), or ``WHERE.KEY: ONE > OTHER``.
Events are compared in two lanes: the turn's, and the session's sums, which opencode makes beside the turn, now before
and now after its next event.
"""

import difflib
import json
import re
from typing import Any

from tests.story import Plain

_NAMED = re.compile(r"\b(?:ses|msg|prt|per|tree)_\d+\b")


class Comparison:
    """Compares two traces. An id of the one stands for one id of the other throughout."""

    def __init__(self, theirs: Plain, ours: Plain) -> None:
        self.found: list[str] = []
        self._pairs: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        self._traces = (theirs, ours)

    def run(self) -> list[str]:
        """Return the differences, one line each."""
        for lane, events in (("turn", turn), ("beside", beside)):
            self._align(lane, *(events(trace["events"]) for trace in self._traces), word=word)
        self._align("http", *(trace["http"] for trace in self._traces), word=_called)
        # A title is asked for beside the turn, before or after it.
        asked = [sorted(trace["requests"], key=_is_of_the_turn) for trace in self._traces]
        self._align("requests", *asked, word=_purpose)
        return self.found

    def _align(self, where: str, theirs: list[Any], ours: list[Any], word: Any) -> None:
        """Pair what has the same word; what has no partner is a difference, and so is each value of a pair."""
        words = [word(one) for one in theirs], [word(one) for one in ours]
        matcher = difflib.SequenceMatcher(None, *words, autojunk=False)
        for tag, first, last, begin, end in matcher.get_opcodes():
            if tag == "equal":
                for index in range(last - first):
                    self._value(
                        f"{where} {words[0][first + index]}", theirs[first + index], ours[begin + index]
                    )
                continue
            self.found += [f"{where} - {one}" for one in words[0][first:last]]
            self.found += [f"{where} + {one}" for one in words[1][begin:end]]

    def _value(self, where: str, theirs: Any, ours: Any) -> None:
        if isinstance(theirs, dict) and isinstance(ours, dict):
            for key in sorted({*theirs, *ours}):
                if key in theirs and key in ours:
                    self._value(f"{where}.{key}", theirs[key], ours[key])
                else:
                    sign, value = ("-", theirs[key]) if key in theirs else ("+", ours[key])
                    self.found.append(f"{where}.{key} {sign} {json.dumps(value)}")
        elif isinstance(theirs, list) and isinstance(ours, list) and all(map(_is_worded, [*theirs, *ours])):
            self._align(where, theirs, ours, item)
        elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
            for index, (one, other) in enumerate(zip(theirs, ours, strict=True)):
                self._value(f"{where}.{index}", one, other)
        elif not self._same(theirs, ours):
            self.found.append(f"{where}: {json.dumps(theirs)} > {json.dumps(ours)}")

    def _same(self, theirs: Any, ours: Any) -> bool:
        if not isinstance(theirs, str) or not isinstance(ours, str):
            return theirs == ours and isinstance(theirs, bool) == isinstance(ours, bool)
        if _NAMED.sub("#", theirs) != _NAMED.sub("#", ours):
            return False
        pairs = zip(_NAMED.findall(theirs), _NAMED.findall(ours), strict=True)
        return all(
            self._pairs.setdefault(one, other) == other and self._taken.setdefault(other, one) == one
            for one, other in pairs
        )


def turn(events: list[Plain]) -> list[Plain]:
    """The events of the turn itself."""
    return [event for event in events if not _is_beside(event)]


def beside(events: list[Plain]) -> list[Plain]:
    """The session's sums and the changes to files, and where the turn ended between them."""
    last = max((index for index, event in enumerate(events) if event["type"] == "session.idle"), default=None)
    return [event for index, event in enumerate(events) if index == last or _is_beside(event)]


def _is_beside(event: Plain) -> bool:
    info = event["properties"].get("info", {})
    summed = info.get("role") == "user" and "summary" in info
    return summed or event["type"] in ("session.updated", "session.diff")


def word(event: Plain) -> str:
    """An event as a word by which its partner is found."""
    given = event["properties"]
    kind = event["type"].removeprefix("message.")
    if event["type"] == "message.updated":
        info = given["info"]
        state = [key for key in ("finish", "error", "summary") if key in info]
        return " ".join([kind, info["role"], *state, *(["completed"] if "completed" in info["time"] else [])])
    if event["type"] == "message.part.updated":
        return f"{kind} {item(given['part'])}"
    if event["type"] == "session.updated":
        info = given["info"]
        return f"{kind} {info['title']} {info['tokens']['input']}"
    if event["type"] == "session.status":
        return f"{kind} {given['status']['type']}"
    return kind


def _is_worded(value: Any) -> bool:
    return isinstance(value, dict) and ("type" in value or "role" in value or "info" in value)


def item(given: Plain) -> str:
    """A message, or a part, as a word."""
    if "info" in given:
        return f"message {given['info']['role']}"
    if "role" in given:
        return str(given["role"])
    state = given.get("state", {})
    output = state.get("metadata", {}).get("output") if state.get("status") == "running" else None
    more = [
        state.get("status"),
        state.get("time") and "time",
        output and "output",
        "end" in given.get("time", {}) and "whole",
    ]
    return " ".join([given["type"], *(one for one in more if one)])


def _called(answer: Plain) -> str:
    return _NAMED.sub("ID", answer["request"])


def _purpose(request: Plain) -> str:
    return str(request["purpose"])


def _is_of_the_turn(request: Plain) -> bool:
    return _purpose(request) != "title"
