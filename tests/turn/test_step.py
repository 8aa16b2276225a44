"""One step: the parts it writes, what it does when the provider fails, and the limits it is held to."""

import time
from typing import Any

import pytest
from tests.loopback import Loopback, status, text
from tests.turn import TRAILING, trace
from tests.waiting import SOON

from instar.event import TYPES, Retry
from instar.message import APIError, ContentFilterError, ProviderAuthError, RetryPart, UnknownError
from instar.plugin import points
from instar.testing import Machine, answer_of, results, said

pytest_plugins = ["tests.turn", "tests.loopback"]


async def test_a_turn_with_one_tool_call_leaves_these_parts_and_these_events(house: Machine) -> None:
    """As opencode publishes them."""
    house.says("""
        == turn
        reasoning: I should look.
        tool: read {"filePath": "a.txt"}
        usage: input=10 output=4 reasoning=2 cache_read=3

        == turn
        text: It says hello.
        chunk: 8
        usage: input=20 output=6
    """)
    (house.folder / "a.txt").write_text("hello")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "what does a.txt say?")
    heard = [event for event in door.heard if hasattr(event.properties, "session_id")]
    assert trace(heard) == [
        "session.created",
        "session.updated",
        "message user",
        "part text what does a.txt say?",
        "session.updated",
        "status busy",
        "message assistant",
        "status busy",
        "part step-start",
        "part reasoning ",
        "delta I should look.",
        "part reasoning I should look.",
        "part tool pending",
        "part tool running",
        "part tool completed",
        "part step-finish tool-calls",
        "message assistant tool-calls",
        "message assistant tool-calls",
        "session.updated",
        "status busy",
        "message assistant",
        "status busy",
        "part step-start",
        "part text ",
        "delta It says ",
        "delta hello.",
        "part text It says hello.",
        "part step-finish stop",
        "message assistant stop",
        "message assistant stop",
        "session.updated",
        "status busy",
        "status idle",
        "session.idle",
        *TRAILING,
    ]
    user, first, second = await door.stored(session)
    assert [part.__struct_config__.tag for part in user.parts] == ["text"]
    assert [part.__struct_config__.tag for part in first.parts] == [
        *("step-start", "reasoning", "tool", "step-finish"),
    ]
    assert [part.__struct_config__.tag for part in second.parts] == ["step-start", "text", "step-finish"]
    one, two = answer_of(first), answer_of(second)
    assert one.parent_id == two.parent_id == user.info.id
    assert (one.finish, two.finish) == ("tool-calls", "stop")
    assert (one.mode, one.agent, one.provider_id, one.model_id) == ("build", "build", "scripted", "x")
    assert (one.path.cwd, one.path.root) == (str(house.folder), "/")
    assert all(
        answer.time.completed and answer.time.completed >= answer.time.created for answer in (one, two)
    )
    total = (await door.live(session)).session.tokens
    assert (total.input, total.output, total.reasoning, total.cache.read) == (30, 10, 2, 3)
    stored = await door.runtime.instance.store.session(session)
    assert stored is not None
    assert stored.tokens == total


async def test_events_of_a_turn_are_also_numbered_rows(house: Machine) -> None:
    house.says("== turn\ntext: hi\n")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "hello")
    rows = await door.runtime.instance.store.events_since(session, 0)
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    kept = [event for event in door.heard if TYPES[event.type].version is not None]
    assert [row.event_id for row in rows] == [event.id for event in kept]
    assert {row.type for row in rows} == {
        *("session.created.1", "session.updated.1", "message.updated.1", "message.part.updated.1"),
    }


async def test_the_parts_of_an_answer_are_stored_before_their_events_are_heard(house: Machine) -> None:
    house.says("== turn\ntext: hi\n")
    door = await house.open()
    session = await door.session()
    missing = []
    with door.runtime.instance.bus.subscribe() as subscription:
        await door.start(session, "hello")
        while (event := await subscription.get()) is not None and event.type != "session.idle":
            if event.type == "message.part.updated":
                stored = {part.id for message in await door.stored(session) for part in message.parts}
                missing += [event] if event.properties.part.id not in stored else []  # type: ignore[attr-defined]
    assert not missing


