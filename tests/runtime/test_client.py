"""The in-process client: what clients may ask, and what they are refused."""

import asyncio

import pytest

from instar.event import Busy
from instar.plugin import Client, PromptBody
from instar.store import StoreError
from instar.testing import Machine, said, users

pytest_plugins = ["tests.turn"]

ECHO = '== when ""\ntext: {{user}}\n'


async def test_the_runtime_offers_all_that_a_client_is_promised(house: Machine) -> None:
    door = await house.open()
    for promise, offered in (
        (Client, door.runtime),
        (Client.session.fget.__annotations__["return"], door.client),
    ):  # type: ignore[attr-defined]
        names = [name for name in vars(promise) if not name.startswith("_")]
        assert names
        assert [name for name in names if not hasattr(offered, name)] == []


async def test_the_status_names_the_sessions_that_are_busy(house: Machine) -> None:
    house.says(
        '== turn\ntool: bash {"command": "until [ -e go ]; do sleep 0.01; done"}\n\n== turn\ntext: done\n'
    )
    door = await house.open()
    session, _ = await door.session(), await door.session()
    asked = asyncio.create_task(door.ask(session, "work"))
    await door.running()
    assert await door.client.status() == {session: Busy()}
    (house.folder / "go").touch()
    await asked
    assert await door.client.status() == {}


async def test_a_prompt_that_is_not_waited_for_is_saved_when_it_returns(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.client.prompt_async(session, PromptBody.text("hello"))
    assert users(await door.stored(session)) == ["hello"]
    await door.idle(session)
    assert said((await door.stored(session))[-1]) == "hello"


async def test_a_client_that_goes_away_leaves_the_turn_alone(house: Machine) -> None:
    house.says(
        '== turn\ntool: bash {"command": "until [ -e go ]; do sleep 0.01; done"}\n\n== turn\ntext: done\n'
    )
    door = await house.open()
    session = await door.session()
    asked = asyncio.create_task(door.ask(session, "work"))
    await door.running()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    (house.folder / "go").touch()
    await door.idle(session)
    assert said((await door.stored(session))[-1]) == "done"


async def test_an_abort_of_an_idle_session_says_that_nothing_ran(house: Machine) -> None:
    door = await house.open()
    assert not await door.client.abort(await door.session())
    assert "session.idle" not in door.types()


async def test_a_title_and_an_archiving_are_saved_and_published(house: Machine) -> None:
    door = await house.open()
    session = await door.session()
    changed = await door.client.update(session, title="New name", archived=5)
    assert (changed.title, changed.time.archived) == ("New name", 5)
    (given,) = door.of("session.updated")
    assert given.info == changed == await door.runtime.instance.store.session(session)


async def test_a_change_that_cannot_be_saved_is_not_made(house: Machine) -> None:
    door = await house.open()
    session = await door.session()
    before = await door.client.get(session)
    with pytest.raises(StoreError):
        await door.client.update(session, title="New name", archived=2**70)
    assert (await door.client.get(session)).title == before.title
    assert (await door.client.update(session, title="Newer name")).title == "Newer name"
