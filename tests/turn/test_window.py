"""How full a window is: the room of a conversation, sizes by estimate, and when a summary is due."""

from typing import Any

import pytest

from instar.message import WithParts, decode_with_parts
from instar.provider.protocol import Model, ModelCost, ModelLimit
from instar.settings.config import CompactionConfig
from instar.turn.compaction import is_full, kept_budget, narrowed, size, usable

NO_TOKENS = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def message(role: str, parts: list[dict[str, Any]], number: int = 1, **fields: Any) -> WithParts:
    place = {"sessionID": "ses_1", "messageID": f"msg_{number}"}
    info: dict[str, Any] = {
        "id": f"msg_{number}",
        "sessionID": "ses_1",
        "role": role,
        "agent": "build",
        "time": {"created": number},
    }
    if role == "user":
        info |= {"model": {"providerID": "p", "modelID": "m"}}
    else:
        info |= {"parentID": "msg_0", "providerID": "p", "modelID": "m", "mode": "build", "cost": 0}
        info |= {"path": {"cwd": "/", "root": "/"}, "tokens": NO_TOKENS}
    filled = [{"id": f"prt_{number}_{index}", **place, **part} for index, part in enumerate(parts)]
    return decode_with_parts({"info": {**info, **fields}, "parts": filled})


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def call(output: str, tool: str = "bash", **time: int) -> dict[str, Any]:
    state = {"status": "completed", "input": {}, "output": output, "title": "", "metadata": {}}
    return {
        "type": "tool",
        "callID": "c",
        "tool": tool,
        "state": {**state, "time": {"start": 1, "end": 2, **time}},
    }


def answer(used: int, *parts: dict[str, Any], number: int = 2, **fields: Any) -> WithParts:
    tokens = {**NO_TOKENS, "input": used}
    time = {"created": number, "completed": number + 5}
    return message("assistant", list(parts), number, finish="stop", tokens=tokens, time=time, **fields)


@pytest.mark.parametrize(
    ("limit", "reserved", "tokens"),
    [
        (ModelLimit(context=200_000, output=64_000), None, 168_000),
        (ModelLimit(context=200_000, output=8_000), None, 192_000),
        (ModelLimit(context=200_000, output=8_000), 30_000, 170_000),
        (ModelLimit(context=200_000, output=8_000), 1_000, 192_000),
        (ModelLimit(context=200_000, input=150_000, output=64_000), None, 130_000),
        (ModelLimit(context=200_000, input=150_000, output=4_000), None, 146_000),
        (ModelLimit(context=200_000, input=150_000, output=4_000), 50_000, 100_000),
        (ModelLimit(context=200_000, input=150_000, output=4_000), 10**9, 37_500),
        (ModelLimit(context=10_000, output=32_000), None, 5_000),
        (ModelLimit(context=10_000, output=1_000), 10**9, 2_500),
        (ModelLimit(), None, 65_536 - 8_192),
    ],
)
def test_the_room_for_a_conversation_is_the_window_less_the_answer(
    limit: ModelLimit, reserved: int | None, tokens: int
) -> None:
    model = Model("p", "m", "m", "openai", "", None, {}, limit, ModelCost())
    assert usable(model, 65_536, reserved) == tokens


@pytest.mark.parametrize(
    ("limit", "window", "room"),
    [
        (ModelLimit(), None, 57_344),
        (ModelLimit(), 8_192, 4_096),
        (ModelLimit(), 131_072, 122_880),
        (ModelLimit(context=200_000, output=8_000), 100_000, 92_000),
        (ModelLimit(context=200_000, output=8_000), 1_000_000, 192_000),
        (ModelLimit(context=200_000, input=150_000, output=8_000), 50_000, 42_000),
        (ModelLimit(context=200_000, input=150_000, output=8_000), 180_000, 142_000),
    ],
)
def test_a_window_is_narrowed_and_never_widened_beyond_what_the_model_has(
    limit: ModelLimit, window: int | None, room: int
) -> None:
    model = Model("p", "m", "m", "openai", "", None, {}, limit, ModelCost())
    assert usable(narrowed(model, window), 65_536) == room


