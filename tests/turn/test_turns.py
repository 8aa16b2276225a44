"""Turns start, end, are aborted and never lose a prompt."""

import asyncio
import random
import time
from typing import Any

import pytest
from tests.running import lives
from tests.turn import TRAILING, trace
from tests.waiting import SOON

from instar.event import PermissionAsked
from instar.message import ErrorText, MessageAbortedError, ToolCompleted, User
from instar.plugin import PromptBody, Tool, ToolContext, points
from instar.testing import Machine, RuntimeUnderTest, answer_of, calls_of, results, said, users

pytest_plugins = ["tests.turn"]

ECHO = """
    == when ""
    text: {{user}}
"""
SLEEP = """
    == turn
    tool: bash {"command": "echo $$ > pid; echo began; sleep 60"}

    == when "next"
    text: next it is
"""


def gone(pid: int) -> bool:
    return not lives(pid)


async def shown(door: RuntimeUnderTest) -> None:
    """Wait until the running command's output was published."""

    def wanted(event) -> bool:
        state = getattr(getattr(event.properties, "part", None), "state", None)
        return "began" in str((getattr(state, "metadata", None) or {}).get("output"))

    await door.until(wanted)


async def test_a_prompt_is_answered_and_the_session_is_idle(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "hello")) == "hello"
    assert trace(door.heard)[-5:] == ["status idle", "session.idle", *TRAILING]
    assert await door.client.status() == {}


# -- aborting ----------------------------------------------------------------------------------------


