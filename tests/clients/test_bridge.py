"""instar's Python plugins in a real opencode, over the bridge that `instar opencode install` puts there."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.clients.model import Model
from tests.clients.programs import Program
from tests.waiting import wait_until

HERE = Path(__file__).parent
Plain = dict[str, Any]

GREETS = '"description": "Greets."'
SALUTES = '"description": "Salutes.", "parameters": {"whom": {"type": "string", "optional": true}}'
ANSWERS: dict[str, list[Plain]] = {
    "Greet Ada.": [{"tools": [("py_greet", {"who": "Ada"})]}, {"text": ["Greeted."]}],
    "Greet badly.": [{"tools": [("py_greet", {"who": 7})]}, {"text": ["It did not fit."]}],
    "Greet Bob.": [{"tools": [("py_greet", {"who": "Bob"})]}, {"text": ["Never said."]}],
    "Clean up.": [
        {"tools": [("bash", {"command": "rm -rf build", "description": "cleans"})]},
        {"text": ["Then I leave it."]},
    ],
    "Say your name.": [{"tools": [("bot_hello", {})]}, {"text": ["Said."]}],
    "Change your greeting.": [
        {"tools": [("evolve_hook_edit", {"hook": "bot.sh", "oldString": "Hello!", "newString": "Bye!"})]},
        {
            "tools": [
                ("evolve_hook_edit", {"hook": "bot.sh", "oldString": "Hello!", "newString": "Hello, you!"})
            ]
        },
        {"tools": [("bot_hello", {})]},
        {"text": ["Changed."]},
    ],
    "Describe yourself.": [
        {"tools": [("evolve_hook_edit", {"hook": "bot.sh", "oldString": GREETS, "newString": SALUTES})]},
        {"tools": [("bot_hello", {"whom": "Eve"})]},
        {"text": ["Described."]},
    ],
    "Hang.": [
        {"tools": [("bash", {"command": "hang", "description": "hangs"})]},
        {"text": ["It was refused."]},
    ],
    "Ask somebody.": [
        {
            "tools": [
                (
                    "task",
                    {"description": "a number", "prompt": "Tell me one.", "subagent_type": "general"},
                )
            ]
        },
        {"text": ["So I heard."]},
    ],
    "Tell me one.": [{"text": ["Seven."]}],
    "Are you sure?": [{"text": ["Seven indeed."]}],
    "Go on.": [{"text": ["I could say it again."]}],
    "And once more.": [{"text": ["Here it is."]}],
    "This is a heartbeat": [{"text": ["All quiet."]}],
    "Look around.": [{"tools": [("self", {"action": "inspect", "key": "host.lacks"})]}, {"text": ["Seen."]}],
}
SETTINGS = {"enabled_providers": ["fake"], "share": "disabled", "permission": {"greeting": "ask"}}

RULES = {"PreToolUse": [{"matcher": "bash", "hooks": [{"command": "./guard.sh", "timeout": 10}]}]}
GUARD = """\
#!/bin/sh
case "$(cat)" in *"rm -rf"*) echo "Move it to trash/ instead." >&2; exit 2 ;; esac
"""
BOT = """\
#!/bin/sh
case "$1" in
discover) echo '{"name": "bot", "test": "bot_test.sh", "tools": [{"name": "hello", "description": "Greets."}]}' ;;
mutate_request) echo '{"system": ["You are Bot."]}' ;;
execute_tool) echo '{"result": "Hello!"}' ;;
*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1 ;;
esac
"""
TEST = """\
#!/bin/sh
echo '{}' | hooks/bot.sh execute_tool | grep 'Hello' || { echo "it must say Hello"; exit 1; }
"""


class Bridged(Program):
    """A real opencode with the bridge, a rule of hooks, an evolve workspace and a plugin file of the project's."""

    evolve: ClassVar[Plain] = {"heartbeat_ms": -1}

    def _furnish(self, settings: Mapping[str, Any]) -> None:
        super()._furnish(settings)
        self.workspace = self.folder / "ws"
        files = {
            self.project / ".instar" / "hooks.json": json.dumps(RULES),
            self.project / "guard.sh": GUARD,
            self.project / "instar.json": json.dumps({"tools": {"self_evolution": True}}),
            self.workspace / "config" / "evolve.jsonc": json.dumps(self.evolve),
            self.workspace / "prompts" / "heartbeat.md": "Is anything to be done?",
            self.workspace / "hooks" / "bot.sh": BOT,
            self.workspace / "tests" / "bot_test.sh": TEST,
        }
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        (self.project / ".instar" / "plugins").mkdir()
        shutil.copy(HERE / "bridged.py", self.project / ".instar" / "plugins")
        self.environment["INSTAR_WORKSPACE"] = str(self.workspace)
        self.instar("trust", ".")
        self.instar("opencode", "install")

    def instar(self, *words: str, check: bool = True) -> str:
        """Run instar in the project and return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "instar", *words],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=check,
        )
        return done.stdout

    @property
    def notes(self) -> str:
        """What the plugin noted."""
        return (self.project / "notes").read_text()

    def prompt(self, text: str) -> str:
        """Begin a turn in a new session and return its id."""
        session: str = self.http.post("/session", json={}).json()["id"]
        body = {"parts": [{"type": "text", "text": text}]}
        assert self.http.post(f"/session/{session}/prompt_async", json=body).status_code == 204
        return session

    def messages(self, session: str) -> list[Plain]:
        """The session's messages."""
        found: list[Plain] = self.http.get(f"/session/{session}/message").json()
        return found

    def ended(self, session: str, said: str) -> list[Plain]:
        """The session's messages, once an answer says `said` and its turn is over."""
        wait_until(lambda: said in json.dumps(self.messages(session)))
        wait_until(lambda: session not in self.http.get("/session/status").json())
        return self.messages(session)

    def asked(self, session: str) -> Plain:
        """What a person is asked for in the session, once it is."""
        found: list[Plain] = wait_until(
            lambda: [one for one in self.http.get("/permission").json() if one["sessionID"] == session]
        )
        return found[0]

    def reply(self, request: str, reply: str) -> None:
        """Answer as a person does."""
        assert self.http.post(f"/permission/{request}/reply", json={"reply": reply}).status_code == 200


