"""From deltas to parts: each delta goes to the part that is open, or opens the next one."""

import contextlib
import sqlite3

from tests.turn import trace

from instar.message import ReasoningPart, TextPart, ToolPart
from instar.plugin import points
from instar.testing import Machine, answer_of, said

pytest_plugins = ["tests.turn"]


async def test_text_thinking_and_calls_become_parts_in_the_order_in_which_they_came(house: Machine) -> None:
    house.says("""
        == turn
        text: First,
        reasoning: hm
        text: then
        tool: bash {"command": "true"}
        text: and last.

        == turn
        text: done
    """)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    parts = (await door.stored(session))[1].parts
    assert [type(part) for part in parts[1:-1]] == [TextPart, ReasoningPart, TextPart, ToolPart, TextPart]
    texts = [part.text for part in parts if isinstance(part, TextPart | ReasoningPart)]
    assert texts == ["First,", "hm", "then", "and last."]
    assert [part.id for part in parts] == sorted(part.id for part in parts)


async def test_a_text_is_published_empty_then_in_pieces_then_whole_with_its_times(house: Machine) -> None:
    house.says("== turn\nchunk: 3\ntext: hello you\n")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    words = trace(door.heard)
    begin = words.index("part text ")
    assert words[begin : begin + 5] == [
        "part text ",
        "delta hel",
        "delta lo ",
        "delta you",
        "part text hello you",
    ]
    updates = [given.part for given in door.of("message.part.updated") if isinstance(given.part, TextPart)]
    opened, whole = updates[1], updates[2]
    assert opened.id == whole.id
    assert opened.text == ""
    assert opened.time is not None
    assert opened.time.end is None
    assert whole.time is not None
    assert whole.time.end is not None
    assert whole.time.end >= whole.time.start == opened.time.start
    deltas = door.of("message.part.delta")
    assert {(delta.part_id, delta.field) for delta in deltas} == {(whole.id, "text")}


async def test_a_hook_changes_a_text_that_is_whole_and_leaves_thinking_alone(house: Machine) -> None:
    house.says("== turn\nreasoning: quiet\ntext: hello\n\n== turn\ntext: again\n")
    door = await house.open()

    async def complete(given: points.TextInput, output: points.TextOutput) -> None:
        output.text = output.text.upper()

    door.plugin({"text.complete": complete})
    session = await door.session()
    answer = await door.ask(session, "go")
    assert said(answer) == "HELLO"
    assert [part.text for part in answer.parts if isinstance(part, ReasoningPart)] == ["quiet"]
    await door.ask(session, "more")
    assert house.requests()[1]["messages"][1]["content"] == "HELLO"


async def test_a_hook_that_fails_leaves_the_text_as_it_was(house: Machine) -> None:
    house.says("== turn\ntext: hello\n")
    door = await house.open()

    async def complete(given: points.TextInput, output: points.TextOutput) -> None:
        output.text = "half"
        raise ValueError("no")

    door.plugin({"text.complete": complete})
    assert said(await door.ask(await door.session(), "go")) == "hello"


async def test_a_hook_that_leaves_no_text_changes_nothing(house: Machine) -> None:
    house.says("== turn\ntext: hello\n")
    door = await house.open()

    async def complete(given: points.TextInput, output: points.TextOutput) -> None:
        output.text = None  # type: ignore[assignment]

    door.plugin({"text.complete": complete})
    answer = await door.ask(await door.session(), "go")
    assert answer_of(answer).error is None
    assert said(answer) == "hello"


async def test_a_part_that_cannot_be_saved_fails_the_step_though_what_follows_can_be(house: Machine) -> None:
    house.says("== turn\ntext: words that nobody keeps\n")
    door = await house.open()
    session = await door.session()
    with contextlib.closing(sqlite3.connect(house.data / "instar.db")) as database:
        database.execute(
            "CREATE TRIGGER lost BEFORE INSERT ON part WHEN new.data LIKE '%nobody keeps%' "
            "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )
        database.commit()
    answer = await door.ask(session, "go")
    assert "the disk is full" in str(answer.info.error)
    assert [part.type for part in (await door.stored(session))[1].parts] == [
        "step-start",
        "text",
        "step-finish",
    ]
