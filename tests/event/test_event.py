import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from instar import event
from instar.client.request import decode_event as decode
from instar.event import TYPES, Event, PartUpdated, make
from instar.message import UnknownPart, decode_part
from instar.wire import Wire

DOCUMENT = json.loads((Path(__file__).parents[1] / "data" / "opencode-schemas.json").read_text())
OWN = {
    "server.heartbeat", "plugin.error", "session.limit", "evolve.installed", "evolve.refused", "evolve.rolledback",
    "hooks.armed", "hooks.ran", "instance.reloaded", "instar.hook.waiting", "instar.trust.changed",
    "self.modified",
}  # fmt: skip
"""Types without a schema: opencode sends the first without declaring it, the others are ours."""
SYNC = {
    "session.created", "session.updated", "session.deleted", "message.updated", "message.removed",
    "message.part.updated", "message.part.removed",
}  # fmt: skip

TOKENS = {"input": 1, "output": 2, "reasoning": 3, "cache": {"read": 4, "write": 5}}
SESSION = {
    "id": "ses_1", "slug": "a-b", "projectID": "global", "directory": "/", "title": "t", "version": "1", "cost": 0.0,
    "tokens": TOKENS, "time": {"created": 1, "updated": 2},
}  # fmt: skip
USER = {
    "id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 1}, "agent": "build",
    "model": {"providerID": "p", "modelID": "m"},
}  # fmt: skip
PART = {"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1", "type": "text", "text": "hi"}
OF = {"sessionID": "ses_1"}
QUESTION = {
    "question": "Which?",
    "header": "h",
    "options": [{"label": "a", "description": "b"}],
    "multiple": True,
}
PROJECT = {
    "id": "global", "worktree": "/", "vcs": "git", "name": "n", "icon": {"color": "red"}, "commands": {"start": "s"},
    "time": {"created": 1, "updated": 2}, "sandboxes": [],
}  # fmt: skip
PTY = {
    "id": "pty_1", "title": "t", "command": "sh", "args": ["-l"], "cwd": "/", "status": "running", "pid": 5,
}  # fmt: skip

EXAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("server.connected", {}),
    ("server.heartbeat", {}),
    ("evolve.installed", {"files": ["hooks/a.py"], "epoch": 2, **OF}),
    ("evolve.refused", {"file": "hooks/a.py", "stage": "test", "message": "m", **OF}),
    ("evolve.rolledback", {"files": ["hooks/a.py"], "epoch": 3, "message": "m"}),
    ("hooks.armed", {**OF, "rules": ["Stop: check.sh (a:1:2)"], "problems": ["p"]}),
    (
        "hooks.ran",
        {**OF, "event": "PreToolUse", "rule": "check.sh (a:1:2)", "place": "a:1:2", "evaluator": "command",
         "dialect": "claude", "action": "deny", "undecided": False, "reason": "r", "error": "", "messages": ["m"],
         "duration": 5, "code": 2, "output": "o", "tool": "bash", "callID": "c", "tokens": 1, "cost": 0.5,
         "model": "p/m", "childID": "ses_2"},
    ),
    ("instar.hook.waiting", {**OF, "plugin": "hooks", "name": "lint.sh", "hook": "Stop", "since": 1, "duration": 2}),
    ("session.created", {**OF, "info": SESSION}),
    ("session.updated", {**OF, "info": SESSION}),
    ("session.deleted", {**OF, "info": SESSION}),
    ("session.diff", {**OF, "diff": [{"file": "a", "patch": "", "additions": 1, "deletions": 0, "status": "added"}]}),
    ("session.error", {**OF, "error": {"name": "MessageAbortedError", "data": {"message": "Aborted"}}}),
    ("session.error", {}),
    ("session.status", {**OF, "status": {"type": "idle"}}),
    ("session.status", {**OF, "status": {"type": "busy"}}),
    ("session.status", {**OF, "status": {"type": "retry", "attempt": 1, "message": "m", "next": 5}}),
    ("session.idle", OF),
    ("session.compacted", OF),
    ("message.updated", {**OF, "info": USER}),
    ("message.removed", {**OF, "messageID": "msg_1"}),
    ("message.part.updated", {**OF, "part": PART, "time": 5}),
    ("message.part.delta", {**OF, "messageID": "msg_1", "partID": "prt_1", "field": "text", "delta": "d"}),
    ("message.part.removed", {**OF, "messageID": "msg_1", "partID": "prt_1"}),
    (
        "permission.asked",
        {**OF, "id": "per_1", "permission": "bash", "patterns": ["ls"], "metadata": {"a": 1}, "always": ["ls *"],
         "tool": {"messageID": "msg_1", "callID": "c"}},
    ),
    ("permission.replied", {**OF, "requestID": "per_1", "reply": "always"}),
    ("question.asked", {**OF, "id": "que_1", "questions": [QUESTION], "tool": {"messageID": "msg_1", "callID": "c"}}),
    ("question.replied", {**OF, "requestID": "que_1", "answers": [["a"]]}),
    ("question.rejected", {**OF, "requestID": "que_1"}),
    ("todo.updated", {**OF, "todos": [{"content": "c", "status": "pending", "priority": "high"}]}),
    ("command.executed", {**OF, "name": "build", "arguments": "x", "messageID": "msg_1"}),
    ("file.edited", {"file": "/a"}),
    ("file.watcher.updated", {"file": "/a", "event": "change"}),
    ("vcs.branch.updated", {"branch": "main"}),
    ("project.updated", PROJECT),
    ("server.instance.disposed", {"directory": "/a"}),
    ("global.disposed", {}),
    ("instance.reloaded", {"what": ["agents", "plugin:mine"], "problems": []}),
    ("instar.trust.changed", {"directory": "/a", "unaccepted": {"/a/instar.json": "new"}}),
    ("installation.updated", {"version": "1"}),
    ("lsp.updated", {}),
    ("pty.created", {"info": PTY}),
    ("pty.updated", {"info": {**PTY, "status": "exited", "exitCode": 0}}),
    ("pty.exited", {"id": "pty_1", "exitCode": 137}),
    ("pty.deleted", {"id": "pty_1"}),
    ("tui.prompt.append", {"text": "t"}),
    ("tui.command.execute", {"command": "session.list"}),
    ("tui.toast.show", {"title": "t", "message": "m", "variant": "info", "duration": 5}),
    ("tui.session.select", OF),
    ("plugin.error", {"plugin": "p", "hook": "event", "message": "m"}),
    ("session.limit", {**OF, "limit": "tokens", "cause": "heartbeat", "message": "m", "ends": True}),
    ("self.modified", {**OF, "callID": "c", "path": "a.b", "old": 1, "new": [2]}),
]  # fmt: skip


def problems(schema: str, value: Any) -> list[str]:
    document = {"$ref": f"#/components/schemas/{schema}", "components": DOCUMENT["components"]}
    return [
        f"{error.json_path}: {error.message}" for error in Draft202012Validator(document).iter_errors(value)
    ]


@pytest.mark.parametrize(("kind", "properties"), EXAMPLES, ids=[kind for kind, _ in EXAMPLES])
def test_every_event_is_opencodes_and_survives_a_round_trip(kind: str, properties: dict[str, Any]) -> None:
    plain = {"id": "evt_1", "type": kind, "properties": properties}
    made = decode(plain)
    assert made.to_plain() == plain
    assert decode(made.to_plain()) == made
    assert json.loads(made.payload()) == properties
    assert made.session_id == properties.get("sessionID")
    if kind not in OWN:
        assert problems(DOCUMENT["events"][kind], made.to_plain()) == []
    again = make(made.properties)
    assert again.type == kind
    assert again.id.startswith("evt_")


