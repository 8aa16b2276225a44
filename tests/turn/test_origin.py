"""Where a prompt comes from: kept, inherited by all that goes on from it, and booked with each model call."""

import asyncio
from typing import Any

import pytest
from tests.loopback import Loopback, calls, text

from instar.message import Origin, User
from instar.plugin import PromptBody, points
from instar.store import Usage
from instar.testing import TIMEOUT, Machine, RuntimeUnderTest, said

pytest_plugins = ["tests.turn", "tests.loopback"]

BEAT = Origin("heartbeat", "12", depth=1)


async def opened(house: Machine, loopback: Loopback) -> RuntimeUnderTest:
    house.settings(provider=loopback.settings)
    return await house.open(model="local/m")


async def booked(door: RuntimeUnderTest) -> list[Usage]:
    return await door.runtime.instance.store.usage()


def test_what_made_a_chain_go_on_is_said_and_a_persons_own_queue_is_theirs() -> None:
    assert Origin().is_person
    assert not BEAT.is_person
    assert not Origin().by("evolve.idle").is_person
    assert Origin().by("evolve.idle").by("person").is_person
    assert BEAT.by("evolve.idle") == Origin("heartbeat", "12", "evolve.idle", 1)


async def test_an_origin_survives_a_restart(house: Machine, loopback: Loopback) -> None:
    door = await opened(house, loopback)
    session = await door.session()
    await door.ask(session, "hello")
    await door.client.prompt(session, PromptBody.text("beat"), BEAT)
    assert (await door.live(session)).origin == BEAT
    await door.runtime.close()
    again = await (await house.open(model="local/m")).live(session)
    asked = [message.info for message in again.history if isinstance(message.info, User)]
    assert [again.origin_of(one.id) for one in asked] == [Origin(), BEAT]
    assert again.origin == BEAT


async def test_a_follow_up_has_the_origin_of_the_turn_and_its_own_source(
    house: Machine, loopback: Loopback
) -> None:
    door = await opened(house, loopback)
    session = await door.session()

    async def go_on(given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        if not given.continued:
            prompt = PromptBody.text("and on")
            output.follow_ups.append({"source": "hooks.stop", "prompt": {"parts": prompt.parts}})

    door.plugin({"turn.end": go_on})
    await door.client.prompt(session, PromptBody.text("beat"), BEAT)
    await door.client.follow_up(session, PromptBody.text("more"), "evolve.idle")
    await door.idle(session)
    await door.client.follow_up(session, PromptBody.text("other"), "action", Origin("action", "3"))
    await door.idle(session)
    assert [(one.origin, one.origin_id, one.source) for one in await booked(door)] == [
        ("heartbeat", "12", ""),
        ("heartbeat", "12", "hooks.stop"),
        ("heartbeat", "12", "evolve.idle"),
        ("action", "3", "action"),
    ]


async def test_a_sub_agent_works_for_whom_its_caller_works(house: Machine, loopback: Loopback) -> None:
    task = {"description": "d", "prompt": "dig", "subagent_type": "general"}
    loopback.answer = lambda number, body: calls(("task", task)) if number == 1 else text("done")
    door = await opened(house, loopback)
    session = await door.session()
    await door.client.prompt(session, PromptBody.text("beat"), BEAT)
    found = await booked(door)
    assert [(one.cause, one.agent, one.origin, one.origin_id, one.root_id) for one in found] == [
        ("turn", "build", "heartbeat", "12", session),
        ("task", "general", "heartbeat", "12", session),
        ("turn", "build", "heartbeat", "12", session),
    ]
    assert found[0].turn_id == found[2].turn_id != found[1].turn_id


async def test_a_title_is_booked_with_the_origin_of_what_it_is_of(house: Machine, loopback: Loopback) -> None:
    door = await opened(house, loopback)
    session = await door.session(title=None)
    await door.client.prompt(session, PromptBody.text("beat"), BEAT)
    await door.runtime.turns.close(5)
    assert {(one.cause, one.origin, one.agent) for one in await booked(door)} == {
        ("turn", "heartbeat", "build"),
        ("title", "heartbeat", "title"),
    }


async def test_a_summary_that_nobody_asked_for_goes_on_for_whom_the_session_works(
    house: Machine, loopback: Loopback
) -> None:
    def answer(number: int, body: dict[str, Any]) -> Any:
        return text("x " * 200, tokens=(31_500, 20)) if number == 1 else text(f"answer {number}")

    loopback.answer = answer
    door = await opened(house, loopback)
    session = await door.session()
    await door.client.prompt(session, PromptBody.text("beat"), BEAT)
    found = [(one.cause, one.origin, one.origin_id, one.source) for one in await booked(door)]
    assert found[:2] == [("turn", "heartbeat", "12", ""), ("compaction", "heartbeat", "12", "")]
    assert found[2:] == [("turn", "heartbeat", "12", "compaction")]


async def test_what_a_plugin_prompts_is_its_own_unless_it_says_for_whom(
    house: Machine, loopback: Loopback
) -> None:
    door = await opened(house, loopback)
    client = door.runtime.plugin_input(door.runtime.settings)("bridge").client
    session = await door.session()
    await client.session.prompt(session, PromptBody.text("mine"))
    await client.session.prompt(session, PromptBody.text("for a person"), Origin())
    await client.session.follow_up(session, PromptBody.text("as a person"), "person")
    await door.idle(session)
    await client.generate(system=[], prompt="judge", cause="judge")
    await client.generate(system=[], prompt="judge", cause="judge", session_id=session)
    await door.runtime.generate(system=[], prompt="describe", cause="agent", origin=BEAT)
    assert [(one.cause, one.origin, one.origin_id, one.source) for one in await booked(door)] == [
        ("turn", "plugin", "bridge", ""),
        ("turn", "person", "", ""),
        ("turn", "person", "", "plugin"),
        ("judge", "plugin", "bridge", ""),
        ("judge", "person", "", "plugin"),
        ("agent", "heartbeat", "12", ""),
    ]


async def test_the_client_of_a_plugin_offers_all_of_the_client(house: Machine, loopback: Loopback) -> None:
    door = await opened(house, loopback)
    client = door.runtime.plugin_input(door.runtime.settings)("bridge").client
    assert await client.tools() == await door.runtime.tools()
    assert await client.agents() == await door.runtime.agents()
    assert await client.config() == await door.runtime.config()
    assert await client.permission.list() == []
    assert await client.question.list() == []
    assert await client.workspace.list() == []
    session = await client.session.create()
    assert (await door.client.get(session.id)).id == session.id
    assert said(await client.session.prompt(session.id, PromptBody.text("hi"))) == "hello"
    heard = asyncio.create_task(anext(aiter(client.events())))
    await asyncio.sleep(0)
    await client.publish(door.heard[0])
    assert (await asyncio.wait_for(heard, TIMEOUT)).id == door.heard[0].id


# -- calls that did not end well ---------------------------------------------------------------------


def claude(loopback: Loopback) -> dict[str, Any]:
    block = {**loopback.settings["local"], "npm": "@ai-sdk/anthropic"}
    return {"local": block}


def began(tokens: int) -> dict[str, Any]:
    return {"type": "message_start", "message": {"usage": {"input_tokens": tokens, "output_tokens": 1}}}


BROKEN = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
WORDS = [{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "well"}}]
WHOLE = [
    *WORDS,
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
]


