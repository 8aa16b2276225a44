from urllib.parse import quote

import httpx2
import pytest
from tests.server.conftest import LOGIN, PATIENCE
from tests.waiting import wait_until

from instar import __version__


@pytest.mark.slow
def test_health_says_the_version(shared):
    assert shared.http.get("/global/health").json() == {"healthy": True, "version": __version__}


def test_a_turn_through_http_has_opencodes_shapes(shared, problems):
    made = shared.http.post("/session", json={"title": "T"})
    assert problems("Session", made.json()) == []
    session_id = made.json()["id"]
    answer = shared.ask(session_id).json()
    assert problems("AssistantMessage", answer["info"]) == []
    assert [part["text"] for part in answer["parts"] if part["type"] == "text"] == ["Done."]
    messages = shared.http.get(f"/session/{session_id}/message").json()
    assert [message["info"]["role"] for message in messages] == ["user", "assistant", "assistant"]
    for message in messages:
        assert problems("Message", message["info"]) == []
        assert [problem for part in message["parts"] for problem in problems("Part", part)] == []
    assert shared.http.get("/session/status").json() == {}
    listed = shared.http.get("/session").json()
    assert [problem for session in listed for problem in problems("Session", session)] == []
    assert session_id in [session["id"] for session in listed]
    assert shared.http.get(f"/session/{session_id}").json()["title"] == "T"


def test_a_prompt_without_reply_is_stored_and_returned(shared):
    session_id = shared.session()
    stored = shared.ask(session_id, "remember", noReply=True).json()
    assert stored["info"]["role"] == "user"
    assert len(shared.http.get(f"/session/{session_id}/message").json()) == 1


def test_a_deleted_session_is_gone(shared):
    session_id = shared.session()
    assert shared.http.delete(f"/session/{session_id}").json() is True
    assert shared.http.get(f"/session/{session_id}").status_code == 404


def test_sessions_are_narrowed_by_title_parent_and_number(shared):
    parent = shared.session(title="Needle one")
    child = shared.session(title="Needle two", parentID=parent)

    def found(**query):
        return [session["id"] for session in shared.http.get("/session", params=query).json()]

    assert found(search="needle") == [child, parent]
    assert found(search="needle", roots="true") == [parent]
    assert found(search="needle", limit=1) == [child]
    assert found(start=9e15) == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "name"),
    [
        ("GET", "/session/ses_none", None, 404, "NotFoundError"),
        ("GET", "/session/ses_none/message", None, 404, "NotFoundError"),
        ("POST", "/session/ses_none/message", '{"parts": []}', 404, "NotFoundError"),
        ("DELETE", "/session/ses_none", None, 404, "NotFoundError"),
        ("GET", "/session/wrong", None, 400, "BadRequest"),
        ("GET", "/nothing", None, 404, "NotFoundError"),
        ("PUT", "/session", None, 405, "BadRequest"),
        ("POST", "/session", "{", 400, "BadRequest"),
        ("POST", "/session", "[]", 400, "BadRequest"),
        ("POST", "/session", '"\\ud800"', 400, "BadRequest"),
        ("POST", "/session", "[" * 100_000, 400, "BadRequest"),
        ("POST", "/session", '{"title": 1}', 400, "BadRequest"),
        ("POST", "/session", '{"agent": "nobody"}', 400, "BadRequest"),
        ("POST", "/session", '{"parentID": "ses_none"}', 400, "BadRequest"),
        ("GET", "/session?limit=many", None, 400, "BadRequest"),
        ("GET", "/session?limit=-1", None, 400, "BadRequest"),
        ("GET", "/session?directory=/no/such/folder", None, 400, "BadRequest"),
        ("GET", "/session?directory=relative", None, 400, "BadRequest"),
        ("GET", "/session?directory=%00", None, 400, "BadRequest"),
        ("GET", "/event?directory=/no/such/folder", None, 400, "BadRequest"),
    ],
)
def test_a_request_that_cannot_be_answered_gets_opencodes_error(shared, method, path, body, status, name):
    answer = shared.http.request(method, path, content=body)
    assert answer.status_code == status
    assert answer.json()["name"] == name
    assert answer.json()["data"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        '{"parts": []}',
        '{"parts": [{"type": "text"}]}',
        '{"parts": [{"type": "nothing"}]}',
        '{"parts": [1]}',
        '{"parts": [{"type": "text", "text": "a"}], "messageID": "wrong"}',
        '{"parts": [{"type": "text", "text": "a"}], "agent": "nobody"}',
        '{"parts": [{"type": "text", "text": "a"}], "model": {"providerID": "no", "modelID": "no"}}',
        '{"parts": [{"type": "text", "text": "a"}]}',
    ],
)
@pytest.mark.parametrize("path", ["message", "prompt_async"])
def test_a_prompt_that_cannot_be_carried_out_is_refused_before_anything_is_stored(shared, body, path):
    session_id = shared.session()
    answer = shared.http.post(f"/session/{session_id}/{path}", content=body)
    assert (answer.status_code, answer.json()["name"]) == (400, "BadRequest")
    assert shared.http.get(f"/session/{session_id}/message").json() == []


