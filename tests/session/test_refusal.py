"""A zombie spends nothing: a session that was deleted, put away, taken over, or whose instance is closed."""

import asyncio
from typing import Any

import pytest
from tests.loopback import Loopback, calls, hang, text
from tests.postgresql import change

from instar.message import Origin, ToolPart, ToolRunning
from instar.plugin import Invalid, NotFound, PromptBody
from instar.plugin.tool import Tool
from instar.testing import TIMEOUT, Machine, RuntimeUnderTest, results, users

pytest_plugins = ["tests.turn", "tests.loopback"]

BEAT = Origin("heartbeat", "1")


async def opened(house: Machine, loopback: Loopback) -> RuntimeUnderTest:
    house.settings(provider=loopback.settings)
    return await house.open(model="local/m")


async def asked(loopback: Loopback, number: int = 1) -> None:
    async with asyncio.timeout(TIMEOUT):
        while len(loopback.asked) < number:
            await asyncio.sleep(0.002)


async def test_a_session_that_is_deleted_in_a_call_makes_no_other(house: Machine, loopback: Loopback) -> None:
    loopback.answer = lambda number, body: hang()
    door = await opened(house, loopback)
    session = await door.session()
    await door.start(session, "go")
    await asked(loopback)
    await door.client.delete(session)
    await asyncio.sleep(0.05)
    assert len(loopback.asked) == 1
    assert door.runtime.instance.sessions.running() == []
    with pytest.raises(NotFound):
        await door.start(session, "again")


@pytest.mark.parametrize("pause", [0, 0.001, 0.003, 0.01, 0.03])
async def test_a_prompt_that_races_with_a_deletion_leaves_nothing_running(
    house: Machine, loopback: Loopback, pause: float
) -> None:
    loopback.answer = lambda number, body: calls(("bash", {"command": "echo on"}))
    door = await opened(house, loopback)
    session = await door.session()

    async def prompt() -> None:
        await asyncio.sleep(pause)
        await door.start(session, "go")

    await asyncio.gather(prompt(), door.client.delete(session), return_exceptions=True)
    async with asyncio.timeout(TIMEOUT):
        while door.runtime.instance.sessions.running():
            await asyncio.sleep(0.005)
    before = len(loopback.asked)
    await asyncio.sleep(0.05)
    assert len(loopback.asked) == before
    assert await door.runtime.instance.store.session(session) is None


async def test_a_prompt_whose_session_is_deleted_under_it_is_told_so(
    house: Machine, loopback: Loopback
) -> None:
    loopback.answer = lambda number, body: calls(("bash", {"command": "true"}))
    door = await opened(house, loopback)
    session = await door.session()

    async def delete(given: Any, output: Any) -> None:
        # Beneath the door: there an abort would come first, and the prompt would be an aborted one.
        await door.runtime.instance.sessions.delete(session)

    door.plugin({"tool.execute.before": delete})
    with pytest.raises(NotFound, match=f"^Session not found: {session}$"):
        await door.ask(session, "go")


async def test_a_prompt_that_can_no_longer_be_saved_is_told_so(house: Machine, loopback: Loopback) -> None:
    door = await opened(house, loopback)
    session = await door.session()

    async def delete(given: Any, output: Any) -> None:
        await door.runtime.instance.sessions.delete(session)

    door.plugin({"chat.message": delete})
    with pytest.raises(NotFound, match=f"^Session not found: {session}$"):
        await door.ask(session, "go")
    assert loopback.asked == []


async def test_who_waits_for_a_turn_that_is_cancelled_while_it_cleans_up_is_not_cancelled_with_it(
    house: Machine, loopback: Loopback
) -> None:
    loopback.answer = lambda number, body: hang()
    door = await opened(house, loopback)
    session = await door.session()
    await door.start(session, "go")
    await asked(loopback)
    live = await door.live(session)
    turn = live.turn
    assert turn is not None
    waiting = asyncio.create_task(door.runtime.turns.wait(live))
    while not turn.done():
        turn.cancel()
        await asyncio.sleep(0)
    await asyncio.wait_for(waiting, TIMEOUT)
    assert turn.cancelled()