@pytest.mark.parametrize(
    ("room", "preserve", "tokens"),
    [
        (168_000, None, 15_000),
        (40_000, None, 10_000),
        (6_000, None, 2_000),
        (1_000, None, 500),
        (40_000, 3_000, 3_000),
        (40_000, 0, 0),
        (40_000, 10**9, 20_000),
    ],
)
def test_what_is_kept_is_a_quarter_of_the_room_within_bounds(
    room: int, preserve: int | None, tokens: int
) -> None:
    assert kept_budget(room, CompactionConfig(preserve_recent_tokens=preserve)) == tokens


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (text("a" * 400), 100),
        (text("a" * 400, ignored=True), 0),
        (call("a" * 4_000), 1_000),
        (call("a" * 4_000, compacted=3), 9),
        ({"type": "reasoning", "text": "a" * 40, "time": {"start": 1}}, 10),
        ({"type": "file", "mime": "image/png", "url": "data:image/png;base64," + "A" * 10**6}, 1_500),
        (
            {"type": "file", "mime": "application/pdf", "url": "data:application/pdf;base64," + "A" * 10**6},
            50_001,
        ),
        ({"type": "file", "mime": "text/plain", "url": "data:text/plain," + "A" * 384}, 100),
        ({"type": "file", "mime": "text/plain", "url": "file:///x/" + "A" * 384}, 50),
        ({"type": "subtask", "prompt": "a" * 40, "description": "", "agent": "x"}, 10),
        ({"type": "of-tomorrow"}, 0),
    ],
)
def test_a_part_has_about_a_token_for_four_characters_and_a_file_what_it_costs(
    part: dict[str, Any], tokens: int
) -> None:
    assert abs(size(message("user", [part])) - tokens) <= 1


ASKED = message("user", [text("hi")])


@pytest.mark.parametrize(
    ("newer", "full"),
    [
        ([], False),
        ([answer(999)], False),
        ([answer(1_000)], True),
        ([answer(0, text("a" * 4_000))], True),
        ([answer(500, call("a" * 2_000))], True),
        ([answer(500, call("a" * 1_900))], False),
        ([answer(600), message("user", [text("a" * 1_600)], 3)], True),
        ([answer(600), message("user", [text("a" * 1_500)], 3)], False),
        # A summary would not make a prompt fit that fills the window alone.
        ([answer(600), message("user", [text("a" * 8_000)], 3)], False),
        ([answer(5_000), answer(10, number=3)], False),
        ([answer(5_000), answer(10, number=3, summary=True)], False),
        # What was cleared since is not sent any more; what was cleared before was not counted.
        ([message("assistant", [call("a" * 4_000, compacted=9)], 3), answer(1_500, number=2)], False),
        ([message("assistant", [call("a" * 4_000, compacted=6)], 3), answer(1_500, number=2)], True),
    ],
)
def test_a_summary_is_due_when_what_was_sent_and_came_since_fills_the_room(
    newer: list[WithParts], full: bool
) -> None:
    assert is_full([ASKED, *newer], 1_000) is full


def test_a_summary_that_failed_is_not_due_again_until_there_is_another_answer() -> None:
    error = {"name": "UnknownError", "data": {"message": "no"}}
    failed = message("assistant", [], 4, summary=True, error=error)
    asked = message("user", [{"type": "compaction", "auto": True}], 3)
    history = [ASKED, answer(5_000), asked, failed, message("user", [text("next")], 5)]
    assert not is_full(history, 1_000)
    assert is_full([*history, answer(5_000, number=6)], 1_000)


@pytest.mark.parametrize(("after", "full"), [(999, True), (1_000, False)])
def test_a_summary_is_not_due_again_where_the_last_one_freed_nothing(after: int, full: bool) -> None:
    summary = answer(10, number=4, summary=True)
    assert (
        is_full([ASKED, answer(5_000), summary, answer(after, number=5), answer(5_000, number=6)], 1_000)
        is full
    )
