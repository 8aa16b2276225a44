"""Reminders: in the copy that is sent, from history alone, and in the same bytes ever after."""

import asyncio
import json
from itertools import pairwise
from typing import Any

from tests.turn import trace

from instar.message import text_of
from instar.plugin import PromptBody, points
from instar.testing import Machine, RuntimeUnderTest, said, users
from instar.turn.context import ACTING, PLANNING

pytest_plugins = ["tests.turn"]

WAIT = """
    == turn
    tool: bash {"command": "until [ -e go ]; do sleep 0.01; done; echo went"}

    == turn
    text: both done

    == when "next"
    text: and on

    == when "after"
    text: and on
"""
ECHO = '== when ""\ntext: heard\n'


def persons(request: dict[str, Any]) -> list[str]:
    return [str(message["content"]) for message in request["messages"] if message["role"] == "user"]


def prefixes(house: Machine) -> None:
    """Each request begins with the bytes of the one before."""
    for one, next_one in pairwise(house.requests()):
        sent = one["messages"]
        assert json.dumps(next_one["messages"][: len(sent)]) == json.dumps(sent)


async def interrupt(house: Machine, door: RuntimeUnderTest, session: str, text: str) -> None:
    """Ask `first`, and `text` while its tool runs."""
    first = asyncio.create_task(door.ask(session, "first"))
    await door.running()
    second = asyncio.create_task(door.ask(session, text))
    await door.until(lambda event: trace([event]) == [f"part text {text}"])
    (house.folder / "go").touch()
    assert await first == await second


# -- messages that come in the middle of a turn ------------------------------------------------------


async def test_a_message_that_comes_while_a_tool_runs_is_wrapped_for_the_model_alone(house: Machine) -> None:
    house.says(WAIT)
    door = await house.open()
    session = await door.session()
    await interrupt(house, door, session, "use tabs")
    first, wrapped = persons(house.requests()[-1])
    assert first == "first"
    assert wrapped.startswith("<system-reminder>\nThis message came while you were working:\n\nuse tabs\n\n")
    assert users(await door.stored(session)) == ["first", "use tabs"]
    assert users((await door.live(session)).history) == ["first", "use tabs"]


async def test_what_wants_no_answer_reaches_the_model_as_it_is(house: Machine) -> None:
    house.says(WAIT)
    door = await house.open()
    session = await door.session()
    asked = asyncio.create_task(door.ask(session, "first"))
    await door.running()
    await door.client.prompt(session, PromptBody.text("the skill's text", no_reply=True))
    (house.folder / "go").touch()
    await asked
    assert persons(house.requests()[-1]) == ["first", "the skill's text"]


async def test_a_wrapped_message_stays_as_it_was_sent_and_the_next_prompt_is_not_wrapped(
    house: Machine,
) -> None:
    house.says(WAIT)
    door = await house.open()
    session = await door.session()
    await interrupt(house, door, session, "use tabs")
    await door.ask(session, "next")
    await door.runtime.close()
    again = await house.open()
    await again.ask(session, "after a restart")
    prefixes(house)
    assert persons(house.requests()[-1])[-2:] == ["next", "after a restart"]


async def test_a_plugin_sees_the_wrapped_message_and_may_change_it(house: Machine) -> None:
    house.says(WAIT)
    door = await house.open()
    session = await door.session()
    seen: list[str] = []

    async def transform(given: Any, output: points.MessagesOutput) -> None:
        seen.append(text_of(output.messages[-1]))

    door.plugin({"experimental.chat.messages.transform": transform})
    await interrupt(house, door, session, "use tabs")
    assert "This message came while you were working:\n\nuse tabs" in seen[-1]


async def test_after_an_abort_the_next_prompt_is_no_reminder(house: Machine) -> None:
    house.says("""
        == turn
        tool: bash {"command": "sleep 60"}

        == when "next"
        text: yes
    """)
    door = await house.open()
    session = await door.session()
    await door.start(session, "first")
    await door.running()
    aborting = asyncio.create_task(door.client.abort(session))
    await asyncio.sleep(0)
    assert said(await door.ask(session, "next")) == "yes"
    await aborting
    assert persons(house.requests()[-1]) == ["first", "next"]


# -- planning ----------------------------------------------------------------------------------------


async def test_a_message_to_the_plan_agent_says_that_nothing_may_be_changed(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "how?", agent="plan")
    assert persons(house.requests()[-1]) == [f"how?\n\n{PLANNING}"]
    assert users(await door.stored(session)) == ["how?"]


async def test_the_switch_from_plan_to_build_is_said_once_and_all_of_it_stays(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    for agent in ("build", "plan", "plan", "build", "build"):
        await door.ask(session, agent, agent=agent)
    assert persons(house.requests()[-1]) == [
        "build",
        f"plan\n\n{PLANNING}",
        f"plan\n\n{PLANNING}",
        f"build\n\n{ACTING.format(agent='build')}",
        "build",
    ]
    prefixes(house)


async def test_a_plan_that_takes_steps_is_reminded_in_the_same_bytes_at_each(house: Machine) -> None:
    house.says("""
        == turn
        tool: read {"filePath": "a.txt"}

        == turn
        tool: glob {"pattern": "*.txt"}

        == turn
        text: a plan
    """)
    (house.folder / "a.txt").write_text("hello")
    door = await house.open()
    await door.ask(await door.session(), "how?", agent="plan")
    assert len(house.requests()) == 3
    prefixes(house)


async def test_a_summary_keeps_the_reminders_of_what_follows_it(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "how?", agent="plan")
    await door.client.summarize(session)
    await door.ask(session, "more", agent="plan")
    mark, last = persons(house.requests()[-1])
    assert PLANNING not in mark
    assert last == f"more\n\n{PLANNING}"
