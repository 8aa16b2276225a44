import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar import wire
from instar.message import Assistant, Session, SessionTime, User, decode_message, decode_with_parts, text_of

IDS = {"id": "msg_1", "sessionID": "ses_1"}
TOKENS = {"input": 1, "output": 2, "reasoning": 3, "cache": {"read": 4, "write": 5}}
USER = {
    **IDS,
    "role": "user",
    "time": {"created": 1},
    "agent": "build",
    "model": {"providerID": "p", "modelID": "m"},
}
ASSISTANT = {
    **IDS,
    "role": "assistant",
    "time": {"created": 1},
    "parentID": "msg_0",
    "modelID": "m",
    "providerID": "p",
    "mode": "build",
    "agent": "build",
    "path": {"cwd": "/", "root": "/"},
    "cost": 0,
    "tokens": TOKENS,
}
SESSION = {
    "id": "ses_1",
    "slug": "brave-otter",
    "projectID": "global",
    "directory": "/",
    "title": "t",
    "version": "1",
    "time": {"created": 1, "updated": 2},
}

Problems = Callable[[str, Any], list[str]]
Valid = Callable[..., st.SearchStrategy[Any]]
KINDS = {"UserMessage": User, "AssistantMessage": Assistant, "Session": Session}


def same(name: str, value: Any, plain: dict[str, Any]) -> bool:
    """Equal but for the two fields of a session that opencode may leave out and we always write."""
    known = {
        "cost": 0.0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
    }
    return bool(value == ({**known, **plain} if name == "Session" else plain))


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_whatever_opencode_allows_comes_back_as_it_was(
    name: str, valid: Valid, problems: Problems, data: st.DataObject
) -> None:
    plain = data.draw(valid(name))
    value = wire.decode(plain, KINDS[name])
    encoded = wire.encode(value)
    assert same(name, wire.to_plain(value), plain)
    assert problems(name, json.loads(encoded)) == []
    assert wire.decode(encoded, KINDS[name]) == value


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_unknown_fields_and_nulls_at_any_depth_survive(name: str, valid: Valid, data: st.DataObject) -> None:
    plain = data.draw(valid(name, extra=True))
    value = wire.decode(json.dumps(plain), KINDS[name])
    assert same(name, json.loads(wire.encode(value)), json.loads(json.dumps(plain)))
    assert wire.to_plain(wire.copy(value)) == wire.to_plain(value)


@pytest.mark.parametrize(
    ("name", "plain"), [("UserMessage", USER), ("AssistantMessage", ASSISTANT), ("Session", SESSION)]
)
def test_the_required_fields_alone_are_enough_and_are_all_written(
    name: str, plain: dict[str, Any], problems: Problems
) -> None:
    value = wire.decode(plain, KINDS[name])
    assert problems(name, wire.to_plain(value)) == []
    assert same(name, wire.to_plain(value), plain)


def test_a_session_that_an_older_opencode_wrote_has_cost_and_tokens_of_nothing() -> None:
    session = wire.decode(SESSION, Session)
    assert session.cost == 0
    assert session.tokens.input == session.tokens.cache.write == 0
    assert json.loads(wire.encode(session))["cost"] == 0


def test_two_sessions_do_not_share_their_count_of_tokens() -> None:
    first, second = wire.decode(SESSION, Session), wire.decode(SESSION, Session)
    first.tokens.input = 9
    assert second.tokens.input == 0


@pytest.mark.parametrize("role", ["system", None, 3, ""])
def test_a_message_of_another_role_is_refused(role: object) -> None:
    with pytest.raises(msgspec.ValidationError, match="role"):
        decode_message({**USER, "role": role})


@pytest.mark.parametrize(
    "plain", [{}, {"info": USER}, {"info": [], "parts": []}, {"info": USER, "parts": {}}]
)
def test_a_message_without_info_or_parts_is_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.(info|parts)"):
        decode_with_parts(plain)


def test_a_copy_of_a_message_shares_nothing_with_it() -> None:
    text = {
        "type": "text",
        "id": "prt_1",
        "sessionID": "ses_1",
        "messageID": "msg_1",
        "text": "a",
        "metadata": {"n": [1]},
    }
    first = decode_with_parts({"info": {**USER, "later": [1]}, "parts": [text, {**text, "type": "new"}]})
    second = first.copy()
    assert second == first
    assert second.to_plain() == first.to_plain()
    second.info.agent = "other"
    second.parts[0].metadata["n"].append(2)  # type: ignore[union-attr]
    assert first.info.agent == "build"
    assert first.parts[0].metadata == {"n": [1]}  # type: ignore[union-attr]
    assert first.to_plain()["info"]["later"] == [1]


def test_the_text_of_a_message_leaves_out_ignored_parts_and_other_kinds() -> None:
    part = {"type": "text", "id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1"}
    parts = [
        {**part, "text": "a"},
        {**part, "text": "b", "ignored": True},
        {**part, "type": "x"},
        {**part, "text": "c"},
    ]
    assert text_of(decode_with_parts({"info": USER, "parts": parts})) == "a\nc"


@pytest.mark.parametrize("created", ["1718000000000.0", "1.718e12"])
def test_a_time_that_python_or_another_program_wrote_as_a_float_is_taken(created: str) -> None:
    time = wire.decode(f'{{"created":{created},"updated":1}}', SessionTime)
    assert time.created == 1718000000000
    assert type(time.created) is int


@pytest.mark.parametrize("created", ["1.5", '"1"', "true", "null", "1e400"])
def test_a_time_that_is_no_whole_number_is_refused(created: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        wire.decode(f'{{"created":{created},"updated":1}}', SessionTime)
