import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar import wire
from instar.message import (
    Message,
    Session,
    TextPart,
    Tokens,
    ToolPart,
    UnknownError,
    UnknownPart,
    decode_message,
    decode_part,
    part_to_plain,
)
from instar.store import StoreError, Usage, rows

IDS = {"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1"}
USER = {
    "id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 7}, "agent": "a",
    "model": {"providerID": "p", "modelID": "m"},
}  # fmt: skip
ANSWER = {
    "id": "msg_1", "sessionID": "ses_1", "role": "assistant", "time": {"created": 7}, "parentID": "msg_0",
    "modelID": "m", "providerID": "p", "mode": "b", "agent": "b", "path": {"cwd": "/", "root": "/"}, "cost": 0.5,
    "tokens": {"input": 1, "output": 2, "reasoning": 3, "cache": {"read": 4, "write": 5}},
}  # fmt: skip
SESSION = {
    "id": "ses_1", "slug": "a-b", "projectID": "global", "directory": "/", "title": "t", "version": "1", "cost": 1.5,
    "tokens": {"input": 1, "output": 2, "reasoning": 3, "cache": {"read": 4, "write": 5}},
    "time": {"created": 1, "updated": 2},
}  # fmt: skip
FULL = {
    **SESSION,
    "workspaceID": "wrk_1", "parentID": "ses_0", "path": "sub", "agent": "build",
    "summary": {"additions": 1, "deletions": 2, "files": 3, "diffs": [{"additions": 1, "deletions": 2, "file": "a"}]},
    "share": {"url": "https://example.org/s"},
    "model": {"id": "m", "providerID": "p", "variant": "high"},
    "metadata": {"k": [1, None]},
    "time": {"created": 1, "updated": 2, "compacting": 3, "archived": 4},
    "permission": [{"permission": "bash", "pattern": "*", "action": "deny"}],
    "revert": {"messageID": "msg_1", "partID": "prt_1", "snapshot": "s", "diff": "d"},
}  # fmt: skip

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)
EXTRA = st.dictionaries(st.text(max_size=6).map("x".__add__), JSON, max_size=3)


