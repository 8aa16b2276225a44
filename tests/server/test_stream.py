import asyncio

import pytest
from tests.server.follower import Follower, publish
from tests.waiting import until

from instar.event import FileEdited, PartDelta, ServerInstanceDisposed, make
from instar.server.stream import Feed
from instar.store import Stored


def edited(name: object):
    return make(FileEdited(file=str(name)))


def files(follower: Follower) -> list[str]:
    return [event["properties"]["file"] for event in follower.events]


async def test_events_come_in_order_and_only_those_of_the_directory():
    feed, client = Feed(), Follower()
    task = await client.opened(feed)
    for number in range(600):
        publish(feed, edited(number), "/a" if number % 2 else "/b")
    await until(lambda: len(client.events) == 300)
    assert files(client) == [str(n) for n in range(1, 600, 2)]
    feed.close()
    await task
    assert client.finished


async def test_each_message_carries_an_id_with_which_nothing_is_missing_afterwards():
    feed = Feed()
    before = Follower()
    task = await before.opened(feed)
    published = [publish(feed, edited(number)) for number in range(5)]
    await until(lambda: len(before.events) == 5)
    # The first one is the position before all of them.
    assert before.ids[1:] == published
    for number, position in enumerate(before.ids):
        again = Follower()
        other = await again.opened(feed, last=position)
        await until(lambda: len(again.events) == 5 - number)  # noqa: B023 - awaited here
        assert files(again) == [str(n) for n in range(number, 5)]
        assert (b"instar-resumed", b"all") in again.sent[0]["headers"]
        again.left.set()
        await other
    before.left.set()
    await task


async def test_a_heartbeat_moves_the_position_past_what_others_published(monkeypatch):
    monkeypatch.setattr("instar.server.stream.HEARTBEAT", 0.01)
    feed, client = Feed(kept=3), Follower()
    task = await client.opened(feed)
    elsewhere = [publish(feed, edited(number), "/b") for number in range(9)]
    await until(lambda: elsewhere[-1] in client.ids)
    client.left.set()
    await task
    assert client.text.count('"server.heartbeat"') == len(client.ids) - 1
    # All nine have rolled out of a history of three; the client missed none of its own all the same.
    assert feed.since(client.ids[-1]) == []


def stored(number: int) -> Stored:
    return Stored(
        number, number, f"evt_{number}", "ses_1", "session.idle", 1, '{"sessionID":"ses_1"}', "/a", "p"
    )


async def test_a_client_that_was_away_for_too_long_is_told_so_and_gets_what_is_stored():
    asked = []

    async def past(last):
        asked.append(last)
        for number in range(3):
            yield stored(number)

    feed, client = Feed(kept=1), Follower()
    lost = publish(feed, edited("lost"))
    publish(feed, edited("gone"))
    publish(feed, edited("kept"))
    task = await client.opened(feed, last=lost, past=past)
    publish(feed, edited("new"))
    await until(lambda: len(client.events) == 4)
    assert asked == [lost]
    assert [event["id"] for event in client.events[:3]] == ["evt_0", "evt_1", "evt_2"]
    assert files_of_last(client) == "new"
    assert (b"instar-resumed", b"stored") in client.sent[0]["headers"]
    assert ": resumed: what came since is not all known any more" in client.text
    # Cut off before the stored ones came, it would ask from the same place again.
    assert client.ids[0] == lost
    client.left.set()
    await task


def files_of_last(client: Follower) -> str:
    return client.events[-1]["properties"]["file"]


async def test_an_event_that_is_stored_and_published_meanwhile_comes_once():
    feed, client = Feed(), Follower()
    event = edited("twice")

    async def past(last):
        publish(feed, event)
        yield Stored(1, 1, event.id, "ses_1", "file.edited", 1, '{"file":"twice"}', "/a", "p")
        late = edited("late")
        yield Stored(2, 2, late.id, "ses_1", "file.edited", 1, '{"file":"late"}', "/a", "p")
        publish(feed, late)

    task = await client.opened(feed, last="evt_unknown", past=past)
    publish(feed, edited("end"))
    await until(lambda: client.events and files_of_last(client) == "end")
    assert sorted(files(client)) == ["end", "late", "twice"]
    client.left.set()
    await task


@pytest.mark.parametrize("last", ["", "nonsense", "evt_ x", "evt_" + "a" * 200, "\u00e9"])
async def test_an_id_that_is_none_is_no_mistake_and_asks_the_store_for_nothing(last):
    async def past(given):
        raise AssertionError(given)
        yield

    feed, client = Feed(), Follower()
    task = await client.opened(feed, last=last or None, past=past)
    publish(feed, edited("new"))
    await until(lambda: client.events)
    assert files(client) == ["new"]
    assert all(one.startswith("evt_") and " " not in one for one in client.ids)
    client.left.set()
    await task


@pytest.mark.parametrize(("most", "size"), [((10, 1 << 30), 1), ((1 << 30, 10_000), 1000)])
async def test_a_client_that_does_not_read_is_cut_off_and_others_are_not(most, size):
    feed, slow, quick = Feed(), Follower(reads=False), Follower()
    cut = await slow.opened(feed, most=most)
    other = await quick.opened(feed, most=most)
    for number in range(30):
        publish(feed, edited(f"{number}".ljust(size)))
        await until(lambda: len(quick.events) == number + 1)  # noqa: B023 - awaited here
    await asyncio.wait_for(cut, 5)
    assert not slow.finished
    assert slow.aborted
    assert [name.strip() for name in files(quick)] == [str(n) for n in range(30)]
    assert feed.clients == 1
    feed.close()
    await asyncio.wait_for(other, 5)
    assert quick.finished


async def test_pieces_of_text_that_wait_are_joined_under_the_id_of_the_newest():
    def piece(text, part="prt_1"):
        return make(PartDelta(session_id="ses_1", message_id="msg_1", part_id=part, field="text", delta=text))

    feed, client = Feed(), Follower(reads=False)
    task = await client.opened(feed, most=(4, 1 << 20))
    ids = [publish(feed, piece(text)) for text in "abcdefghij"]
    other = publish(feed, piece("z", "prt_2"))
    client.reads.set()
    await until(lambda: len(client.events) == 2)
    assert [event["properties"]["delta"] for event in client.events] == ["abcdefghij", "z"]
    assert client.ids[1:] == [ids[-1], other]
    client.left.set()
    await task


async def test_a_client_that_leaves_is_forgotten():
    feed, client = Feed(), Follower()
    task = await client.opened(feed)
    assert feed.clients == 1
    client.left.set()
    await asyncio.wait_for(task, 5)
    assert feed.clients == 0


async def test_a_stream_of_one_instance_ends_with_it_and_one_of_all_does_not():
    feed, one, all_ = Feed(), Follower(), Follower()
    ended = await one.opened(feed, ends=True)
    going = await all_.opened(feed, wants=lambda event: True)
    publish(feed, make(ServerInstanceDisposed(directory="/b")), "/b")
    publish(feed, make(ServerInstanceDisposed(directory="/a")), "/a")
    await asyncio.wait_for(ended, 5)
    assert one.finished
    assert one.text.count("server.instance.disposed") == 1
    await until(lambda: all_.text.count("server.instance.disposed") == 2)
    assert not going.done()
    all_.left.set()
    await going


async def test_what_is_said_to_every_client_is_no_event():
    feed, client = Feed(), Follower()
    task = await client.opened(feed)
    feed.say("the server is stopping")
    feed.close()
    await task
    assert ": the server is stopping\n\n" in client.text
    assert client.events == []
    assert client.finished
