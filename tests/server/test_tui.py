"""Driving terminal interfaces: what is asked for is told as an event, and given to who asks for it."""

import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.server.conformance import problems_of
from tests.server.conftest import PATIENCE
from tests.server.sockets import misfits


@pytest.fixture(scope="module")
def events(shared) -> Iterator[Iterator[dict[str, Any]]]:
    with shared.events() as found:
        yield found


@pytest.fixture(scope="module")
def session_id(shared) -> str:
    return str(shared.session())


def told(events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """The next event about an interface, as the document has it."""
    event = next(one for one in events if one["type"].startswith("tui."))
    assert misfits("Event", event) == []
    assert misfits("V2Event", {"id": event["id"], "type": event["type"], "data": event["properties"]}) == []
    return event


COMMANDS = {
    "open-help": "help.show",
    "open-sessions": "session.list",
    "open-themes": "theme.switch",
    "open-models": "model.list",
    "submit-prompt": "prompt.submit",
    "clear-prompt": "prompt.clear",
}
TOAST = {"title": "T", "message": "m", "variant": "error"}


@pytest.mark.parametrize(
    ("path", "body", "kind", "properties"),
    [
        *((path, None, "tui.command.execute", {"command": name}) for path, name in COMMANDS.items()),
        ("append-prompt", {"text": "more"}, "tui.prompt.append", {"text": "more"}),
        ("execute-command", {"command": "agent_cycle"}, "tui.command.execute", {"command": "agent.cycle"}),
        ("execute-command", {"command": "session.new"}, "tui.command.execute", {"command": "session.new"}),
        ("execute-command", {"command": "of.a.plugin"}, "tui.command.execute", {"command": "of.a.plugin"}),
        ("show-toast", {**TOAST, "duration": 7}, "tui.toast.show", {**TOAST, "duration": 7}),
        ("show-toast", TOAST, "tui.toast.show", {**TOAST, "duration": 5000}),
        *(
            ("publish", {"type": kind, "properties": properties}, kind, properties)
            for kind, properties in (
                ("tui.prompt.append", {"text": "x"}),
                ("tui.command.execute", {"command": "session.first"}),
                ("tui.toast.show", {"message": "m", "variant": "info"}),
                ("tui.session.select", {"sessionID": "ses_1"}),
            )
        ),
    ],
)
def test_what_is_asked_of_an_interface_is_an_event(shared, events, path, body, kind, properties):
    answer = shared.http.post(f"/tui/{path}", json=body)
    assert (answer.status_code, answer.json()) == (200, True)
    event = told(events)
    assert (event["type"], event["properties"]) == (kind, properties)


def test_a_session_that_there_is_can_be_selected(shared, events, session_id):
    answer = shared.http.post("/tui/select-session", json={"sessionID": session_id})
    assert answer.json() is True
    assert told(events)["properties"] == {"sessionID": session_id}
    unknown = shared.http.post("/tui/select-session", json={"sessionID": "ses_none"})
    assert problems_of("POST", "/tui/select-session", 404, unknown.json()) == []
    assert unknown.status_code == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("append-prompt", {}),
        ("append-prompt", None),
        ("append-prompt", {"text": 5}),
        ("execute-command", {"command": None}),
        ("show-toast", {"message": "m"}),
        ("show-toast", {"message": "m", "variant": "loud"}),
        ("show-toast", {"message": "m", "variant": "info", "duration": 0}),
        ("publish", {"type": "session.idle", "properties": {"sessionID": "ses_1"}}),
        ("publish", {"type": "tui.prompt.append", "properties": {}}),
        ("publish", None),
        ("select-session", {"sessionID": "none"}),
        ("control/response", None),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_and_told_to_nobody(shared, events, path, body):
    answer = shared.http.post(f"/tui/{path}", json=body)
    assert answer.status_code == 400
    assert problems_of("POST", f"/tui/{path}", 400, answer.json()) == []
    shared.http.post("/tui/append-prompt", json={"text": "after"})
    assert told(events)["properties"] == {"text": "after"}


def test_an_interface_that_hears_no_events_asks_for_requests_one_by_one(shared, tmp_path):
    query, taken = {"directory": str(tmp_path)}, []

    def ask() -> None:
        taken.append(shared.http.get("/tui/control/next", params=query).json())

    waiting = threading.Thread(target=ask)
    waiting.start()
    while not taken:  # until it waits nobody keeps what is asked for
        shared.http.post("/tui/append-prompt", params=query, json={"text": "one"})
        waiting.join(0.02)
    shared.http.post("/tui/open-help", params=query)
    shared.http.post("/tui/execute-command", params=query, json={"command": "session_new"})
    while taken[-1]["path"] != "/tui/execute-command":
        ask()
    assert [problems_of("GET", "/tui/control/next", 200, one) for one in taken] == [[]] * len(taken)
    assert taken[0] == {"path": "/tui/append-prompt", "body": {"text": "one"}}
    assert taken[-2:] == [
        {"path": "/tui/open-help", "body": {}},
        {"path": "/tui/execute-command", "body": {"command": "session_new"}},
    ]
    assert shared.http.post("/tui/control/response", params=query, json={"any": [1]}).json() is True


def test_an_interface_that_leaves_takes_no_request_with_it(shared, tmp_path):
    query = {"directory": str(tmp_path)}
    shared.http.get("/path", params=query)  # opens the instance, which takes its time
    with pytest.raises(httpx2.ReadTimeout):
        shared.http.get("/tui/control/next", params=query, timeout=httpx2.Timeout(PATIENCE, read=0.2))
    shared.http.get("/path", params=query)  # by now it is known to have left
    shared.http.post("/tui/append-prompt", params=query, json={"text": "kept"})
    assert shared.http.get("/tui/control/next", params=query).json()["body"] == {"text": "kept"}
