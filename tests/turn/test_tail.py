"""What a compaction keeps: whole turns, within a budget, and what nobody answered whatever its size."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.message import ToolPart, User, WithParts, decode_with_parts
from instar.turn.compaction import tail_start, waiting

TOKENS = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
ERROR = {"name": "UnknownError", "data": {"message": "no"}}


def message(number: int, role: str, size: int, **fields: Any) -> WithParts:
    """A message of `size` tokens; an answer's tokens are a tool's result."""
    name = f"msg_{number}"
    place = {"id": f"prt_{number}", "sessionID": "ses_1", "messageID": name}
    info: dict[str, Any] = {"id": name, "sessionID": "ses_1", "role": role, "time": {"created": number}}
    part: dict[str, Any] = {**place, "type": "text", "text": "a" * size * 4}
    if role == "user":
        info |= {"agent": "build", "model": {"providerID": "p", "modelID": "m"}}
    else:
        info |= {"parentID": "?", "providerID": "p", "modelID": "m", "mode": "build", "agent": "build"}
        info |= {"path": {"cwd": "/", "root": "/"}, "cost": 0, "tokens": TOKENS}
        state = {"status": "completed", "input": {}, "output": "a" * size * 4, "title": "", "metadata": {}}
        part = {**place, "type": "tool", "callID": "c", "tool": "bash"}
        part["state"] = {**state, "time": {"start": 1, "end": 1}}
    return decode_with_parts({"info": {**info, **fields}, "parts": [part]})


def conversation(*turns: list[int]) -> list[WithParts]:
    """Turns as the sizes of their prompt and answers, named ``msg_0``, ``msg_1`` … in order."""
    found: list[WithParts] = []
    for turn in turns:
        for place, size in enumerate(turn):
            found.append(message(len(found), "assistant" if place else "user", size))
    return found


@pytest.mark.parametrize(
    ("turns", "most", "budget", "start"),
    [
        ([[10, 10], [10, 10], [10, 10]], 2, 1_000, "msg_2"),
        ([[10, 10], [10, 10], [10, 10]], 1, 1_000, "msg_4"),
        ([[10, 10], [10, 10], [10, 10]], 0, 1_000, None),
        ([[10, 10], [10, 10], [10, 10]], 2, 30, "msg_4"),
        ([[10, 10], [10, 10], [10, 10]], 2, 10, None),
        # Everything fits: nothing is kept, since there would be nothing to summarise.
        ([[10, 10], [10, 10]], 2, 1_000, None),
        ([[10, 10], [10, 500, 500], [10, 10]], 2, 1_000, "msg_5"),
        ([[10, 10], [10, 500, 500]], 2, 1_000, None),
        ([], 2, 1_000, None),
    ],
)
def test_the_last_turns_are_kept_as_far_as_they_fit(
    turns: list[list[int]], most: int, budget: int, start: str | None
) -> None:
    assert tail_start(conversation(*turns), most, budget, []) == start


@pytest.mark.parametrize(("budget", "start"), [(100, "msg_2"), (10, "msg_4")])
def test_a_prompt_that_waits_is_kept_beside_the_last_turns(budget: int, start: str) -> None:
    messages = conversation([10, 10], [10, 10], [9_000])
    assert tail_start(messages, 1, budget, messages[4:]) == start


def test_a_prompt_that_waits_is_kept_where_all_before_it_would_fit() -> None:
    messages = conversation([10, 10], [9_000])
    assert tail_start(messages, 2, 1_000, messages[2:]) == "msg_2"


@given(
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), max_size=6),
    st.integers(0, 6),
    st.integers(0, 300),
)
def test_what_is_kept_begins_at_a_person_and_leaves_something_to_summarise(
    turns: list[list[int]], most: int, budget: int
) -> None:
    messages = conversation(*turns)
    start = tail_start(messages, most, budget, [])
    if start is None:
        return
    index = int(start.removeprefix("msg_"))
    assert index > 0
    assert isinstance(messages[index].info, User)
    kept = messages[index:]
    assert sum(isinstance(one.info, User) for one in kept) <= most
    assert (
        sum(len(part.state.output) // 4 for m in kept for part in m.parts if isinstance(part, ToolPart))
        <= budget
    )  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("history", "names"),
    [
        ([message(0, "user", 1)], ["msg_0"]),
        ([message(0, "user", 1), message(1, "assistant", 1)], []),
        ([message(0, "user", 1), message(1, "assistant", 1, error=ERROR, parentID="msg_0")], ["msg_0"]),
        ([message(0, "user", 1), message(1, "user", 1)], ["msg_0", "msg_1"]),
        (
            # A prompt that failed long ago waits no more.
            [
                message(0, "user", 1),
                message(1, "assistant", 1, error=ERROR, parentID="msg_0"),
                message(2, "user", 1),
            ],
            ["msg_2"],
        ),
    ],
)
def test_what_waits_is_what_no_step_has_worked_on(history: list[WithParts], names: list[str]) -> None:
    asked = next(one.info for one in reversed(history) if isinstance(one.info, User))
    assert [one.info.id for one in waiting(history, asked)] == names