async def test_a_call_that_is_aborted_is_booked_as_far_as_it_was_told(
    house: Machine, loopback: Loopback
) -> None:
    loopback.answer = lambda number, body: [began(500), *WORDS, None]
    house.settings(provider=claude(loopback))
    door = await house.open(model="local/m")
    session = await door.session()
    await door.start(session, "go")
    await door.until(lambda event: event.type == "message.part.delta")
    live = await door.live(session)
    await door.runtime.turns.abort(live)
    (one,) = await booked(door)
    assert (one.tokens.input, one.tokens.output, one.cost) == (500, 1, pytest.approx(0.5))
    assert one.message_id == live.history[-1].info.id


async def test_each_try_of_a_call_that_broke_off_is_booked(
    house: Machine, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.turn.step._FIRST_WAIT", 0.01)
    loopback.answer = lambda number, body: [began(300), BROKEN] if number < 3 else [began(300), *WHOLE]
    house.settings(provider=claude(loopback))
    door = await house.open(model="local/m")
    await door.ask(await door.session(), "go")
    assert [(one.tokens.input, one.tokens.output) for one in await booked(door)] == [
        (300, 1),
        (300, 1),
        (300, 7),
    ]


async def test_a_call_that_is_tried_again_is_held_by_the_limits(
    house: Machine, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.turn.step._FIRST_WAIT", 0.01)
    loopback.answer = lambda number, body: [began(300), BROKEN]
    house.settings(provider=claude(loopback), limits={"session": {"tokens": 500}})
    door = await house.open(model="local/m")
    await door.ask(await door.session(), "go")
    assert len(loopback.asked) == 2
    assert [one.limit for one in door.of("session.limit")] == ["limits.session.tokens"]


async def test_a_call_of_which_nothing_was_told_is_not_booked(house: Machine, loopback: Loopback) -> None:
    loopback.answer = lambda number, body: (400, {})
    door = await opened(house, loopback)
    await door.ask(await door.session(), "go")
    assert await booked(door) == []
