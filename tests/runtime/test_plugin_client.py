"""A plugin's client speaks for the plugin, unless it says for whom: so no call passes for a person's."""

from typing import Any

import pytest
from tests.loopback import Loopback, text

from instar.message import Origin
from instar.plugin import PromptBody
from instar.store import Usage
from instar.testing import Machine, RuntimeUnderTest

pytest_plugins = ["tests.turn", "tests.loopback"]

BEAT = Origin("heartbeat", "12")


async def opened(house: Machine, loopback: Loopback, **limits: Any) -> tuple[RuntimeUnderTest, Any]:
    house.settings(provider=loopback.settings, limits=limits)
    door = await house.open(model="local/m")
    return door, door.runtime.plugin_input(door.runtime.settings)("bridge").client


async def booked(door: RuntimeUnderTest) -> list[Usage]:
    return await door.runtime.instance.store.usage()


@pytest.mark.parametrize(
    ("origin", "expected"), [(None, ("plugin", "bridge")), (BEAT, ("heartbeat", "12"))], ids=["own", "beat"]
)
async def test_a_summary_is_booked_for_whom_the_plugin_says(
    house: Machine, loopback: Loopback, origin: Origin | None, expected: tuple[str, str]
) -> None:
    door, client = await opened(house, loopback)
    session = await door.session()
    await door.ask(session, "a long story")
    await client.session.summarize(session, origin=origin)
    found = (await booked(door))[-1]
    assert (found.cause, found.origin, found.origin_id) == ("compaction", *expected)


async def test_a_persons_own_summary_is_theirs(house: Machine, loopback: Loopback) -> None:
    door, _ = await opened(house, loopback)
    session = await door.session()
    await door.client.prompt(session, PromptBody.text("beat"), BEAT)
    await door.client.summarize(session)
    assert [(one.cause, one.origin) for one in await booked(door)] == [
        ("turn", "heartbeat"),
        ("compaction", "person"),
    ]


async def test_a_single_call_without_a_session_is_held_by_the_limits_of_the_plugin(
    house: Machine, loopback: Loopback
) -> None:
    loopback.answer = lambda number, body: text("judged", tokens=(100, 0))
    door, client = await opened(house, loopback, cause={"plugin": {"tokens": 150}})
    for _ in range(2):
        assert (await client.generate(system=[], prompt="judge", cause="judge")).tokens == 100
    with pytest.raises(Exception, match=r"limits\.cause\.plugin\.tokens"):
        await client.generate(system=[], prompt="judge", cause="judge")
    assert len(loopback.asked) == 2
    await door.ask(await door.session(), "a person is not held by it")
    assert len(loopback.asked) == 3
