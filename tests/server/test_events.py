"""The event streams over HTTP, in the forms of opencode's document."""

import contextlib
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.server.conformance import DOCUMENT
from tests.server.conftest import TALK, Served
from tests.server.machine import served_in

from instar.event import TYPES

STREAMS = {"/event": "Event", "/global/event": "GlobalEvent", "/api/event": "V2Event"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all of these tests, which trusts each folder: limits hold in it."""
    root = tmp_path_factory.mktemp("events")
    with served_in(root, TALK) as served:
        yield served


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator(
        {"$ref": f"#/components/schemas/{schema}", "components": DOCUMENT["components"]}
    )


@cache
def known(schema: str) -> frozenset[str]:
    """The types that a union of the document knows."""
    found = set()
    for one in DOCUMENT["components"]["schemas"][schema]["anyOf"]:
        shape = DOCUMENT["components"]["schemas"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
        found.update(shape["properties"]["type"]["enum"])
    return frozenset(found)


def project(tmp_path: Any, **settings: Any) -> str:
    folder = tmp_path / "project"
    folder.mkdir(exist_ok=True)
    (folder / "opencode.json").write_text(json.dumps(settings))
    return str(folder)


def begin(served: Any, directory: str) -> str:
    header = {"x-opencode-directory": directory}
    made: str = served.http.post("/session", json={"title": "named"}, headers=header).json()["id"]
    assert served.ask(made, path="prompt_async").status_code == 204
    return made


def until_idle(events: Iterator[dict[str, Any]], session_id: str) -> list[dict[str, Any]]:
    found = []
    for event in events:
        found.append(event)
        inner = event.get("payload", event)
        about = inner.get("properties", inner.get("data", {}))
        if inner["type"] == "session.idle" and about["sessionID"] == session_id:
            break
    return found


def test_a_type_is_our_own_exactly_if_opencodes_document_does_not_know_it():
    own = {name for name, declared in TYPES.items() if declared.own}
    # The document leaves out what only the stream itself says.
    assert own == set(TYPES) - known("Event") - {"server.heartbeat"}
    assert {name for name in TYPES if name not in known("V2Event")} - own == {
        "server.heartbeat",
        "server.instance.disposed",
    }


@pytest.mark.slow
@pytest.mark.parametrize("path", STREAMS)
def test_a_turn_is_told_in_the_documents_form_without_our_own_types(shared, tmp_path, path):
    directory = project(tmp_path, limits={"steps": 1})
    query = {"directory": directory} if path == "/event" else {}
    with (
        shared.events(path, params=query) as events,
        shared.events("/instar/event", params={"directory": directory}) as own,
    ):
        session_id = begin(shared, directory)
        found, all_of_it = until_idle(events, session_id), until_idle(own, session_id)
    assert [
        error.message[:200] for event in found for error in _validator(STREAMS[path]).iter_errors(event)
    ] == []
    names = [event.get("payload", event)["type"] for event in found]
    # Who listens to all directories also hears what follows the end of another one's turn.
    here = [name for name, event in zip(names, found, strict=True) if session_id in json.dumps(event)]
    assert here[0] == "session.created"
    assert "message.part.delta" in names
    assert "session.limit" in [event["type"] for event in all_of_it]
    assert "session.limit" not in names


def test_a_turns_events_have_opencodes_shapes_and_order(shared, tmp_path, problems):
    directory = project(tmp_path)
    with shared.events(params={"directory": directory}) as events:
        session_id = begin(shared, directory)
        # The first who listens is also told of the project; a stream that is quiet for long says so.
        beside = ("project.updated", "server.heartbeat")
        found = [one for one in until_idle(events, session_id) if one["type"] not in beside]
    types = [event["type"] for event in found]
    assert types[0] == "session.created"
    assert types[-2:] == ["session.status", "session.idle"]
    assert found[-2]["properties"]["status"] == {"type": "idle"}
    for event in found:
        assert set(event) == {"id", "type", "properties"}
        assert problems(event["type"], event) == []


def test_our_own_stream_says_where_each_event_happened_and_its_number(shared, tmp_path):
    directory = project(tmp_path)
    with shared.events("/instar/event") as events:
        session_id = begin(shared, directory)
        found = [one for one in until_idle(events, session_id) if session_id in json.dumps(one["properties"])]
    assert {one["directory"] for one in found} == {directory}
    assert {one["projectID"] for one in found} == {"global"}
    numbers = [one["seq"] for one in found if "seq" in one]
    assert numbers == list(range(1, len(numbers) + 1))
    assert "seq" not in next(one for one in found if one["type"] == "message.part.delta")


def test_the_global_stream_hears_of_directories_that_are_opened_later_and_tells_durable_events_twice(
    shared, tmp_path
):
    with shared.events("/global/event") as events:
        directory = project(tmp_path)
        session_id = begin(shared, directory)
        found = until_idle(events, session_id)
    here = [one for one in found if one.get("directory") == directory]
    assert {one["project"] for one in here} == {"global"}
    created, again = (one["payload"] for one in here if "created" in json.dumps(one["payload"])[:200])
    assert created["type"] == "session.created"
    assert again == {
        "type": "sync",
        "id": created["id"],
        "syncEvent": {
            "id": created["id"],
            "type": "session.created.1",
            "seq": 1,
            "aggregateID": session_id,
            "data": created["properties"],
        },
    }


def test_the_streams_have_the_headers_that_keep_proxies_from_holding_them_back(shared):
    for path in [*STREAMS, "/instar/event"]:
        with shared.http.stream("GET", path) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            assert response.headers["cache-control"] == "no-cache, no-transform"
            assert response.headers["x-accel-buffering"] == "no"
            assert "content-length" not in response.headers


@pytest.mark.parametrize("path", [*STREAMS, "/instar/event"])
def test_the_head_of_a_stream_has_an_end(shared, path):
    answer = shared.http.head(path)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_a_message_is_a_line_of_data_then_its_id_and_an_empty_one(shared):
    with shared.http.stream("GET", "/event") as response:
        data, place, end, rest = next(response.iter_raw()).split(b"\n")
    assert data.startswith(b'data: {"id":"evt_')
    assert data.endswith(b'"type":"server.connected","properties":{}}')
    assert place.startswith(b"id: evt_")
    assert end == rest == b""


@contextlib.contextmanager
def lines(served: Any, path: str, last: str | None, *, by_query: bool = False, **query: str) -> Iterator[Any]:
    headers = {"Last-Event-ID": last} if last and not by_query else {}
    params = {**query, **({"lastEventID": last} if last and by_query else {})}
    with served.http.stream("GET", path, headers=headers, params=params) as response:
        yield response.headers.get("instar-resumed"), response.iter_lines()


def told(found: Iterator[str], session_id: str) -> tuple[list[str], str]:
    """The types that came until the session was idle, and the position then."""
    types, position, idle = [], "", False
    for line in found:
        if line.startswith("data: "):
            event = json.loads(line[6:])
            types.append(event["type"])
            idle = event["type"] == "session.idle" and event["properties"]["sessionID"] == session_id
        elif line.startswith("id: "):
            position = line[4:]
            if idle:
                break
    return types, position


@pytest.mark.parametrize("by_query", [False, True])
def test_a_client_that_comes_back_misses_nothing(shared, tmp_path, by_query):
    directory = project(tmp_path)
    with lines(shared, "/event", None, directory=directory) as (resumed, found):
        assert resumed is None
        position = next(line for line in found if line.startswith("id: "))[4:]
    session_id = begin(shared, directory)
    with lines(shared, "/event", position, by_query=by_query, directory=directory) as (resumed, found):
        types, _ = told(found, session_id)
    assert resumed == "all"
    assert [one for one in types if one != "project.updated"][:2] == ["server.connected", "session.created"]
    assert "message.part.delta" in types
    assert types[-1] == "session.idle"


@pytest.mark.slow
def test_after_a_restart_of_the_server_a_client_gets_what_is_stored_and_is_told_that_this_is_not_all(serve):
    served = serve()
    with lines(served, "/event", None) as (_, found):
        first = next(line for line in found if line.startswith("id: "))[4:]
        session_id = served.session(title="named")
        served.ask(session_id, path="prompt_async")
        types, last = told(found, session_id)
    assert "message.part.delta" in types
    served.stop()
    again = serve()
    with lines(again, "/event", first) as (resumed, found):
        marker = again.session(title="marker")
        came = []
        for line in found:
            came.append(line)
            if line.startswith("data: ") and marker in line:
                break
    assert resumed == "stored"
    assert any(line.startswith(": resumed: what came since is not all known") for line in came)
    replayed = [json.loads(line[6:])["type"] for line in came if line.startswith("data: ")]
    # Two sessions were made: one before the restart, one after.
    assert replayed.count("session.created") == 2
    durable = [name for name in types if TYPES[name].version is not None]
    assert [name for name in replayed if TYPES[name].version is not None][: len(durable)] == durable
    assert "message.part.delta" not in replayed
    # From the end of the turn on there is only what followed it.
    with lines(again, "/event", last) as (resumed, found):
        came = []
        for line in found:
            came.append(line)
            if line.startswith("data: ") and marker in line:
                break
    assert resumed == "stored"
    assert not any('"session.created"' in line and session_id in line for line in came)


def test_a_stream_of_a_folder_that_is_not_there_is_refused(shared):
    for path in ("/event", "/instar/event"):
        assert shared.http.get(path, params={"directory": "/no/such/folder"}).status_code == 400
