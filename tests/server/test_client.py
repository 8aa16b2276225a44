"""The client that waits for each answer, and is told of events, before a running server (`docs/client.md`)."""

import pytest
from tests.server.conftest import PASSWORD

from instar.client import ApiError, Client, Request, SessionBody, Unreachable


@pytest.fixture
def client(shared):
    with Client(shared.url, password=PASSWORD, directory=str(shared.directory)) as made:
        yield made


def test_an_open_stream_misses_nothing_of_what_is_asked_for_inside_of_it(client):
    with client.listening(Request("GET", "/event")) as events:
        made = client.session.create(SessionBody(title="heard"))
        created = next(one for one in events if one.type == "session.created")
    assert (created.properties.info.id, created.properties.info.title) == (made.id, "heard")
    client.session.delete(made.id)


def test_events_come_from_the_moment_on_in_which_they_are_asked_for(client):
    events = client.event.subscribe()
    assert next(events).type == "server.connected"
    made = client.session.create(SessionBody(title="heard"))
    client.session.delete(made.id)
    assert next(one for one in events if one.type == "session.deleted").properties.info.id == made.id
    events.close()


def test_a_stream_that_is_refused_or_is_none_raises_as_a_question_does(shared, client):
    with pytest.raises(ApiError, match="not with events"), client.listening(Request("GET", "/path")):
        pass
    with Client(shared.url, password="wrong") as stranger, pytest.raises(ApiError) as refused:
        next(stranger.event.subscribe())
    assert refused.value.status == 401
    with Client("http://127.0.0.1:9") as nowhere, pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        next(nowhere.event.subscribe())
