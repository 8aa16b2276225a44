"""A session's past through HTTP: revert, fork, diff, single messages, its own fields."""

import pytest
from tests.waiting import wait_until


@pytest.fixture
def talk(shared):
    """A session with one turn: its id and its messages."""
    session_id = shared.session(title="T")
    shared.ask(session_id)
    return session_id, shared.http.get(f"/session/{session_id}/message").json()


@pytest.mark.slow
def test_a_revert_marks_the_session_and_the_next_prompt_drops_the_messages(shared, talk, problems):
    session_id, messages = talk
    asked = messages[0]["info"]["id"]
    reverted = shared.http.post(f"/session/{session_id}/revert", json={"messageID": asked})
    assert problems("Session", reverted.json()) == []
    assert reverted.json()["revert"]["messageID"] == asked
    assert len(shared.http.get(f"/session/{session_id}/message").json()) == 3
    with shared.events() as events:
        shared.ask(session_id, "again", noReply=True)
        gone = [next(event for event in events if event["type"] == "message.removed") for _ in messages]
    assert [event["properties"]["messageID"] for event in gone] == [m["info"]["id"] for m in messages]
    assert [problem for event in gone for problem in problems("message.removed", event)] == []
    assert "revert" not in shared.http.get(f"/session/{session_id}").json()


def test_a_revert_can_be_undone(shared, talk, problems):
    session_id, messages = talk
    answer = messages[1]
    call = next(part for part in answer["parts"] if part["type"] == "tool")
    body = {"messageID": answer["info"]["id"], "partID": call["id"]}
    assert (
        shared.http.post(f"/session/{session_id}/revert", json=body).json()["revert"]["partID"] == call["id"]
    )
    undone = shared.http.post(f"/session/{session_id}/unrevert").json()
    assert problems("Session", undone) == []
    assert "revert" not in undone


def test_a_fork_is_a_session_with_the_messages_so_far(shared, talk, problems):
    session_id, messages = talk
    forked = shared.http.post(f"/session/{session_id}/fork").json()
    assert problems("Session", forked) == []
    assert forked["title"] == "T (fork #1)"
    copies = shared.http.get(f"/session/{forked['id']}/message").json()
    assert [m["info"]["role"] for m in copies] == [m["info"]["role"] for m in messages]
    for message in copies:
        assert problems("Message", message["info"]) == []
        assert [problem for part in message["parts"] for problem in problems("Part", part)] == []
    shorter = shared.http.post(
        f"/session/{session_id}/fork", json={"messageID": messages[1]["info"]["id"]}
    ).json()
    assert len(shared.http.get(f"/session/{shorter['id']}/message").json()) == 1


def test_a_sessions_and_a_turns_changes_are_lists(shared, talk):
    session_id, messages = talk
    url = f"/session/{session_id}/diff"
    assert shared.http.get(url).json() == []
    assert shared.http.get(url, params={"messageID": messages[0]["info"]["id"]}).json() == []


def test_a_session_is_changed(shared, talk, problems):
    session_id, _ = talk
    rule = {"permission": "bash", "pattern": "*", "action": "deny"}
    url = f"/session/{session_id}"
    body = {"title": "New", "metadata": {"a": 1}, "permission": [rule], "time": {"archived": 12.0}}
    changed = shared.http.patch(url, json=body).json()
    assert problems("Session", changed) == []
    assert (changed["title"], changed["metadata"], changed["time"]["archived"]) == ("New", {"a": 1}, 12)
    assert changed["permission"] == [rule]
    more = {"permission": "read", "pattern": "*", "action": "ask"}
    again = shared.http.patch(url, json={"permission": [more], "time": {"archived": 0}}).json()
    assert (again["title"], again["permission"]) == ("New", [rule, more])
    assert session_id in [session["id"] for session in shared.http.get("/session").json()]


def test_a_rule_that_a_client_added_holds_in_the_next_turn(shared):
    session_id = shared.session()
    rule = {"permission": "bash", "pattern": "*", "action": "deny"}
    shared.http.patch(f"/session/{session_id}", json={"permission": [rule]})
    shared.ask(session_id)
    messages = shared.http.get(f"/session/{session_id}/message").json()
    states = [part for m in messages for part in m["parts"] if part["type"] == "tool"]
    assert "unavailable tool 'bash'" in str(states)


def test_a_summary_is_written_with_the_model_that_is_named(shared, talk):
    session_id, _ = talk
    body = {"providerID": "scripted", "modelID": "test", "auto": False}
    assert shared.http.post(f"/session/{session_id}/summarize", json=body).json() is True
    messages = shared.http.get(f"/session/{session_id}/message").json()
    assert messages[-1]["info"]["summary"] is True


