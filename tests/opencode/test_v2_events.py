"""Durable events as opencode's newer routes tell them: what each state of a message or part comes to."""

from typing import Any

import pytest

from instar import wire
from instar.opencode.v2_events import Projector
from instar.store import Recorded
from instar.turn.shell import SAID

SESSION = "ses_2"
ZERO = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
USER = {
    "id": "msg_1",
    "sessionID": SESSION,
    "role": "user",
    "time": {"created": 1},
    "agent": "build",
    "model": {"providerID": "p", "modelID": "m"},
}
ANSWER = {
    "id": "msg_2",
    "sessionID": SESSION,
    "role": "assistant",
    "time": {"created": 2},
    "parentID": "msg_1",
    "modelID": "m",
    "providerID": "p",
    "mode": "build",
    "agent": "build",
    "path": {"cwd": "/", "root": "/"},
    "cost": 0.0,
    "tokens": ZERO,
}
WHOLE = {**ANSWER, "time": {"created": 2, "completed": 9}, "finish": "stop"}
SPAN = {"start": 2, "end": 3}
TEXT = {"type": "text", "text": "hi"}


def message(info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "message.updated.1", {"sessionID": SESSION, "info": info}


def part(
    given: dict[str, Any], message_id: str = "msg_2", part_id: str = "prt_1"
) -> tuple[str, dict[str, Any]]:
    whole = {"id": part_id, "sessionID": SESSION, "messageID": message_id, **given}
    return "message.part.updated.1", {"sessionID": SESSION, "part": whole, "time": 5}


def session(**more: Any) -> tuple[str, dict[str, Any]]:
    return "session.updated.1", {
        "sessionID": SESSION,
        "info": {"id": SESSION, "time": {"updated": 7}, **more},
    }


def removed() -> tuple[str, dict[str, Any]]:
    return "message.removed.1", {"sessionID": SESSION, "messageID": "msg_1"}


def call(status: str, **state: Any) -> tuple[str, dict[str, Any]]:
    return part(
        {"type": "tool", "tool": "bash", "callID": "c", "state": {"status": status, "input": {}, **state}}
    )


def records(happened: list[tuple[str, dict[str, Any]]]) -> list[Recorded]:
    return [
        Recorded(seq, f"evt_{seq}", SESSION, kind, data) for seq, (kind, data) in enumerate(happened, start=1)
    ]


def told(*happened: tuple[str, dict[str, Any]]) -> list[tuple[str, int]]:
    """The kinds of the events that these come to, and the numbers under which they stand."""
    made = [wire.to_plain(one) for one in Projector().feed(records(list(happened)))]
    return [(one["type"].removeprefix("session.next."), one["durable"]["seq"]) for one in made]


ASKED = (message(USER), part(TEXT, "msg_1", "prt_0"))
DONE = {"output": "o", "title": "", "metadata": {}, "time": SPAN}
RUNNING = {"time": {"start": 2}}
FAILED = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
COMMAND = (message(USER), part({**TEXT, "text": SAID, "synthetic": True}, "msg_1", "prt_0"), message(ANSWER))
COMPACTION = (message(USER), part({"type": "compaction", "auto": False}, "msg_1", "prt_0"))


@pytest.mark.parametrize(
    ("happened", "expected"),
    [
        (ASKED, [("prompted", 1)]),
        ((*ASKED, message({**USER, "summary": {"diffs": []}})), [("prompted", 1)]),
        ((message(USER), part({**TEXT, "synthetic": True}, "msg_1")), [("synthetic", 1)]),
        ((message(ANSWER), message(WHOLE), message(WHOLE)), [("step.started", 1), ("step.ended", 2)]),
        ((message(ANSWER), message({**ANSWER, "error": FAILED})), [("step.started", 1), ("step.failed", 2)]),
        (
            (message(ANSWER), part({**TEXT, "time": {"start": 2}}), part({**TEXT, "time": SPAN})),
            [("step.started", 1), ("text.started", 2), ("text.ended", 3)],
        ),
        (
            (
                message(ANSWER),
                part({"type": "reasoning", "text": "", "time": {"start": 2}}),
                part({"type": "reasoning", "text": "h", "time": SPAN}),
            ),
            [("step.started", 1), ("reasoning.started", 2), ("reasoning.ended", 3)],
        ),
        (
            (
                message(ANSWER),
                call("pending", raw=""),
                call("pending", raw="{"),
                call("running", **RUNNING),
                call("running", metadata={"output": "o"}, **RUNNING),
                call("completed", **DONE),
            ),
            [
                ("step.started", 1),
                ("tool.input.started", 2),
                ("tool.called", 4),
                ("tool.progress", 5),
                ("tool.success", 6),
            ],
        ),
        ((message(ANSWER), call("error", error="no", time=SPAN)), [("step.started", 1), ("tool.failed", 2)]),
        (
            (
                *COMMAND,
                call("running", **RUNNING),
                call("running", **RUNNING),
                call("completed", **DONE),
                message(WHOLE),
            ),
            [("shell.started", 4), ("shell.ended", 6)],
        ),
        (
            (
                *COMPACTION,
                message({**ANSWER, "summary": True}),
                part({**TEXT, "time": SPAN}),
                message({**WHOLE, "summary": True}),
            ),
            [("compaction.started", 1), ("compaction.ended", 5)],
        ),
        (
            (
                session(),
                session(revert={"messageID": "msg_1"}),
                session(revert={"messageID": "msg_1"}),
                session(),
            ),
            [("revert.staged", 2), ("revert.cleared", 4)],
        ),
        (
            (removed(), session(revert={"messageID": "msg_1"}), removed(), session()),
            [("revert.staged", 2), ("revert.committed", 4)],
        ),
        (
            (message(USER), part({"type": "text"}, "msg_1"), message(ANSWER)),
            [("prompted", 1), ("step.started", 3)],
        ),
        ((message({**USER, "role": "other"}), part({"type": "new"}), part(TEXT, "msg_9")), []),
        ((("session.created.1", {"sessionID": SESSION, "info": {}}),), []),
    ],
)
def test_each_state_comes_to_at_most_one_event_under_its_number(
    happened: tuple[tuple[str, dict[str, Any]], ...], expected: list[tuple[str, int]]
) -> None:
    assert told(*happened) == expected


def test_what_is_told_holds_the_words_and_the_place() -> None:
    summary = {**ANSWER, "summary": True}
    happened = [
        *COMPACTION,
        message(summary),
        part({**TEXT, "time": SPAN}),
        message({**WHOLE, "summary": True}),
    ]
    ended = [wire.to_plain(one) for one in Projector().feed(records(happened))][-1]
    assert ended == {
        "id": "evt_5",
        "type": "session.next.compaction.ended",
        "durable": {"aggregateID": SESSION, "seq": 5, "version": 1},
        "data": {
            "timestamp": 9,
            "sessionID": SESSION,
            "messageID": "msg_1",
            "reason": "manual",
            "text": "hi",
            "recent": "",
        },
    }


def test_what_comes_in_pieces_is_told_as_what_comes_at_once() -> None:
    happened = records(
        [*ASKED, message(ANSWER), call("pending", raw=""), call("completed", **DONE), message(WHOLE)]
    )
    projector = Projector()
    pieces = [happened[:2], *([one] for one in happened[2:])]
    assert [event for piece in pieces for event in projector.feed(piece)] == [*Projector().feed(happened)]
