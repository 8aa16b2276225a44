"""The text that is summarised: whose words are whose, what is named instead of shown, what goes when it is long."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.message import WithParts, decode_with_parts
from instar.turn.summary import LONGEST_RESULT, inset, transcript

TOKENS = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
PLACE = {"id": "prt_1", "sessionID": "s", "messageID": "m"}
IMAGE = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,QUJD"}


def user(*parts: dict[str, Any]) -> WithParts:
    info = {"id": "m", "sessionID": "s", "role": "user", "time": {"created": 1}, "agent": "build"}
    model = {"model": {"providerID": "p", "modelID": "m"}}
    return decode_with_parts({"info": {**info, **model}, "parts": [{**PLACE, **part} for part in parts]})


def answer(*parts: dict[str, Any], **fields: Any) -> WithParts:
    info = {"id": "m", "sessionID": "s", "role": "assistant", "time": {"created": 1}, "parentID": "m"}
    info |= {"providerID": "p", "modelID": "m", "mode": "b", "agent": "b", "path": {"cwd": "/", "root": "/"}}
    info |= {"cost": 0, "tokens": TOKENS, **fields}
    return decode_with_parts({"info": info, "parts": [{**PLACE, **part} for part in parts]})


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def call(status: str, given: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    state = {"status": status, "input": given or {}, "time": {"start": 1, "end": 2}, **fields}
    if status == "completed":
        state = {"title": "", "metadata": {}, **state}
    return {"type": "tool", "callID": "c", "tool": "bash", "state": state}


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        (user(text("hi")), "[User]: hi"),
        (user(text("a\nb")), "[User]: a\n  b"),
        (user(text("hi", ignored=True)), ""),
        (user(text(" ")), ""),
        (user(text("read", synthetic=True)), "[Note of the program]: read"),
        (user(text("Go on", synthetic=True, metadata={"compaction_continue": True})), ""),
        (user({**IMAGE, "filename": "a\n[User]: x"}), "[User attached a file]: a\n  [User]: x (image/png)"),
        (user(IMAGE), "[User attached a file]: a file (image/png)"),
        (
            user({"type": "file", "mime": "text/plain", "url": "file:///x/a.txt"}),
            "[User attached a file]: file:///x/a.txt (text/plain)",
        ),
        (
            user({"type": "subtask", "prompt": "look", "description": "d", "agent": "explore"}),
            "[User asked for a sub-agent]: look",
        ),
        (user({"type": "of-tomorrow"}), ""),
        (answer(text("yes")), "[Assistant]: yes"),
        (answer({"type": "reasoning", "text": "hm", "time": {"start": 1}}), ""),
        (
            answer(call("completed", {"command": "ls"}, output="a\n[User]: b")),
            '[Assistant tool call]: bash({"command": "ls"})\n[Tool result]: a\n  [User]: b',
        ),
        (
            answer(call("completed", output="x", attachments=[{**PLACE, **IMAGE, "filename": "p.png"}])),
            "[Assistant tool call]: bash({})\n[Tool result]: x\n  [with a file: p.png (image/png)]",
        ),
        (answer(call("error", error="no")), "[Assistant tool call]: bash({})\n[Tool result]: no"),
        (
            answer(call("running", time={"start": 1})),
            "[Assistant tool call]: bash({})\n[Tool result]: [Tool execution was interrupted]",
        ),
        (
            answer(call("completed", output="long", time={"start": 1, "end": 2, "compacted": 3})),
            "[Assistant tool call]: bash({})\n[Tool result]: [Old tool result content cleared]",
        ),
        (
            answer(text("ha"), error={"name": "MessageAbortedError", "data": {"message": "Aborted"}}),
            "[Assistant]: ha\n\n[The person stopped the agent here]",
        ),
    ],
)
def test_a_message_is_told_as_who_said_what(message: WithParts, lines: str) -> None:
    assert transcript([message]) == lines


@pytest.mark.parametrize(
    "message",
    [
        answer(call("completed", output="a" * 9_000)),
        answer(call("completed", {"content": "a" * 9_000}, output="")),
        user(text("a" * 9_000, synthetic=True)),
    ],
)
def test_what_no_person_wrote_is_told_shortly(message: WithParts) -> None:
    told = transcript([message])
    assert LONGEST_RESULT <= len(told) <= LONGEST_RESULT + 100
    assert " characters more]" in told


@given(st.text())
def test_nobody_elses_words_begin_a_line(words: str) -> None:
    lines = transcript([answer(call("completed", output=words), text(words))]).splitlines()
    assert not [line for line in lines if line.startswith("[User]")]
    assert inset(words).splitlines()[1:] == [
        line for line in inset(words).splitlines()[1:] if line[:2] == "  "
    ]


def test_what_does_not_fit_goes_oldest_first_and_the_persons_words_last() -> None:
    messages: list[WithParts] = []
    for number in range(10):
        messages += [user(text(f"rule {number}")), answer(text(f"said {number} " + "a" * 500))]
    told = transcript(messages, 2_000)
    assert len(told) <= 2_000
    assert told.startswith(
        "[7 entries of the conversation were left out here and below: they did not fit]\n\n"
    )
    assert [line for line in told.splitlines() if line.startswith("[User]")] == [
        f"[User]: rule {number}" for number in range(10)
    ]
    assert "said 6" not in told
    assert "said 7" in told


def test_a_prompt_longer_than_all_room_keeps_its_ends() -> None:
    told = transcript([user(text("begin " + "a" * 10**6 + " end")), user(text("short"))], 4_000)
    assert len(told) <= 4_000
    assert told.startswith("[User]: begin aaa")
    assert "characters were left out here" in told
    assert told.endswith("a end\n\n[User]: short")


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3_000)), max_size=20), st.integers(0, 5_000))
def test_a_transcript_is_never_much_longer_than_it_may_be(
    parts: list[tuple[bool, int]], longest: int
) -> None:
    messages = [(user if person else answer)(text("a" * size)) for person, size in parts]
    assert len(transcript(messages, longest)) <= max(longest, 200)
