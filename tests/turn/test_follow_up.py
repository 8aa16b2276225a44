"""Continuing is a queue: durable, capped for automatic sources, and never broken by a bad entry."""

from typing import Any

import pytest

from instar.message import Assistant, TextPart
from instar.plugin import PromptBody, points
from instar.testing import Machine, RuntimeUnderTest, said, users

pytest_plugins = ["tests.turn"]

ECHO = '== when ""\ntext: {{user}}\n'


def going_on(*prompts: str, source: str | None = "test", always: bool = False) -> dict[str, Any]:
    """A plugin that gives one prompt at the end of each turn until none is left."""
    left = list(prompts)

    async def turn_end(given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        if left:
            text = left[0] if always else left.pop(0)
            body = {"parts": [{"type": "text", "text": text}]}
            output.follow_ups.append({"source": source, "prompt": body} if source else {"prompt": body})

    return {"turn.end": turn_end}


async def opened(house: Machine, *hooks: dict[str, Any]) -> tuple[RuntimeUnderTest, str]:
    house.says(ECHO)
    door = await house.open()
    for one in hooks:
        door.plugin(one)
    return door, await door.session()


async def test_what_a_plugin_returns_at_the_end_makes_the_session_go_on(house: Machine) -> None:
    door, session = await opened(house, going_on("and then?", "and then??"))
    assert said(await door.ask(session, "begin")) == "and then??"
    assert users(await door.stored(session)) == ["begin", "and then?", "and then??"]
    assert door.types().count("session.idle") == 1
    assert await door.runtime.instance.store.follow_ups(session) == []


async def test_a_source_goes_on_eight_times_in_a_row_then_waits_for_a_person_and_says_so(
    house: Machine,
) -> None:
    door, session = await opened(house, going_on("more", always=True))
    await door.ask(session, "begin")
    assert users(await door.stored(session)) == ["begin", *["more"] * 8]
    (limit,) = door.of("session.limit")
    assert (limit.limit, limit.cause) == ("follow_ups", "test")
    assert limit.message == "test made the session go on 8 times in a row; it waits for a person now"
    await door.ask(session, "again")
    assert users(await door.stored(session)) == ["begin", *["more"] * 8, "again", *["more"] * 8]


async def test_each_source_has_a_cap_of_its_own(house: Machine) -> None:
    door, session = await opened(
        house, going_on("a", source="one", always=True), going_on("b", source=None, always=True)
    )
    await door.ask(session, "begin")
    asked = users(await door.stored(session))
    assert (asked.count("a"), asked.count("b")) == (8, 8)
    assert {limit.cause for limit in door.of("session.limit")} == {"one", "plugin"}


async def test_a_persons_queued_prompts_have_no_cap(house: Machine) -> None:
    door, session = await opened(house)
    for number in range(12):
        await door.runtime.instance.sessions.queue(
            session, "person", {"parts": [{"type": "text", "text": f"queued {number}"}]}
        )
    await door.ask(session, "begin")
    assert users(await door.stored(session)) == ["begin", *(f"queued {number}" for number in range(12))]
    assert door.of("session.limit") == []


async def test_a_follow_up_is_durable_and_taken_up_after_a_restart(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    body = {"parts": [{"type": "text", "text": "from before"}]}
    await door.runtime.instance.sessions.queue(session, "test", body)
    await door.runtime.close()
    again = await house.open()
    assert said(await again.ask(session, "hello")) == "from before"


async def test_a_client_queues_a_prompt_and_the_session_takes_it_up(house: Machine) -> None:
    door, session = await opened(house)
    await door.ask(session, "begin")
    await door.client.follow_up(session, PromptBody.text("more"), "test")
    await door.idle(session)
    assert users(await door.stored(session)) == ["begin", "more"]


@pytest.mark.parametrize(("source", "answered"), [("person", 4), ("test", 2)])
async def test_what_a_person_queued_has_the_steps_of_a_turn_each(
    house: Machine, source: str, answered: int
) -> None:
    house.says('== when ""\ntext: {{user}}\n')
    house.settings(limits={"steps": 2})
    door = await house.open()
    session = await door.session()
    for number in range(3):
        body = {"parts": [{"type": "text", "text": f"n{number}"}]}
        await door.runtime.instance.sessions.queue(session, source, body)
    await door.ask(session, "first")
    await door.idle(session)
    answers = [one for one in await door.stored(session) if isinstance(one.info, Assistant)]
    texts = [part.text for one in answers for part in one.parts if isinstance(part, TextPart)]
    assert texts == ["first", "n0", "n1", "n2"][:answered]


async def test_a_follow_up_in_a_session_that_nobody_asked_anything_waits(house: Machine) -> None:
    door, session = await opened(house)
    await door.client.follow_up(session, PromptBody.text("more"), "test")
    await door.idle(session)
    await door.ask(session, "begin")
    assert users(await door.stored(session)) == ["begin", "more"]


BAD: list[dict[str, Any]] = [
    {},
    {"parts": "text"},
    {"parts": [{"type": "nothing"}]},
    {"parts": [{"type": "text", "text": "x"}], "agent": "nobody"},
    {"parts": [{"type": "text", "text": "x"}], "model": {"providerID": "no", "modelID": "x"}},
]


@pytest.mark.parametrize("body", BAD, ids=str)
async def test_one_that_cannot_become_a_message_is_given_up_with_a_line_in_the_log(
    house: Machine, body: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    door, session = await opened(house)
    await door.runtime.instance.sessions.queue(session, "broken", body)
    await door.runtime.instance.sessions.queue(session, "test", {"parts": [{"type": "text", "text": "good"}]})
    assert said(await door.ask(session, "begin")) == "good"
    assert f"follow-up given up session={session} source=broken" in caplog.text
    assert await door.runtime.instance.store.follow_ups(session) == []
    assert door.of("session.error") == []


async def test_one_that_a_plugin_refuses_is_given_up(
    house: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    async def gate(given: Any, output: points.ChatMessageOutput) -> None:
        if output.parts[0].text == "refused":
            raise ValueError("no")

    door, session = await opened(house, going_on("refused"), {"chat.message": gate})
    assert said(await door.ask(session, "begin")) == "begin"
    assert "follow-up given up" in caplog.text


async def test_a_plugin_that_fails_at_the_end_does_not_keep_the_session_going(house: Machine) -> None:
    async def turn_end(given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        output.follow_ups.append({"prompt": {"parts": [{"type": "text", "text": "half made"}]}})
        raise RuntimeError("broken")

    door, session = await opened(house, going_on("and then?"), {"turn.end": turn_end})
    assert said(await door.ask(session, "begin")) == "and then?"
    assert users(await door.stored(session)) == ["begin", "and then?"]
    assert [given.hook for given in door.of("plugin.error")] == ["turn.end", "turn.end"]


@pytest.mark.parametrize("left", ["text", None])
async def test_a_follow_up_that_is_no_object_is_the_plugins_failure(house: Machine, left: Any) -> None:
    async def turn_end(given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        output.follow_ups.append(left)

    door, session = await opened(house, {"turn.end": turn_end})
    assert said(await door.ask(session, "begin")) == "begin"
    (named,) = door.of("plugin.error")
    assert (named.hook, "`follow_ups` cannot be used" in named.message) == ("turn.end", True)


@pytest.mark.parametrize("left", [{}, {"prompt": 5}])
async def test_a_follow_up_without_a_prompt_is_given_up(
    house: Machine, left: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def turn_end(given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        output.follow_ups.append(left)

    door, session = await opened(house, {"turn.end": turn_end})
    assert said(await door.ask(session, "begin")) == "begin"
    assert "turn.end gave no prompt" in caplog.text
    assert door.of("session.error") == []


async def test_the_end_of_a_turn_is_told_once_with_a_copy_and_how_often_it_went_on(house: Machine) -> None:
    told: list[tuple[str, int]] = []

    async def turn_end(given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        told.append((given.parts[1].text, given.continued))  # type: ignore[union-attr]
        given.parts.clear()
        given.message.finish = "changed"

    door, session = await opened(house, going_on("more"), {"turn.end": turn_end})
    await door.ask(session, "begin")
    assert told == [("begin", 0), ("more", 1)]
    assert (await door.live(session)).history == await door.stored(session)


async def test_an_answer_is_not_told_of_again_when_what_the_plugin_queued_for_it_came_to_nothing(
    house: Machine,
) -> None:
    told: list[str] = []

    async def turn_end(given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        told.append(given.message.id)
        if len(told) == 1:
            body = PromptBody.text("and?", agent="nobody")
            await door.runtime.session.follow_up(given.session_id, body, "test")

    door, session = await opened(house, {"turn.end": turn_end})
    answer = await door.ask(session, "begin")
    assert told == [answer.info.id]
    assert users(await door.stored(session)) == ["begin"]


async def test_a_failed_answer_ends_the_turn_without_going_on(house: Machine) -> None:
    house.says("== turn\nerror: 400 no\n")
    door = await house.open()
    door.plugin(going_on("more"))
    session = await door.session()
    await door.ask(session, "begin")
    assert users(await door.stored(session)) == ["begin"]
