"""Events to plugins: in order, each plugin at its own pace, failures named, and the older names of event types."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from instar.client.request import decode_event as decode
from instar.event import (
    AskedBy,
    Event,
    PermissionAsked,
    PluginError,
    Retry,
    SessionIdle,
    SessionStatusChanged,
    make,
)
from instar.event.bus import Bus
from instar.message import TextPart
from instar.plugin.door import EventEar
from instar.testing import TIMEOUT, Machine

pytest_plugins = ["tests.turn"]

Hook = Callable[[Event], Awaitable[None]]


def idle(number: int) -> Event:
    return make(SessionIdle(session_id=f"ses_{number}"))


class Ear:
    """A plugin that keeps what it hears; `act` does something with each event first."""

    def __init__(self, act: Hook | None = None) -> None:
        self.heard: list[Event] = []
        self._act = act

    async def __call__(self, event: Event) -> None:
        self.heard.append(event)
        if self._act is not None:
            await self._act(event)

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        async with asyncio.timeout(TIMEOUT):
            while not (found := [event for event in self.heard if wanted(event)]):
                await asyncio.sleep(0.005)
        return found[0]


@asynccontextmanager
async def forwarding(*hooks: Hook, patience: float | None = None, **limits: Any) -> AsyncIterator[Bus]:
    bus = Bus()
    ears = [
        EventEar(bus, f"plugin{number}", hook, lambda: patience, **limits)
        for number, hook in enumerate(hooks)
    ]
    task = asyncio.gather(*(ear.listen() for ear in ears))
    await asyncio.sleep(0)
    yield bus
    bus.close()
    await asyncio.wait_for(task, TIMEOUT)


async def never(event: Event) -> None:
    if event.type == "session.idle":
        await asyncio.Event().wait()


async def test_each_plugin_hears_everything_in_order_and_none_waits_for_another() -> None:
    gate = asyncio.Event()

    async def wait(event: Event) -> None:
        await gate.wait()

    slow, quick = Ear(wait), Ear()
    events = [idle(number) for number in range(5)]
    async with forwarding(slow, quick) as bus:
        for event in events:
            bus.publish(event)
        await quick.until(lambda event: event == events[-1])
        assert slow.heard == events[:1]
        gate.set()
    assert slow.heard == quick.heard == events


async def test_a_hook_that_never_returns_is_ended_and_named_and_hears_the_next_event() -> None:
    stuck, other = Ear(never), Ear()
    async with forwarding(stuck, other, patience=0.05) as bus:
        bus.publish(idle(1))
        named = await other.until(lambda event: event.type == "plugin.error")
        await stuck.until(lambda event: event.type == "plugin.error")
    assert named.properties == PluginError(
        plugin="plugin0", hook="event", message="it did not return within 0.05 s and was ended"
    )


PART = {"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1"}


@pytest.mark.parametrize(
    "properties",
    [
        {"sessionID": "ses_1", "part": {**PART, "type": "text", "text": "as it was"}, "time": 1},
        {
            "sessionID": "ses_1",
            "part": {**PART, "type": "later", "more": {"deep": [1]}},
            "time": 1,
            "new": {"x": 1},
        },
    ],
)
async def test_what_a_plugin_does_to_an_event_no_other_plugin_and_no_client_sees(properties: Any) -> None:
    event = decode({"id": "evt_1", "type": "message.part.updated", "properties": properties})

    async def spoil(heard: Any) -> None:
        heard.properties.session_id = "ses_other"
        if isinstance(heard.properties.part, TextPart):
            heard.properties.part.text = "spoilt"
        else:
            heard.properties.part.fields["more"]["deep"].append(2)
            heard.properties.leftover["new"]["x"] = 2

    spoiler, other = Ear(spoil), Ear()
    async with forwarding(spoiler, other) as bus, asyncio.timeout(TIMEOUT):
        with bus.subscribe() as client:
            bus.publish(event)
            await other.until(lambda heard: heard.type == event.type)
            seen = await client.get()
    assert seen is not None
    assert seen.to_plain()["properties"] == other.heard[0].to_plain()["properties"] == properties
    assert other.heard[0].id == "evt_1"


async def test_an_event_with_nested_fields_is_each_plugins_own() -> None:
    async def spoil(heard: Any) -> None:
        if heard.type == "session.status":
            heard.properties.status.message = "spoilt"

    status = SessionStatusChanged(session_id="ses_1", status=Retry(attempt=1, message="busy", next=2))
    spoiler, other = Ear(spoil), Ear()
    async with forwarding(spoiler, other) as bus:
        bus.publish(make(status))
    assert spoiler.heard[0].properties != status
    assert other.heard[0].properties == status


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "said"),
    [(RuntimeError("no luck"), "no luck"), (asyncio.CancelledError("x"), "it was cancelled from within")],
)
@pytest.mark.parametrize("patience", [5.0, None])
async def test_a_hook_that_raises_each_time_is_named_once_and_not_for_its_own_failure(
    error: BaseException, said: str, patience: float | None
) -> None:
    async def fail(event: Event) -> None:
        raise error

    bad, other = Ear(fail), Ear()
    async with forwarding(bad, other, patience=patience) as bus:
        for number in range(50):
            bus.publish(idle(number))
        last = idle(99)
        bus.publish(last)
        await bad.until(lambda event: event == last)
    assert [event.properties for event in other.heard if event.type == "plugin.error"] == [
        PluginError(plugin="plugin0", hook="event", message=said)
    ]


async def test_a_plugin_that_lags_too_far_behind_loses_what_waits_and_is_named() -> None:
    gate = asyncio.Event()

    async def wait(event: Event) -> None:
        await gate.wait()

    slow, other = Ear(wait), Ear()
    async with forwarding(slow, other, most_waiting=10) as bus:
        bus.publish(idle(0))
        await slow.until(lambda event: True)
        for number in range(1, 26):
            bus.publish(idle(number))
            await other.until(lambda event, number=number: event.session_id == f"ses_{number}")
        gate.set()
        named = await other.until(lambda event: event.type == "plugin.error")
    assert named.properties == PluginError(
        plugin="plugin0", hook="event", message="it was too slow: 20 events were left out"
    )
    assert [event.session_id for event in slow.heard][:6] == ["ses_0", *(f"ses_{n}" for n in range(21, 26))]


@pytest.mark.slow
async def test_a_slow_plugin_does_not_hold_a_turn_up(house: Machine) -> None:
    house.says("== turn\ntext: hello\n")
    house.plugin("""
        import asyncio

        async def slow(input, options):
            async def event(event):
                await asyncio.Event().wait()

            return {"event": event}
    """)
    door = await house.open()
    session = await door.session()
    answer = await door.ask(session, "hi")
    assert answer.parts


async def test_an_older_plugin_hears_permissions_under_their_older_names_and_clients_do_not(
    house: Machine,
) -> None:
    async def yes(question: PermissionAsked) -> Any:
        return "once"

    house.says('== turn\ntool: bash {"command": "echo hi"}\n\n== turn\ntext: done\n')
    house.settings(permission={"bash": "ask"})
    house.plugin("""
        import json

        async def witness(input, options):
            seen = []

            async def event(event):
                if event.type.startswith("permission."):
                    seen.append(event.to_plain())

            async def dispose():
                (input.directory / "seen.json").write_text(json.dumps(seen))

            return {"event": event, "dispose": dispose}
    """)
    door = await house.open(person=yes)
    session = await door.session()
    await door.ask(session, "go")
    await door.runtime.close()
    asked, updated, replied = json.loads((house.folder / "seen.json").read_text())
    given, older = asked["properties"], updated["properties"]
    assert (asked["type"], updated["type"], replied["type"]) == (
        "permission.asked",
        "permission.updated",
        "permission.replied",
    )
    assert older["time"]["created"] > 0
    assert {**older, "time": None} == {
        "id": given["id"],
        "type": "bash",
        "pattern": "echo hi",
        "sessionID": session,
        "messageID": given["tool"]["messageID"],
        "callID": given["tool"]["callID"],
        "title": "bash: echo hi",
        "metadata": given["metadata"],
        "time": None,
    }
    assert replied["properties"] == {
        "sessionID": session,
        "requestID": given["id"],
        "permissionID": given["id"],
        "reply": "once",
        "response": "once",
    }
    assert [kind for kind in door.types() if kind.startswith("permission.")] == [
        "permission.asked",
        "permission.replied",
    ]
    assert set(door.of("permission.replied")[0].__struct_fields__) == {"session_id", "request_id", "reply"}


async def test_several_patterns_stay_a_list_and_a_metadata_title_is_the_title() -> None:
    ear = Ear()
    asked = PermissionAsked(
        session_id="ses_1",
        id="per_1",
        permission="edit",
        patterns=["a", "b"],
        metadata={"title": "Edit two files"},
        always=["*"],
        tool=AskedBy(message_id="msg_1", call_id="c"),
    )
    async with forwarding(ear) as bus:
        bus.publish(make(asked))
        older = await ear.until(lambda event: event.type == "permission.updated")
    plain = older.to_plain()["properties"]
    assert (plain["pattern"], plain["title"]) == (["a", "b"], "Edit two files")


@pytest.mark.slow
def test_a_hook_that_ignores_its_end_does_not_keep_the_program_from_ending() -> None:
    async def stubborn(event: Event) -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def program() -> None:
        bus = Bus()
        task = asyncio.create_task(EventEar(bus, "stubborn", stubborn, 60.0).listen())
        await asyncio.sleep(0)
        bus.publish(idle(1))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(asyncio.wait_for(program(), TIMEOUT))
