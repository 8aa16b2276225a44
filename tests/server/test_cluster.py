"""Several servers on one PostgreSQL database, as `make test-cluster` runs them: their clients hear of one another."""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.postgresql import cluster
from tests.server.conftest import Served

TALK = '== turn\nreasoning: hm\ntext: I look.\ntool: bash {"command": "echo hi"}\n== turn\ntext: Done, as you see.\n'

Workers = Callable[..., Served]


@pytest.fixture
def url() -> str:
    return cluster().database()


@pytest.fixture
def worker(serve: Workers, url: str, tmp_path: Any) -> Workers:
    """Start a server as on a machine of its own: it has the project's folder and the database in common."""
    numbers = itertools.count()

    def start(script: str = TALK) -> Served:
        own = {"INSTAR_DATABASE": url, "INSTAR_DATA": str(tmp_path / f"data{next(numbers)}")}
        return serve(script=script, environment=own)

    return start


def until_idle(events: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of sessions, up to the end of a turn."""
    heard = []
    for event in events:
        if "sessionID" in event.get("properties", {}):
            heard.append(event)
        if event["type"] == "session.idle":
            break
    return heard


def test_clients_of_every_server_hear_the_same_in_the_same_order(worker: Workers) -> None:
    here, there = worker(), worker()
    session = here.session()
    with here.events() as near, there.events() as far:
        here.ask(session)
        heard = until_idle(near)
        passed_on = until_idle(far)
    ids = [event["id"] for event in heard]
    # The second began to listen after the session was made, or before.
    passed_on = [event for event in passed_on if event["id"] in ids]
    assert passed_on == heard
    assert "message.part.delta" in {event["type"] for event in heard}
    assert len(set(ids)) == len(ids)


def test_a_client_goes_on_at_another_server_where_it_was(worker: Workers) -> None:
    here, there = worker(), worker()
    session = here.session()
    with here.events() as near:
        here.ask(session)
        heard = until_idle(near)
    for place, event in enumerate(heard):
        with there.http.stream("GET", "/event", headers={"Last-Event-ID": event["id"]}) as response:
            assert response.headers["Instar-Resumed"] == "all"
            rest = itertools.islice(_of(response), len(heard) - place - 1)
            assert [one["id"] for one in rest] == [one["id"] for one in heard[place + 1 :]]


def _of(response: httpx2.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line.startswith("data: ") and "sessionID" in line:
            yield json.loads(line[6:])
