"""Messages and parts, each as opencode's newer routes show it."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from instar import wire
from instar.api.v2_session import PromptInput
from instar.message import WithParts, decode_with_parts
from instar.opencode.v2_messages import prompt_body, session_messages
from instar.turn.shell import SAID

DOCUMENT = json.loads((Path(__file__).parents[1] / "data" / "opencode-document.json").read_text())
SESSION = "ses_2"
ZERO = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
SPAN = {"start": 2, "end": 3}


def user(*parts: dict[str, Any], message_id: str = "msg_1") -> WithParts:
    info = {
        "id": message_id,
        "sessionID": SESSION,
        "role": "user",
        "time": {"created": 1},
        "agent": "build",
        "model": {"providerID": "p", "modelID": "m"},
    }
    return decode_with_parts({"info": info, "parts": _placed(parts, message_id)})


def answer(
    *parts: dict[str, Any], parent: str = "msg_1", message_id: str = "msg_2", **more: Any
) -> WithParts:
    info = {
        "id": message_id,
        "sessionID": SESSION,
        "role": "assistant",
        "time": {"created": 2, "completed": 9},
        "parentID": parent,
        "modelID": "m",
        "providerID": "p",
        "mode": "build",
        "agent": "build",
        "path": {"cwd": "/", "root": "/"},
        "cost": 0.5,
        "tokens": {"total": 7, **ZERO},
        **more,
    }
    return decode_with_parts({"info": info, "parts": _placed(parts, message_id)})


def _placed(parts: Any, message_id: str) -> list[dict[str, Any]]:
    place = {"sessionID": SESSION, "messageID": message_id}
    return [{"id": f"prt_{number}", **place, **part} for number, part in enumerate(parts)]


def tool(state: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool", "tool": "bash", "callID": "call_1", "state": state}


def shown(*history: WithParts) -> list[dict[str, Any]]:
    made = [wire.to_plain(one) for one in session_messages(history)]
    for one in made:
        assert list(_validator().iter_errors(one)) == []
    return made


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(
        {"$ref": "#/components/schemas/SessionMessage", "components": DOCUMENT["components"]}
    )


TEXT = {"type": "text", "text": "hi"}
FILE = {"type": "file", "mime": "text/plain", "filename": "a", "url": "file:///a"}
SOURCE = {"value": "@a", "start": 0, "end": 2}
SHOWN_SOURCE = {"text": "@a", "start": 0, "end": 2}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([TEXT], {"text": "hi"}),
        ([TEXT, TEXT], {"text": "hi\nhi"}),
        ([TEXT, {**TEXT, "synthetic": True}, {**TEXT, "ignored": True}], {"text": "hi"}),
        ([TEXT, FILE], {"text": "hi", "files": [{"uri": "file:///a", "mime": "text/plain", "name": "a"}]}),
        (
            [{**FILE, "source": {"type": "file", "path": "a", "text": SOURCE}}],
            {
                "text": "",
                "files": [{"uri": "file:///a", "mime": "text/plain", "name": "a", "source": SHOWN_SOURCE}],
            },
        ),
        ([TEXT, {"type": "agent", "name": "plan"}], {"text": "hi", "agents": [{"name": "plan"}]}),
        (
            [TEXT, {"type": "agent", "name": "plan", "source": SOURCE}],
            {"text": "hi", "agents": [{"name": "plan", "source": SHOWN_SOURCE}]},
        ),
        (
            [{"type": "subtask", "prompt": "do", "description": "d", "agent": "general"}],
            {"text": "do"},
        ),
        ([], {"text": ""}),
    ],
)
def test_a_prompt_is_text_with_attachments(parts: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    assert shown(user(*parts)) == [{"id": "msg_1", "type": "user", "time": {"created": 1}, **expected}]


def test_what_the_runtime_said_is_synthetic() -> None:
    (one,) = shown(user({**TEXT, "synthetic": True}))
    assert one == {
        "id": "msg_1",
        "type": "synthetic",
        "time": {"created": 1},
        "sessionID": SESSION,
        "text": "hi",
    }


RAN = {"input": {"command": "ls"}, "output": "a\n", "title": "", "metadata": {"exit": 0}}
CALL = {"type": "tool", "id": "call_1", "name": "bash", "provider": {"executed": False}}


@pytest.mark.parametrize(
    ("part", "content"),
    [
        (TEXT, {"type": "text", "id": "prt_0", "text": "hi"}),
        (
            {"type": "reasoning", "text": "hm", "time": SPAN},
            {"type": "reasoning", "id": "prt_0", "text": "hm", "time": {"created": 2, "completed": 3}},
        ),
        (
            tool({"status": "pending", "input": {}, "raw": '{"a"'}),
            {**CALL, "state": {"status": "pending", "input": '{"a"'}, "time": {"created": 2}},
        ),
        (
            tool({"status": "running", "input": {"a": 1}, "metadata": {"b": 2}, "time": {"start": 4}}),
            {
                **CALL,
                "state": {"status": "running", "input": {"a": 1}, "structured": {"b": 2}, "content": []},
                "time": {"created": 4, "ran": 4},
            },
        ),
        (
            tool({"status": "completed", **RAN, "time": {**SPAN, "compacted": 8}}),
            {
                **CALL,
                "state": {
                    "status": "completed",
                    "input": {"command": "ls"},
                    "content": [{"type": "text", "text": "a\n"}],
                    "structured": {"exit": 0},
                },
                "time": {"created": 2, "ran": 2, "completed": 3, "pruned": 8},
            },
        ),
        (
            tool(
                {
                    "status": "completed",
                    **RAN,
                    "metadata": {"outputPath": "/o"},
                    "time": SPAN,
                    "attachments": [{"id": "prt_9", "sessionID": SESSION, "messageID": "msg_2", **FILE}],
                }
            ),
            {
                **CALL,
                "state": {
                    "status": "completed",
                    "input": {"command": "ls"},
                    "content": [
                        {"type": "text", "text": "a\n"},
                        {"type": "file", "uri": "file:///a", "mime": "text/plain", "name": "a"},
                    ],
                    "outputPaths": ["/o"],
                    "structured": {"outputPath": "/o"},
                },
                "time": {"created": 2, "ran": 2, "completed": 3},
            },
        ),
        (
            tool({"status": "error", "input": {}, "error": "no", "time": SPAN}),
            {
                **CALL,
                "state": {
                    "status": "error",
                    "input": {},
                    "content": [],
                    "structured": {},
                    "error": {"type": "unknown", "message": "no"},
                },
                "time": {"created": 2, "ran": 2, "completed": 3},
            },
        ),
    ],
)
def test_each_part_of_an_answer_has_its_content(part: dict[str, Any], content: dict[str, Any]) -> None:
    _, one = shown(user(TEXT), answer(part, finish="stop"))
    assert one["content"] == [content]


@pytest.mark.parametrize(
    "part",
    [
        {**TEXT, "ignored": True},
        {"type": "snapshot", "snapshot": "s"},
        {"type": "wholly-new", "more": 1},
        {"type": "agent", "name": "plan"},
    ],
)
def test_a_part_without_a_newer_form_is_left_out(part: dict[str, Any]) -> None:
    assert shown(answer(part))[0]["content"] == []


def test_an_answer_names_its_model_cost_files_and_end() -> None:
    parts = [
        {"type": "step-start", "snapshot": "s1"},
        {"type": "patch", "hash": "s1", "files": ["/a", "/b"]},
        {"type": "step-finish", "reason": "stop", "snapshot": "s2", "cost": 0.5, "tokens": ZERO},
    ]
    (one,) = shown(answer(*parts, finish="stop", variant="high"))
    assert one == {
        "id": "msg_2",
        "type": "assistant",
        "time": {"created": 2, "completed": 9},
        "agent": "build",
        "model": {"id": "m", "providerID": "p", "variant": "high"},
        "content": [],
        "snapshot": {"start": "s1", "end": "s2", "files": ["/a", "/b"]},
        "finish": "stop",
        "cost": 0.5,
        "tokens": ZERO,
    }


def test_an_answer_that_is_being_written_has_no_cost_yet_and_one_that_failed_says_why() -> None:
    (running,) = shown(answer(TEXT, time={"created": 2}))
    assert {"cost", "tokens", "finish"} & set(running) == set()
    error = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
    (failed,) = shown(answer(TEXT, error=error))
    assert (failed["finish"], failed["error"]["message"]) == ("error", "Aborted")


def test_a_summary_is_one_message_under_the_id_of_what_asked_for_it() -> None:
    asked = user({"type": "compaction", "auto": True})
    made = answer(TEXT, summary=True)
    (one,) = shown(asked, made)
    assert (one["id"], one["type"], one["reason"], one["summary"]) == ("msg_1", "compaction", "auto", "hi")
    assert shown(asked) == []
    assert shown(asked, answer(TEXT, summary=True, time={"created": 2})) == []
    failed = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
    assert shown(asked, answer(TEXT, summary=True, error=failed)) == []


@pytest.mark.parametrize(
    ("state", "output"),
    [
        ({"status": "completed", **RAN, "time": SPAN}, "a\n"),
        ({"status": "error", "input": {"command": "ls"}, "error": "no", "time": SPAN}, "no"),
        (
            {
                "status": "running",
                "input": {"command": "ls"},
                "metadata": {"output": "x"},
                "time": {"start": 1},
            },
            "x",
        ),
    ],
)
def test_a_persons_own_command_is_one_message_under_the_id_of_its_answer(
    state: dict[str, Any], output: str
) -> None:
    asked = user({"type": "text", "text": SAID, "synthetic": True})
    (one,) = shown(asked, answer(tool(state)))
    assert (one["id"], one["type"], one["callID"]) == ("msg_2", "shell", "call_1")
    assert (one["command"], one["output"]) == ("ls", output)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"text": "hi"}, [{"type": "text", "text": "hi"}]),
        ({"text": ""}, [{"type": "text", "text": ""}]),
        (
            {"text": "", "files": [{"uri": "file:///a.png"}]},
            [{"type": "file", "mime": "image/png", "url": "file:///a.png"}],
        ),
        (
            {"text": "x", "files": [{"uri": "data:image/gif;base64,AA", "name": "g"}]},
            [
                {"type": "text", "text": "x"},
                {"type": "file", "mime": "image/gif", "url": "data:image/gif;base64,AA", "filename": "g"},
            ],
        ),
        (
            {"text": "x", "files": [{"uri": "file:///a", "name": "b.md"}], "agents": [{"name": "plan"}]},
            [
                {"type": "text", "text": "x"},
                {"type": "file", "mime": "text/markdown", "url": "file:///a", "filename": "b.md"},
                {"type": "agent", "name": "plan"},
            ],
        ),
    ],
)
def test_a_prompt_in_the_newer_form_becomes_parts(given: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    assert prompt_body(wire.decode(given, PromptInput)) == parts
