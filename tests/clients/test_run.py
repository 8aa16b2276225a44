"""`opencode run --attach URL`: before instar it prints what it prints before the real opencode."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.clients import programs
from tests.clients.programs import PASSWORD, Program

Plain = dict[str, Any]

_TASK = {"description": "counts words", "prompt": "Count them", "subagent_type": "general"}

ANSWERS: dict[str, list[Plain]] = {
    "Read my notes": [
        {"text": ["Let me ", "look."], "tools": [("read", {"filePath": "notes.txt"})]},
        {"text": ["Your notes say: ", "buy milk."]},
    ],
    "Do it all": [
        {"text": ["First I read."], "tools": [("read", {"filePath": "notes.txt"})]},
        {"tools": [("bash", {"command": "echo hi there", "description": "Says hi"})]},
        {"tools": [("write", {"filePath": "new.txt", "content": "new\n"})]},
        {"tools": [("task", _TASK)]},
        {"tools": [("read", {"filePath": "missing.txt"})]},
        {"text": ["That was ", "all."]},
    ],
    "Say hi": [
        {"tools": [("bash", {"command": "echo hi there", "description": "Says hi"})]},
        {"text": ["Hi was said."]},
    ],
    "Count them": [{"text": ["There are two."]}],
    "Hello": [{"text": ["Hello ", "back."]}],
    "Greet": [{"text": ["Good day."]}],
}

UNLIKE = {
    # A step that changes nothing costs no snapshot (docs/reference/compatibility/recorded-turn.md).
    "step_start part.snapshot",
    "step_finish part.snapshot",
    # What a tool shows beside its output is its own.
    "bash part.state.title",
    "bash part.state.metadata.description",
    "write part.state.metadata.diff",
}
"""Where the lines of ``--format json`` differ: their type or tool, and the place. No place but these may."""

_ID = re.compile(r"\b(ses|msg|prt|per|err)_[0-9a-zA-Z]+")
_TREE = re.compile(r"\b[0-9a-f]{40}\b")
_TIME = re.compile(r"\b1[6-9]\d{11}\b")


class Runs:
    """A server, and `opencode run --attach` before it."""

    def __init__(self, server: Program, home: Path) -> None:
        self.server, self.home = server, home

    def run(self, *arguments: str, password: str = PASSWORD) -> Plain:
        """Run it to its end: ``code``, ``out`` and ``err``, without what differs from run to run."""
        places = {f"XDG_{name}_HOME": str(self.home / name) for name in ("CONFIG", "DATA", "STATE", "CACHE")}
        done = subprocess.run(
            [programs.opencode(), "run", "--attach", self.server.url, *arguments],
            cwd=self.server.project,
            env={
                **self.server.environment,
                **places,
                "HOME": str(self.home),
                "OPENCODE_SERVER_PASSWORD": password,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=programs.PATIENCE,
        )
        return {
            "code": done.returncode,
            "out": self._settled(done.stdout.decode()),
            "err": self._settled(done.stderr.decode()),
        }

    def get(self, path: str) -> Any:
        """Ask the server itself."""
        return self.server.http.get(path, params={"directory": str(self.server.project)}).json()

    def sessions(self) -> list[Plain]:
        """Its sessions, the newest first."""
        return sorted(self.get("/session"), key=lambda one: one["time"]["created"], reverse=True)

    def said(self, session_id: str) -> list[tuple[str, str, str]]:
        """Who said what in a session: role, agent and words of each text."""
        return [
            (message["info"]["role"], message["info"]["agent"], part["text"])
            for message in self.get(f"/session/{session_id}/message")
            for part in message["parts"]
            if part["type"] == "text"
        ]

    def _settled(self, text: str) -> str:
        text = text.replace(str(self.server.project), "<project>")
        return _TIME.sub("0", _TREE.sub("<tree>", _ID.sub(r"\1", text)))


class Both:
    """The same command before the real opencode and before instar, at once."""

    def __init__(self, theirs: Runs, ours: Runs) -> None:
        self.theirs, self.ours = theirs, ours
        self._pool = ThreadPoolExecutor(2)

    def each(self, *arguments: str | Callable[[Runs], str], **more: Any) -> tuple[Plain, Plain]:
        """Return what was printed before the real opencode, and before instar."""

        def one(runs: Runs) -> Plain:
            return runs.run(*(word if isinstance(word, str) else word(runs) for word in arguments), **more)

        theirs, ours = self._pool.map(one, (self.theirs, self.ours))
        return theirs, ours

    def run(self, *arguments: str | Callable[[Runs], str], **more: Any) -> Plain:
        """Return what was printed before both."""
        theirs, ours = self.each(*arguments, **more)
        assert ours == theirs
        return ours

    def said(self) -> list[tuple[str, str, str]]:
        """What was said in the newest session, the same in both."""
        theirs, ours = (runs.said(runs.sessions()[0]["id"]) for runs in (self.theirs, self.ours))
        assert ours == theirs
        return ours

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()


def lines(text: str) -> list[Plain]:
    """The JSON lines; of a part that was printed twice the second stands in the first one's place.

    instar publishes a `step-start` again with its snapshot, which it takes once it knows the step's tools.
    """
    found = [json.loads(line) for line in text.splitlines()]
    kept: list[Plain] = []
    for line in found:
        if line["type"] == "step_start" and kept and kept[-1]["type"] == "step_start":
            kept.pop()
        kept.append(line)
    return kept


def unlike(theirs: Any, ours: Any, place: str = "") -> Iterator[str]:
    """The places where two values differ."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in {*theirs, *ours}:
            yield from unlike(
                theirs.get(key, _NOTHING), ours.get(key, _NOTHING), f"{place}.{key}".lstrip(".")
            )
    elif theirs != ours:
        yield place


