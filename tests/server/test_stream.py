import asyncio
import json

from instar.bus import Bus
from instar.event import FileEdited, make
from instar.server.stream import EventStream


def until_idle(events) -> list[dict]:
    found = []
    for event in events:
        found.append(event)
        if event["type"] == "session.idle":
            break
    return found


def test_a_turns_events_have_opencodes_shapes_and_order(shared, problems):
    with shared.events() as events:
        session_id = shared.session()
        shared.ask(session_id, path="prompt_async")
        # The first who listens is also told of the project.
        found = [event for event in until_idle(events) if event["type"] != "project.updated"]
    types = [event["type"] for event in found]
    assert types[0] == "session.created"
    assert types[-2:] == ["session.status", "session.idle"]
    assert found[-2]["properties"]["status"] == {"type": "idle"}
    assert "message.part.delta" in types
    for event in found:
        assert set(event) == {"id", "type", "properties"}
        assert problems(event["type"], event) == []


def test_the_stream_has_the_headers_that_keep_proxies_from_holding_it_back(shared):
    with shared.http.stream("GET", "/event") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-cache, no-transform"
        assert response.headers["x-accel-buffering"] == "no"
        assert "content-length" not in response.headers


def test_a_message_is_one_data_line_and_an_empty_one(shared):
    with shared.http.stream("GET", "/event") as response:
        first = next(response.iter_raw())
    assert first.startswith(b'data: {"id":"evt_')
    assert first.endswith(b'"type":"server.connected","properties":{}}\n\n')


class Client:
    """The other end of a stream without a socket: `gate` lets it read, `leave` ends it."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.leave = asyncio.Event()
        self.sent: list[dict] = []

    async def receive(self) -> dict:
        await self.leave.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict) -> None:
        self.sent.append(message)
        if message["type"] == "http.response.body":
            await self.gate.wait()

    @property
    def bodies(self) -> list[dict]:
        return [
            json.loads(line[6:])
            for message in self.sent
            for line in message.get("body", b"").decode().split("\n\n")
            if line
        ]

    @property
    def finished(self) -> bool:
        return self.sent[-1].get("more_body") is False


async def listening(bus: Bus, client: Client, closing: asyncio.Event, **options) -> asyncio.Task:
    stream = EventStream(bus, closing, **options)
    task = asyncio.create_task(stream({"type": "http"}, client.receive, client.send))
    while len(client.sent) < 2:
        await asyncio.sleep(0)
    return task


async def test_a_client_that_does_not_read_is_cut_off_and_others_are_not():
    bus, closing, slow, quick = Bus(), asyncio.Event(), Client(), Client()
    quick.gate.set()
    cut = await listening(bus, slow, closing, most_waiting=10)
    other = await listening(bus, quick, closing, most_waiting=10)
    for number in range(30):
        bus.publish(make(FileEdited(file=str(number))))
        await asyncio.sleep(0)
    await asyncio.wait_for(cut, 5)
    assert not slow.finished
    while len(quick.bodies) < 31:
        await asyncio.sleep(0)
    assert [body["properties"]["file"] for body in quick.bodies[1:]] == [str(n) for n in range(30)]
    closing.set()
    await asyncio.wait_for(other, 5)
    assert quick.finished


async def test_a_client_that_leaves_is_forgotten():
    bus, client = Bus(), Client()
    client.gate.set()
    task = await listening(bus, client, asyncio.Event())
    client.leave.set()
    await asyncio.wait_for(task, 5)
    assert not bus._subscriptions
    assert not bus._observers


async def test_a_heartbeat_comes_while_nothing_happens(monkeypatch):
    monkeypatch.setattr("instar.server.stream.HEARTBEAT", 0.01)
    bus, client, closing = Bus(), Client(), asyncio.Event()
    client.gate.set()
    task = await listening(bus, client, closing)
    while len(client.bodies) < 3:
        await asyncio.sleep(0.001)
    closing.set()
    await task
    assert [body["type"] for body in client.bodies[:3]] == ["server.connected", *["server.heartbeat"] * 2]