def through_part(plain: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    row = rows.part_row(decode_part(plain))
    return json.loads(row[3]), rows.part_of(row)


def test_a_parts_data_is_its_wire_form_without_its_ids() -> None:
    part = decode_part({**IDS, "type": "text", "text": 'say "id": ☃', "metadata": {"id": "prt_1"}})
    row = rows.part_row(part)
    assert row[:3] == ("prt_1", "msg_1", "ses_1")
    assert row[3] == '{"type":"text","text":"say \\"id\\": ☃","metadata":{"id":"prt_1"}}'
    assert rows.part_of(row) == part


def test_a_messages_data_is_its_wire_form_without_its_ids() -> None:
    message_id, session_id, data, created = rows.message_row(decode_message(ANSWER))
    assert (message_id, session_id, created) == ("msg_1", "ses_1", 7)
    assert json.loads(data) == {key: value for key, value in ANSWER.items() if key not in ("id", "sessionID")}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(EXTRA, EXTRA, st.text(max_size=8))
def test_unknown_fields_of_parts_and_messages_survive(
    extra: dict[str, Any], inner: dict[str, Any], text: str
) -> None:
    for plain in (
        {**extra, **IDS, "type": "text", "text": text, "time": {**inner, "start": 1}},
        {**extra, **IDS, "type": text + "?", "text": text},
        {
            **IDS,
            "type": "tool",
            "callID": text,
            "tool": "t",
            "state": {"status": "pending", "input": inner, "raw": "", **extra},
        },
    ):
        data, part = through_part(plain)
        assert data == {key: value for key, value in plain.items() if key not in IDS}
        assert part_to_plain(part) == plain
    for plain in (
        {**extra, **USER, "system": text},
        {**extra, **ANSWER, "finish": None, "path": {**inner, "cwd": "/", "root": text}},
    ):
        assert wire.to_plain(rows.message_of(rows.message_row(decode_message(plain)))) == plain


@pytest.mark.parametrize("part_id", ['prt_"quoted"', "prt_\\", "prt_é\n", ""])
def test_odd_ids_do_not_disturb_the_split(part_id: str) -> None:
    plain = {**IDS, "id": part_id, "type": "text", "text": "t"}
    data, part = through_part(plain)
    assert data == {"type": "text", "text": "t"}
    assert part_to_plain(part) == plain


def test_a_row_that_another_program_wrote_with_its_own_order_and_spaces_is_read() -> None:
    data = '{ "text": "hi",\n "synthetic": null, "type": "text", "new": 1 }'
    part = rows.part_of(("prt_1", "msg_1", "ses_1", data))
    assert isinstance(part, TextPart)
    assert part_to_plain(part) == {**IDS, "type": "text", "text": "hi", "synthetic": None, "new": 1}
    info = {key: USER[key] for key in reversed(USER) if key not in ("id", "sessionID")}
    assert rows.message_of(("msg_1", "ses_1", json.dumps(info), 7)) == decode_message(USER)


def test_a_part_of_a_known_type_in_a_state_that_is_not_known_is_kept_as_it_is() -> None:
    data = {"type": "tool", "callID": "c", "tool": "t", "state": {"status": "queued", "place": 3}}
    part = rows.part_of(("prt_1", "msg_1", "ses_1", json.dumps(data)))
    assert isinstance(part, UnknownPart)
    assert json.loads(rows.part_row(part)[3]) == data


def test_half_a_surrogate_pair_in_a_row_does_not_make_it_unreadable() -> None:
    part = rows.part_of(("prt_1", "msg_1", "ses_1", '{"type":"text","text":"cut \\ud83d"}'))
    assert isinstance(part, TextPart)
    assert part.text == "cut \ufffd"


def test_an_answer_with_an_error_of_an_unknown_kind_is_readable() -> None:
    data = json.dumps({**ANSWER, "error": {"name": "MoonPhaseError", "data": {"message": "full"}}})
    answer: Message = rows.message_of(("msg_1", "ses_1", data, 7))
    assert isinstance(answer.error, UnknownError)  # type: ignore[union-attr]
    assert answer.error.data.message == "full"  # type: ignore[union-attr]


@pytest.mark.parametrize("data", ["", "{", "[]", "null", '{"type":"text"', "\x00", '{"role":"judge"}'])
def test_a_damaged_row_is_shown_as_damaged_and_keeps_its_text(data: str) -> None:
    part = rows.part_of(("prt_1", "msg_1", "ses_1", data))
    assert isinstance(part, UnknownPart)
    if "role" not in data:
        assert part.fields == {"type": "damaged", "text": data, **IDS}
    answer: Message = rows.message_of(("msg_1", "ses_1", data, 7))
    assert (answer.id, answer.session_id, answer.time.created) == ("msg_1", "ses_1", 7)
    assert "message msg_1 is damaged in the database" in answer.error.data.message  # type: ignore[union-attr]


def test_a_tool_part_comes_back_as_one() -> None:
    plain = {
        **IDS,
        "type": "tool",
        "callID": "c",
        "tool": "t",
        "state": {"status": "pending", "input": {}, "raw": ""},
    }
    assert isinstance(through_part(plain)[1], ToolPart)


def through_session(plain: dict[str, Any]) -> tuple[dict[str, Any], str | None, Session]:
    columns, left = rows.session_row(wire.decode(plain, Session))
    return columns, left, rows.session_of((*columns.values(), left))


@pytest.mark.parametrize("plain", [SESSION, FULL])
def test_a_session_that_opencode_knows_fits_its_columns(plain: dict[str, Any]) -> None:
    columns, left, session = through_session(plain)
    assert left is None
    assert session == wire.decode(plain, Session)
    assert wire.to_plain(session) == plain
    assert columns["tokens_cache_write"] == 5
    assert columns["time_updated"] == 2


def test_the_columns_that_hold_json_hold_opencodes() -> None:
    columns, _, _ = through_session(FULL)
    assert json.loads(columns["model"]) == {"id": "m", "providerID": "p", "variant": "high"}
    assert json.loads(columns["permission"]) == FULL["permission"]
    assert json.loads(columns["revert"]) == FULL["revert"]
    assert json.loads(columns["summary_diffs"]) == [{"additions": 1, "deletions": 2, "file": "a"}]
    assert columns["share_url"] == "https://example.org/s"


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(EXTRA, EXTRA, st.sampled_from([SESSION, FULL]))
def test_what_no_column_of_a_session_holds_survives(
    extra: dict[str, Any], inner: dict[str, Any], known: Any
) -> None:
    plain = json.loads(json.dumps({**known, **extra}))
    plain["tokens"] |= {**inner, "total": 9}
    plain["time"] |= {**inner, "archived": None}
    plain.setdefault("share", {}).update(inner)
    plain["revert"] = {"messageID": "msg_1", **inner}
    plain["path"] = None
    assert wire.to_plain(through_session(plain)[2]) == plain


def test_a_damaged_session_row_denies_everything_and_keeps_its_texts() -> None:
    columns, _, _ = through_session(FULL)
    for name, text in (("model", '{"id":1}'), ("metadata", "{"), ("permission", "[{}]")):
        row = (*{**columns, name: text}.values(), None)
        with pytest.raises(StoreError, match="session ses_1"):
            rows.session_of(row)
        session = rows.shown_session(row)
        assert session.title.startswith("(damaged) ")
        assert [rule.action for rule in session.permission or ()] == ["deny"]
        assert wire.to_plain(session)["damaged"][name] == text
        assert through_session(wire.to_plain(session))[2] == session


def test_a_session_row_without_what_it_cannot_lack_is_an_error_that_names_it() -> None:
    columns, _, _ = through_session(FULL)
    with pytest.raises(StoreError, match="session ses_1"):
        rows.shown_session((*{**columns, "title": 5, "time_created": "never"}.values(), None))


@pytest.mark.parametrize("cost", [None, 0.0, 0.25])
def test_a_booked_call_comes_back_as_it_was(cost: float | None) -> None:
    usage = Usage("ses_1", None, "title", "p", "m", Tokens.zero(), cost, 5)
    assert rows.usage_of(rows.usage_row(usage)) == usage
    usage.tokens.total = 3
    usage.tokens.cache.read = 2
    assert rows.usage_of(rows.usage_row(usage)) == usage
