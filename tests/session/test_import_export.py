"""What may come in from a file, as values: one table of faults, and a round trip that loses nothing."""

import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instar.message import Assistant, MessageAbortedError, ToolError, ToolPart
from instar.session.import_export import LIMIT, read_archive, redacted, renewed
from instar.session.transcript import ExchangeError, Here, transcript_of
from instar.wire import Plain, to_plain

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "opencode-export.json").read_text())
NOW = time.time_ns() // 1_000_000


def read(plain: Any, now: int = NOW, **options: Any) -> Any:
    (record,) = read_archive(json.dumps(plain).encode(), "a.json")
    return transcript_of(record, Here(now), **options)


def changed(change: Callable[[Plain], Any]) -> Plain:
    plain = copy.deepcopy(RECORDED)
    change(plain)
    return plain


def put(path: str, value: Any) -> Callable[[Plain], None]:
    """Set, or with `...` delete, what stands at a dotted path."""

    def change(plain: Any) -> None:
        *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        for key in way:
            plain = plain[key]
        if value is ...:
            del plain[last]
        else:
            plain[last] = value

    return change


def plain_of(transcript: Any) -> Plain:
    return {
        "info": to_plain(transcript.session),
        "messages": [message.to_plain() for message in transcript.messages],
    }


def test_what_opencode_exported_comes_out_as_it_came_in():
    found = read(RECORDED)
    assert plain_of(found) == RECORDED
    assert found.notes == []


