"""Subtasks: a command's work that a sub-agent does, before the conversation goes on."""

import asyncio

import pytest
from tests.turn.test_command import agent, command

from instar.message import SubtaskPart
from instar.plugin import CommandBody
from instar.testing import TIMEOUT, Machine, calls_of, results, said

pytest_plugins = ["tests.turn"]

SCRIPT = "== turn\ntext: from the sub-agent\n== turn\ntext: summed up\n"


async def test_a_subtask_runs_in_a_session_of_its_own_and_the_conversation_goes_on(house: Machine) -> None:
    agent(house, "rev", "---\nmode: subagent\nmodel: scripted/rev\n---\nYou review.")
    command(house, "check", "---\nagent: rev\ndescription: checks\n---\nCheck $1.")
    house.says(SCRIPT)
    door = await house.open()
    session = await door.session()
    answer = await door.client.command(session, CommandBody(command="check", arguments="it"))
    assert said(answer) == "summed up"
    history = await door.client.messages(session)
    (part,) = [part for part in history[0].parts if isinstance(part, SubtaskPart)]
    assert (part.agent, part.prompt, part.description, part.command) == (
        "rev",
        "Check it.",
        "checks",
        "check",
    )
    (call,) = calls_of(history[1])
    assert (call.tool, call.call_id) == ("task", part.call_id)
    assert "from the sub-agent" in results(history)[0]
    (child,) = await door.client.children(session)
    assert child.agent == "rev"
    assert [said(message) for message in await door.client.messages(child.id)] == [
        "Check it.",
        "from the sub-agent",
    ]


@pytest.mark.parametrize(
    ("mode", "subtask", "children"),
    [
        ("subagent", "", 1),
        ("subagent", "subtask: false\n", 0),
        ("primary", "", 0),
        ("primary", "subtask: true\n", 1),
    ],
)
async def test_who_does_a_command_is_what_its_agent_and_subtask_say(
    house: Machine, mode: str, subtask: str, children: int
) -> None:
    agent(house, "a", f"---\nmode: {mode}\n---\nx")
    command(house, "c", f"---\nagent: a\n{subtask}---\nDo it.")
    house.says(SCRIPT)
    door = await house.open()
    session = await door.session()
    await door.client.command(session, CommandBody(command="c", arguments=""))
    assert len(await door.client.children(session)) == children


async def test_the_commands_model_is_the_sub_agents(house: Machine) -> None:
    command(house, "c", "---\nmodel: scripted/own\nsubtask: true\n---\nDo it.")
    house.says(SCRIPT)
    door = await house.open()
    session = await door.session()
    await door.client.command(session, CommandBody(command="c", arguments=""))
    assert [request["model"] for request in house.requests()] == ["scripted/own", "scripted/x"]


async def test_a_subtask_is_done_once_however_often_the_session_goes_on(house: Machine) -> None:
    command(house, "c", "---\nsubtask: true\n---\nDo it.")
    house.says(SCRIPT + "== turn\ntext: again\n")
    door = await house.open()
    session = await door.session()
    await door.client.command(session, CommandBody(command="c", arguments=""))
    await door.ask(session, "and now")
    assert len(await door.client.children(session)) == 1


async def test_an_agent_that_is_denied_tasks_is_told_so_and_answers(house: Machine) -> None:
    house.settings(permission={"task": "deny"})
    command(house, "c", "---\nsubtask: true\n---\nDo it.")
    house.says("== turn\ntext: first\n== turn\ntext: then not\n")
    door = await house.open()
    session = await door.session()
    assert said(await door.client.command(session, CommandBody(command="c", arguments=""))) == "then not"
    assert await door.client.children(session) == []
    assert "task" in results(await door.client.messages(session))[0]


async def test_an_abort_ends_the_sub_agent_too(house: Machine) -> None:
    house.settings(permission={"bash": "allow"})
    command(house, "c", "---\nagent: general\nsubtask: true\n---\nDo it.")
    house.says('== turn\ntool: bash {"command": "sleep 60"}\n')
    door = await house.open()
    session = await door.session()
    asked = asyncio.create_task(door.client.command(session, CommandBody(command="c", arguments="")))
    await door.running()
    await asyncio.wait_for(door.client.abort(session), TIMEOUT)
    await asyncio.wait_for(asked, TIMEOUT)
    assert await door.client.status() == {}