def test_a_body_that_is_too_large_is_refused(shared):
    def pieces():
        for _ in range(21):
            yield b" " * 1024 * 1024

    for content in (b" " * (20 * 1024 * 1024 + 1), pieces()):
        # On a connection of its own: it is cut where the rest of the body takes too long to come.
        answer = httpx2.post(f"{shared.url}/session", content=content, auth=LOGIN, timeout=PATIENCE)
        assert answer.status_code == 413


def test_each_directory_has_its_own_instance_and_a_session_stays_in_its_own(shared, tmp_path):
    other = tmp_path / "an other é"
    other.mkdir()
    header = {"x-opencode-directory": quote(str(other))}
    made = shared.http.post("/session", json={}, headers=header).json()
    assert made["directory"] == str(other)
    # The prompt names no directory: the turn still runs where the session lives.
    with shared.events(params={"directory": str(other)}) as events:
        assert shared.ask(made["id"]).status_code == 200
        heard = (event["properties"].get("sessionID") for event in events)
        assert next(filter(None, heard)) == made["id"]


@pytest.mark.slow
def test_an_abort_ends_the_turn_and_its_children(serve, tmp_path):
    mark = tmp_path / "project" / "mark"
    served = serve(script=f'== turn\ntool: bash {{"command": "touch {mark}; sleep 4715"}}\n')
    session_id = served.session()
    assert served.ask(session_id, path="prompt_async").status_code == 204
    wait_until(mark.exists)
    assert served.http.get("/session/status").json() == {session_id: {"type": "busy"}}
    assert served.http.post(f"/session/{session_id}/abort").json() is True
    assert served.http.get("/session/status").json() == {}
    last = served.http.get(f"/session/{session_id}/message").json()[-1]
    assert last["info"]["error"]["name"] == "MessageAbortedError"


@pytest.mark.slow
def test_a_failed_model_call_is_an_answer_with_an_error(serve, problems):
    served = serve(script="== turn\nerror: 400 the model said no\n")
    answer = served.ask(served.session())
    assert answer.status_code == 200
    assert answer.json()["info"]["error"]["name"] == "APIError"
    assert problems("AssistantMessage", answer.json()["info"]) == []


@pytest.mark.slow
def test_a_broken_config_is_said_to_each_request_and_mended_without_a_restart(serve):
    served = serve()
    path = served.directory / "opencode.json"
    path.write_text("{\n  nonsense\n}")
    answer = served.http.get("/session")
    assert answer.status_code == 400
    assert f"{path}:2:3: " in answer.json()["data"]["message"]
    path.unlink()
    assert served.http.get("/session").json() == []