def test_the_examples_are_all_declared_types() -> None:
    assert {kind for kind, _ in EXAMPLES} == set(TYPES)
    assert set(DOCUMENT["events"]) == set(TYPES) - OWN


def test_sync_events_are_sessions_messages_and_parts_at_version_one() -> None:
    assert {name: kind.version for name, kind in TYPES.items() if kind.version is not None} == dict.fromkeys(
        SYNC, 1
    )


@pytest.mark.parametrize(("kind", "properties"), [pair for pair in EXAMPLES if pair[0] in SYNC])
def test_a_sync_events_durable_form_is_opencodes(kind: str, properties: dict[str, Any]) -> None:
    (schema,) = [
        name
        for name, one in DOCUMENT["components"]["schemas"].items()
        if name.startswith("SyncEvent")
        and one["properties"]["syncEvent"]["properties"]["type"]["enum"] == [f"{kind}.1"]
    ]
    data = decode({"id": "evt_1", "type": kind, "properties": properties}).to_plain()["properties"]
    row = {"type": f"{kind}.1", "id": "evt_1", "seq": 1, "aggregateID": "ses_1", "data": data}
    assert problems(schema, {"type": "sync", "id": "evt_1", "syncEvent": row}) == []


def test_unknown_fields_of_an_event_of_its_message_and_of_its_part_survive() -> None:
    for kind, properties in (
        ("message.updated", {**OF, "info": {**USER, "later": 1, "system": None}, "more": [1]}),
        ("message.part.updated", {**OF, "part": {**PART, "later": 1}, "time": 5, "more": [1]}),
        ("message.part.updated", {**OF, "part": {**PART, "type": "hologram"}, "time": 5, "more": [1]}),
        ("session.updated", {**OF, "info": {**SESSION, "time": {"created": 1, "updated": 2, "x": 3}}}),
    ):
        made = decode({"id": "evt_1", "type": kind, "properties": properties})
        assert made.to_plain()["properties"] == properties
        assert json.loads(made.payload()) == properties


def test_a_part_of_an_unknown_type_is_published_as_it_is() -> None:
    part = decode_part({**PART, "type": "hologram"})
    assert isinstance(part, UnknownPart)
    made = make(PartUpdated(session_id="ses_1", part=part, time=5))
    assert made.to_plain()["properties"] == {**OF, "part": {**PART, "type": "hologram"}, "time": 5}
    assert isinstance(decode(made.to_plain()).properties.part, UnknownPart)  # type: ignore[attr-defined]


def test_an_events_wire_form_is_detached() -> None:
    made = decode(
        {"id": "evt_1", "type": "message.part.updated", "properties": {**OF, "part": PART, "time": 1}}
    )
    plain = made.to_plain()
    plain["properties"]["part"]["text"] = "other"
    assert made.to_plain()["properties"]["part"]["text"] == "hi"


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"id": "evt_1", "type": "tea.ready", "properties": {}},
        {"id": "evt_1", "type": "session.idle", "properties": []},
        {"type": "session.idle", "properties": OF},
        {"id": "evt_1", "type": "session.idle", "properties": {}},
        {
            "id": "evt_1",
            "type": "message.part.updated",
            "properties": {**OF, "part": {"type": "text"}, "time": 1},
        },
    ],
)
def test_what_is_no_event_is_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(plain)


def test_a_type_is_declared_once() -> None:
    class Other(Wire):
        pass

    with pytest.raises(ValueError, match=r"'session\.idle' is declared twice"):
        event.declare("session.idle")(Other)


def test_an_event_does_not_change() -> None:
    with pytest.raises(AttributeError):
        decode({"id": "evt_1", "type": "session.idle", "properties": OF}).type = "x"  # type: ignore[misc]
    assert isinstance(
        Event("evt_1", "session.idle", make(event.SessionIdle(session_id="s")).properties), Event
    )