async def test_an_abort_before_the_turn_has_begun_leaves_a_session_that_works(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.start(session, "one")
    assert await door.client.abort(session)
    assert said(await door.ask(session, "two")) == "two"


async def test_an_abort_ends_a_stream_and_keeps_what_came(house: Machine) -> None:
    house.says("== turn\ntext: so far\ndelay: 60s\ntext: and more\n")
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    await door.until(lambda event: event.type == "message.part.delta")
    started = time.monotonic()
    assert await door.client.abort(session)
    assert time.monotonic() - started < SOON
    answer = (await door.stored(session))[1]
    assert answer_of(answer).error == MessageAbortedError(data=ErrorText(message="Aborted"))
    assert answer_of(answer).time.completed
    assert said(answer) == "so far"
    assert trace(door.heard)[-7:] == [
        *("message assistant MessageAbortedError", "session.error", "status idle", "session.idle"),
        *TRAILING,
    ]
    assert not await door.client.abort(session)


async def test_a_plugin_that_looks_at_a_text_holds_up_no_abort_and_loses_no_text(house: Machine) -> None:
    house.says("== turn\ntext: so far\n")
    door = await house.open()
    asked = asyncio.Event()

    async def complete(given: points.TextInput, output: points.TextOutput) -> None:
        asked.set()
        await asyncio.sleep(60)

    door.plugin({"text.complete": complete})
    session = await door.session()
    await door.start(session, "go")
    await asked.wait()
    async with asyncio.timeout(SOON):
        assert await door.client.abort(session)
    assert said((await door.stored(session))[1]) == "so far"


async def test_an_abort_in_the_middle_of_a_text_asks_no_plugin_about_it(house: Machine) -> None:
    house.says("== turn\ntext: so far\ndelay: 60s\ntext: and more\n")
    door = await house.open()
    asked: list[str] = []

    async def complete(given: points.TextInput, output: points.TextOutput) -> None:
        asked.append(output.text)
        await asyncio.sleep(60)

    door.plugin({"text.complete": complete})
    session = await door.session()
    await door.start(session, "go")
    await door.until(lambda event: event.type == "message.part.delta")
    async with asyncio.timeout(SOON):
        assert await door.client.abort(session)
    assert (said((await door.stored(session))[1]), asked) == ("so far", [])


async def test_an_abort_while_plugins_hear_of_an_answer_leaves_it_whole(house: Machine) -> None:
    house.says("== turn\ntext: all of it\n")
    door = await house.open()
    told = asyncio.Event()

    async def completed(given: points.CompletedInput, output: points.Empty) -> None:
        told.set()
        await asyncio.sleep(60)

    door.plugin({"message.completed": completed})
    session = await door.session()
    await door.start(session, "go")
    await told.wait()
    async with asyncio.timeout(SOON):
        assert await door.client.abort(session)
    answer = answer_of((await door.stored(session))[1])
    assert (answer.error, answer.finish) == (None, "stop")


async def test_an_abort_ends_a_command_at_once_and_keeps_what_it_printed(house: Machine) -> None:
    house.says(SLEEP)
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    await shown(door)
    pid = int((house.folder / "pid").read_text())
    started = time.monotonic()
    assert await door.client.abort(session)
    assert time.monotonic() - started < SOON
    assert gone(pid)
    answer = (await door.stored(session))[1]
    state = calls_of(answer)[0].state
    assert isinstance(state, ToolCompleted)
    assert state.output == "began\n\n\n<shell_metadata>\nUser aborted the command\n</shell_metadata>"
    assert isinstance(answer_of(answer).error, MessageAbortedError)


async def test_after_an_abort_every_call_has_a_result_in_the_next_request(house: Machine) -> None:
    house.says(SLEEP)
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    await shown(door)
    await door.client.abort(session)
    assert said(await door.ask(session, "next")) == "next it is"
    sent = house.requests()[-1]["messages"]
    called = [call["id"] for message in sent for call in message.get("tool_calls", [])]
    answered = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert called == answered == ["call_t1_1"]


async def test_an_abort_ends_the_wait_for_a_person(house: Machine) -> None:
    house.says('== turn\ntool: bash {"command": "touch ran"}\n')
    house.settings(permission={"bash": "ask"})
    asked = asyncio.Event()

    async def person(question: PermissionAsked):
        asked.set()
        await asyncio.Event().wait()

    door = await house.open(person=person)
    session = await door.session()
    await door.start(session, "go")
    await asked.wait()
    assert await door.client.abort(session)
    assert results(await door.stored(session)) == ["Tool execution aborted"]
    assert [given.reply for given in door.of("permission.replied")] == ["reject"]
    assert await door.runtime.instance.store.asks(session) == []
    assert not (house.folder / "ran").exists()


async def test_an_abort_between_two_steps_leaves_no_answer_without_an_end(house: Machine) -> None:
    house.says('== turn\ntool: bash {"command": "true"}\n\n== turn\ntext: never\n\n== turn\ntext: after\n')
    door = await house.open()
    session = await door.session()
    aborting: list[asyncio.Task] = []

    def second_begins(event) -> None:
        if trace([event]) == ["status busy"] and trace(door.heard).count("status busy") == 2 and not aborting:
            aborting.append(asyncio.create_task(door.client.abort(session)))

    door.runtime.instance.bus.observe(second_begins)
    await door.start(session, "go")
    await door.idle(session)
    assert await aborting[0]
    assert all(answer_of(message).time.completed for message in (await door.stored(session))[1:])
    assert (await door.live(session)).history == await door.stored(session)
    assert answer_of(await door.ask(session, "next")).error is None


async def test_a_second_abort_waits_for_the_first_and_spoils_nothing(house: Machine) -> None:
    house.says("== turn\ntool: slow\n")
    door = await house.open()
    session = await door.session()
    began, ending, release = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(args: Any, ctx: ToolContext) -> str:
        ctx.metadata(metadata={"output": "half"})
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await release.wait()
        return ""

    door.plugin({"tool": {"slow": Tool("Ends slowly.", {"type": "object", "properties": {}}, slow)}})
    await door.start(session, "go")
    await began.wait()
    first = asyncio.create_task(door.client.abort(session))
    await ending.wait()
    others = [asyncio.create_task(door.client.abort(session)) for _ in range(3)]
    for _ in range(5):
        await asyncio.sleep(0)
    release.set()
    assert await asyncio.gather(first, *others) == [True] * 4
    answer = (await door.stored(session))[1]
    state = calls_of(answer)[0].state
    assert isinstance(state, ToolCompleted)
    assert state.output.startswith("half")
    assert answer_of(answer).time.completed


async def test_a_prompt_that_comes_during_an_abort_is_answered(house: Machine) -> None:
    house.says(SLEEP)
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    await shown(door)
    aborting = asyncio.create_task(door.client.abort(session))
    await asyncio.sleep(0)
    assert said(await door.ask(session, "next")) == "next it is"
    assert await aborting


async def test_a_session_works_after_a_turn_that_broke_down(house: Machine) -> None:
    """Not a step that fails, but the loop itself: here the agent of a message is not there any more."""
    house.says(ECHO)
    house.settings(agent={"passing": {}})
    door = await house.open()
    session = await door.session()
    agents = door.runtime.instance.agents._agents
    await door.ask(session, "first")
    await door.start(session, "broken", agent="passing")
    del agents["passing"]
    await door.idle(session)
    (failure,) = door.of("session.error")
    assert failure.error.data.message.startswith("UnknownAgent")
    assert said(await door.ask(session, "works", agent="build")) == "works"


async def test_closing_the_runtime_ends_its_turns(house: Machine) -> None:
    house.says(SLEEP)
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    await shown(door)
    pid = int((house.folder / "pid").read_text())
    await door.runtime.close()
    assert gone(pid)
    again = await house.open()
    assert isinstance(answer_of((await again.stored(session))[1]).error, MessageAbortedError)


# -- prompts that come while a turn runs -------------------------------------------------------------


async def test_a_prompt_while_busy_is_stored_at_once_and_both_get_the_last_answer(house: Machine) -> None:
    house.says("""
        == turn
        tool: bash {"command": "until [ -e go ]; do sleep 0.01; done; echo went"}

        == turn
        expect: second
        text: both done
    """)
    door = await house.open()
    session = await door.session()
    first = asyncio.create_task(door.ask(session, "first"))
    await door.running()
    second = asyncio.create_task(door.ask(session, "second"))
    await door.until(lambda event: trace([event]) == ["part text second"])
    assert users(await door.stored(session)) == ["first", "second"]
    (house.folder / "go").touch()
    one, two = await asyncio.gather(first, second)
    assert one == two
    assert said(one) == "both done"
    asked = [message for message in await door.stored(session) if isinstance(message.info, User)]
    assert answer_of(one).parent_id == asked[1].info.id


async def test_what_a_plugin_says_at_the_end_of_a_turn_is_not_the_answer_to_it(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()

    async def turn_end(given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        parts = PromptBody.text("Remember the milk.").parts
        await door.client.prompt(session, PromptBody(parts=parts, no_reply=True))

    door.plugin({"turn.end": turn_end})
    assert said(await door.ask(session, "first")) == "first"
    assert users(await door.stored(session)) == ["first", "Remember the milk."]


async def test_a_prompt_that_comes_while_plugins_end_the_turn_is_answered(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()

    async def turn_end(given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        if said(given) == "first":  # type: ignore[arg-type]
            await door.start(session, "late")

    door.plugin({"turn.end": turn_end})
    assert said(await door.ask(session, "first")) == "late"
    assert users(await door.stored(session)) == ["first", "late"]


@pytest.mark.parametrize("seed", range(4))
async def test_of_many_prompts_at_odd_moments_none_is_left_unanswered(house: Machine, seed: int) -> None:
    """The last answer must answer the last prompt, whenever the prompts came."""
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    moments = random.Random(seed)

    async def prompt(number: int) -> None:
        for _ in range(moments.randrange(12)):
            await asyncio.sleep(0)
        await door.ask(session, f"prompt {number}")

    for start in range(0, 50, 10):
        await asyncio.gather(*(prompt(number) for number in range(start, start + 10)))
        history = await door.stored(session)
        asked = [message.info.id for message in history if isinstance(message.info, User)]
        assert answer_of(history[-1]).parent_id == asked[-1]
    assert len(users(await door.stored(session))) == 50
    assert (await door.live(session)).turn is None
    assert await door.runtime.instance.store.holder(session) is None


async def test_sessions_run_side_by_side(house: Machine) -> None:
    house.says("""
        == turn
        tool: bash {"command": "touch {{user}}; until [ -e a ] && [ -e b ]; do sleep 0.01; done"}

        == turn
        text: {{user}} met the other
    """)
    door = await house.open()
    one, two = await door.session(), await door.session()
    answers = await asyncio.gather(door.ask(one, "a"), door.ask(two, "b"))
    assert [said(answer) for answer in answers] == ["a met the other", "b met the other"]