def test_children_and_todos_are_listed(shared, talk, problems):
    session_id, _ = talk
    child = shared.session(parentID=session_id)
    children = shared.http.get(f"/session/{session_id}/children").json()
    assert [one["id"] for one in children] == [child]
    assert [problem for one in children for problem in problems("Session", one)] == []
    assert shared.http.get(f"/session/{session_id}/todo").json() == []


def test_one_message_is_read_and_deleted_and_one_part(shared, talk, problems):
    session_id, messages = talk
    url = f"/session/{session_id}/message/{messages[1]['info']['id']}"
    found = shared.http.get(url).json()
    assert found == messages[1]
    part = found["parts"][1]["id"]
    assert shared.http.delete(f"{url}/part/{part}").json() is True
    assert part not in [one["id"] for one in shared.http.get(url).json()["parts"]]
    assert shared.http.delete(url).json() is True
    missing = shared.http.get(url)
    assert missing.status_code == 404
    assert missing.json()["name"] == "NotFoundError"


@pytest.mark.slow
def test_a_busy_session_is_a_conflict(serve):
    served = serve(script='== turn\ntool: bash {"command": "sleep 60"}\n')
    session_id = served.session()
    served.ask(session_id, path="prompt_async")
    messages = served.http.get(f"/session/{session_id}/message").json()
    wait_until(lambda: session_id in served.http.get("/session/status").json())
    refused = served.http.post(f"/session/{session_id}/revert", json={"messageID": messages[0]["info"]["id"]})
    assert refused.status_code == 409
    said = refused.json()
    assert (said["_tag"], said["sessionID"]) == ("SessionBusyError", session_id)
    served.http.post(f"/session/{session_id}/abort")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "revert", {"messageID": "msg_none"}, 404),
        ("POST", "revert", {"messageID": "other"}, 400),
        ("POST", "revert", {"messageID": "msg_none", "partID": "msg_none"}, 400),
        ("POST", "revert", {}, 400),
        ("POST", "fork", {"messageID": "msg_none"}, 404),
        ("POST", "fork", {"messageID": 1}, 400),
        ("GET", "diff?messageID=other", None, 400),
        ("POST", "summarize", {"providerID": "scripted"}, 400),
        ("POST", "summarize", {"providerID": "none", "modelID": "x"}, 400),
        ("PATCH", "", {"time": {"archived": "x"}}, 400),
        ("PATCH", "", {"permission": [{"permission": "bash"}]}, 400),
        ("GET", "message/msg_none", None, 404),
        ("GET", "message/other", None, 400),
        ("DELETE", "message/msg_none", None, 404),
        ("DELETE", "message/msg_none/part/x", None, 400),
    ],
)
def test_what_cannot_be_done_is_refused_in_opencodes_form(shared, talk, method, path, body, status):
    session_id, _ = talk
    url = f"/session/{session_id}" + (f"/{path}" if path else "")
    answer = shared.http.request(method, url, json=body)
    assert answer.status_code == status
    assert answer.json()["name"] in ("NotFoundError", "BadRequest")
    assert answer.json()["data"]["message"]


@pytest.mark.parametrize("path", ["revert", "unrevert", "fork", "summarize"])
def test_a_session_that_is_not_there_is_not_found(shared, path):
    body = {"messageID": "msg_x"} if path in ("revert", "fork") else {"providerID": "a", "modelID": "b"}
    assert shared.http.post(f"/session/ses_none/{path}", json=body).status_code == 404


@pytest.mark.parametrize("stamp", ["1e308", "9223372036854775808", "-5"])
def test_a_time_that_cannot_be_stored_is_refused_and_the_session_goes_on(shared, stamp):
    session_id = shared.session()
    url = f"/session/{session_id}"
    refused = shared.http.patch(url, content=f'{{"time": {{"archived": {stamp}}}}}')
    assert refused.status_code == 400
    assert "time.archived" in refused.json()["data"]["message"]
    assert shared.http.patch(url, json={"title": "goes on"}).json()["title"] == "goes on"


def test_a_schema_that_nothing_can_be_checked_against_is_refused(shared):
    wanted = {"type": "json_schema", "schema": {"type": "object", "properties": 5, "required": "abc"}}
    refused = shared.ask(shared.session(), format=wanted)
    assert refused.status_code == 400
    assert "format.schema" in refused.json()["data"]["message"]
