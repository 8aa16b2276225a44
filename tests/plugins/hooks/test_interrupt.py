"""Aborting a session while an agent rule judges: it ends within a second with what it started, and that is recorded."""

import asyncio
import json
import os
import time

import pytest
from tests import running
from tests.confinement import remember
from tests.loopback import Loopback, hang, text
from tests.plugins.hooks.test_judges import agent, arm, rules
from tests.waiting import SOON, until

from instar.plugin import Invalid, PromptBody
from instar.testing import Machine, RuntimeUnderTest, users

pytest_plugins = ["tests.turn", "tests.loopback"]

NAP = f"4714.{os.getpid()}"
"""What this process's judges sleep: other ones' may sleep at the same time."""
LOOKING = f'== when "LOOK"\ntool: bash {{"command": "sleep {NAP}; true"}}\n'
CALLS = {
    "PostToolUseFailure": ("read", {"filePath": "missing"}),
    "SubagentStart": ("task", {"description": "d", "prompt": "CHILD", "subagent_type": "general"}),
    "SubagentStop": ("task", {"description": "d", "prompt": "CHILD", "subagent_type": "general"}),
}


async def judging(door: RuntimeUnderTest, session: str, words: str = "go") -> "asyncio.Task[None]":
    """A prompt whose judge has a command running."""
    asking = asyncio.create_task(door.client.prompt_async(session, PromptBody.text(words)))
    async with asyncio.timeout(10):
        while not running.having("sleep", NAP):
            await asyncio.sleep(0.01)
    return asking


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "Stop",
        "SubagentStart",
        "SubagentStop",
    ],
)
async def test_an_abort_ends_the_judge_of_any_event_within_a_second(house: Machine, name: str) -> None:
    arm(house, rules(name, agent("LOOK", tools=["terminal"])))
    house.settings(hook_settings={"agent_pre_tool_use": True})
    tool, args = CALLS.get(name, ("bash", {"command": "echo hi"}))
    house.says(f'{LOOKING}== when "go" once\ntool: {tool} {json.dumps(args)}\n== when "."\ntext: done\n')
    door = await house.open()
    session = await door.session()
    asking = await judging(door, session)
    began = time.monotonic()
    assert await door.client.abort(session) is True
    assert time.monotonic() - began < SOON
    await until(lambda: not running.having("sleep", NAP))
    await asyncio.wait([asking], timeout=SOON)
    assert [(one.event, one.undecided, one.error) for one in door.of("hooks.ran")] == [
        (name, True, "it was interrupted")
    ]


async def test_a_prompt_whose_judge_was_ended_is_not_taken_and_the_next_one_is(house: Machine) -> None:
    arm(house, rules("UserPromptSubmit", agent("LOOK", tools=["terminal"])))
    house.says(
        f'== when "LOOK[\\s\\S]*SECOND"\ntool: decide {{"decision": "allow", "reason": "fine"}}\n{LOOKING}'
        '== when "."\ntext: done\n'
    )
    door = await house.open()
    session = await door.session()
    asking = await judging(door, session, "FIRST")
    await door.client.abort(session)
    with pytest.raises(Invalid, match="was not taken: it was stopped while plugins still looked at it"):
        await asking
    await door.ask(session, "SECOND")
    assert users(await door.stored(session)) == ["SECOND"]


@pytest.mark.slow
async def test_a_session_whose_start_was_interrupted_is_told_of_again(house: Machine) -> None:
    house.says('== when "."\ntext: done\n')
    before = await house.open()
    session = await before.session()
    await before.ask(session, "hello")
    arm(house, rules("SessionStart", agent("LOOK", tools=["terminal"])))
    house.says(f'{LOOKING}== when "."\ntext: done\n')
    door = await house.open()
    asking = await judging(door, session)
    assert await door.client.abort(session) is True
    with pytest.raises(Invalid, match="was not taken"):
        await asking
    house.says(
        '== when "LOOK"\ntool: decide {"decision": "deny", "reason": "MIND THE GAP"}\n== when "."\ntext: done\n'
    )
    await door.ask(session, "go")
    assert "MIND THE GAP" in str(house.requests()[-1]["messages"])


async def test_who_sent_a_prompt_and_goes_away_ends_its_judge(house: Machine) -> None:
    arm(house, rules("UserPromptSubmit", agent("LOOK", tools=["terminal"])))
    house.says(f'{LOOKING}== when "."\ntext: done\n')
    door = await house.open()
    asking = await judging(door, await door.session())
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()
    await until(lambda: not running.having("sleep", NAP))


async def test_an_instance_that_closes_ends_the_judge_of_a_prompt_first(house: Machine) -> None:
    arm(house, rules("UserPromptSubmit", agent("LOOK", tools=["terminal"])))
    house.says(f'{LOOKING}== when "."\ntext: done\n')
    door = await house.open()
    asking = await judging(door, await door.session())
    await door.runtime.close()
    with pytest.raises(Invalid, match="was not taken"):
        await asking
    await until(lambda: not running.having("sleep", NAP))
    assert door.of("hooks.ran")[0].error == "it was interrupted"


async def test_an_agent_rule_of_session_end_decides_while_the_instance_closes(house: Machine) -> None:
    arm(house, rules("SessionEnd", agent("JUDGE")))
    house.says(
        '== when "JUDGE"\ntool: decide {"decision": "allow", "reason": "fine"}\n== when "."\ntext: done\n'
    )
    door = await house.open()
    await door.ask(await door.session(), "go")
    await door.runtime.close()
    (record,) = (house.data / "plugin" / "hooks" / "sessions").iterdir()
    last = json.loads(record.read_text().splitlines()[-1])["properties"]
    assert (last["event"], last["action"], last["undecided"]) == ("SessionEnd", "allow", False)


@pytest.mark.slow
async def test_what_a_prompt_rules_first_answer_took_is_recorded_when_the_second_never_comes(
    house: Machine, loopback: Loopback
) -> None:
    remember(house.environment)
    house.settings(provider=loopback.settings)
    arm(house, rules("Stop", {"type": "prompt", "prompt": "JUDGE", "timeout": 3}))
    loopback.answer = lambda number, body: (
        hang()
        if "could not be read" in str(body)
        else text("I would allow it." if "JUDGE" in str(body) else "done")
    )
    door = await house.open(model="local/m")
    await door.ask(await door.session(), "go")
    (ran,) = door.of("hooks.ran")
    assert (ran.error, ran.tokens, ran.cost) == ("it took longer than 3 s", 120, pytest.approx(0.1))
