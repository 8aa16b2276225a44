"""The budget: who waits for whom, what is given back, and what is counted together."""

import asyncio
import time
from typing import Any

import pytest
from tests.loopback import Loopback, hang, status, text
from tests.waiting import SOON, until

from instar.limits.budget import FIRST, LONGEST, Breaker, count_failure, pause_left, tried
from instar.message import CacheTokens, Origin, Tokens
from instar.plugin import PromptBody, points
from instar.store import PutUsage, Usage
from instar.testing import TIMEOUT, Machine, RuntimeUnderTest, answer_of, said

pytest_plugins = ["tests.turn", "tests.loopback"]

NEAR = {"day": {"tokens": 20_000}}
"""A call may come to 33,000 tokens (`Loopback.settings`): each waits for the one before it."""


async def opened(house: Machine, loopback: Loopback, **limits: Any) -> RuntimeUnderTest:
    house.settings(provider=loopback.settings, limits=limits)
    return await house.open(model="local/m")


def judging(door: RuntimeUnderTest, hook: str, heard: list[str]) -> None:
    """A plugin that asks a model in a hook on the answer's text."""
    client = door.runtime.plugin_input(door.runtime.settings)("judge").client

    async def judge(given: Any, output: Any) -> None:
        try:
            heard.append((await client.generate(system=[], prompt="well?", cause="judge")).text)
        except Exception as error:
            heard.append(str(error))

    door.plugin({hook: judge})


async def test_a_hook_on_a_call_under_way_that_asks_a_model_does_not_wait_for_that_call(
    house: Machine, loopback: Loopback
) -> None:
    """It would wait for ever: the call waits for the hook. Both may not go over, so the inner one is refused."""
    door = await opened(house, loopback, **NEAR)
    heard: list[str] = []
    judging(door, "experimental.text.complete", heard)
    answer = await asyncio.wait_for(
        door.client.prompt(await door.session(), PromptBody.text("go")), TIMEOUT / 2
    )
    assert said(answer) == "hello"
    assert len(loopback.asked) == 1
    assert "limits.day may be reached" in heard[0]


async def test_a_hook_on_a_call_under_way_may_ask_a_model_where_no_limit_is_near(
    house: Machine, loopback: Loopback
) -> None:
    door = await opened(house, loopback, day={"tokens": 1_000_000})
    heard: list[str] = []
    judging(door, "experimental.text.complete", heard)
    await door.ask(await door.session(), "go")
    assert heard == ["hello"]


@pytest.mark.slow
async def test_a_hook_after_the_call_may_ask_a_model_near_a_limit(house: Machine, loopback: Loopback) -> None:
    door = await opened(house, loopback, **NEAR)
    heard: list[str] = []
    judging(door, points.MESSAGE_COMPLETED.name, heard)
    await door.ask(await door.session(), "go")
    assert heard == ["hello"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["aborted", "refused"])
async def test_a_call_that_ended_badly_keeps_nobody_waiting(
    house: Machine, loopback: Loopback, how: str
) -> None:
    answers = {"aborted": hang(), "refused": status(400)}
    loopback.answer = lambda number, body: answers[how] if number == 1 else text("well")
    door = await opened(house, loopback, **NEAR)
    first, second = await door.session(), await door.session()
    await door.start(first, "go")
    if how == "aborted":
        await door.until(lambda event: event.type == "message.part.delta")
    # Which of two turns calls first is not said by which was begun first.
    await until(lambda: loopback.asked)
    await door.start(second, "go")
    if how == "aborted":
        await door.client.abort(first)
    await door.idle(second)
    assert said((await door.stored(second))[-1]) == "well"


async def test_a_call_that_will_be_tried_again_keeps_nobody_waiting_meanwhile(
    house: Machine, loopback: Loopback
) -> None:
    loopback.answer = lambda number, body: status(429, retry_after="60") if number == 1 else text("well")
    door = await opened(house, loopback, **NEAR)
    first, second = await door.session(), await door.session()
    await door.start(first, "go")
    await door.until(
        lambda event: event.type == "session.status" and event.properties.status.type == "retry"  # type: ignore[attr-defined]
    )
    assert said(await door.ask(second, "go")) == "well"
    await door.client.abort(first)


