"""opencode's newer routes of what waits for a person: permissions and questions."""

import pytest
from tests.server.conformance import problems_of
from tests.waiting import wait_until

pytest_plugins = ["tests.server.repository"]

ABSENT = "ses_000000000000aaaaaaaaaaaaaa"
ONE = "/api/session/{sessionID}"
PERMISSION = ONE + "/permission/{requestID}"


def sound(answer, method, path, status=200):
    """The body of an answer that is as the document has it."""
    assert answer.status_code == status, answer.text
    body = answer.json() if answer.content else None
    assert problems_of(method, path, status, body) == []
    return body


@pytest.fixture
def waiting(place):
    """A session whose turn waits for a permission, and the request."""
    return pending(place, "run", "permission")


def pending(place, text, what):
    session_id = place.session(title=text)
    place.ask(session_id, text, "prompt_async")
    url = f"/api/session/{session_id}/{what}"
    wait_until(lambda: place.http.get(url).json()["data"])
    (request,) = sound(place.http.get(url), "GET", f"{ONE}/{what}")["data"]
    return session_id, request


def idle(place, session_id):
    assert place.http.post(f"/api/session/{session_id}/wait").status_code == 204
    return place.http.get(f"/api/session/{session_id}/message").json()["data"]


@pytest.mark.slow
def test_a_permission_is_shown_with_its_call_and_allowed_once(place, waiting):
    session_id, request = waiting
    assert (request["action"], request["resources"], request["source"]["type"]) == (
        "bash",
        ["echo hi"],
        "tool",
    )
    url = f"/api/session/{session_id}/permission/{request['id']}"
    assert sound(place.http.get(url), "GET", PERMISSION)["data"] == request
    here = sound(place.http.get("/api/permission/request"), "GET", "/api/permission/request")
    assert (here["data"], here["location"]["directory"]) == ([request], str(place.directory))
    sound(place.http.post(f"{url}/reply", json={"reply": "once"}), "POST", PERMISSION + "/reply", 204)
    newest, answer, _ = idle(place, session_id)
    (call,) = [part for part in answer["content"] if part["type"] == "tool"]
    assert call["state"]["content"] == [{"type": "text", "text": "hi\n"}]
    assert newest["content"][0]["text"].startswith("Done")
    gone = sound(place.http.get(url), "GET", PERMISSION, 404)
    assert (gone["_tag"], gone["requestID"]) == ("PermissionNotFoundError", request["id"])
    again = place.http.post(f"{url}/reply", json={"reply": "once"})
    assert sound(again, "POST", PERMISSION + "/reply", 404)["_tag"] == "PermissionNotFoundError"


def test_a_rejection_with_words_reaches_the_model(place, waiting):
    session_id, request = waiting
    url = f"/api/session/{session_id}/permission/{request['id']}/reply"
    assert place.http.post(url, json={"reply": "maybe"}).status_code == 400
    assert place.http.post(url, json={"reply": "reject", "message": "not now"}).status_code == 204
    _, answer, _ = idle(place, session_id)
    (call,) = [part for part in answer["content"] if part["type"] == "tool"]
    assert "not now" in call["state"]["error"]["message"]


def test_what_was_allowed_for_always_is_listed_and_taken_back(place, waiting):
    session_id, request = waiting
    url = f"/api/session/{session_id}/permission/{request['id']}/reply"
    assert place.http.post(url, json={"reply": "always"}).status_code == 204
    idle(place, session_id)
    path = "/api/permission/saved"
    (saved,) = sound(place.http.get(path), "GET", path)["data"]
    assert (saved["action"], [saved["resource"]]) == ("bash", request["save"])
    assert place.http.get(path, params={"projectID": "other"}).json()["data"] == []
    for removed in ("x", "e30", "Wzfd", saved["id"]):
        assert place.http.get(path).json()["data"] == [saved]
        sound(place.http.delete(f"{path}/{removed}"), "DELETE", path + "/{id}", 204)
    assert place.http.get(path).json()["data"] == []


@pytest.mark.parametrize(
    ("action", "resource", "effect"), [("read", "a.txt", "allow"), ("webfetch", "*", "deny")]
)
def test_a_client_asks_what_the_rules_say(place, action, resource, effect):
    url = f"/api/session/{place.session()}/permission"
    answer = place.http.post(url, json={"action": action, "resources": [resource]})
    assert sound(answer, "POST", ONE + "/permission")["data"]["effect"] == effect
    assert place.http.get(url).json()["data"] == []


def test_what_the_rules_leave_to_a_person_waits_for_an_answer(place):
    url = f"/api/session/{place.session()}/permission"
    body = {"action": "bash", "resources": ["ls"], "save": ["ls *"]}
    asked = sound(place.http.post(url, json=body), "POST", ONE + "/permission")["data"]
    assert asked["effect"] == "ask"
    (request,) = place.http.get(url).json()["data"]
    assert (request["id"], request["save"]) == (asked["id"], ["ls *"])
    assert place.http.post(f"{url}/{asked['id']}/reply", json={"reply": "once"}).status_code == 204
    assert place.http.get(url).json()["data"] == []
    for wrong in ({**body, "agent": "nobody"}, {**body, "id": "per_x"}, {"action": "bash"}):
        assert sound(place.http.post(url, json=wrong), "POST", ONE + "/permission", 400)


@pytest.mark.parametrize("dismissed", [False, True])
def test_a_question_is_shown_and_answered_or_dismissed(place, dismissed):
    session_id, request = pending(place, "ask", "question")
    assert request["questions"][0]["question"] == "Which?"
    here = sound(place.http.get("/api/question/request"), "GET", "/api/question/request")
    assert here["data"] == [request]
    url = f"/api/session/{session_id}/question/{request['id']}"
    path = ONE + "/question/{requestID}/"
    wrong = place.http.post(f"{url}/reply", json={"answers": [["a"], ["b"]]})
    assert sound(wrong, "POST", path + "reply", 400)["_tag"] == "InvalidRequestError"
    what, body = ("reject", None) if dismissed else ("reply", {"answers": [["a"]]})
    sound(place.http.post(f"{url}/{what}", json=body), "POST", path + what, 204)
    idle(place, session_id)
    gone = sound(place.http.post(f"{url}/{what}", json=body), "POST", path + what, 404)
    assert (gone["_tag"], gone["requestID"]) == ("QuestionNotFoundError", request["id"])


@pytest.mark.parametrize(
    ("method", "what", "body"),
    [
        ("GET", "permission", None),
        ("POST", "permission", {"action": "read", "resources": ["x"]}),
        ("GET", "permission/per_none", None),
        ("POST", "permission/per_none/reply", {"reply": "once"}),
        ("GET", "question", None),
        ("POST", "question/que_none/reply", {"answers": []}),
        ("POST", "question/que_none/reject", None),
    ],
)
def test_a_session_that_is_not_there_is_said(place, method, what, body):
    answer = place.http.request(method, f"/api/session/{ABSENT}/{what}", json=body)
    path = f"{ONE}/{what}".replace("per_none", "{requestID}").replace("que_none", "{requestID}")
    assert sound(answer, method, path, 404)["_tag"] == "SessionNotFoundError"


@pytest.mark.parametrize(("method", "what"), [("GET", "permission/x"), ("POST", "question/x/reject")])
def test_an_id_of_another_form_is_refused(place, method, what):
    answer = place.http.request(method, f"/api/session/{place.session()}/{what}")
    path = f"{ONE}/{what.replace('/x', '/{requestID}')}"
    assert sound(answer, method, path, 400)["_tag"] == "InvalidRequestError"
