"""opencode's SDKs: both clients of `@opencode-ai/sdk` in Node, and PyPI's `opencode-ai`, against opencode and instar.

Each scenario is played with the real opencode and with instar. What comes back is compared in shape: status, keys, JSON
types and the names of errors; the values where `EQUAL` says so.
"""

import fnmatch
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.clients.programs import PASSWORD, PATIENCE, Program, installed
from tests.clients.shape import ID, STAMP, WORDS, differences, kind, listed, shape

HERE = Path(__file__).parent
SCRIPTS = ("sdk_root.mjs", "sdk_v2.mjs", "sdk_python.py")

TODOS = {"todos": [{"content": "buy milk", "status": "pending", "priority": "high"}]}
OPTIONS = [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]
QUESTION = {"questions": [{"question": "Which?", "header": "Colour", "options": OPTIONS}]}
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "Look at the notes.": [
        {"text": ["I ", "look."], "tools": [("read", {"filePath": "notes.txt"}), ("todowrite", TODOS)]},
        {"text": ["Milk ", "and bread."]},
    ],
    "Write it down.": [
        {"tools": [("write", {"filePath": "written.txt", "content": "written\n"})]},
        {"text": ["Written."]},
    ],
    "Run it.": [
        {"tools": [("bash", {"command": "echo hi", "description": "says hi"})]},
        {"text": ["It ran."]},
    ],
    "List them.": [{"tools": [("bash", {"command": "ls", "description": "lists"})]}, {"text": ["Listed."]}],
    "Ask me.": [{"tools": [("question", QUESTION)]}, {"text": ["I see."]}],
    "Take your time.": [{"text": ["Well ", "then."], "holds": True}],
    "Greet Ada.": [{"text": ["Hello Ada."]}],
    "AGENTS.md": [{"text": ["There is one."]}],
}
SETTINGS = {"enabled_providers": ["fake"], "share": "disabled"}

UNCALLED = {
    "event.subscribe": "the scenario listens from its start",
    "event.list": "the same, in Python",
    "tui.control.next": "waits until a program drives a terminal, in both",
}
"""Methods that a scenario does not ask, and why."""

UNANSWERED = {"app.get", "app.init", "app.modes"}
"""Methods of the Python SDK that a real opencode 1.18.33 no longer has: it answers with its web page."""

EQUAL = {
    "file.read", "file.status", "find.symbols", "vcs.get", "vcs.status", "vcs.diff",
    "mcp.status", "session.todo",
}  # fmt: skip
"""Methods whose answers hold the same values."""

FIELDS = {
    "app.agents": ("name", "mode"),
    "permission.list": ("permission", "patterns"),
    "question.list": ("questions",),
    "session.get": ("title", "model", "tokens", "cost", "parentID"),
    "session.children": ("title", "parentID"),
    "session.messages": ("info.finish", "info.tokens", "info.error.name"),
}
"""Keys whose values are the same in each item of a method's answer; ids are told apart by their prefix alone."""

UNTIMELY = {"server.heartbeat", "server.instance.disposed", "file.watcher.updated"}
"""Events whose coming hangs on the clock, and on how long a scenario listens after its last call."""

RIPGREP = [
    {
        "path": {"text": "notes.txt"},
        "lines": {"text": "buy milk\n"},
        "line_number": 1,
        "absolute_offset": 0,
        "submatches": [{"match": {"text": "milk"}, "start": 4, "end": 8}],
    }
]
"""What opencode answers to a search for text where ripgrep is installed; without it and without a network, 500."""

ACCEPTED = {
    "app.agents.*: null*, instar: *": "null for what a Markdown file does not set, which its own document forbids",
    "app.agents.*: boolean or null, instar: boolean": "the same",
    "command.list.*: *null, instar: *": "the same",
    "config.get.body.$schema: *": "opencode writes $schema into the settings file that it reads",
    "config.get.body.agent.*: *, instar: nothing": "what a Markdown file does not say is left out",
    "provider.auth.*: *, instar: nothing": "sign-ins of vendors: instar asks for keys",
    "provider.oauth.authorize.*": "500 there; the document says 400 for a provider without a sign-in",
    "mcp.auth.callback.*": "500 there; the document says 400 for a login that nobody began",
    "session.share.*": "500 there, where sharing is off; instar has no service to share with",
    "tool.list.body().parameters.*": "tools and their schemas are each program's own",
    "v2.*.data().api.settings: *": "keys of providers stay in instar",
    "v2.*.data().request.body.apiKey: *": "keys of providers stay in instar",
    "v2.model.list.body.data().*: *, instar: nothing": "models of opencode's own provider, which no setting hides",
    "v2.integration.list.*": "sign-ins of vendors, and keys that were set through /auth",
    "*(step-*).snapshot: string, instar: nothing": "a step that wrote nothing has no snapshot",
    "*.part.snapshot: string, instar: nothing": "the same",
    "*.revert.diff: string, instar: nothing": "an empty one there: nothing was written",
    "*.revert.snapshot: string, instar: nothing": "the same",
    "*.state.metadata.*": "free to each tool",
    "*.metadata.workdir: nothing, instar: string": "the same, in a permission that is asked",
    "*.info.summary: nothing, instar: (diffs)": "what a person's own command wrote is summed up too",
    "session.fork*: nothing, instar: *": "a fork goes on with its origin's agent and model",
    "*session.created*.info.*: nothing, instar: *": "the same",
    "*session.deleted*.info.*: nothing, instar: *": "the same",
    "*tail_start_id: nothing, instar: <msg>": "the latest turns are kept; opencode takes a short session whole",
    "*(catalog.updated): *, instar: nothing": "tells of a part of opencode that starts",
    "*(integration.updated): *, instar: nothing": "the same",
    "*(plugin.added): *, instar: nothing": "the same",
    "*(reference.updated): *, instar: nothing": "the same",
    "events(project.updated): nothing, instar: *": "told on /global/event alone there",
    "*.time.initialized: number, instar: nothing": "when `init` ran in a project: nothing asks for it",
    "session.prompt unknown part.body.data.kind: *": "said here where the request's shape is wrong, not its meaning",
}
"""Differences that stay, as patterns, and why. One that shows nowhere fails the test."""


