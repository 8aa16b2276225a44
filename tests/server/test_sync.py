"""`/sync`: what is stored of sessions, in the forms of opencode's document."""

import pytest
from tests.asking import asking
from tests.server.conformance import problems_of


def test_the_history_has_every_durable_event_and_of_known_sessions_only_what_is_newer(shared):
    known, new = shared.session(title="known"), shared.session(title="new")
    shared.ask(known, noReply=True)
    rows = shared.http.post("/sync/history", json={}).json()
    assert problems_of("POST", "/sync/history", 200, rows) == []
    numbers = [row["seq"] for row in rows if row["aggregate_id"] == known]
    assert numbers == list(range(1, len(numbers) + 1))
    assert rows[0]["type"] == "session.created.1"
    later = shared.http.post("/sync/history", json={known: numbers[-2], new: 10**6}).json()
    assert [row["seq"] for row in later if row["aggregate_id"] == known] == numbers[-1:]
    assert [row for row in later if row["aggregate_id"] == new] == []


def test_a_history_of_many_pages_is_one_list_in_order(monkeypatch, tmp_path, clean_environment):
    folder = tmp_path / "project"
    folder.mkdir()
    with asking(folder, clean_environment) as http:
        made = [http.post("/session")["id"] for _ in range(5)]
        whole = http.post("/sync/history", {})
        assert [row["aggregate_id"] for row in whole if row["seq"] == 1] == made
        monkeypatch.setattr("instar.server.routes.events._PAGE", 2)
        assert http.post("/sync/history", {}) == whole


def test_there_is_no_other_server_to_take_sessions_over_from(shared):
    assert shared.http.post("/sync/start").json() is True
    event = {"id": "evt_1", "aggregateID": "ses_1", "seq": 0, "type": "session.created.1", "data": {}}
    for path, body in (
        ("/sync/steal", {"sessionID": shared.session()}),
        ("/sync/replay", {"directory": str(shared.directory), "events": [event]}),
    ):
        answer = shared.http.post(path, json=body)
        assert (answer.status_code, answer.json()) == (400, {"_tag": "BadRequest"})
        assert problems_of("POST", path, answer.status_code, answer.json()) == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/sync/history", []),
        ("/sync/history", {"ses_1": -1}),
        ("/sync/history", {"ses_1": "1"}),
        ("/sync/replay", {"directory": "/", "events": []}),
        ("/sync/steal", {"sessionID": "wrong"}),
    ],
)
def test_a_body_that_does_not_fit_is_refused(shared, path, body):
    answer = shared.http.post(path, json=body)
    assert (answer.status_code, answer.json()["name"]) == (400, "BadRequest")
