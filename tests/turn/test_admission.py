"""What lets a prompt into a session, and whose prompt frees it of what it had used up."""

import asyncio
from typing import Any

import pytest
from tests.loopback import Loopback, hang, text
from tests.waiting import SOON

from instar.message import Origin
from instar.plugin import Invalid, PromptBody, points
from instar.testing import Machine, RuntimeUnderTest, answer_of, users

pytest_plugins = ["tests.turn", "tests.loopback"]

NOTE = PromptBody.text("[update] something changed", synthetic=True, no_reply=True)


async def opened(house: Machine, loopback: Loopback, **limits: Any) -> RuntimeUnderTest:
    house.settings(provider=loopback.settings, limits=limits)
    return await house.open(model="local/m")


def always(door: RuntimeUnderTest, meanwhile: Any) -> None:
    """A hook that always continues, and does something else each time."""

    async def go_on(given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        await meanwhile(given.session_id)
        output.follow_ups.append({"source": "idle", "prompt": {"parts": [{"type": "text", "text": "on"}]}})

    door.plugin({"turn.end": go_on})


@pytest.mark.slow
@pytest.mark.parametrize("body", [NOTE, PromptBody.text("and this", synthetic=True)], ids=["note", "prompt"])
async def test_what_a_plugin_says_meanwhile_does_not_free_a_hook_that_always_continues(
    house: Machine, loopback: Loopback, body: PromptBody
) -> None:
    """Two such sessions that note each other's changes would go on for ever."""
    door = await opened(house, loopback, calls=60)
    client = door.runtime.plugin_input(door.runtime.settings)("notes").client.session

    async def say(session_id: str) -> None:
        await client.prompt_async(session_id, body)

    always(door, say)
    session = await door.session()
    await door.start(session, "go")
    await door.idle(session)
    assert door.of("session.limit")[0].limit == "follow_ups"
    assert users(await door.stored(session)).count("on") == 8


async def test_a_person_who_says_something_meanwhile_lets_it_go_on(
    house: Machine, loopback: Loopback
) -> None:
    door = await opened(house, loopback)
    said: list[str] = []

    async def say(session_id: str) -> None:
        said.append(session_id)
        if len(said) == 4:
            await door.client.prompt(session_id, PromptBody.text("look at this too", no_reply=True))

    always(door, say)
    session = await door.session()
    await door.start(session, "go")
    await door.idle(session)
    assert users(await door.stored(session)).count("on") == 3 + 8


async def test_each_beat_may_go_on_as_often_as_the_one_before(house: Machine, loopback: Loopback) -> None:
    door = await opened(house, loopback)

    async def nothing(session_id: str) -> None:
        pass

    always(door, nothing)
    session = await door.session()
    for number in (1, 2):
        await door.client.prompt(session, PromptBody.text("beat"), Origin("heartbeat", str(number)))
        assert users(await door.stored(session)).count("on") == 8 * number


async def test_what_a_plugin_says_does_not_lengthen_a_turn(house: Machine, loopback: Loopback) -> None:
    loopback.answer = lambda number, body: hang()
    door = await opened(house, loopback, turn={"minutes": 0.005})
    client = door.runtime.plugin_input(door.runtime.settings)("notes").client.session
    session = await door.session()
    await door.start(session, "go")
    live = await door.live(session)
    began = asyncio.get_running_loop().time()
    while live.turn is not None and asyncio.get_running_loop().time() - began < 2 * SOON:
        await client.prompt(session, NOTE)
        await asyncio.sleep(0.05)
    assert asyncio.get_running_loop().time() - began < SOON
    await door.idle(session)


async def test_what_may_not_be_answered_is_refused_before_it_is_stored(
    house: Machine, loopback: Loopback
) -> None:
    door = await opened(house, loopback, calls=1)
    session, beat = await door.session(), Origin("heartbeat", "1")
    assert answer_of(await door.client.prompt(session, PromptBody.text("beat"), beat)).error is None
    with pytest.raises(Invalid, match=r"limits\.calls allows 1"):
        await door.client.prompt(session, PromptBody.text("beat"), beat)
    assert users(await door.stored(session)) == ["beat"]
    await door.client.update(session, archived=1)
    with pytest.raises(Invalid, match="put away"):
        await door.client.prompt(session, PromptBody.text("beat"), Origin("heartbeat", "2"))
    loopback.answer = lambda number, body: text("back")
    assert answer_of(await door.ask(session, "a person")).error is None