def play(script: str, program: Program) -> "subprocess.Popen[str]":
    """Start a scenario against a server."""
    interpreter = sys.executable if script.endswith(".py") else "node"
    return subprocess.Popen(
        [interpreter, str(HERE / script), str(installed()), program.url, PASSWORD, str(program.folder)],
        env={**os.environ, "PYTHONPATH": str(installed() / "python")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(child: "subprocess.Popen[str]", program: Program) -> dict[str, Any]:
    """What a scenario printed, without the folder's name: `methods` of the client, `calls` and `events`."""
    try:
        out, errors = child.communicate(timeout=3 * PATIENCE)
    finally:
        child.kill()
    assert child.returncode == 0, errors
    return json.loads(out.replace(str(program.folder), "/home/ada"))


@pytest.fixture(scope="module")
def stories(opencode: Program, server: Program) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """What both scenarios got of opencode and of instar."""
    found = {}
    for script in SCRIPTS:
        theirs, ours = play(script, opencode), play(script, server)
        found[script] = told(theirs, opencode), told(ours, server)
    return found


def named(call: dict[str, Any]) -> str:
    return f"{call['name']} {call['variant']}".strip()


def seen(call: dict[str, Any]) -> dict[str, Any]:
    """A call's status and the shape of its body, with the words that name an error."""
    body = call["body"]
    if call["name"] == "find.text" and call["status"] == 500:
        call, body = {**call, "status": 200}, RIPGREP
    found = {"status": str(call["status"]), "body": str(body) if isinstance(body, bool) else shape(body)}
    if call["status"] >= 400 and isinstance(body, dict):
        found["words"] = {word: body[word] for word in WORDS if isinstance(body.get(word), str)}
    if call["name"] in EQUAL:
        found["body"] = json.dumps(body, sort_keys=True)
    if call["name"] in FIELDS and call["status"] == 200:
        items = body if isinstance(body, list) else [body]
        found["fields"] = json.dumps([picked(item, FIELDS[call["name"]]) for item in items], sort_keys=True)
    if call["name"] == "find.files":
        # The best comes first; how far a name may be from what was asked is each program's own.
        found["body"] = json.dumps(body[:1])
    if call["name"] in ("session.messages", "session.message"):
        messages = [one for one in (body if isinstance(body, list) else [body]) if "parts" in one]
        found["order"] = " / ".join(", ".join([kind(one), *map(kind, one["parts"])]) for one in messages)
    return found


def picked(item: Any, paths: tuple[str, ...]) -> list[Any]:
    def at(path: str) -> Any:
        value = item
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return STAMP.sub("<time>", ID.sub(r"<\1>", value)) if isinstance(value, str) else value

    return [at(path) for path in paths]


def told_of(events: list[dict[str, Any]]) -> dict[str, Any]:
    return listed([event for event in events if event.get("payload", event).get("type") not in UNTIMELY])


def all_differences(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    found = []
    assert [*map(named, theirs["calls"])] == [*map(named, ours["calls"])]
    for their, our in zip(theirs["calls"], ours["calls"], strict=True):
        if their["name"] in UNANSWERED:
            continue
        found += differences(named(their), seen(their), seen(our))
    for name in ("events", "everywhere"):
        found += differences(name, told_of(theirs[name]), told_of(ours[name]))
    return found


@pytest.fixture(scope="module")
def found(stories: dict[str, Any]) -> dict[str, list[str]]:
    return {script: all_differences(*pair) for script, pair in stories.items()}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_sdk_gets_answers_of_the_same_shape_from_instar(found: dict[str, list[str]], script: str) -> None:
    left = [line for line in found[script] if not any(fnmatch.fnmatchcase(line, one) for one in ACCEPTED)]
    assert not left, "\n".join(left)


def test_each_accepted_difference_still_shows(found: dict[str, list[str]]) -> None:
    lines = [line for lines in found.values() for line in lines]
    assert [one for one in ACCEPTED if not fnmatch.filter(lines, one)] == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_scenario_calls_every_method_of_these_rooms_of_the_sdk(
    stories: dict[str, Any], script: str
) -> None:
    theirs = stories[script][0]
    assert {*theirs["methods"]} - {call["name"] for call in theirs["calls"]} <= {*UNCALLED}


def test_a_real_opencode_answers_all_of_the_python_sdk_but_three_methods(stories: dict[str, Any]) -> None:
    theirs = stories["sdk_python.py"][0]
    assert {call["name"] for call in theirs["calls"] if call["body"] == "no JSON"} == UNANSWERED