async def test_a_call_that_waits_for_another_can_be_aborted(house: Machine, loopback: Loopback) -> None:
    loopback.answer = lambda number, body: hang()
    door = await opened(house, loopback, **NEAR)
    first, second = await door.session(), await door.session()
    await door.start(first, "go")
    await door.until(lambda event: event.type == "message.part.delta")
    await door.start(second, "go")
    await door.until(lambda event: len(door.of("message.updated")) >= 4)
    await asyncio.wait_for(door.client.abort(second), SOON)
    assert len(loopback.asked) == 1
    await door.client.abort(first)


@pytest.mark.slow
async def test_two_runtimes_of_one_process_spend_from_one_budget(house: Machine, loopback: Loopback) -> None:
    loopback.answer = lambda number, body: text("well", tokens=(12_000, 0))
    loopback.slow = 0.05
    doors = [await opened(house, loopback, **NEAR) for _ in range(4)]
    sessions = [await door.session() for door in doors]
    await asyncio.gather(*(door.start(one, "go") for door, one in zip(doors, sessions, strict=True)))
    await asyncio.gather(*(door.idle(one) for door, one in zip(doors, sessions, strict=True)))
    assert len(loopback.asked) == 2, "one up to 12,000 of 20,000 tokens, one over, none after it"


async def test_a_pause_is_not_used_up_by_a_call_that_a_limit_forbids(
    house: Machine, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what may call would wait once more for one that was never made."""
    monkeypatch.setattr("instar.limits.budget.FIRST", 0.2)
    loopback.answer = lambda number, body: status(401) if number == 1 else text("well")
    door = await opened(house, loopback, failures=1, cause={"action": {"tokens": 1}})
    session = await door.session()
    await door.client.prompt(session, PromptBody.text("beat"), Origin("heartbeat", "1"))
    monkeypatch.setattr("instar.limits.budget.FIRST", 300.0)
    await asyncio.sleep(0.25)
    tokens = Tokens(input=5, output=0, reasoning=0, cache=CacheTokens(read=0, write=0))
    spent = Usage("", None, "turn", "local", "m", tokens, 0.0, int(time.time() * 1000), origin="action")
    await door.runtime.instance.store.commit([PutUsage(spent)])
    await door.client.prompt(session, PromptBody.text("act"), Origin("action", "1"))
    assert len(loopback.asked) == 1
    answer = await door.client.prompt(session, PromptBody.text("beat"), Origin("heartbeat", "2"))
    assert answer_of(answer).error is None
    assert len(loopback.asked) == 2


def after(failures: int, most: int = 3, now: float = 0.0) -> Breaker:
    state = Breaker()
    for _ in range(failures):
        state = count_failure(state, now, most)
    return state


@pytest.mark.parametrize(
    ("failures", "pause"),
    [(0, 0), (1, 0), (2, 0), (3, FIRST), (4, 2 * FIRST), (5, 4 * FIRST), (99, LONGEST), (5000, LONGEST)],
)
def test_a_pause_begins_with_the_last_failure_in_a_row_and_doubles(failures: int, pause: float) -> None:
    assert pause_left(after(failures), 0.0) == pause


def test_after_a_pause_one_call_is_tried_and_the_others_wait() -> None:
    state = after(3)
    assert pause_left(state, FIRST - 1) == 1
    assert pause_left(state, FIRST) == 0
    trying = tried(state, FIRST)
    assert pause_left(trying, FIRST + 1) > 0
    again = count_failure(trying, FIRST + 2, 3)
    assert pause_left(again, FIRST + 2) == 2 * FIRST


def test_nothing_is_tried_where_nothing_failed() -> None:
    assert tried(Breaker(), 5.0) == Breaker()
    assert count_failure(Breaker(), 0.0, 1).pauses == 1
