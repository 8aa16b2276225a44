"""opencode's newer routes of sessions: the same sessions, in the shapes of its document."""

import json

import pytest
from tests.server.conformance import problems_of

pytest_plugins = ["tests.server.repository"]

ABSENT = "ses_000000000000aaaaaaaaaaaaaa"
NO_MESSAGE = "msg_000000000000aaaaaaaaaaaaaa"
ONE = "/api/session/{sessionID}"


def sound(answer, method, path, status=200):
    """The body of an answer that is as the document has it."""
    assert answer.status_code == status, answer.text
    body = answer.json() if answer.content else None
    assert problems_of(method, path, status, body) == []
    return body


def asked(place, session_id, what, method="GET", status=200, **more):
    """Ask for something of a session."""
    answer = place.http.request(method, f"/api/session/{session_id}/{what}", **more)
    return sound(answer, method, f"{ONE}/{what.partition('?')[0]}", status)


@pytest.fixture(scope="module")
def talk(place):
    """A session in which a person prompted twice and ran a command of their own."""
    session_id = place.session(title="Talk")
    place.ask(session_id, "think")
    place.http.post(f"/session/{session_id}/shell", json={"agent": "build", "command": "echo out"})
    place.ask(session_id, "write words")
    return session_id


@pytest.mark.slow
def test_a_session_is_made_shown_and_listed(place):
    body = {"agent": "plan", "model": {"id": "test", "providerID": "scripted"}}
    made = sound(place.http.post("/api/session", json=body), "POST", "/api/session")["data"]
    assert (made["agent"], made["model"]["id"]) == ("plan", "test")
    assert made["location"] == {"directory": str(place.directory)}
    shown = sound(place.http.get(f"/api/session/{made['id']}"), "GET", ONE)
    assert shown["data"] == made
    lib = {"location": {"directory": str(place.directory / "lib")}}
    below = place.http.post("/api/session", json=lib).json()["data"]
    assert below["subpath"] == "lib"
    listed = sound(place.http.get("/api/session", params={"subpath": "lib"}), "GET", "/api/session")
    assert [one["id"] for one in listed["data"]] == [below["id"]]


def test_a_session_is_made_under_an_id_once(place):
    session_id = "ses_dfce22f23ffevQCOmo2UftY8mh"
    for title in ("once", "again"):
        made = sound(place.http.post("/api/session", json={"id": session_id}), "POST", "/api/session")
        assert made["data"]["id"] == session_id
        assert made["data"]["title"] != "again"
        place.http.patch(f"/session/{session_id}", json={"title": title})


def test_pages_of_sessions_go_both_ways(place):
    made = [place.session(title=f"page {number}") for number in range(5)][::-1]

    def page(**query):
        body = sound(place.http.get("/api/session", params=query), "GET", "/api/session")
        return [one["id"] for one in body["data"]], body["cursor"]

    first, cursor = page(search="page", limit=2)
    assert first == made[:2]
    second, after = page(cursor=cursor["next"], limit=2)
    assert second == made[2:4]
    assert page(cursor=after["previous"], limit=2)[0] == first
    assert page(cursor=after["next"], limit=2)[0] == made[4:]
    assert page(search="page", order="asc")[0] == made[::-1]


def test_the_messages_of_a_session_are_shown_in_the_newer_form(place, talk):
    body = asked(place, talk, "message?order=asc")
    kinds = [one["type"] for one in body["data"]]
    assert kinds == ["user", "assistant", "shell", "user", "assistant", "assistant"]
    first, answer, command, _, wrote, _ = body["data"]
    assert first["text"] == "think"
    assert [part["type"] for part in answer["content"]] == ["reasoning", "text"]
    assert (command["command"], command["output"]) == ("echo out", "out\n")
    (call,) = [part for part in wrote["content"] if part["type"] == "tool"]
    assert (call["name"], call["state"]["status"]) == ("write", "completed")
    newest, cursor = (lambda page: (page["data"], page["cursor"]))(asked(place, talk, "message?limit=2"))
    assert newest == body["data"][:-3:-1]
    older = asked(place, talk, f"message?limit=2&cursor={cursor['next']}")
    assert older["data"] == body["data"][-3:-5:-1]
    one = place.http.get(f"/api/session/{talk}/message/{first['id']}")
    assert sound(one, "GET", f"{ONE}/message/{{messageID}}")["data"] == first
    assert asked(place, talk, "context")["data"] == body["data"]


