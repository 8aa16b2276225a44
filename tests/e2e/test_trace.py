"""The turns that were recorded from the real opencode, played in instar: each difference stands in a list, with its reason.

``make real RECORD=1`` records (`tests/real/test_trace.py`); `tests/data/trace/differences.json` is the list.
"""

import difflib
import fnmatch
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.trace import DATA, PASSWORD, STORIES, Model, Play, Plain, Scrub

LIST = json.loads((DATA / "differences.json").read_text())
_NAMED = re.compile(r"\b(?:ses|msg|prt|per|tree)_\d+\b")


class Comparison:
    """Compares two traces. An id of the one stands for one id of the other throughout."""

    def __init__(self, theirs: Plain, ours: Plain) -> None:
        self.found: list[str] = []
        self._pairs: dict[str, str] = {}
        self._traces = (theirs, ours)

    def run(self) -> list[str]:
        """Return the differences, one line each."""
        for lane in ("turn", "beside"):
            self._align(lane, *([e for e in t["events"] if lane in lanes(e)] for t in self._traces), word=word)
        for kind, name in (("http", called), ("requests", purpose)):
            self._align(kind, *(t[kind] for t in self._traces), word=name)
        return self.found

    def _align(self, where: str, theirs: list[Any], ours: list[Any], word: Any) -> None:
        """Pair what has the same word; what has no partner is a difference, and so is each value of a pair."""
        words = [word(one) for one in theirs], [word(one) for one in ours]
        matcher = difflib.SequenceMatcher(None, *words, autojunk=False)
        for tag, first, last, begin, end in matcher.get_opcodes():
            if tag == "equal":
                for index in range(last - first):
                    self._value(f"{where} {words[0][first + index]}", theirs[first + index], ours[begin + index])
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
        elif isinstance(theirs, list) and isinstance(ours, list) and all(map(is_worded, [*theirs, *ours])):
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
        return all(self._pairs.setdefault(one, other) == other for one, other in pairs)


def lanes(event: Plain) -> tuple[str, ...]:
    """What an event belongs to: the turn, or the session's sums, which opencode makes beside it; idle parts both."""
    given = event["properties"]
    if event["type"] in ("session.idle",):
        return ("turn", "beside")
    if event["type"] in ("session.updated", "session.diff") or "summary" in given.get("info", {}) and given["info"].get("role") == "user":
        return ("beside",)
    return ("turn",)


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
    if event["type"] == "session.status":
        return f"{kind} {given['status']['type']}"
    return kind


def is_worded(value: Any) -> bool:
    return isinstance(value, dict) and ("type" in value or "role" in value or "info" in value)


def item(given: Plain) -> str:
    """A message, or a part, as a word."""
    if "info" in given:
        return f"message {given['info']['role']}"
    if "role" in given:
        return str(given["role"])
    state = given.get("state", {})
    output = state.get("metadata", {}).get("output") if state.get("status") == "running" else None
    more = [state.get("status"), state.get("time") and "time", output and "output", "end" in given.get("time", {}) and "whole"]
    return " ".join([given["type"], *(one for one in more if one)])


def called(answer: Plain) -> str:
    return re.sub(_NAMED, "ID", answer["request"])


def purpose(request: Plain) -> str:
    return str(request["purpose"])


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Plain]]:
    """What `instar serve` says in each story."""
    folder = tmp_path_factory.mktemp("trace")
    model = Model()
    project = folder / "project"
    repository(project)
    settings = folder / "config" / "instar" / "instar.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(model.settings()))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_STATE_HOME": str(folder / "state"),
        "INSTAR_SERVER_PASSWORD": PASSWORD,
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "instar", "serve", "--port", "0"],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        url = child.stdout.readline().decode().rpartition(" ")[2].strip()
        yield {story.name: told(url, model, story, project) for story in STORIES}
    finally:
        child.terminate()
        child.communicate(timeout=20)
        model.close()


def told(url: str, model: Model, story: Any, project: Path) -> Plain:
    said = Play(url, model, story, 0.0).run()
    (project / "new.txt").unlink(missing_ok=True)
    return Scrub({str(project): "/project", model.url: "<model>"}).trace(said)


def repository(project: Path) -> None:
    project.mkdir()
    (project / "notes.txt").write_text("buy milk\n")
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "one"]):
        subprocess.run(["git", *command], cwd=project, check=True)


@pytest.fixture(scope="module")
def differences(said: dict[str, Plain]) -> dict[str, list[str]]:
    """Each story's differences."""
    return {
        name: Comparison(json.loads((DATA / f"{name}.json").read_text()), ours).run()
        for name, ours in said.items()
    }


def explains(entry: Plain, story: str, line: str) -> bool:
    return story in entry.get("stories", [story]) and any(fnmatch.fnmatchcase(line, p) for p in entry["lines"])


@pytest.mark.parametrize("story", [story.name for story in STORIES])
def test_a_turn_is_told_as_opencode_tells_it_but_for_what_the_list_explains(
    differences: dict[str, list[str]], story: str
) -> None:
    unexplained = [
        line for line in differences[story] if not any(explains(entry, story, line) for entry in LIST)
    ]
    assert not unexplained, "\n".join(unexplained)


def test_nothing_in_the_list_is_out_of_date(differences: dict[str, list[str]]) -> None:
    for entry in LIST:
        lines = [(story, line) for story, found in differences.items() for line in found]
        for pattern in entry["lines"]:
            one = {**entry, "lines": [pattern]}
            assert any(explains(one, *line) for line in lines), pattern
