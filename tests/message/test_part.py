import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar import wire
from instar.message import (
    PART_TYPES,
    CompactionPart,
    TextPart,
    Tokens,
    ToolPart,
    ToolRunning,
    UnknownPart,
    decode_part,
    encode_part,
    part_to_plain,
)

IDS = {"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1"}
SPAN = {"start": 1718000000000, "end": 1718000000001}
TOKENS = {"input": 1, "output": 2, "reasoning": 3, "cache": {"read": 4, "write": 5}}

EXAMPLES = [
    {
        "type": "text",
        "text": "hi",
        "synthetic": True,
        "ignored": False,
        "time": SPAN,
        "metadata": {"a": [1, None]},
    },
    {"type": "reasoning", "text": "hm", "metadata": {"signature": "s"}, "time": {"start": 1}},
    {"type": "file", "mime": "text/plain", "filename": "a", "url": "file:///a"},
    {"type": "agent", "name": "plan", "source": {"value": "@plan", "start": 0, "end": 5}},
    {"type": "subtask", "prompt": "p", "description": "d", "agent": "general", "command": "c"},
    {"type": "step-start", "snapshot": "abc"},
    {
        "type": "step-finish",
        "reason": "stop",
        "snapshot": "abc",
        "cost": 0.25,
        "tokens": {**TOKENS, "total": 15},
    },
    {"type": "snapshot", "snapshot": "abc"},
    {"type": "patch", "hash": "abc", "files": ["a", "b"]},
    {
        "type": "retry",
        "attempt": 1,
        "error": {"name": "APIError", "data": {"message": "m", "statusCode": 429, "isRetryable": True}},
        "time": {"created": 1},
    },
    {"type": "compaction", "auto": True, "overflow": False, "tail_start_id": "msg_0"},
    *(
        {"type": "tool", "callID": "c", "tool": "bash", "state": state, "metadata": {"n": 1}}
        for state in (
            {"status": "pending", "input": {}, "raw": '{"comm'},
            {
                "status": "running",
                "input": {"command": "ls"},
                "title": "t",
                "metadata": {},
                "time": {"start": 1},
            },
            {
                "status": "completed",
                "input": {"command": "ls"},
                "output": "a\n",
                "title": "ls",
                "metadata": {"exit": 0},
                "time": {**SPAN, "compacted": 3},
                "attachments": [{**IDS, "type": "file", "mime": "image/png", "url": "data:,"}],
            },
            {"status": "error", "input": {}, "error": "no", "metadata": {"interrupted": True}, "time": SPAN},
        )
    ),
]

Problems = Callable[[str, Any], list[str]]
Valid = Callable[..., st.SearchStrategy[Any]]


def name_of(example: dict[str, Any]) -> str:
    return "-".join([example["type"], *filter(None, [example.get("state", {}).get("status")])])


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_every_kind_of_part_is_opencodes_and_survives_a_round_trip(
    example: dict[str, Any], problems: Problems
) -> None:
    plain = {**IDS, **example}
    assert problems("Part", plain) == []
    part = decode_part(plain)
    assert type(part) is PART_TYPES[example["type"]]
    assert part_to_plain(part) == plain
    assert json.loads(encode_part(part)) == plain
    assert problems("Part", json.loads(encode_part(part))) == []
    assert decode_part(encode_part(part)) == part


def test_the_examples_are_all_twelve_kinds_and_all_four_states() -> None:
    assert {example["type"] for example in EXAMPLES} == set(PART_TYPES)
    assert len(PART_TYPES) == 12
    states = {example["state"]["status"] for example in EXAMPLES if "state" in example}
    assert states == {"pending", "running", "completed", "error"}


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_whatever_opencode_allows_in_a_part_comes_back_as_it_was(
    valid: Valid, problems: Problems, data: st.DataObject
) -> None:
    plain = data.draw(valid("Part"))
    part = decode_part(plain)
    assert not isinstance(part, UnknownPart)
    assert part_to_plain(part) == plain
    assert problems("Part", json.loads(encode_part(part))) == []


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_unknown_fields_and_nulls_at_any_depth_of_a_part_survive(valid: Valid, data: st.DataObject) -> None:
    plain = data.draw(valid("Part", extra=True))
    part = decode_part(plain)
    assert json.loads(encode_part(part)) == json.loads(json.dumps(plain))
    assert part_to_plain(decode_part(encode_part(part))) == plain
    assert part_to_plain(wire.copy(part)) == plain if not isinstance(part, UnknownPart) else True