async def test_a_call_that_fails_for_a_while_is_tried_again_and_leaves_no_half_parts(house: Machine) -> None:
    house.says("""
        == turn
        text: half of it
        error: 429 slow down retry-after=0 times=2
        text: , and the rest

        == turn
        text: next it is
    """)
    door = await house.open()
    session = await door.session()
    answer = await door.ask(session, "go")
    assert said(answer) == "half of it, and the rest"
    tries = [
        given.status for given in door.of("session.status") if given.status.__struct_config__.tag == "retry"
    ]
    assert [status.attempt for status in tries] == [1, 2]
    assert all("429 slow down" in status.message for status in tries)
    assert all(status.next <= time.time() * 1000 for status in tries)
    stored = (await door.stored(session))[1]
    assert [part.__struct_config__.tag for part in stored.parts].count("step-start") == 1
    removed = {given.part_id for given in door.of("message.part.removed")}
    assert len(removed) == 4
    retries = [part for part in stored.parts if isinstance(part, RetryPart)]
    assert [part.attempt for part in retries] == [1, 2]
    assert all("slow down" in part.error.data.message and part.error.data.is_retryable for part in retries)
    await door.ask(session, "next")
    assert "slow down" not in str(house.requests()[-1]["messages"])
    assert not removed & {part.id for part in stored.parts}


async def test_a_call_that_had_begun_to_ask_for_tools_is_taken_back_before_it_is_tried_again(
    house: Machine,
) -> None:
    house.says("""
        == turn
        tool: bash {"command": "echo ran >> ran.txt"}
        error: network the line broke retry-after=0 times=1
        tool: bash {"command": "echo again >> ran.txt"}

        == turn
        text: done
    """)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    assert sorted((house.folder / "ran.txt").read_text().split()) == ["again", "ran"]
    assert len(results(await door.stored(session))) == 2


async def test_a_provider_that_asks_for_a_day_is_told_and_gets_what_the_settings_allow(
    house: Machine, loopback: Loopback
) -> None:
    loopback.answer = lambda number, body: status(429, retry_after="86400") if number == 1 else text("well")
    house.settings(provider=loopback.settings, provider_retry_wait_seconds=0)
    door = await house.open(model="local/m")
    session = await door.session()
    assert answer_of(await door.ask(session, "go")).error is None
    (told,) = (one.status.message for one in door.of("session.status") if isinstance(one.status, Retry))
    assert "asks to wait 86400 s, and provider_retry_wait_seconds allows 0 s" in told


async def test_a_wait_that_the_provider_asks_for_is_kept_to_and_an_abort_ends_it(house: Machine) -> None:
    house.says("== turn\nerror: 429 slow down retry-after=90\n")
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    event = await door.until(lambda event: trace([event]) == ["status retry"])
    assert event.properties.status.next > time.time() * 1000 + 80_000  # type: ignore[attr-defined]
    started = time.monotonic()
    assert await door.client.abort(session)
    assert time.monotonic() - started < SOON
    assert (await door.client.status()) == {}


async def test_a_wait_that_nobody_asked_for_begins_at_two_seconds(house: Machine) -> None:
    house.says("== turn\nerror: 500 oops\n")
    door = await house.open()
    session = await door.session()
    began = time.time() * 1000
    await door.start(session, "go")
    event = await door.until(lambda event: trace([event]) == ["status retry"])
    again = event.properties.status.next  # type: ignore[attr-defined]
    assert again > began + 1500
    assert again - time.time() * 1000 <= 2500
    await door.client.abort(session)


