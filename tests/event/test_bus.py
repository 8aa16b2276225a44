"""The bus: order, merging of unread deltas, and nothing lost."""

import asyncio

from instar.event import Event, PartDelta, SessionIdle, make
from instar.event.bus import Bus


def delta(text: str, part: str = "prt_1") -> Event:
    return make(PartDelta(session_id="ses_1", message_id="msg_1", part_id=part, field="text", delta=text))


def idle(session: str) -> Event:
    return make(SessionIdle(session_id=session))


async def drained(bus: Bus, events: list[Event]) -> list[Event]:
    with bus.subscribe() as subscription:
        for event in events:
            bus.publish(event)
        subscription.close()
        return [event async for event in subscription]


async def test_every_subscriber_gets_every_event_in_order() -> None:
    bus = Bus()
    events = [idle(f"ses_{number}") for number in range(5)]
    with bus.subscribe() as first, bus.subscribe() as second:
        for event in events:
            bus.publish(event)
        assert [await first.get() for _ in events] == events
        assert [await second.get() for _ in events] == events


async def test_unread_deltas_of_one_part_are_merged_and_lose_no_text() -> None:
    seen = await drained(
        Bus(), [delta("a"), delta("b"), delta("c", "prt_2"), delta("d", "prt_2"), delta("e")]
    )
    assert [(event.properties.part_id, event.properties.delta) for event in seen] == [
        ("prt_1", "ab"),
        ("prt_2", "cd"),
        ("prt_1", "e"),
    ]


async def test_a_delta_is_not_merged_across_another_event() -> None:
    seen = await drained(Bus(), [delta("a"), idle("ses_1"), delta("b")])
    assert [event.type for event in seen] == ["message.part.delta", "session.idle", "message.part.delta"]


async def test_a_closed_subscription_gives_what_it_holds_and_then_ends() -> None:
    bus = Bus()
    subscription = bus.subscribe()
    bus.publish(idle("ses_1"))
    bus.close()
    bus.publish(idle("ses_2"))
    assert [event.session_id async for event in subscription] == ["ses_1"]


async def test_a_waiting_reader_wakes_when_the_bus_closes() -> None:
    bus = Bus()
    subscription = bus.subscribe()
    reading = asyncio.create_task(subscription.get())
    await asyncio.sleep(0)
    bus.close()
    assert await reading is None


def test_an_observer_hears_an_event_before_publish_returns_and_can_leave() -> None:
    bus, heard = Bus(), []
    leave = bus.observe(heard.append)
    bus.publish(idle("ses_1"))
    leave()
    bus.publish(idle("ses_2"))
    assert [event.session_id for event in heard] == ["ses_1"]