@pytest.mark.slow
@given(st.data())
def test_a_part_of_an_unknown_type_survives_a_round_trip(data: st.DataObject) -> None:
    fields = data.draw(
        st.dictionaries(st.text(max_size=4), st.integers() | st.lists(st.text(max_size=3)), max_size=4)
    )
    plain = {
        **fields,
        **IDS,
        "type": data.draw(st.text(max_size=5).filter(lambda tag: tag not in PART_TYPES)),
    }
    part = decode_part(plain)
    assert isinstance(part, UnknownPart)
    assert (part.id, part.session_id, part.message_id, part.type) == (
        "prt_1",
        "ses_1",
        "msg_1",
        plain["type"],
    )
    assert part_to_plain(part) == plain
    assert decode_part(encode_part(part)) == part


def test_a_part_without_a_type_is_kept_as_unknown() -> None:
    assert decode_part({**IDS, "text": "?"}) == UnknownPart(fields={**IDS, "text": "?"})


def test_what_a_caller_does_with_an_unknown_parts_wire_form_does_not_reach_the_part() -> None:
    part = decode_part({**IDS, "type": "hologram", "layers": [{"z": 1}]})
    part_to_plain(part)["layers"][0]["z"] = 2
    assert part_to_plain(part)["layers"] == [{"z": 1}]


@pytest.mark.parametrize(
    ("plain", "place"),
    [
        ({**IDS, "type": "text"}, "text"),
        ({**IDS, "type": "text", "text": 1}, "$.text"),
        ({"sessionID": "ses_1", "messageID": "msg_1", "type": "text", "text": ""}, "id"),
        ({**IDS, "type": "tool", "callID": "c", "tool": "t", "state": {"status": "queued"}}, "queued"),
        ({"type": "hologram", "id": "prt_1", "sessionID": "ses_1"}, "$.messageID"),
        ({"type": "hologram", **IDS, "id": 7}, "$.id"),
    ],
)
def test_a_malformed_part_is_refused_with_its_place(plain: dict[str, Any], place: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        decode_part(plain)
    assert place in str(caught.value)


@pytest.mark.parametrize("text", ["", "nonsense", "[" * 100_000, b"\xff", "[1]", '"part"'])
def test_text_that_is_no_part_is_refused(text: str | bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_part(text)


def test_the_next_state_of_a_tool_does_not_inherit_what_was_unknown_in_the_last() -> None:
    part = decode_part({**IDS, "type": "tool", "callID": "c", "tool": "t", "state": {
        "status": "pending", "input": {}, "raw": "", "later": 1}})  # fmt: skip
    assert isinstance(part, ToolPart)
    part.state = ToolRunning(input={}, time=wire.decode({"start": 5}, type(EXAMPLE_SPAN)))
    assert part_to_plain(part)["state"] == {"status": "running", "input": {}, "time": {"start": 5}}


EXAMPLE_SPAN = decode_part({**IDS, "type": "reasoning", "text": "", "time": {"start": 1}}).time  # type: ignore[union-attr]


def test_the_one_field_that_opencode_spells_with_underscores_is_spelled_so() -> None:
    part = CompactionPart(
        id="prt_1", session_id="ses_1", message_id="msg_1", auto=False, tail_start_id="msg_0"
    )
    assert json.loads(encode_part(part)) == {
        **IDS,
        "type": "compaction",
        "auto": False,
        "tail_start_id": "msg_0",
    }


def test_the_tag_comes_first_and_fields_follow_in_the_order_of_the_type() -> None:
    part = decode_part('{"text":"t","messageID":"msg_1","id":"prt_1","type":"text","sessionID":"ses_1"}')
    assert list(part_to_plain(part)) == ["type", "id", "sessionID", "messageID", "text"]


def test_a_count_of_nothing_is_written_with_every_zero() -> None:
    assert wire.to_plain(Tokens.zero()) == {
        "input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}  # fmt: skip


def test_an_empty_text_is_written() -> None:
    part = TextPart(id="prt_1", session_id="ses_1", message_id="msg_1", text="")
    assert part_to_plain(part)["text"] == ""