class Beating(Bridged):
    """The same, whose heart beats."""

    evolve: ClassVar[Plain] = {"heartbeat_ms": 1500, "heartbeat_agent": "build"}


@pytest.fixture(scope="module")
def bridged(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridged]:
    settings = {**model.settings(), **SETTINGS}
    started = Bridged(tmp_path_factory.mktemp("bridged"), settings)
    yield started
    started.close()


def tools(messages: list[Plain]) -> list[Plain]:
    """The tool calls of a session: what each was called, and its state."""
    return [part for one in messages for part in one["parts"] if part["type"] == "tool"]


def test_a_python_tool_runs_in_opencode_once_its_person_has_allowed_it(bridged: Bridged) -> None:
    session = bridged.prompt("Greet Ada.")
    asked = bridged.asked(session)
    assert (asked["permission"], asked["patterns"]) == ("greeting", ["Ada"])
    assert asked["metadata"] == {"why": "politeness"}
    bridged.reply(asked["id"], "once")
    (call,) = tools(bridged.ended(session, "Greeted."))
    assert call["state"]["output"].startswith("Hello, Ada! 2 messages, session ses_")
    assert call["state"]["title"] == "greeted"
    assert call["state"]["metadata"]["host"] == "opencode 1.18.33"


def test_a_refused_permission_ends_the_turn_as_it_does_for_opencodes_own_tools(bridged: Bridged) -> None:
    session = bridged.prompt("Greet Bob.")
    bridged.reply(bridged.asked(session)["id"], "reject")
    wait_until(lambda: tools(bridged.messages(session))[0]["state"]["status"] == "error")
    wait_until(lambda: session not in bridged.http.get("/session/status").json())
    assert "Never said." not in json.dumps(bridged.messages(session))


def test_the_model_is_offered_the_tools_own_schema_and_reads_what_does_not_fit(
    bridged: Bridged, model: Model
) -> None:
    session = bridged.prompt("Greet badly.")
    (call,) = tools(bridged.ended(session, "It did not fit."))
    assert "invalid arguments" in call["state"]["error"]
    offered = [one["function"] for body in model.requests for one in body.get("tools") or ()]
    greet = next(one for one in offered if one["name"] == "py_greet")
    assert greet["parameters"]["required"] == ["who"]
    # What a plugin says of a call that failed stands in what the model reads of it.
    last = [body for body in model.requests if body.get("tools")][-1]  # a title is made beside the turn
    assert "The plugin is sorry." in json.dumps(last["messages"])


def test_a_rule_of_hooks_refuses_a_call_of_opencodes_own_tool(bridged: Bridged) -> None:
    session = bridged.prompt("Clean up.")
    (call,) = tools(bridged.ended(session, "Then I leave it."))
    assert call["state"]["status"] == "error"
    assert "Move it to trash/ instead." in call["state"]["error"]


def test_a_script_of_evolve_brings_a_tool_and_the_system_prompt(bridged: Bridged, model: Model) -> None:
    session = bridged.prompt("Say your name.")
    (call,) = tools(bridged.ended(session, "Said."))
    assert call["state"]["output"] == "Hello!"

    def asked(*, tools: bool) -> list[Plain]:
        named = [body for body in model.requests if "Say your name." in json.dumps(body["messages"])]
        return [body for body in named if bool(body.get("tools")) is tools]

    assert all("You are Bot." in json.dumps(one["messages"]) for one in asked(tools=True))
    titles = wait_until(lambda: asked(tools=False))  # one is made beside the turn
    assert not any("You are Bot." in json.dumps(one["messages"]) for one in titles)


def test_the_agent_changes_its_own_script_through_the_gate(bridged: Bridged) -> None:
    session = bridged.prompt("Change your greeting.")
    first, second, third = tools(bridged.ended(session, "Changed."))
    assert "it must say Hello" in json.dumps(first["state"])
    assert second["state"]["status"] == "completed"
    assert third["state"]["output"] == "Hello, you!"
    assert "evolve_hook_edit bot.sh" in bridged.instar("evolve", "--workspace", str(bridged.workspace), "log")


