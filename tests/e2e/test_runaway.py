"""What runs away stops within its limit, at most one model call over: requests are counted where the model stands."""

import asyncio
import contextlib
import json
import time
from typing import Any

import pytest
from tests.loopback import Loopback, calls, hang, status, text
from tests.waiting import SOON

from instar.limits.budget import DAY
from instar.message import MessageAbortedError, Origin, Tokens, error_text
from instar.plugin import Invalid, PromptBody, points
from instar.store import PutUsage, Usage
from instar.testing import TIMEOUT, Machine, RuntimeUnderTest, answer_of

pytest_plugins = ["tests.turn", "tests.loopback"]

BEAT = "heartbeat"


async def opened(house: Machine, loopback: Loopback, **limits: Any) -> RuntimeUnderTest:
    house.settings(provider=loopback.settings, limits=limits)
    return await house.open(model="local/m")


async def reached(door: RuntimeUnderTest, limit: str) -> Any:
    """Wait until a limit is said to be reached."""
    event = await door.until(
        lambda event: event.type == "session.limit" and event.properties.limit == limit  # type: ignore[attr-defined]
    )
    return event.properties


async def settled(door: RuntimeUnderTest) -> None:
    """Wait until nothing runs any more, also what events set off."""
    quiet = 0
    while quiet < 5:
        await asyncio.sleep(0.01)
        quiet = 0 if await door.client.status() else quiet + 1


def loops(number: int, body: dict[str, Any]) -> Any:
    """A model that never has enough of a tool."""
    return calls(("bash", {"command": f"echo {number}"}))


def prompts_itself(door: RuntimeUnderTest, session: str) -> None:
    """A plugin that answers each end of a turn with a prompt of its own."""
    client = door.runtime.plugin_input(door.runtime.settings)("echo").client

    def soon(happened: Any) -> None:
        if happened.type == "session.idle" and happened.properties.session_id == session:
            task = asyncio.get_running_loop().create_task(_again(client, session))
            TASKS.add(task)
            task.add_done_callback(TASKS.discard)

    door.runtime.instance.bus.observe(soon)


TASKS: set[asyncio.Task[None]] = set()


async def _again(client: Any, session: str) -> None:
    with contextlib.suppress(Invalid):
        await client.session.prompt_async(session, PromptBody.text("and on", synthetic=True))


# -- loops -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "most", "limit"),
    [
        ({"steps": 4}, 4, "limits.steps"),
        ({"calls": 5}, 5, "limits.calls"),
        ({"session": {"tokens": 500}}, 5, "limits.session.tokens"),
        ({"session": {"cost": 0.25}}, 3, "limits.session.cost"),
        ({"day": {"tokens": 130}}, 2, "limits.day.tokens"),
        ({"cause": {"turn": {"tokens": 130}}}, 2, "limits.cause.turn.tokens"),
        ({"cause": {"person": {"tokens": 130}}}, 2, "limits.cause.person.tokens"),
    ],
    ids=str,
)
async def test_a_model_that_loops_on_a_tool_stops(
    house: Machine, loopback: Loopback, limits: dict[str, Any], most: int, limit: str
) -> None:
    loopback.answer = loops
    door = await opened(house, loopback, **limits)
    session = await door.session()
    await door.ask(session, "go")
    said = await reached(door, limit)
    assert len(loopback.asked) == most
    assert limit.rpartition(".")[0] in said.message
    assert "raise" in said.message


SILENT = {
    "@ai-sdk/openai-compatible": [
        {
            "choices": [
                {
                    "delta": {
                        "tool_calls": [
                            {"index": 0, "id": "c", "function": {"name": "bash", "arguments": "{}"}}
                        ]
                    },
                    "finish_reason": "tool_calls",
                }
            ]
        }
    ],
    "@ai-sdk/anthropic": [
        {"type": "message_start", "message": {}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "c", "name": "bash", "input": {}},
        },
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ],
}
"""Answers that ask for a tool and do not say what they used."""