def test_the_history_tells_what_happened_in_order_and_in_pages(place, talk):
    body = asked(place, talk, "history")
    assert body["hasMore"] is False
    kinds = [one["type"].removeprefix("session.next.") for one in body["data"]]
    assert kinds[:5] == ["prompted", "step.started", "reasoning.started", "reasoning.ended", "text.started"]
    for wanted in ("shell.started", "shell.ended", "tool.called", "tool.success", "step.ended"):
        assert wanted in kinds
    numbers = [one["durable"]["seq"] for one in body["data"]]
    assert numbers == sorted(set(numbers))
    paged, after = [], 0
    while True:
        page = asked(place, talk, f"history?limit=4&after={after}")
        paged += page["data"]
        after = paged[-1]["durable"]["seq"]
        if not page["hasMore"]:
            break
    assert paged == body["data"]


def test_a_sessions_events_are_streamed_from_the_first_on_and_end_with_it(place):
    session_id = place.session(title="streamed")
    place.ask(session_id, "say hi")
    before = asked(place, session_id, "history")["data"]
    with place.http.stream("GET", f"/api/session/{session_id}/event") as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        lines = (json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: "))
        assert [next(lines) for _ in before] == before
        place.ask(session_id, "more", noReply=True)
        new = next(lines)
        assert (new["type"], new["data"]["prompt"]["text"]) == ("session.next.prompted", "more")
        seq = before[-1]["durable"]["seq"]
        url = f"/api/session/{session_id}/event?after={seq}"
        with place.http.stream("GET", url) as later:
            first = next(line for line in later.iter_lines() if line)
            assert json.loads(first[6:]) == new
        place.http.delete(f"/session/{session_id}")
        assert list(lines) == []


def test_a_prompt_is_admitted_once_and_its_turn_waited_for(place):
    session_id = place.session(title="admitted")
    message_id = "msg_2032356b7001Yki8XLVI0uKq5x"
    notes = place.directory / "notes.txt"
    notes.write_text("milk")
    prompt = {
        "text": "think",
        "files": [{"uri": notes.as_uri(), "name": "notes.txt"}],
        "agents": [{"name": "general"}],
    }
    body = {"id": message_id, "prompt": prompt}
    admitted = asked(place, session_id, "prompt", "POST", json=body)["data"]
    assert (admitted["id"], admitted["delivery"]) == (message_id, "steer")
    assert admitted["prompt"]["files"][0]["mime"] == "text/plain"
    asked(place, session_id, "wait", "POST", 204)
    assert asked(place, session_id, "prompt", "POST", json=body)["data"] == admitted
    other = {"id": message_id, "prompt": {"text": "other"}}
    assert asked(place, session_id, "prompt", "POST", 409, json=other)["_tag"] == "ConflictError"
    answer, first = asked(place, session_id, "message")["data"]
    assert (first["id"], first["text"], answer["type"]) == (message_id, "think", "assistant")
    assert (first["files"][0]["name"], first["agents"]) == ("notes.txt", [{"name": "general"}])
    seqs = {one["durable"]["seq"]: one["type"] for one in asked(place, session_id, "history")["data"]}
    assert seqs[admitted["admittedSeq"]] == "session.next.prompted"


def test_a_prompt_may_wait_for_the_turns_end_and_one_without_resume_is_not_answered(place, held):
    queued = asked(place, held, "prompt", "POST", json={"prompt": {"text": "later"}, "delivery": "queue"})
    assert queued["data"]["delivery"] == "queue"
    shown = [one.get("text") for one in asked(place, held, "message")["data"]]
    assert "later" not in shown
    quiet = place.session()
    asked(place, quiet, "prompt", "POST", json={"prompt": {"text": "note"}, "resume": False})
    assert [one["type"] for one in asked(place, quiet, "message")["data"]] == ["user"]


def test_active_sessions_are_those_with_a_turn_and_interrupt_ends_it(place, held):
    body = sound(place.http.get("/api/session/active"), "GET", "/api/session/active")
    assert body["data"][held] == {"type": "running"}
    asked(place, held, "interrupt", "POST", 204)
    asked(place, held, "wait", "POST", 204)
    assert held not in place.http.get("/api/session/active").json()["data"]
    newest = asked(place, held, "message?limit=1")["data"][0]
    assert newest["finish"] == "error"
    assert asked(place, held, "history")["data"][-1]["type"] == "session.next.step.failed"


def test_a_session_goes_on_with_the_agent_and_the_model_that_it_is_switched_to(place):
    session_id = place.session()
    place.ask(session_id, "think")
    asked(place, session_id, "agent", "POST", 204, json={"agent": "plan"})
    asked(place, session_id, "model", "POST", 204, json={"model": {"id": "other", "providerID": "scripted"}})
    asked(place, session_id, "prompt", "POST", json={"prompt": {"text": "think"}})
    asked(place, session_id, "wait", "POST", 204)
    newest = asked(place, session_id, "message?limit=1")["data"][0]
    assert (newest["agent"], newest["model"]["id"]) == ("plan", "other")
    for what, body in (
        ("agent", {"agent": "nobody"}),
        ("model", {"model": {"id": "no", "providerID": "no"}}),
    ):
        refused = asked(place, session_id, what, "POST", 400, json=body)
        assert refused["_tag"] == "InvalidRequestError"
    assert sound(place.http.get(f"/api/session/{session_id}"), "GET", ONE)["data"]["agent"] == "plan"


@pytest.mark.slow
def test_a_revert_is_staged_cleared_and_committed(place):
    session_id = place.session(title="staged")
    place.ask(session_id, "write one")
    made = place.directory / "two.txt"
    second = place.ask(session_id, "write two", noReply=True).json()["info"]["id"]
    place.ask(session_id, "write two")
    assert made.read_text() == "two"
    staged = asked(place, session_id, "revert/stage", "POST", json={"messageID": second})["data"]
    assert staged["messageID"] == second
    assert [(place.directory / name).exists() for name in ("one.txt", "two.txt")] == [True, False]
    assert sound(place.http.get(f"/api/session/{session_id}"), "GET", ONE)["data"]["revert"] == staged
    asked(place, session_id, "revert/clear", "POST", 204)
    assert made.read_text() == "two"
    body = {"messageID": second, "files": False}
    asked(place, session_id, "revert/stage", "POST", json=body)
    assert made.read_text() == "two"
    asked(place, session_id, "revert/commit", "POST", 204)
    assert second not in [one["id"] for one in asked(place, session_id, "message")["data"]]
    kinds = [one["type"] for one in asked(place, session_id, "history")["data"] if "revert" in one["type"]]
    assert [kind.rpartition(".")[2] for kind in kinds] == ["staged", "cleared", "staged", "committed"]


def test_a_session_is_compacted(place):
    session_id = place.session(title="long")
    place.ask(session_id, "think")
    asked(place, session_id, "compact", "POST", 204)
    (summary,) = [one for one in asked(place, session_id, "message")["data"] if one["type"] == "compaction"]
    assert summary["reason"] == "manual"
    assert summary["summary"]
    kinds = [one["type"] for one in asked(place, session_id, "history")["data"]]
    assert [kind for kind in kinds if "compaction" in kind] == [
        "session.next.compaction.started",
        "session.next.compaction.ended",
    ]
    assert asked(place, session_id, "context")["data"][0] == summary


@pytest.mark.parametrize(
    ("method", "what", "body"),
    [
        ("GET", "", None),
        ("GET", "/message", None),
        ("GET", "/message/{messageID}", None),
        ("GET", "/context", None),
        ("GET", "/history", None),
        ("GET", "/event", None),
        ("POST", "/prompt", {"prompt": {"text": "x"}}),
        ("POST", "/agent", {"agent": "build"}),
        ("POST", "/model", {"model": {"id": "m", "providerID": "p"}}),
        ("POST", "/wait", None),
        ("POST", "/compact", None),
        ("POST", "/interrupt", None),
        ("POST", "/revert/stage", {"messageID": NO_MESSAGE}),
        ("POST", "/revert/clear", None),
        ("POST", "/revert/commit", None),
    ],
)
def test_a_session_that_is_not_there_is_said_in_the_newer_form(place, method, what, body):
    url = f"/api/session/{ABSENT}{what.replace('{messageID}', NO_MESSAGE)}"
    error = sound(place.http.request(method, url, json=body), method, ONE + what, 404)
    assert (error["_tag"], error["sessionID"]) == ("SessionNotFoundError", ABSENT)


@pytest.mark.parametrize(
    ("method", "what", "body", "status", "tag"),
    [
        ("GET", "/message/{messageID}", None, 404, "MessageNotFoundError"),
        ("POST", "/revert/stage", {"messageID": NO_MESSAGE}, 404, "MessageNotFoundError"),
        ("GET", "/message?cursor=x", None, 400, "InvalidCursorError"),
        ("GET", "/message?cursor=e30", None, 400, "InvalidCursorError"),
        ("GET", "/message?limit=0", None, 400, "InvalidRequestError"),
        ("GET", "/message?order=x", None, 400, "InvalidRequestError"),
        ("GET", "/history?limit=x", None, 400, "InvalidRequestError"),
        ("GET", "/history?after=-1", None, 400, "InvalidRequestError"),
        ("GET", "/event?after=x", None, 400, "InvalidRequestError"),
        ("POST", "/prompt", {"prompt": {}}, 400, "InvalidRequestError"),
        ("POST", "/prompt", {"prompt": {"text": "x"}, "delivery": "soon"}, 400, "InvalidRequestError"),
        ("POST", "/prompt", {"prompt": {"text": "x"}, "id": "wrong"}, 400, "InvalidRequestError"),
        ("POST", "/revert/stage", {}, 400, "InvalidRequestError"),
        ("POST", "/compact", None, 400, "InvalidRequestError"),
    ],
)
def test_what_cannot_be_done_is_refused_in_the_newer_form(place, method, what, body, status, tag):
    session_id = place.session()
    url = f"/api/session/{session_id}{what.replace('{messageID}', NO_MESSAGE)}"
    answer = place.http.request(method, url, json=body)
    assert sound(answer, method, ONE + what.partition("?")[0], status)["_tag"] == tag


@pytest.mark.parametrize(
    ("query", "tag"), [("cursor=x", "InvalidCursorError"), ("limit=0", "InvalidRequestError")]
)
def test_a_list_that_cannot_be_made_is_refused(place, query, tag):
    answer = place.http.get(f"/api/session?{query}")
    assert sound(answer, "GET", "/api/session", 400)["_tag"] == tag


def test_while_a_turn_runs_nothing_is_taken_back(place, held):
    first = asked(place, held, "message?order=asc")["data"][0]["id"]
    for what, body in (("stage", {"messageID": first}), ("clear", None), ("commit", None)):
        refused = asked(place, held, f"revert/{what}", "POST", 400, json=body)
        assert "busy" in refused["message"]


def test_a_prompt_that_cannot_be_carried_out_is_not_admitted(place):
    session_id = place.session()
    body = {"prompt": {"text": "x", "files": [{"uri": "file:///no/such"}]}}
    assert "no/such" in asked(place, session_id, "prompt", "POST", 400, json=body)["message"]
    assert asked(place, session_id, "message")["data"] == []
