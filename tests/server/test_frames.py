"""The forms of an event, for names that are hard to write down."""

import json

import pytest

from instar.event import ServerHeartbeat, SessionIdle, make
from instar.opencode.routes.location import event_message
from instar.server import stream
from instar.server.stream import Published

HARD = 'a "quoted"\n\u2028 \u00e9 \ud83d\ude00 \\'


def parsed(message: bytes) -> list[dict]:
    lines = message.decode().split("\n")
    assert all(line == "" or line.startswith(("data: ", "id: ", ": ")) for line in lines)
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


EVENT = Published(
    "evt_1", "session.idle", b'{"sessionID":"ses_1"}', HARD, HARD, session_id="ses_1", seq=7, version=2
)


@pytest.mark.parametrize("form", [stream.of_directory, stream.of_all, event_message, stream.of_instar])
def test_each_form_is_json_on_one_line_whatever_a_folder_is_called(form):
    for one in parsed(form(EVENT, "evt_0")):
        assert (
            HARD in json.dumps(one, ensure_ascii=False)
            or form is stream.of_directory
            or "\\" in json.dumps(one)
        )
    assert form(EVENT, "evt_0").endswith(b"\nid: evt_0\n\n")


def test_a_durable_event_says_its_number_in_the_forms_that_have_one():
    assert parsed(stream.of_all(EVENT, "evt_1"))[1]["payload"]["syncEvent"]["type"] == "session.idle.2"
    assert parsed(event_message(EVENT, "evt_1"))[0]["durable"] == {
        "aggregateID": "ses_1",
        "seq": 7,
        "version": 2,
    }
    assert parsed(stream.of_instar(EVENT, "evt_1"))[0]["seq"] == 7
    assert stream.of_all(EVENT, "evt_1").count(b"id: evt_1\n") == 1, (
        "who was cut off after the first has not read it"
    )


def test_what_the_stream_says_of_itself_happened_nowhere():
    beat = Published.of(make(ServerHeartbeat()))
    assert parsed(stream.of_all(beat, "evt_1")) == [
        {"payload": {"id": beat.id, "type": "server.heartbeat", "properties": {}}}
    ]
    assert event_message(beat, "evt_1") == b": heartbeat\n\n"
    assert set(parsed(stream.of_instar(beat, "evt_1"))[0]) == {"id", "type", "properties"}


def test_a_changed_project_is_of_no_directory_for_the_clients_of_all_of_them():
    event = Published("evt_1", "project.updated", b"{}", "/a", "pro")
    assert [one["directory"] for one in parsed(stream.of_all(event, "evt_1"))] == ["global"]


def test_an_event_that_is_not_durable_comes_once():
    event = Published.of(make(SessionIdle(session_id="ses_1")), "/a", "pro")
    assert len(parsed(stream.of_all(event, event.id))) == 1
    assert "durable" not in parsed(event_message(event, event.id))[0]


def test_what_happened_to_the_whole_server_is_of_no_project():
    event = Published("evt_1", "global.disposed", b"{}", "global")
    payload = {"id": "evt_1", "type": "global.disposed", "properties": {}}
    assert parsed(stream.of_all(event, "evt_1")) == [{"directory": "global", "payload": payload}]
    assert parsed(stream.of_instar(event, "evt_1")) == [payload]
    assert "location" not in parsed(event_message(event, "evt_1"))[0]
