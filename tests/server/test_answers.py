"""What waits for a person, and clients that answer it."""

import json
import sqlite3
import time
from pathlib import Path

import pytest
from tests.waiting import take_quickest, wait_until

BASH = '== turn\ntool: bash {"command": "echo ran"}\n== turn\ntext: went on\n'
ASK = json.dumps({"permission": {"bash": "ask"}})
COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}],
}
QUESTION = f"== turn\ntool: question {json.dumps({'questions': [COLOUR]})}\n== turn\ntext: went on\n"


@pytest.fixture
def asking(serve):
    """A server in whose session a call or a question waits: the server, the session and what waits."""

    def start(kind="permission", script=BASH):
        served = serve(script=script)
        (served.directory / "opencode.json").write_text(ASK)
        session_id = served.session()
        assert served.ask(session_id, path="prompt_async").status_code == 204
        wait_until(lambda: served.http.get(f"/{kind}").json())
        (waiting,) = served.http.get(f"/{kind}").json()
        return served, session_id, waiting

    return start


def outcome(served, session_id):
    """What the model read of its call, and whether it went on."""
    wait_until(lambda: served.http.get("/session/status").json() == {})
    messages = served.http.get(f"/session/{session_id}/message").json()
    parts = [part for message in messages for part in message["parts"]]
    (state,) = (part["state"] for part in parts if part["type"] == "tool")
    texts = [part["text"] for part in parts if part["type"] == "text"]
    return state.get("output") or state["error"], texts[-1] == "went on"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "said", "went_on"),
    [
        ({"reply": "once"}, "ran\n", True),
        ({"reply": "always"}, "ran\n", True),
        ({"reply": "reject"}, "The user rejected permission to use this specific tool call.", False),
        (
            {"reply": "reject", "message": "use printf"},
            "The user rejected permission to use this specific tool call with the following feedback: use printf",
            True,
        ),
    ],
)
def test_a_client_answers_a_call_that_waits(asking, problems, given, said, went_on):
    served, session_id, waiting = asking()
    assert problems("PermissionRequest", waiting) == []
    assert (waiting["sessionID"], waiting["patterns"]) == (session_id, ["echo ran"])
    answer = served.http.post(f"/permission/{waiting['id']}/reply", json=given)
    assert (answer.status_code, answer.json()) == (200, True)
    assert outcome(served, session_id) == (said, went_on)
    assert served.http.get("/permission").json() == []
    again = served.http.post(f"/permission/{waiting['id']}/reply", json=given)
    assert again.status_code == 404
    assert problems("PermissionNotFoundError", again.json()) == []


@pytest.mark.slow
def test_what_was_allowed_for_always_is_not_asked_again(asking):
    served, session_id, waiting = asking()
    served.http.post(f"/permission/{waiting['id']}/reply", json={"reply": "always"})
    outcome(served, session_id)
    assert served.ask(served.session()).json()["parts"][-2]["text"] == "went on"


@pytest.mark.slow
def test_an_older_client_answers_at_the_session(asking):
    served, session_id, waiting = asking()
    url = f"/session/{session_id}/permissions/{waiting['id']}"
    assert served.http.post(url, json={"response": "maybe"}).status_code == 400
    assert served.http.post(url, json={"response": "once"}).json() is True
    assert outcome(served, session_id) == ("ran\n", True)
    assert served.http.post(url, json={"response": "once"}).status_code == 404


@pytest.mark.slow
def test_an_answer_at_another_session_answers_nothing(asking):
    served, session_id, waiting = asking()
    url = f"/session/{served.session()}/permissions/{waiting['id']}"
    assert served.http.post(url, json={"response": "always"}).status_code == 404
    assert served.http.get("/permission").json() == [waiting]
    served.http.post(f"/permission/{waiting['id']}/reply", json={"reply": "once"})
    assert outcome(served, session_id) == ("ran\n", True)


@pytest.mark.slow
def test_an_answer_that_names_another_directory_finds_its_call(asking, tmp_path):
    served, session_id, waiting = asking()
    other = tmp_path / "other"
    other.mkdir()
    header = {"x-opencode-directory": str(other)}
    assert served.http.get("/permission", params={"directory": str(other)}).json() == []
    answer = served.http.post(f"/permission/{waiting['id']}/reply", json={"reply": "once"}, headers=header)
    assert answer.json() is True
    assert outcome(served, session_id) == ("ran\n", True)