async def test_after_five_retries_the_error_stands_in_the_answer(house: Machine) -> None:
    house.says("== turn\nerror: 503 overloaded retry-after=0\n")
    door = await house.open()
    session = await door.session()
    answer = answer_of(await door.ask(session, "go"))
    assert isinstance(answer.error, APIError)
    assert answer.error.data.status_code == 503
    assert answer.error.data.is_retryable
    assert len(house.requests()) == 6


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("error: 400 no such parameter", APIError),
        ("error: auth the key is refused", ProviderAuthError),
        ("error: filter not that", ContentFilterError),
    ],
)
async def test_an_error_that_will_not_pass_ends_the_turn_at_once(
    house: Machine, line: str, kind: type
) -> None:
    house.says(f"== turn\ntext: so far\n{line}\n")
    door = await house.open()
    session = await door.session()
    answer = await door.ask(session, "go")
    info = answer_of(answer)
    assert isinstance(info.error, kind)
    assert info.time.completed
    assert said(answer) == "so far"
    assert trace(door.heard)[-7:] == [
        *(f"message assistant {kind.__name__}", "session.error", "status idle", "session.idle"),
        *TRAILING,
    ]
    assert door.of("session.error")[0].error == info.error
    assert len(house.requests()) == 1


async def test_a_session_works_after_a_failed_answer(house: Machine) -> None:
    house.says("== turn\nerror: 400 broken times=1\ntext: fine again\n")
    door = await house.open()
    session = await door.session()
    assert answer_of(await door.ask(session, "one")).error is not None
    assert said(await door.ask(session, "two")) == "fine again"


async def test_a_calls_part_that_was_begun_when_the_provider_failed_is_closed(house: Machine) -> None:
    house.says('== turn\ntool: bash {"command": "touch ran"}\nerror: 400 broken\n')
    door = await house.open()
    session = await door.session()
    assert answer_of(await door.ask(session, "go")).error is not None
    assert results(await door.stored(session)) == ["Tool execution aborted"]
    assert not (house.folder / "ran").exists()


async def test_a_mistake_of_ours_is_an_error_in_the_answer_without_a_traceback(house: Machine) -> None:
    house.says("== turn\ntext: hi\n")
    door = await house.open()

    class Broken(dict[str, Any]):
        def __bool__(self) -> bool:
            raise TypeError("nobody thought of this")

    door.plugin({"tool": Broken()})
    answer = answer_of(await door.ask(await door.session(), "go"))
    assert isinstance(answer.error, UnknownError)
    assert answer.error.data.message.startswith("TypeError: ")
    assert "Traceback" not in answer.error.data.message


async def test_an_answer_that_says_it_is_waiting_for_tools_and_asks_none_is_final(house: Machine) -> None:
    house.says("== turn\ntext: hm\nfinish: tool-calls\n")
    door = await house.open()
    answer = await door.ask(await door.session(), "go")
    assert answer_of(answer).finish == "stop"


async def test_an_answer_that_stopped_and_asks_for_tools_goes_on(house: Machine) -> None:
    house.says('== turn\ntool: bash {"command": "echo x"}\nfinish: stop\n\n== turn\ntext: done\n')
    door = await house.open()
    assert said(await door.ask(await door.session(), "go")) == "done"


async def test_plugins_are_told_of_each_answer_and_cannot_change_it(house: Machine) -> None:
    house.says('== turn\ntool: bash {"command": "echo x"}\n\n== turn\ntext: done\n')
    door = await house.open()
    seen = []

    async def completed(given: points.CompletedInput, output: points.Empty) -> None:
        seen.append((given.message.finish, [part.__struct_config__.tag for part in given.parts]))
        given.parts.clear()
        given.message.finish = "changed"

    door.plugin({"message.completed": completed})
    session = await door.session()
    await door.ask(session, "go")
    assert seen == [
        ("tool-calls", ["step-start", "tool", "step-finish"]),
        ("stop", ["step-start", "text", "step-finish"]),
    ]
    assert [message.parts != [] for message in (await door.live(session)).history] == [True] * 3


async def test_a_price_makes_a_cost_of_the_step_the_answer_and_the_session(house: Machine) -> None:
    house.says("== turn\ntext: hi\nusage: input=1000000 output=100000\n")
    cost = {"input": 2.0, "output": 10.0}
    house.settings(provider={"scripted": {"models": {"x": {"cost": cost, "limit": {"context": 9000000}}}}})
    door = await house.open()
    session = await door.session()
    answer = await door.ask(session, "go")
    assert answer_of(answer).cost == pytest.approx(3.0)
    assert answer.parts[-1].cost == pytest.approx(3.0)  # type: ignore[union-attr]
    assert (await door.client.get(session)).cost == pytest.approx(3.0)
