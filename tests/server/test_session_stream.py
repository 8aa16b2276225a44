"""A session's own stream, to a client that does not read and to one that has read all there is."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.server.follower import Follower
from tests.store.conftest import Make
from tests.waiting import until

from instar.event import MessageUpdated, make
from instar.opencode.v2_events import SessionStream
from instar.server.stream import MOST_BYTES, Feed, Published
from instar.store import PutMessage, PutProject, PutSession
from instar.store.store import Store, open_store
from instar.wire import ids

LARGE = b"x" * (MOST_BYTES // 2)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(tmp_path / "instar.db", lambda event: None)
    yield opened
    await opened.close()


@pytest.fixture
async def session_id(store: Store) -> str:
    """A session with one event for its stream: an answer has begun."""
    session = Make().session()
    answer = Make().answer(session.id)
    rows = [PutProject("global", "/", None, 1), PutSession(session), PutMessage(answer)]
    await store.commit(rows, [make(MessageUpdated(session_id=session.id, info=answer))])
    return session.id


async def test_a_client_of_a_session_that_does_not_read_loses_its_connection(store, session_id):
    feed, client = Feed(), Follower(reads=False)
    task = client.open(SessionStream(feed, store, session_id, 0))
    await until(lambda: client.text)
    for number in range(3):
        made = ids.new("evt")
        feed.publish(Published(made, "message.updated", LARGE, "/a", "global", session_id, number + 2))
    await asyncio.wait_for(task, 5)
    assert client.aborted
    assert not client.finished
    assert feed.clients == 0


async def test_a_client_of_a_session_gets_signs_of_life_that_are_no_events(store, session_id, monkeypatch):
    monkeypatch.setattr("instar.server.stream.HEARTBEAT", 0.01)
    feed, client = Feed(), Follower()
    task = client.open(SessionStream(feed, store, session_id, 0))
    await until(lambda: client.text.count(": heartbeat\n\n") > 1)
    client.left.set()
    await asyncio.wait_for(task, 5)
    assert client.text.replace(": heartbeat\n\n", "").count("\n\n") == 1