_NOTHING = object()


@pytest.fixture(scope="module")
def both(opencode: Program, server: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Both servers, and a home for the client of each."""
    made = Both(*(Runs(one, tmp_path_factory.mktemp("home")) for one in (opencode, server)))
    yield made
    made.close()


def test_a_prompt_prints_the_text_and_what_tools_did(both):
    done = both.run("Read my notes")
    assert done["code"] == 0
    assert done["out"] == "Let me look.\nYour notes say: buy milk.\n"
    assert "> build · m" in done["err"]
    assert "Read notes.txt" in done["err"]
    assert [words for role, _, words in both.said() if role == "assistant"] == [
        "Let me look.",
        "Your notes say: buy milk.",
    ]


def test_json_prints_a_line_for_each_part_with_the_keys_of_the_real_one(both):
    theirs, ours = both.each("--auto", "--format", "json", "Do it all")
    assert (ours["code"], ours["err"]) == (theirs["code"], theirs["err"]) == (0, "")
    pairs = list(zip(lines(theirs["out"]), lines(ours["out"]), strict=True))
    tools = [ours["part"]["tool"] for _, ours in pairs if ours["type"] == "tool_use"]
    assert tools == ["read", "bash", "write", "task", "read"]
    found = {
        f"{one['part'].get('tool', one['type'])} {place}"
        for one, other in pairs
        for place in unlike(one, other)
    }
    assert found == UNLIKE


def test_continue_goes_on_in_the_newest_session_and_fork_in_a_copy_of_it(both):
    both.run("--title", "Continued", "Hello one")
    before = [len(runs.sessions()) for runs in (both.theirs, both.ours)]
    both.run("--continue", "Hello two")
    assert [len(runs.sessions()) for runs in (both.theirs, both.ours)] == before
    assert [words for role, _, words in both.said() if role == "user"] == ['"Hello one"', '"Hello two"']
    both.run("--session", lambda runs: runs.sessions()[0]["id"], "--fork", "Hello three")
    assert [runs.sessions()[0]["title"] for runs in (both.theirs, both.ours)] == ["Continued (fork #1)"] * 2
    assert [words for role, _, words in both.said() if role == "user"][2:] == ['"Hello three"']


def test_the_agent_and_the_model_are_those_that_were_named(both):
    assert "> poet · n" in both.run("--agent", "poet", "--model", "fake/n", "Hello")["err"]
    assert both.said() == [("user", "poet", "Hello"), ("assistant", "poet", "Hello back.")]


def test_a_command_of_the_person_runs_with_its_arguments(both):
    assert both.run("--command", "greet", "Ada")["out"] == "Good day.\n"
    assert both.said() == [("user", "poet", "Greet Ada."), ("assistant", "poet", "Good day.")]


def test_a_permission_is_refused_and_an_unknown_agent_told_of(both):
    done = both.run("--agent", "nobody", "Say hi")
    assert 'agent "nobody" not found' in done["err"]
    assert "permission requested: bash (echo hi there); auto-rejecting" in done["err"]
    assert done["out"] == ""
    assert both.said() == [("user", "build", '"Say hi"')]


def test_an_unknown_session_and_a_wrong_password_end_with_an_error(both):
    done = both.run("--session", "ses_000000000000000000000000000", "Hello")
    assert done["code"] == 1
    assert "Session not found" in done["err"]
    assert both.run("Hello", password="wrong")["code"] == 1