FIRST = RECORDED["messages"][0]["info"]["id"]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("info", [], "not an exported session|info: expected an object"),
        ("info.id", ..., "info: Object missing required field `id`"),
        ("info.id", "../../etc", "info.id: '../../etc' is not the id of a session"),
        ("info.id", "msg_1", "info.id: 'msg_1' is not the id of a session"),
        ("info.time", {"created": "x", "updated": 1}, "info: .*`time.created`"),
        ("info.permission", [{"permission": "bash", "pattern": "*", "action": "sudo"}], "info: .*sudo"),
        ("info.time.updated", -(2**60), "info.time: a time is negative"),
        ("info.time.archived", 10**30, "info.time: a number is too large"),
        ("info.tokens.cache.read", 10**30, "info.tokens: a number is too large"),
        ("info.summary", {"additions": 10**30, "deletions": 0, "files": 0}, "info.summary: .*too large"),
        ("messages.0.info.time.created", -1, r"messages\[0\].info .*negative"),
        ("messages", {}, "a.json: not an exported session: .*`messages`"),
        ("messages.1.parts", ..., r"a.json: not an exported session: .*`messages\[1\]`"),
        ("messages.0.info.role", "system", r"messages\[0\].info \(msg_.*\): Unknown message role 'system'"),
        ("messages.0.info.id", "prt_1", r"messages\[0\].info \(prt_1\): 'prt_1' is not an id"),
        ("messages.1.info.id", FIRST, r"messages\[1\].info .*: the id msg_\w+ stands twice"),
        ("messages.1.info.sessionID", "ses_other", r"messages\[1\].info .*sessionID is 'ses_other'"),
        ("messages.1.parts.0.sessionID", "ses_other", r"messages\[1\].parts\[0\] .*sessionID is 'ses_other'"),
        ("messages.1.parts.0.messageID", FIRST, r"messages\[1\].parts\[0\] .*it stands in message"),
        ("messages.1.parts.0.id", "msg_x", r"messages\[1\].parts\[0\] \(msg_x\)"),
        ("messages.1.parts.2.text", ..., r"messages\[1\].parts\[2\] .*missing required field `text`"),
        ("messages.1.parts.3.state.status", "odd", r"messages\[1\].parts\[3\]"),
        ("messages.1.parts.3", "text", r"messages\[1\].parts\[3\]: expected an object"),
        ("messages.1.parts.3", {"type": "hologram"}, r"messages\[1\].parts\[3\]: .*id"),
        ("todos", [{"content": 1}], r"todos\[0\]: "),
    ],
)
def test_a_fault_is_refused_by_its_place(path, value, words):
    with pytest.raises(ExchangeError, match=words):
        read(changed(put(path, value)))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "a.json:1:1: not JSON"),
        (b'{"info": {},\n "messages": [}', "a.json:2:15: not JSON"),
        (b'{"info": {}}', "a.json: not an exported session: .*`messages`"),
        (b"[]", "a.json: not an exported session"),
        (b'\n\n{"info": "\xff", "messages": []}', "a.json:3: not UTF-8"),
        (json.dumps(RECORDED).encode("utf-16"), "a.json:1: not UTF-8"),
        (b'{"info": ' + b"[" * 200_000, "a.json: not JSON that can be read"),
        (b"x" * (LIMIT + 1), "a.json: larger than 256 MB.*--opencode-db"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_what_is_no_export_is_refused_by_line_and_column(data, words):
    with pytest.raises(ExchangeError, match=words):
        [transcript_of(record, Here(NOW)) for record in read_archive(data, "a.json")]


def test_a_fault_inside_a_message_has_the_files_line():
    broken = json.dumps(RECORDED, indent=1).replace('"Let me look."', '"Let me \\x look."')
    line = broken[: broken.index("\\x")].count("\n") + 1
    with pytest.raises(ExchangeError, match=f"a.json:{line}:"):
        [transcript_of(record, Here(NOW)) for record in read_archive(broken.encode(), "a.json")]


def test_half_of_a_character_and_a_byte_order_mark_are_read_as_elsewhere():
    text = json.dumps(changed(put("messages.0.parts.0.text", "SPLIT"))).replace("SPLIT", "a\\ud83d")
    (record,) = read_archive(b"\xef\xbb\xbf" + text.encode(), "a.json")
    assert transcript_of(record, Here(NOW)).messages[0].parts[0].text == "a\ufffd"


def test_leniently_a_fault_is_left_out_and_named():
    plain = changed(put("messages.1.parts.2.text", ...))
    plain["messages"][2]["info"]["role"] = "system"
    found = read(plain, lenient=True)
    assert len(found.messages) == len(RECORDED["messages"]) - 1
    assert len(found.messages[1].parts) == len(RECORDED["messages"][1]["parts"]) - 1
    assert [note.split(" (")[0] for note in found.notes] == [
        "skipped messages[1].parts[2]",
        "skipped messages[2].info",
    ]


@pytest.mark.parametrize(
    "state",
    [
        {"status": "pending", "input": {}, "raw": "{"},
        {"status": "running", "input": {"a": 1}, "metadata": {"output": "half"}, "time": {"start": 5}},
    ],
)
def test_a_call_that_nobody_finishes_is_closed_as_interrupted(state):
    plain = changed(put("messages.1.parts.3.state", state))
    del plain["messages"][1]["info"]["time"]["completed"]
    found = read(plain)
    closed = found.messages[1].parts[3]
    assert isinstance(closed, ToolPart)
    assert isinstance(closed.state, ToolError)
    assert closed.state.input == state["input"]
    assert closed.state.metadata == {**state.get("metadata", {}), "interrupted": True}
    info = found.messages[1].info
    assert isinstance(info, Assistant)
    assert info.time.completed is not None
    assert isinstance(info.error, MessageAbortedError)
    assert found.notes == ["1 unfinished tool calls were closed as interrupted"]


def test_a_session_grants_nothing_and_brings_nothing_of_another_machine():
    plain = changed(put("info.revert", {"messageID": FIRST, "snapshot": "--output=x"}))
    allow = {"permission": "bash", "pattern": "*", "action": "allow"}
    ask = {"permission": "edit", "pattern": "*", "action": "ask"}
    plain["info"] |= {"workspaceID": "wrk_1", "share": {"url": "https://example.org"}}
    plain["info"]["permission"] = [allow, ask]
    plain["info"]["time"]["compacting"] = 5
    found = read(plain)
    info = to_plain(found.session)
    assert info["permission"] == [ask]
    assert not {"revert", "workspaceID", "share"} & info.keys()
    assert "compacting" not in info["time"]
    assert len(found.notes) == 2


def test_times_in_the_future_become_now_and_keep_the_order():
    now = RECORDED["info"]["time"]["created"] + 1
    found = read(RECORDED, now)
    times = [message.info.time.created for message in found.messages]
    assert times == sorted(set(times))
    assert times[-1] == now
    assert found.session.time.updated == now
    assert [message.info.id for message in found.messages] == [
        message["info"]["id"] for message in RECORDED["messages"]
    ]


def test_a_copy_has_new_ids_and_its_own_order_and_links():
    plain = changed(put("messages.0.parts.0", RECORDED["messages"][0]["parts"][0]))
    last = plain["messages"][-1]
    place = {"sessionID": plain["info"]["id"], "messageID": FIRST}
    plain["messages"][0]["parts"] += [
        {"id": "prt_a", "type": "compaction", "auto": True, "tail_start_id": last["info"]["id"], **place},
        {"id": "prt_b", "type": "hologram", "beam": 1, **place},
    ]
    before, (after,) = read(plain), renewed([read(plain)])
    assert after.session.id != before.session.id
    asked, answers = after.messages[0], after.messages[1:]
    assert {answer.info.parent_id for answer in answers} == {asked.info.id}
    assert {message.info.session_id for message in after.messages} == {after.session.id}
    assert {part.message_id for part in asked.parts} == {asked.info.id}
    ids = [message.info.id for message in after.messages]
    assert ids == sorted(ids)
    assert not set(ids) & {message.info.id for message in before.messages}
    parts = [part.id for message in after.messages for part in message.parts]
    assert not set(parts) & {part.id for message in before.messages for part in message.parts}
    assert all(
        [part.id for part in message.parts] == sorted(part.id for part in message.parts)
        for message in after.messages
    )
    tail = next(part for part in asked.parts if getattr(part, "auto", False))
    assert tail.tail_start_id == ids[-1]


def test_a_copied_task_names_the_copied_child():
    parent, child = copy.deepcopy(RECORDED), copy.deepcopy(RECORDED)
    call = next(
        part for message in parent["messages"] for part in message["parts"] if part.get("tool") == "task"
    )
    text = json.dumps(child).replace(child["info"]["id"], call["state"]["metadata"]["sessionId"])
    parent["children"] = [json.loads(text.replace('"msg_', '"msg_c').replace('"prt_', '"prt_c'))]
    parent["children"][0]["info"]["parentID"] = parent["info"]["id"]
    records = read_archive(json.dumps(parent).encode(), "a.json")
    one, other = renewed([transcript_of(record, Here(NOW)) for record in records])
    assert other.session.parent_id == one.session.id
    task = next(
        part for message in one.messages for part in message.parts if getattr(part, "tool", "") == "task"
    )
    assert task.state.metadata["sessionId"] == other.session.id


def test_a_sanitized_export_says_nothing_and_is_still_one():
    plain = changed(put("messages.0.parts.0.extra", {"word": "SECRET"}))
    place = {"sessionID": plain["info"]["id"], "messageID": FIRST}
    plain["messages"][0]["parts"].append({"id": "prt_x", "type": "hologram", "name": "SECRET", **place})
    clean = redacted(plain)
    text = json.dumps(clean)
    for word in ("SECRET", "/home/ada", "buy milk", "milk", "What is in", "missing.txt", "echo", "Two words"):
        assert word not in text, word
    found = read(clean)
    assert [len(message.parts) for message in found.messages] == [
        len(message["parts"]) for message in plain["messages"]
    ]
    assert clean["info"]["tokens"] == plain["info"]["tokens"]
