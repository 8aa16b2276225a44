"""What rules are told: both dialects' fields, variables, and nothing that is not theirs."""

import json
from pathlib import Path

import pytest
from tests.plugins.hooks.making import event

from instar.plugins.hooks.payload import encode, environment, payloads
from instar.plugins.hooks.rule import EVENTS

OPENHANDS = {
    *(
        "event_type",
        "tool_name",
        "tool_input",
        "tool_response",
        "message",
        "session_id",
        "working_dir",
        "metadata",
    ),
}
CLAUDE = {"hook_event_name", "session_id", "cwd", "transcript_path", "permission_mode"}


def told(happened, dialect="instar"):
    ((_, payload),) = payloads(happened, dialect)
    return json.loads(encode(payload))


@pytest.mark.parametrize("dialect", ["instar", "claude", "openhands"])
@pytest.mark.parametrize("name", EVENTS)
def test_every_event_has_both_dialects_fields(name, dialect):
    happened = event(name, "bash", input={"command": "ls"}) if EVENTS[name].tool else event(name)
    found = told(happened, dialect)
    assert found.keys() >= OPENHANDS | CLAUDE
    assert found["event_type"] == found["hook_event_name"] == name
    assert found["cwd"] == found["working_dir"] == "/project"
    assert (found["tool_name"] is not None) == EVENTS[name].tool
    assert ("stop_hook_active" in found) == (name in ("Stop", "SubagentStop"))


@pytest.mark.parametrize(
    ("dialect", "name", "given"),
    [
        ("instar", "edit", {"filePath": "a.py", "oldString": "x", "newString": "y"}),
        ("claude", "Edit", {"file_path": "/project/a.py", "old_string": "x", "new_string": "y"}),
        (
            "openhands",
            "file_editor",
            {"command": "str_replace", "path": "/project/a.py", "old_str": "x", "new_str": "y"},
        ),
    ],
)
def test_a_call_is_told_by_the_dialects_names(dialect, name, given):
    happened = event(
        tool="edit",
        input={"filePath": "a.py", "oldString": "x", "newString": "y"},
        use={"call_id": "call_1", "duration": 12, "response": {"output": "done", "title": "a.py"}},
        name="PostToolUse",
    )
    found = told(happened, dialect)
    assert (found["tool_name"], found["tool_input"]) == (name, given)
    assert (found["tool_use_id"], found["duration_ms"]) == ("call_1", 12)
    assert found["tool_response"]["output"] == "done"


def test_a_shells_response_has_the_shape_that_scripts_look_into():
    happened = event("PostToolUse", "bash", input={"command": "ls"}, use={"response": {"output": "a\nb"}})
    assert told(happened, "claude")["tool_response"]["stdout"] == "a\nb"
    assert told(happened, "openhands")["tool_response"]["content"] == [{"type": "text", "text": "a\nb"}]
    failed = event("PostToolUseFailure", "bash", input={"command": "ls"}, use={"error": "no such file"})
    assert told(failed, "claude")["error"] == "no such file"
    assert told(failed, "openhands")["tool_response"]["is_error"] is True


def test_the_fields_of_an_event_stand_at_the_top():
    prompt = told(event("UserPromptSubmit", fields={"prompt": "hello"}))
    assert prompt["prompt"] == prompt["message"] == "hello"
    stop = told(event("Stop", fields={"stop_hook_active": True, "last_assistant_message": "done"}))
    assert (stop["stop_hook_active"], stop["last_assistant_message"]) == (True, "done")
    assert stop["metadata"] == {"reason": "agent_finished"}
    notice = told(event("Notification", fields={"message": "waiting", "notification_type": "idle_prompt"}))
    assert notice["message"] == "waiting"


def test_in_a_sub_agent_the_payload_says_which():
    found = told(event(tool="bash", input={}, agent="explore", agent_id="ses_2"))
    assert (found["agent_id"], found["agent_type"], found["session_id"]) == ("ses_2", "explore", "ses_1")
    assert "agent_id" not in told(event(tool="bash", input={}, agent="build"))


def test_megabytes_of_a_tools_output_are_cut_with_a_note_and_its_input_is_not():
    happened = event(
        "PostToolUse",
        "write",
        input={"filePath": "a", "content": "x" * (3 << 20)},
        use={
            "response": {"output": "head" + "y" * (5 << 20) + "tail", "metadata": {"list": ["z" * (1 << 20)]}}
        },
    )
    found = told(happened)
    assert len(found["tool_input"]["content"]) == 3 << 20
    output = found["tool_response"]["output"]
    assert output.startswith("head")
    assert output.endswith("tail")
    assert "characters were left out" in output
    assert len(json.dumps(found["tool_response"])) < 1 << 20


def test_what_an_evaluator_does_with_a_payload_changes_nothing_here():
    given = {"command": "ls", "more": {"deep": [1]}}
    happened = event(tool="bash", input=given)
    ((_, payload),) = payloads(happened, "claude")
    payload["tool_input"]["more"]["deep"].append(2)
    payload["tool_input"]["command"] = "rm"
    assert given == {"command": "ls", "more": {"deep": [1]}}


def test_half_a_surrogate_pair_and_odd_values_can_be_told():
    found = told(
        event("UserPromptSubmit", fields={"prompt": "a\ud800b", "path": Path("/x"), "many": {1: (2,)}})
    )
    assert found["prompt"] == "a?b"
    assert (found["path"], found["many"]) == ("/x", {"1": [2]})


def test_the_variables_of_both_dialects_are_set():
    happened = event(tool="bash", input={"command": "ls"})
    ((view, _),) = payloads(happened, "openhands")
    found = environment(happened, view, Path("/project"))
    assert found["CLAUDE_PROJECT_DIR"] == found["OPENHANDS_PROJECT_DIR"] == "/project"
    assert (found["OPENHANDS_EVENT_TYPE"], found["OPENHANDS_TOOL_NAME"]) == ("PreToolUse", "terminal")
    assert (found["OPENHANDS_SESSION_ID"], found["AI_AGENT"]) == ("ses_1", "instar")
    assert "OPENHANDS_TOOL_NAME" not in environment(event("Stop"), None, Path("/project"))
