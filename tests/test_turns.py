"""Turns start, end, are aborted and never lose a prompt."""

from instar.plugin import points
from tests.turn import House, said, users

pytest_plugins = ["tests.turn"]

ECHO = """
    == when ""
    text: {{user}}
"""


async def test_a_prompt_is_answered_and_the_session_is_idle(house: House) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "hello")) == "hello"
    assert door.types()[-2:] == ["session.status", "session.idle"]
    assert await door.client.status() == {}


async def test_an_abort_before_the_turn_has_begun_leaves_a_session_that_works(house: House) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.start(session, "one")
    assert await door.client.abort(session)
    assert said(await door.ask(session, "two")) == "two"


async def test_a_prompt_that_comes_while_plugins_end_the_turn_is_answered(house: House) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()

    async def turn_end(given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        if said(given) == "first":
            await door.start(session, "late")

    door.plugin({"turn.end": turn_end})
    assert said(await door.ask(session, "first")) == "late"
    assert users(await door.stored(session)) == ["first", "late"]