@pytest.mark.slow
def test_a_client_answers_a_question(asking, problems):
    served, session_id, waiting = asking("question", QUESTION)
    assert problems("QuestionRequest", waiting) == []
    assert (waiting["sessionID"], waiting["questions"]) == (session_id, [COLOUR])
    url = f"/question/{waiting['id']}/reply"
    assert served.http.post(url, json={"answers": []}).status_code == 400
    assert served.http.post(url, json={"answers": [["blue"]]}).json() is True
    assert outcome(served, session_id) == ("The person answered:\nWhich colour? blue", True)
    again = served.http.post(url, json={"answers": [["blue"]]})
    assert again.status_code == 404
    assert problems("QuestionNotFoundError", again.json()) == []


@pytest.mark.slow
def test_a_client_dismisses_a_question(asking):
    served, session_id, waiting = asking("question", QUESTION)
    assert served.http.post(f"/question/{waiting['id']}/reject").json() is True
    assert outcome(served, session_id) == ("The user dismissed this question.", False)


@pytest.mark.slow
def test_a_session_that_denies_questions_is_not_offered_the_tool(serve):
    served = serve(script=QUESTION)
    session_id = served.session(permission=[{"permission": "question", "pattern": "*", "action": "deny"}])
    served.ask(session_id)
    assert "unavailable tool 'question'" in outcome(served, session_id)[0]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "script"), [("permission", BASH), ("question", QUESTION)])
def test_an_abort_withdraws_what_waits(asking, kind, script):
    served, session_id, waiting = asking(kind, script)
    assert served.http.post(f"/session/{session_id}/abort").json() is True
    assert served.http.get(f"/{kind}").json() == []
    body = {"reply": "once", "answers": [["red"]]}
    assert served.http.post(f"/{kind}/{waiting['id']}/reply", json=body).status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "script"), [("permission", BASH), ("question", QUESTION)])
def test_a_server_with_something_that_waits_ends_within_two_seconds(asking, kind, script):
    def stopped() -> float:
        served, _, _ = asking(kind, script)
        began = time.monotonic()
        assert served.stop() == 0
        return time.monotonic() - began

    assert take_quickest(stopped, 2.0) < 2


@pytest.mark.slow
def test_what_waited_when_the_server_died_is_withdrawn_by_the_next(asking, serve, clean_environment):
    served, _, waiting = asking()
    served.process.kill()
    served.process.wait()
    database = Path(clean_environment["XDG_DATA_HOME"]) / "instar" / "instar.db"
    assert asked(database) == [(waiting["id"],)]
    assert serve().http.get("/permission").json() == []
    assert asked(database) == []


def asked(database):
    connection = sqlite3.connect(database)
    try:
        return connection.execute("SELECT id FROM instar_ask").fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/permission/per_none/reply", '{"reply": "once"}', 404),
        ("/permission/wrong/reply", '{"reply": "once"}', 400),
        ("/permission/per_none/reply", '{"reply": "yes"}', 400),
        ("/permission/per_none/reply", '{"reply": "once", "message": 1}', 400),
        ("/permission/per_none/reply", "{}", 400),
        ("/permission/per_none/reply?directory=/no/such/folder", '{"reply": "once"}', 400),
        ("/session/ses_none/permissions/per_none", '{"response": "once"}', 404),
        ("/session/ses_none/permissions/wrong", '{"response": "once"}', 400),
        ("/question/que_none/reply", '{"answers": [["a"]]}', 404),
        ("/question/que_none/reply", '{"answers": ["a"]}', 400),
        ("/question/que_none/reply", "[]", 400),
        ("/question/wrong/reply", '{"answers": [["a"]]}', 400),
        ("/question/que_none/reject", "", 404),
        ("/question/wrong/reject", "", 400),
    ],
)
def test_an_answer_to_nothing_is_opencodes_error(shared, path, body, status):
    answer = shared.http.post(path, content=body)
    assert answer.status_code == status
    assert "message" in answer.json() or answer.json()["data"]["message"]
