"""Who runs a session: one process at a time; a dead one's session is taken over at once."""

import asyncio
import os
import platform
import re
import subprocess
import sys

import pytest

from instar.plugin import Invalid, PromptBody
from instar.store.lease import is_dead, owner_name, take
from instar.testing import Machine, said, users

pytest_plugins = ["tests.turn"]

ECHO = '== when ""\ntext: {{user}}\n'


@pytest.fixture
def dead() -> int:
    """The number of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


@pytest.fixture
def living():
    """The number of a process that runs for as long as the test."""
    child = subprocess.Popen(["sleep", "60"])
    yield child.pid
    child.kill()
    child.wait()


def test_an_owner_is_named_by_its_machine_its_process_and_a_word_of_its_own() -> None:
    assert re.fullmatch(rf"{re.escape(platform.node())}:{os.getpid()}:[0-9a-f]{{8}}", owner_name())
    assert owner_name() == owner_name()


def test_only_a_process_of_this_machine_that_is_gone_is_dead(dead: int, living: int) -> None:
    here = platform.node()
    assert is_dead(f"{here}:{dead}:aa")
    assert not is_dead(f"{here}:{living}:aa")
    assert not is_dead(f"elsewhere:{dead}:aa")
    assert not is_dead(f"{here}:1:aa")
    assert not is_dead(owner_name())
    assert is_dead(f"{here}:{os.getpid()}:from-before")


@pytest.mark.parametrize(
    "owner", ["", "here", f"{platform.node()}:", f"{platform.node()}:x:y", f"{platform.node()}:-1:y"]
)
def test_what_is_no_owners_name_is_not_called_dead(owner: str) -> None:
    assert not is_dead(owner)


async def test_a_session_that_another_process_runs_is_refused_and_nothing_is_saved(
    house: Machine, living: int
) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "before")
    store, owner = door.runtime.instance.store, f"{platform.node()}:{living}:aa"
    lease = await store.lease(session, owner, 30_000)
    assert lease is not None
    for work in (
        door.client.prompt(session, PromptBody.text("now")),
        door.client.prompt_async(session, PromptBody.text("now")),
        door.client.summarize(session),
        door.client.delete(session),
        door.client.update(session, title="renamed", archived=1),
    ):
        with pytest.raises(
            Invalid, match=f"is running in another process .{re.escape(owner)}.; wait for it, abort"
        ):
            await work
    assert users(await door.stored(session)) == ["before"]
    assert (await door.live(session)).history == await door.stored(session)
    assert len(await door.client.messages(session)) == 2
    await store.release(lease)
    assert said(await door.ask(session, "after")) == "after"


async def test_a_change_of_a_session_keeps_what_another_process_changed_of_it(house: Machine) -> None:
    house.says(ECHO)
    here, there = await house.open(), await house.open()
    session = await here.session()
    await here.ask(session, "one")
    await there.client.update(session, title="renamed there")
    await here.client.update(session, metadata={"from": "here"})
    row = await here.runtime.instance.store.session(session)
    assert row is not None
    assert (row.title, row.metadata) == ("renamed there", {"from": "here"})


async def test_a_follow_up_for_a_session_that_another_process_runs_waits_for_it(
    house: Machine, living: int
) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.runtime.instance.store.lease(session, f"{platform.node()}:{living}:aa", 30_000)
    await door.client.follow_up(session, PromptBody.text("later"), "test")
    assert [waiting.source for waiting in await door.runtime.instance.store.follow_ups(session)] == ["test"]


async def test_a_dead_processs_session_is_taken_over_at_once(house: Machine, dead: int) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    store = door.runtime.instance.store
    old = await store.lease(session, f"{platform.node()}:{dead}:aa", 30_000)
    assert old is not None
    assert said(await door.ask(session, "hello")) == "hello"
    new = await take(store, session)
    assert new is not None
    assert new.fence > old.fence


async def test_a_session_is_held_while_its_turn_runs_and_let_go_with_it(house: Machine) -> None:
    house.says(
        '== turn\ntool: bash {"command": "until [ -e go ]; do sleep 0.01; done"}\n\n== turn\ntext: done\n'
    )
    door = await house.open()
    session = await door.session()
    store = door.runtime.instance.store
    assert await store.holder(session) is None
    asked = asyncio.create_task(door.ask(session, "work"))
    await door.running()
    holder = await store.holder(session)
    assert holder is not None
    assert holder.owner == owner_name()
    (house.folder / "go").touch()
    await asked
    assert await store.holder(session) is None


async def test_a_refused_prompt_does_not_keep_the_session(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    with pytest.raises(Invalid):
        await door.client.prompt(session, PromptBody(parts=[]))
    assert await door.runtime.instance.store.holder(session) is None
