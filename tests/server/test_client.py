"""The client that waits for each answer, and is told of events, before a running server (`docs/guides/client.md`)."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.server.conftest import PASSWORD
from tests.waiting import PATIENCE

from instar.client import ApiError, Client, Request, SessionBody, Unreachable


@pytest.fixture
def client(shared):
    with Client(shared.url, password=PASSWORD, directory=str(shared.directory)) as made:
        yield made


@pytest.mark.slow
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


def test_threads_share_one_client(client):
    titles = [f"of thread {number}" for number in range(8)]
    with ThreadPoolExecutor(len(titles)) as threads:
        made = list(threads.map(lambda title: client.session.create(SessionBody(title=title)), titles))
    assert [one.title for one in made] == titles
    for one in made:
        client.session.delete(one.id)


def test_a_client_that_was_closed_begins_anew(client):
    client.close()
    assert client.global_.health()["healthy"]
    client.close()
    client.close()


WAITING = """
import sys
from instar.client import Client
client = Client(sys.argv[1], password=sys.argv[2])
print(client.global_.health()["healthy"], flush=True)
client.tui.control.next()
"""
"""A script that asks for what nobody says, and closes nothing."""


@pytest.mark.slow
def test_ctrl_c_ends_a_script_that_waits_for_an_answer(shared):
    script = subprocess.Popen(
        [sys.executable, "-c", WAITING, shared.url, PASSWORD],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert script.stdout is not None
    assert script.stdout.readline() == "True\n"
    script.send_signal(signal.SIGINT)
    _, said = script.communicate(timeout=PATIENCE)
    assert script.returncode == -signal.SIGINT
    # Not the last line: where the signal comes before the event loop has begun, Python names the coroutine after it.
    assert "KeyboardInterrupt" in said.splitlines()
