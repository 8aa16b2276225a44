"""`session.start` and `session.end`: once each, with where the session comes from and why it ends."""

from typing import Any

import pytest

from instar.testing import Machine, RuntimeUnderTest

pytest_plugins = ["tests.turn"]


def listening(door: RuntimeUnderTest) -> list[tuple[str, str]]:
    told: list[tuple[str, str]] = []

    async def start(given: Any, output: Any) -> None:
        told.append((given.session_id, given.source))
        # A hook may use the session that it is told of.
        await door.client.get(given.session_id)

    async def end(given: Any, output: Any) -> None:
        told.append((given.session_id, given.reason))

    door.plugin({"session.start": start, "session.end": end})
    return told


async def test_a_new_session_starts_when_it_is_made_and_ends_when_the_instance_does(house: Machine) -> None:
    house.says('== when ""\ntext: ok\n')
    door = await house.open()
    told = listening(door)
    session = await door.session()
    await door.ask(session, "hi")
    await door.ask(session, "and again")
    assert told == [(session, "new")]
    await door.runtime.close()
    assert told == [(session, "new"), (session, "closed")]


async def test_a_session_of_another_process_is_resumed_when_it_is_first_used(house: Machine) -> None:
    house.says('== when ""\ntext: ok\n')
    first = await house.open()
    session = await first.session()
    await first.ask(session, "hi")
    await first.runtime.close()
    door = await house.open()
    told = listening(door)
    await door.client.messages(session)
    assert told == []
    await door.ask(session, "go on")
    assert told == [(session, "resume")]


@pytest.mark.parametrize("reason", ["deleted", "archived"])
async def test_a_session_ends_when_it_is_deleted_or_put_away(house: Machine, reason: str) -> None:
    door = await house.open()
    told = listening(door)
    session = await door.session()
    if reason == "deleted":
        await door.client.delete(session)
    else:
        await door.client.update(session, archived=1)
        await door.client.update(session, archived=0)
    assert told == [(session, "new"), (session, reason)]
    await door.runtime.close()
    assert len(told) == 2


async def test_a_session_that_nobody_used_is_deleted_without_a_word(house: Machine) -> None:
    first = await house.open()
    session = await first.session()
    await first.runtime.close()
    door = await house.open()
    told = listening(door)
    await door.client.delete(session)
    assert told == []
