"""A person's own shell command in a session: run without a model, read by the next prompt's."""

import asyncio
from typing import Any

import pytest
from tests.turn import trace

from instar.api.session import ShellBody
from instar.message import Origin, ToolError
from instar.plugin import Busy, Invalid
from instar.testing import Machine, RuntimeUnderTest, calls_of, said
from instar.turn.shell import SAID

pytest_plugins = ["tests.turn"]


@pytest.fixture
async def door(house: Machine) -> RuntimeUnderTest:
    house.says('== when "^wait$"\ntext: I wait.\ndelay: 60s\n== when ""\ntext: seen\n')
    return await house.open()


def body(command: str, **more: Any) -> ShellBody:
    return ShellBody(agent="build", command=command, **more)


async def test_what_a_command_printed_is_told_to_the_model_with_the_next_prompt(
    door: RuntimeUnderTest, house: Machine
) -> None:
    session = await door.session()
    ran = await door.client.shell(session, body("echo from the shell"))
    assert house.requests() == []
    assert [call.tool for call in calls_of(ran)] == ["bash"]
    await door.ask(session, "what was that?")
    (request,) = house.requests()
    text = str(request)
    assert SAID in text
    assert "from the shell" in text
    assert [(said(one) or None) for one in await door.stored(session)] == [
        SAID,
        None,
        "what was that?",
        "seen",
    ]


async def test_a_command_is_told_as_it_runs_and_makes_the_session_busy(door: RuntimeUnderTest) -> None:
    session = await door.session()
    before = len(door.heard)
    await door.client.shell(session, body("echo out"))
    await door.idle(session)
    words = [
        word
        for word in trace(door.heard[before:])
        if not word.startswith(("session.updated", "part tool running"))
    ]
    assert words[: words.index("session.idle") + 1] == [
        "status busy",
        "message user",
        f"part text {SAID}",
        "message assistant",
        "part tool completed",
        "message assistant",
        "status idle",
        "session.idle",
    ]
    assert any(word == "part tool running" for word in trace(door.heard))


async def test_a_plugin_sets_the_environment_and_no_hook_of_a_tool_fires(door: RuntimeUnderTest) -> None:
    fired: list[str] = []

    async def environment(given: Any, output: Any) -> None:
        output.env["COLOUR"] = "blue"

    async def tool(given: Any, output: Any) -> None:
        fired.append(given.tool)

    door.plugin({"shell.env": environment, "tool.execute.before": tool, "tool.execute.after": tool})
    ran = await door.client.shell(await door.session(), body("echo $COLOUR"))
    assert getattr(calls_of(ran)[0].state, "output", "") == "blue\n"
    assert fired == []


async def test_a_prompt_that_comes_meanwhile_is_answered_afterwards(door: RuntimeUnderTest) -> None:
    session = await door.session()
    running = asyncio.create_task(door.client.shell(session, body("while [ ! -e go ]; do :; done")))
    await door.running()
    with pytest.raises(Busy):
        await door.client.shell(session, body("true"))
    await door.start(session, "and now?")
    (door.runtime.instance.directory / "go").touch()
    ran = await running
    await door.idle(session)
    history = await door.stored(session)
    assert said(history[-1]) == "seen"
    assert history[1].info.id == ran.info.id


async def test_a_command_that_cannot_be_started_says_why(door: RuntimeUnderTest) -> None:
    ran = await door.client.shell(await door.session(), body("echo a\0b"))
    state = calls_of(ran)[0].state
    assert isinstance(state, ToolError)
    assert state.error
    assert getattr(ran.info.time, "completed", None) is not None


async def test_what_a_session_was_taken_back_from_is_dropped_before_a_command(door: RuntimeUnderTest) -> None:
    session = await door.session()
    await door.ask(session, "one")
    await door.client.revert(session)
    await door.client.shell(session, body("true"))
    assert [said(one) for one in await door.stored(session)] == [SAID, ""]


async def test_a_command_of_a_plugin_is_not_a_persons(door: RuntimeUnderTest) -> None:
    session = await door.session()
    plugin = door.runtime.sessions.speaking_for(Origin("plugin", "mine"))
    ran = await plugin.shell(session, body("true"))
    live = await door.live(session)
    assert live.origin == Origin("plugin", "mine")
    assert ran.info.session_id == session


async def test_an_unknown_agent_or_a_taken_id_leaves_nothing(door: RuntimeUnderTest) -> None:
    session = await door.session()
    before = len(door.heard)
    with pytest.raises(Invalid):
        await door.client.shell(session, ShellBody(agent="nobody", command="true"))
    assert await door.stored(session) == []
    assert trace(door.heard[before:]) == []
