"""What a model still sees of a history: from the last finished summary on, with what it kept."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import pytest

from instar.message import WithParts, decode_with_parts, visible

TOKENS = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def user(name: str, *, keep: str | None = None, mark: bool = False) -> WithParts:
    part: dict[str, Any] = {"id": "prt_1", "sessionID": "s", "messageID": name}
    asked = {"type": "compaction", "auto": True, **({"tail_start_id": keep} if keep else {})}
    part |= asked if mark or keep else {"type": "text", "text": name}
    info = {"id": name, "sessionID": "s", "role": "user", "time": {"created": 1}, "agent": "build"}
    return decode_with_parts(
        {"info": {**info, "model": {"providerID": "p", "modelID": "m"}}, "parts": [part]}
    )


def answer(name: str, parent: str, *, done: bool = True, **fields: Any) -> WithParts:
    info = {
        "id": name,
        "sessionID": "s",
        "role": "assistant",
        "parentID": parent,
        "cost": 0,
        "tokens": TOKENS,
    }
    info |= {"providerID": "p", "modelID": "m", "mode": "b", "agent": "b", "path": {"cwd": "/", "root": "/"}}
    time = {"created": 1, **({"completed": 2} if done else {})}
    return decode_with_parts({"info": {**info, "time": time, **fields}, "parts": []})


def summary(name: str, parent: str, **fields: Any) -> WithParts:
    return answer(name, parent, summary=True, **fields)


FAILED = {"error": {"name": "MessageAbortedError", "data": {"message": "Aborted"}}}
OLD = [user("a"), answer("A", "a"), user("b"), answer("B", "b")]


@pytest.mark.parametrize(
    ("newer", "seen"),
    [
        ([], "a A b B"),
        ([user("m", mark=True)], "a A b B"),
        ([user("m", mark=True), summary("M", "m")], "m M"),
        ([user("m", keep="b"), summary("M", "m"), user("c")], "m M b B c"),
        ([user("m", keep="gone"), summary("M", "m"), user("c")], "m M c"),
        ([user("m", mark=True), user("c"), summary("M", "m"), answer("C", "c")], "m M c C"),
        # A summary that failed, was aborted or is being written hides nothing, and is not shown.
        ([user("m", mark=True), summary("M", "m", **FAILED), user("c")], "a A b B c"),
        ([user("m", mark=True), summary("M", "m", done=False), user("c")], "a A b B c"),
        (
            [
                user("m", mark=True),
                summary("M", "m", **FAILED),
                user("n", mark=True),
                summary("N", "n"),
                user("c"),
            ],
            "n N c",
        ),
        (
            [user("m", keep="b"), summary("M", "m"), user("c"), user("n", keep="b"), summary("N", "n")],
            "n N b B c",
        ),
        (
            [user("m", keep="b"), summary("M", "m"), user("n", mark=True), summary("N", "n", **FAILED)],
            "m M b B",
        ),
        # An answer that calls itself a summary and that nobody asked for is an answer.
        ([user("c"), summary("C", "c")], "a A b B c C"),
    ],
)
def test_a_model_sees_the_last_summary_what_it_kept_and_what_came_since(
    newer: list[WithParts], seen: str
) -> None:
    assert [message.info.id for message in visible([*OLD, *newer])] == seen.split()


class Counted(Sequence[WithParts]):
    """A history that counts how many of its messages were looked at."""

    def __init__(self, messages: list[WithParts]) -> None:
        self.messages = messages
        self.looks = 0

    def __len__(self) -> int:
        return len(self.messages)

    @overload
    def __getitem__(self, place: int) -> WithParts: ...
    @overload
    def __getitem__(self, place: slice) -> list[WithParts]: ...
    def __getitem__(self, place: int | slice) -> WithParts | list[WithParts]:
        found = self.messages[place]
        self.looks += len(found) if isinstance(found, list) else 1
        return found

    def __iter__(self) -> Iterator[WithParts]:
        self.looks += len(self.messages)
        return iter(self.messages)


@pytest.mark.slow
def test_a_long_history_with_many_failed_compactions_is_looked_at_a_few_times_only() -> None:
    history = [
        one
        for number in range(700)
        for one in (user(f"u{number}"), user(f"m{number}", mark=True), summary("x", f"m{number}", **FAILED))
    ]
    counted = Counted(history)
    assert len(visible(counted)) == 700
    assert counted.looks <= 4 * len(history)