async def test_a_deleted_session_runs_no_tool(house: Machine, loopback: Loopback) -> None:
    loopback.answer = lambda number, body: calls(("late", {})) if number == 1 else text("done")
    door = await opened(house, loopback)
    ran = []

    async def execute(args: Any, context: Any) -> str:
        ran.append(args)
        return "ran"

    async def before(given: Any, output: Any) -> None:
        (await door.live(session)).deleted = True

    door.plugin({"tool": {"late": Tool("late", {"type": "object"}, execute)}, "tool.execute.before": before})
    session = await door.session()
    await door.start(session, "go")
    await door.idle(session)
    assert ran == []
    assert results((await door.live(session)).history) == [
        f"The call was not made: session {session} was deleted."
    ]
    assert len(loopback.asked) == 1


async def test_a_person_may_prompt_a_session_that_was_put_away_and_nobody_else(
    house: Machine, loopback: Loopback
) -> None:
    door = await opened(house, loopback)
    session = await door.session()
    await door.client.update(session, archived=5)
    with pytest.raises(Invalid, match="was put away: only a person's prompt goes on with it"):
        await door.client.prompt(session, PromptBody.text("beat"), BEAT)
    assert loopback.asked == []
    await door.ask(session, "hello")
    assert len(loopback.asked) == 1
    await door.client.follow_up(session, PromptBody.text("and on"), "evolve.idle")
    await door.idle(session)
    assert users(await door.stored(session)) == ["hello"]
    assert await door.runtime.instance.store.follow_ups(session) == []


async def test_a_session_that_is_put_away_in_a_heartbeat_makes_no_other_call(
    house: Machine, loopback: Loopback
) -> None:
    loopback.answer = lambda number, body: calls(
        ("bash", {"command": "until [ -e go ]; do sleep 0.01; done"})
    )
    door = await opened(house, loopback)
    session = await door.session()
    await door.client.prompt_async(session, PromptBody.text("beat"), BEAT)
    await door.running()
    await door.client.update(session, archived=5)
    (house.folder / "go").touch()
    await door.idle(session)
    assert len(loopback.asked) == 1
    assert [one.limit for one in door.of("session.limit")] == ["session"]


async def test_a_session_that_another_process_took_over_while_the_machine_slept_makes_no_call(
    house: Machine, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    loopback.answer = lambda number, body: calls(
        ("bash", {"command": "until [ -e go ]; do sleep 0.01; done"})
    )
    door = await opened(house, loopback)
    session = await door.session()
    await door.start(session, "go")
    await door.running()
    taken = "UPDATE instar_lease SET owner = 'elsewhere:1:x', fence = 9, time_expires = 4000000000000"
    change(door.runtime.instance.paths.database, taken)
    (house.folder / "go").touch()
    await door.idle(session)
    assert len(loopback.asked) == 1
    assert f"session {session} was taken over by another process" in caplog.text
    (part,) = [part for part in (await door.stored(session))[-1].parts if isinstance(part, ToolPart)]
    assert isinstance(part.state, ToolRunning)


async def test_a_closed_instance_makes_no_call(house: Machine, loopback: Loopback) -> None:
    loopback.answer = lambda number, body: hang()
    door = await opened(house, loopback)
    session = await door.session()
    await door.start(session, "go")
    await asked(loopback)
    await door.runtime.turns.close(0)
    with pytest.raises(Invalid, match="instar is closing"):
        await door.client.prompt(session, PromptBody.text("again"))
    with pytest.raises(Exception, match="instar is closing"):
        await door.runtime.generate(system=[], prompt="x", cause="judge")
    assert len(loopback.asked) == 1
