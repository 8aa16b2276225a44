"""Limits in a turn: it stops, says so, and at most one call goes over."""

from typing import Any

import pytest
from tests.turn import TRAILING, trace

from instar.limits.budget import LimitsError
from instar.testing import Machine, RuntimeUnderTest, answer_of, said
from instar.wire.document import DocumentError

pytest_plugins = ["tests.turn"]

FOREVER = '== when ""\ntool: bash {"command": "echo on and on"}\nusage: input=100 output=20\n'
TALK = '== when ""\ntext: talk\nusage: input=100 output=20\n\n== title\ntext: T\nusage: input=5 output=1\n'
PRICED = {"scripted": {"models": {"x": {"cost": {"input": 1000.0, "output": 0.0}}}}}


async def stopped(house: Machine, script: str = FOREVER, **settings: Any) -> tuple[RuntimeUnderTest, str]:
    """Play a turn that a limit ends; return its session."""
    house.says(script)
    house.settings(**settings)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    assert await door.client.status() == {}
    return door, session


@pytest.mark.parametrize(
    ("settings", "calls", "limit"),
    [
        ({"max_iterations": 3}, 3, "limits.steps"),
        ({"limits": {"steps": 2}, "max_iterations": 9}, 2, "limits.steps"),
        ({"agent": {"build": {"steps": 2}}}, 2, "limits.steps"),
        ({"agent": {"build": {"steps": 9}}, "max_iterations": 2}, 2, "limits.steps"),
        ({"limits": {"session": {"tokens": 250}}}, 3, "limits.session.tokens"),
        ({"limits": {"session": {"tokens": 240}}}, 2, "limits.session.tokens"),
        ({"limits": {"day": {"tokens": 120}}}, 1, "limits.day.tokens"),
        ({"limits": {"session": {"cost": 0.15}}, "provider": PRICED}, 2, "limits.session.cost"),
    ],
    ids=str,
)
async def test_a_limit_stops_the_turn_and_at_most_one_call_goes_over(
    house: Machine, settings: dict[str, Any], calls: int, limit: str
) -> None:
    door, session = await stopped(house, **settings)
    assert len(house.requests()) == calls
    (reached,) = door.of("session.limit")
    assert (reached.session_id, reached.limit, reached.cause) == (session, limit, "turn")
    assert reached.message.startswith("The turn was stopped: ")
    assert trace(door.heard)[-5:] == ["status idle", "session.idle", *TRAILING]
    assert door.of("session.error") == []
    assert all(answer_of(message).time.completed for message in (await door.stored(session))[1:])


async def test_steps_are_counted_anew_for_each_prompt(house: Machine) -> None:
    door, session = await stopped(house, max_iterations=2)
    await door.ask(session, "again")
    assert len(house.requests()) == 4


async def test_a_sessions_tokens_stay_used(house: Machine) -> None:
    door, session = await stopped(house, TALK, limits={"session": {"tokens": 100}})
    before = len(await door.stored(session))
    with pytest.raises(AssertionError, match="nobody answered 'again'"):
        await door.ask(session, "again")
    assert len(await door.stored(session)) == before + 1
    assert len(house.requests()) == 1
    assert said(await door.ask(await door.session(), "elsewhere")) == "talk"


async def test_a_cost_cannot_be_held_where_a_price_is_unknown(house: Machine) -> None:
    house.says(TALK)
    block = {"scripted": {"models": {"x": {"cost": {"output": 1.0}}}}}
    house.settings(limits={"session": {"cost": 5}}, provider=block)
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    await door.idle(session)
    reached = door.of("session.limit")
    assert len(reached) + len(house.requests()) == 1


async def test_each_call_is_booked_with_its_cause_session_message_and_cost(house: Machine) -> None:
    house.says(TALK)
    house.settings(provider=PRICED)
    door = await house.open()
    session = await door.session(title=None)
    answer = await door.ask(session, "go")
    await door.runtime.turns.close(5)
    booked = await door.runtime.instance.store.usage(session)
    by_cause = {usage.cause: usage for usage in booked}
    assert set(by_cause) == {"turn", "title"}
    turn = by_cause["turn"]
    assert (turn.message_id, turn.provider_id, turn.model_id) == (answer.info.id, "scripted", "x")
    assert (turn.tokens.input, turn.tokens.output, turn.cost) == (100, 20, pytest.approx(0.1))


async def test_a_title_is_not_made_when_a_limit_is_reached(house: Machine) -> None:
    house.says(TALK)
    house.settings(limits={"day": {"tokens": 100}})
    door = await house.open()
    await door.ask(await door.session(), "uses it up")
    session = await door.session(title=None)
    await door.start(session, "go")
    await door.idle(session)
    assert house.requests("title") == []
    assert len(house.requests()) == 1


async def test_a_limit_that_is_none_is_said_when_the_runtime_opens(house: Machine) -> None:
    house.settings(limits={"session": {"token": 5}})
    with pytest.raises(DocumentError, match=r"limits\.session\.token: .*did you mean tokens\?"):
        await house.open()
    house.settings(limits={"session": {"tokens": -1}})
    with pytest.raises(LimitsError, match=r"limits\.session\.tokens"):
        await house.open()
