"""Which tool outputs may be cleared: old ones, beyond the newest, and never a skill's."""

from typing import Any

import pytest

from instar.message import WithParts, decode_with_parts
from instar.turn.compaction import clearable

TOKENS = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def user(number: int) -> WithParts:
    info = {
        "id": f"msg_u{number}",
        "sessionID": "s",
        "role": "user",
        "time": {"created": number},
        "agent": "build",
    }
    return decode_with_parts({"info": {**info, "model": {"providerID": "p", "modelID": "m"}}, "parts": []})


def answer(*calls: dict[str, Any]) -> WithParts:
    info = {"id": "msg_a", "sessionID": "s", "role": "assistant", "time": {"created": 1}, "parentID": "m"}
    info |= {"providerID": "p", "modelID": "m", "mode": "b", "agent": "b", "path": {"cwd": "/", "root": "/"}}
    return decode_with_parts({"info": {**info, "cost": 0, "tokens": TOKENS}, "parts": list(calls)})


def call(name: str, size: int = 100, tool: str = "bash", **time: int) -> dict[str, Any]:
    state = {"status": "completed", "input": {}, "output": "a" * size * 4, "title": "", "metadata": {}}
    state["time"] = {"start": 1, "end": 2, **time}
    place = {"id": name, "sessionID": "s", "messageID": "msg_a"}
    return {**place, "type": "tool", "callID": name, "tool": tool, "state": state}


RECENT = [user(8), answer(call("recent", 10_000)), user(9), answer(call("newest", 10_000))]


@pytest.mark.parametrize(
    ("old", "cleared"),
    [
        ([], []),
        ([answer(call("a"), call("b"), call("c"))], ["a"]),
        ([answer(call("a")), answer(call("b")), answer(call("c"))], ["a"]),
        ([answer(call("a", 300))], ["a"]),
        ([answer(call("a", tool="skill"), call("b"), call("c"))], []),
        ([answer(call("a", compacted=5), call("b"), call("c"))], []),
        ([answer(call("a"), call("b", 10_000), call("c", compacted=5))], ["b", "a"]),
    ],
)
def test_outputs_beyond_the_newest_are_cleared_and_the_last_two_turns_stay(
    old: list[WithParts], cleared: list[str]
) -> None:
    found = clearable([user(1), *old, *RECENT], 200)
    assert [part.id for _, part in found] == cleared
    assert all(part in holder.parts for holder, part in found)


def test_a_call_that_failed_or_runs_is_left_alone() -> None:
    failed = call("a") | {
        "state": {"status": "error", "input": {}, "error": "no", "time": {"start": 1, "end": 2}}
    }
    running = call("b") | {"state": {"status": "running", "input": {}, "time": {"start": 1}}}
    assert clearable([user(1), answer(failed, running), *RECENT], 0) == []