@pytest.mark.parametrize("npm", SILENT)
@pytest.mark.parametrize("limit", [{"tokens": 60_000}, {"cost": 60.0}], ids=["tokens", "cost"])
async def test_a_server_that_does_not_say_what_a_call_used_is_held_by_what_was_sent(
    house: Machine, loopback: Loopback, limit: dict[str, float], npm: str
) -> None:
    loopback.answer = lambda number, body: SILENT[npm]
    provider = {"local": {**loopback.settings["local"], "npm": npm}}
    house.settings(provider=provider, limits={"session": limit}, permission={"*": "allow"})
    door = await house.open(model="local/m")
    session = await door.session()
    await door.ask(session, "go " + "x" * 20_000)
    await reached(door, f"limits.session.{next(iter(limit))}")
    sent = sum(len(json.dumps(body)) for body in loopback.asked) // 4
    booked = await door.runtime.instance.store.usage()
    assert len(loopback.asked) == len(booked) < 12
    assert 0.9 * sent < sum(one.tokens.input for one in booked) < 1.1 * sent
    assert all(one.tokens.output for one in booked)


async def test_a_hook_that_always_continues_stops(house: Machine, loopback: Loopback) -> None:
    door = await opened(house, loopback, calls=5)

    async def go_on(given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        for source in ("one", "other", "person"):
            output.follow_ups.append(
                {"source": f"{source}", "prompt": {"parts": [{"type": "text", "text": "on"}]}}
            )

    door.plugin({"turn.end": go_on})
    session = await door.session()
    await door.start(session, "go")
    await reached(door, "limits.calls")
    await settled(door)
    assert len(loopback.asked) == 5


async def test_a_hook_that_calls_itself_a_person_has_a_cap(house: Machine, loopback: Loopback) -> None:
    door = await opened(house, loopback)

    async def go_on(given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        output.follow_ups.append({"source": "person", "prompt": {"parts": [{"type": "text", "text": "on"}]}})

    door.plugin({"turn.end": go_on})
    await door.start(await door.session(), "go")
    await reached(door, "follow_ups")
    await settled(door)
    assert len(loopback.asked) == 9


@pytest.mark.slow
async def test_a_plugin_that_prompts_itself_stops_until_a_person_speaks(
    house: Machine, loopback: Loopback
) -> None:
    door = await opened(house, loopback, calls=6)
    session = await door.session()
    prompts_itself(door, session)
    await door.start(session, "go")
    await reached(door, "limits.calls")
    await settled(door)
    assert len(loopback.asked) == 7, "one for the person, six of the plugin's own"
    assert len(await door.stored(session)) == 2 * 7, "what may not be answered is not stored either"
    await door.start(session, "I am here")
    await door.until(lambda event: door.of("session.limit")[1:] != [])
    await settled(door)
    assert len(loopback.asked) == 14


@pytest.mark.slow
async def test_sub_agents_spend_against_the_limit_of_their_root(house: Machine, loopback: Loopback) -> None:
    task = {"description": "d", "prompt": "dig", "subagent_type": "general"}

    def answer(number: int, body: dict[str, Any]) -> Any:
        return calls(*[("task", task)] * 6) if number == 1 else loops(number, body)

    loopback.answer, loopback.slow = answer, 0.002
    door = await opened(house, loopback, session={"tokens": 1000})
    session = await door.session()
    await door.ask(session, "go")
    booked = await door.runtime.instance.store.usage()
    used = sum(one.tokens.input + one.tokens.output for one in booked)
    assert 1000 <= used < 1000 + 120
    assert len(booked) == len(loopback.asked)
    assert {one.root_id for one in booked} == {session}
    assert {one.cause for one in booked} == {"turn", "task"}


@pytest.mark.slow
async def test_at_most_one_call_goes_over_with_32_sessions_at_once(
    house: Machine, loopback: Loopback
) -> None:
    """A call may fill a window of 33,000 tokens: so two are under way together until the limit comes near."""
    limit, each = 70_000, 2_000
    loopback.answer = lambda number, body: calls(("bash", {"command": f"echo {number}"}), tokens=(each, 0))
    loopback.slow = 0.001
    door = await opened(house, loopback, day={"tokens": limit})
    sessions = [await door.session() for _ in range(32)]
    await asyncio.gather(*(door.start(one, "go") for one in sessions))
    await asyncio.gather(*(door.idle(one) for one in sessions))
    used = sum(one.tokens.input for one in await door.runtime.instance.store.usage())
    assert limit <= used < limit + each
    assert used == each * len(loopback.asked)
    assert loopback.most >= 2
    assert len(door.of("session.limit")) == 32


# -- refusals ----------------------------------------------------------------------------------------


async def test_a_storm_of_401_stops_what_nobody_asked_for(house: Machine, loopback: Loopback) -> None:
    loopback.answer = lambda number, body: status(401)
    door = await opened(house, loopback)
    for number in range(9):
        session = await door.session()
        await door.client.prompt(session, PromptBody.text("beat"), Origin(BEAT, str(number)))
    assert len(loopback.asked) == 3
    said = await reached(door, "limits.failures")
    assert "local refused 3 calls in a row" in said.message
    assert "key" in said.message
    asked = await door.ask(session, "a person asks")
    assert len(loopback.asked) == 4, "a person's call is always made, once"
    assert answer_of(asked).error is not None


async def test_an_answer_to_a_person_ends_the_pause(house: Machine, loopback: Loopback) -> None:
    loopback.answer = lambda number, body: status(403) if number <= 2 else text("well")
    door = await opened(house, loopback, failures=2)
    session = await door.session()
    for number in range(4):
        await door.client.prompt(session, PromptBody.text("beat"), Origin(BEAT, str(number)))
    assert len(loopback.asked) == 2
    await door.ask(session, "hello?")
    answer = await door.client.prompt(session, PromptBody.text("beat"), Origin(BEAT, "9"))
    assert answer_of(answer).error is None
    assert len(loopback.asked) == 4


@pytest.mark.slow
async def test_a_storm_of_429_stops_what_nobody_asked_for(house: Machine, loopback: Loopback) -> None:
    loopback.answer = lambda number, body: status(429, retry_after="0")
    door = await opened(house, loopback, failures=2)
    session = await door.session()
    for number in range(5):
        await door.client.prompt(session, PromptBody.text("beat"), Origin(BEAT, str(number)))
    assert len(loopback.asked) == 2 * 6, "each of two turns made one call and five retries"


# -- time --------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_stream_that_hangs_ends_with_the_minutes_of_its_turn(
    house: Machine, loopback: Loopback
) -> None:
    loopback.answer = lambda number, body: hang()
    door = await opened(house, loopback, turn={"minutes": 0.05})
    session = await door.session()
    began = time.monotonic()
    answer = answer_of(await door.ask(session, "go"))
    assert 3 <= time.monotonic() - began < 3 + SOON
    assert isinstance(answer.error, MessageAbortedError)
    assert "limits.turn.minutes" in error_text(answer.error)
    assert (await reached(door, "limits.turn.minutes")).session_id == session
    while loopback.open:
        await asyncio.sleep(0.005)
    assert len(loopback.asked) == 1


@pytest.mark.slow
async def test_a_tool_that_hangs_ends_with_the_minutes_of_its_turn(
    house: Machine, loopback: Loopback
) -> None:
    loopback.answer = lambda number, body: calls(("bash", {"command": "sleep 60"}))
    door = await opened(house, loopback, turn={"minutes": 0.01})
    began = time.monotonic()
    await door.ask(await door.session(), "go")
    assert time.monotonic() - began < SOON
    await reached(door, "limits.turn.minutes")


async def test_a_clock_that_is_set_back_frees_no_limit(house: Machine, loopback: Loopback) -> None:
    door = await opened(house, loopback, day={"tokens": 100})
    later = int(time.time() * 1000) + 10 * DAY
    used = Usage("", None, "turn", "local", "m", Tokens.zero(), 0.0, later)
    used.tokens.input = 100
    await door.runtime.instance.store.commit([PutUsage(used)])
    session = await door.session()
    await door.start(session, "go")
    said = await reached(door, "limits.day.tokens")
    assert loopback.asked == []
    assert "100 tokens were used" in said.message


# -- heartbeats --------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_heartbeat_that_reached_its_limit_stops_alone(house: Machine, loopback: Loopback) -> None:
    loopback.answer = loops
    door = await opened(house, loopback, heartbeat={"tokens": 200}, steps=3)
    beats, person = await door.session(), await door.session()
    for number, most in ((1, 2), (2, 4)):
        await door.client.prompt(beats, PromptBody.text("beat"), Origin(BEAT, str(number)))
        assert len(loopback.asked) == most
    said = await reached(door, "limits.heartbeat.tokens")
    assert (said.session_id, said.cause) == (beats, "turn")
    await asyncio.wait_for(door.client.prompt(person, PromptBody.text("go")), TIMEOUT)
    assert len(loopback.asked) == 7
    booked = await door.runtime.instance.store.usage(beats)
    assert [(one.origin, one.origin_id, one.agent) for one in booked] == [
        (BEAT, number, "build") for number in "1122"
    ]