def test_a_tool_whose_description_and_parameters_the_agent_changed_is_offered_so_at_the_next_step(
    bridged: Bridged, model: Model
) -> None:
    session = bridged.prompt("Describe yourself.")
    changed, called = tools(bridged.ended(session, "Described."))
    assert (changed["state"]["status"], called["state"]["status"]) == ("completed", "completed")
    asked = [
        body for body in model.requests if body.get("tools") and "Describe yourself." in json.dumps(body)
    ]
    hello = [
        one["function"] for body in asked for one in body["tools"] if one["function"]["name"] == "bot_hello"
    ]
    assert [one["description"] for one in hello] == ["Greets.", "Salutes.", "Salutes."]
    assert ["whom" in one["parameters"]["properties"] for one in hello] == [False, True, True]


def test_a_turn_end_goes_on_with_a_prompt_of_the_plugins(bridged: Bridged) -> None:
    session = bridged.prompt("Go on.")
    found = bridged.ended(session, "Here it is.")
    assert [one["info"]["role"] for one in found] == ["user", "assistant", "user", "assistant"]
    assert found[2]["parts"][0]["synthetic"] is True


def test_a_sub_agent_is_given_more_to_read_and_asked_again_before_it_reports(
    bridged: Bridged, model: Model
) -> None:
    session = bridged.prompt("Ask somebody.")
    (call,) = tools(bridged.ended(session, "So I heard."))
    assert "Seven indeed." in call["state"]["output"]
    assert "subagent.start a number" in bridged.notes
    asked = [json.dumps(body["messages"]) for body in model.requests if body.get("tools")]
    assert any("Tell me one." in one and "Be exact." in one for one in asked)


def test_a_summary_is_no_step_and_is_told_of(bridged: Bridged) -> None:
    session = bridged.prompt("Go on.")
    bridged.ended(session, "Here it is.")
    steps = bridged.notes.count(f"step.before {session}")
    assert steps == 2
    assert bridged.notes.count(f"session.start {session} new") == 1
    body = {"providerID": "fake", "modelID": "m"}
    assert bridged.http.post(f"/session/{session}/summarize", json=body).status_code == 200
    wait_until(lambda: f"compaction.after {session} False" in bridged.notes)
    assert bridged.notes.count(f"step.before {session}") == steps


def test_self_says_what_the_host_cannot_offer(bridged: Bridged) -> None:
    session = bridged.prompt("Look around.")
    (call,) = tools(bridged.ended(session, "Seen."))
    assert "session apart" in call["state"]["output"]


def test_the_doctor_says_what_the_bridge_does(bridged: Bridged) -> None:
    assert bridged.http.get("/agent").status_code == 200
    lines = json.loads(bridged.instar("doctor", "--json", check=False))["lines"]
    (said,) = [line["text"] for line in lines if line["name"] == "opencode"]
    assert " in opencode 1.18.33, process " in said
    assert {"tool.execute.before", "chat.message", "event"} <= {*re.findall(r"[\w.]+", said)}


def test_a_gate_that_was_pending_is_closed_when_the_bridge_is_killed_and_opencode_goes_on(
    bridged: Bridged,
) -> None:
    session = bridged.prompt("Hang.")
    mark = bridged.project / "pid"
    wait_until(mark.exists)
    wait_until(lambda: bool(mark.read_text()))
    os.kill(int(mark.read_text()), signal.SIGKILL)
    (call,) = tools(bridged.ended(session, "It was refused."))
    assert call["state"]["status"] == "error"
    assert "instar's bridge is gone" in call["state"]["error"]
    # The next call starts another one.
    again = bridged.prompt("Say your name.")
    assert tools(bridged.ended(again, "Said."))[0]["state"]["status"] == "completed"


def test_the_heart_beats_in_a_session_of_opencodes(model: Model, tmp_path: Path) -> None:
    beating = Beating(tmp_path, {**model.settings(), **SETTINGS})
    try:
        # Its first start and all that it loads may take longer than a beat is waited for.
        assert beating.http.get("/session").status_code == 200
        sessions = wait_until(
            lambda: [one["id"] for one in beating.http.get("/session").json() if one["title"] == "heartbeat"]
        )
        found = beating.ended(sessions[0], "All quiet.")
        assert found[0]["parts"][0]["text"].startswith("[heartbeat] ")
        assert found[0]["parts"][0]["synthetic"] is True
        beats = [body for body in model.requests if "This is a heartbeat" in json.dumps(body["messages"])]
        assert "Is anything to be done?" in json.dumps(beats[-1]["messages"][0])
    finally:
        beating.close()


def test_a_folder_is_as_it_was_once_the_bridge_is_taken_away(bridged: Bridged) -> None:
    plugin = bridged.project / ".opencode" / "plugin" / "instar.js"
    assert plugin.exists()
    bridged.instar("opencode", "uninstall")
    assert not plugin.parent.exists()
