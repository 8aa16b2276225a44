"""Sessions through HTTP as a real opencode 1.18.33 answers: lists, pages, a person's commands, parts, ends of turns."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.server.conformance import problems_of
from tests.server.repository import MODEL
from tests.waiting import wait_until

pytest_plugins = ["tests.server.repository"]

ABSENT = "ses_000000000000aaaaaaaaaaaaaa"
NO_MESSAGE = "msg_000000000000aaaaaaaaaaaaaa"
NO_PART = "prt_000000000000aaaaaaaaaaaaaa"


def sound(answer, method, path, status=200):
    """The body of an answer that is as the document has it."""
    assert answer.status_code == status, answer.text
    body = answer.json() if answer.content else None
    assert problems_of(method, path, status, body) == []
    return body


def seal(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


# -- lists -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(place):
    """A session in the worktree, in a folder and in a deeper one."""
    lib = place.directory / "lib"
    made = {}
    for name, folder in (("top", place.directory), ("lib", lib), ("deep", lib / "deep")):
        body = {"title": f"folder {name}"}
        made[name] = place.http.post("/session", json=body, params={"directory": str(folder)}).json()
    return made


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["deep", "lib", "top"]),
        ({"path": ""}, ["deep", "lib", "top"]),
        ({"path": "lib"}, ["deep", "lib"]),
        ({"path": "lib/deep"}, ["deep"]),
        ({"path": "li"}, []),
        ({"scope": "project"}, ["deep", "lib", "top"]),
        ({"scope": "project", "path": "lib"}, ["deep", "lib"]),
        ({"directory": "lib"}, ["lib"]),
        ({"directory": "lib", "path": "lib"}, ["deep", "lib"]),
        ({"directory": "lib", "scope": "project"}, ["deep", "lib", "top"]),
        ({"directory": "lib", "path": ""}, ["deep", "lib", "top"]),
        ({"limit": 1}, ["deep"]),
        ({"limit": 0}, []),
        ({"start": 9e15}, []),
        ({"search": "FOLDER D"}, ["deep"]),
    ],
)
def test_sessions_are_listed_by_the_folder_that_they_work_in(place, folders, query, expected):
    asked = {"search": "folder", **query}
    if "directory" in asked:
        asked["directory"] = str(place.directory / asked["directory"])
    answer = place.http.get("/session", params=asked)
    found = sound(answer, "GET", "/session")
    assert [one["title"] for one in found] == [f"folder {name}" for name in expected]


def test_a_folder_may_be_named_by_a_link(place, folders, tmp_path):
    (tmp_path / "link").symlink_to(place.directory / "lib")
    for path in ("/session", "/experimental/session"):
        query = {"search": "folder", "directory": str(tmp_path / "link")}
        found = sound(place.http.get(path, params=query), "GET", path)
        assert [one["title"] for one in found] == ["folder lib"]


@pytest.mark.parametrize("path", ["/session", "/experimental/session"])
def test_a_search_finds_what_was_said_in_a_session_too(place, path):
    place.session(title="another bird")
    session_id = place.session(title="a bird")
    place.ask(session_id, f"The heron of {path} stands still")
    found = sound(place.http.get(path, params={"search": f"HERON of {path}"}), "GET", path)
    assert [one["id"] for one in found] == [session_id]


def test_an_archived_session_stays_in_its_projects_list_and_leaves_the_list_of_all(place):
    session_id = place.session(title="away with it")
    place.http.patch(f"/session/{session_id}", json={"time": {"archived": 5}})

    def titles(path, **query):
        found = sound(place.http.get(path, params={"search": "away with", **query}), "GET", path)
        return [one["title"] for one in found]

    assert titles("/session") == ["away with it"]
    assert titles("/experimental/session") == []
    assert titles("/experimental/session", archived="true") == ["away with it"]


@pytest.mark.slow
def test_a_list_that_names_no_limit_has_a_hundred_sessions_and_the_list_of_all_names_its_next_page(place):
    for number in range(103):
        place.session(title=f"many {number}")
    assert len(place.http.get("/session").json()) == 100
    assert len(place.http.get("/session", params={"limit": 103}).json()) == 103
    path, titles, cursor = "/experimental/session", [], None
    for _ in range(3):
        query = {"search": "many", "limit": 50, **({"cursor": cursor} if cursor else {})}
        answer = place.http.get(path, params=query)
        page = sound(answer, "GET", path)
        assert all(one["project"]["worktree"] == str(place.directory) for one in page)
        titles += [one["title"] for one in page]
        cursor = answer.headers.get("x-next-cursor")
        if cursor is None:
            break
        assert cursor == str(page[-1]["time"]["updated"])
    # Sessions of one millisecond at the edge of a page are lost there, as in opencode.
    assert titles == sorted(titles, key=lambda title: -int(title.split()[1]))
    assert 90 <= len(set(titles)) == len(titles)


def test_a_session_of_another_project_stands_in_the_list_of_all_with_that_project(place, tmp_path):
    params = {"directory": str(tmp_path)}
    made = place.http.post("/session", json={"title": "elsewhere"}, params=params).json()
    path = "/experimental/session"
    (found,) = sound(place.http.get(path, params={"search": "elsewhere"}), "GET", path)
    assert (found["id"], found["project"]) == (made["id"], {"id": made["projectID"], "worktree": "/"})
    assert (
        place.http.get(path, params={"search": "elsewhere", "directory": str(place.directory)}).json() == []
    )


# -- pages of messages -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def said(place):
    """A session with five messages that nobody answered, and their ids."""
    session_id = place.session(title="Pages")
    made = [place.ask(session_id, f"text {number}", noReply=True).json() for number in range(5)]
    return session_id, [one["info"]["id"] for one in made]


def paged(place, session_id, **query):
    answer = place.http.get(f"/session/{session_id}/message", params=query)
    found = sound(answer, "GET", "/session/{sessionID}/message")
    return [one["info"]["id"] for one in found], answer


def test_a_page_of_messages_names_the_one_before_it(place, said):
    session_id, every = said
    assert paged(place, session_id)[0] == paged(place, session_id, limit=0)[0] == every
    found, answer = paged(place, session_id, limit=2, directory=str(place.directory))
    assert found == every[3:]
    cursor = answer.headers["x-next-cursor"]
    mark = json.loads(base64.urlsafe_b64decode(cursor + "=="))
    assert mark["id"] == every[3]
    assert answer.headers["access-control-expose-headers"] == "Link, X-Next-Cursor"
    url, relation = answer.headers["link"].split("; ")
    assert (relation, url[:1], url[-1:]) == ('rel="next"', "<", ">")
    following = place.http.get(url[1:-1])
    assert [one["info"]["id"] for one in following.json()] == every[1:3]
    last, answer = paged(place, session_id, limit=2, before=following.headers["x-next-cursor"])
    assert (last, answer.headers.get("link")) == (every[:1], None)


def test_a_page_goes_on_also_from_a_message_that_was_deleted_meanwhile(place):
    session_id = place.session()
    every = [place.ask(session_id, str(number), noReply=True).json()["info"]["id"] for number in range(4)]
    cursor = paged(place, session_id, limit=2)[1].headers["x-next-cursor"]
    place.http.delete(f"/session/{session_id}/message/{every[2]}")
    assert paged(place, session_id, limit=2, before=cursor)[0] == every[:2]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 2, "before": "abc"},
        {"limit": 2, "before": NO_MESSAGE},
        {"limit": 2, "before": seal({"id": "x", "time": 1})},
        {"limit": 2, "before": seal({"id": NO_MESSAGE})},
        {"limit": 2, "before": seal([1])},
        {"before": seal({"id": NO_MESSAGE, "time": 1})},
    ],
)
def test_a_cursor_that_cannot_be_read_or_has_no_limit_is_refused(place, said, query):
    answer = place.http.get(f"/session/{said[0]}/message", params=query)
    assert sound(answer, "GET", "/session/{sessionID}/message", 400) == {"_tag": "BadRequest"}


# -- a person's own shell command --------------------------------------------------------------------

SHELL = "/session/{sessionID}/shell"


def test_a_persons_shell_command_is_a_message_with_a_completed_call_that_the_next_prompt_shows_the_model(
    place,
):
    session_id = place.session(title="shell")
    answer = place.http.post(
        f"/session/{session_id}/shell", json={"agent": "build", "command": "echo out; echo err >&2; exit 3"}
    )
    ran = sound(answer, "POST", SHELL)
    (call,) = ran["parts"]
    assert (call["tool"], call["state"]["status"]) == ("bash", "completed")
    assert call["state"]["output"] == "out\nerr\n"
    assert call["state"]["metadata"]["output"] == "out\nerr\n"
    assert ran["info"]["time"]["completed"]
    asked, stored = place.http.get(f"/session/{session_id}/message").json()
    assert stored == ran
    assert ran["info"]["parentID"] == asked["info"]["id"]
    said = "The following tool was executed by the user"
    assert [(part["text"], part["synthetic"]) for part in asked["parts"]] == [(said, True)]
    assert place.http.get("/session/status").json().get(session_id) is None
    assert place.ask(session_id, "think").json()["parts"][-2]["text"] == "I thought."


def test_a_shell_command_takes_the_id_that_is_given_for_its_message_once(place):
    session_id, message_id = place.session(), "msg_2032244610015n72AwyMwaoI1X"
    body = {"agent": "build", "model": MODEL, "command": "true", "messageID": message_id}
    ran = sound(place.http.post(f"/session/{session_id}/shell", json=body), "POST", SHELL)
    assert (ran["info"]["parentID"], ran["parts"][0]["state"]["output"]) == (message_id, "(no output)")
    other = place.session()
    for taken in (session_id, other):
        assert place.http.post(f"/session/{taken}/shell", json=body).status_code == 400
    assert len(place.http.get(f"/session/{session_id}/message").json()) == 2
    assert place.http.get(f"/session/{other}/message").json() == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"command": "true"}, 400),
        ({"agent": "nobody", "command": "true"}, 400),
        ({"agent": "build"}, 400),
        ({"agent": "build", "command": "true", "model": {"providerID": "no", "modelID": "no"}}, 400),
    ],
)
def test_a_shell_command_that_cannot_be_run_leaves_nothing(place, body, status):
    session_id = place.session()
    assert place.http.post(f"/session/{session_id}/shell", json=body).status_code == status
    assert place.http.get(f"/session/{session_id}/message").json() == []


def test_while_a_turn_runs_no_shell_command_does(place, held):
    refused = place.http.post(f"/session/{held}/shell", json={"agent": "build", "command": "true"})
    body = sound(refused, "POST", SHELL, 409)
    assert (body["_tag"], body["sessionID"]) == ("SessionBusyError", held)


def test_an_aborted_shell_command_keeps_what_it_printed_and_a_prompt_meanwhile_is_answered_after(place):
    session_id = place.session(title="aborted shell")
    body = {"agent": "build", "command": "echo begun; exec sleep 60"}

    def output():
        parts = [part for one in messages() for part in one["parts"] if part["type"] == "tool"]
        return [(part["state"].get("metadata") or {}).get("output") for part in parts]

    def messages():
        return place.http.get(f"/session/{session_id}/message").json()

    with ThreadPoolExecutor() as pool:
        running = pool.submit(place.http.post, f"/session/{session_id}/shell", json=body)
        wait_until(lambda: output() == ["begun\n"])
        assert place.http.get("/session/status").json()[session_id] == {"type": "busy"}
        assert place.http.post(f"/session/{session_id}/abort").json() is True
        ran = sound(running.result(), "POST", SHELL)
    state = ran["parts"][0]["state"]
    assert state["status"] == "completed"
    assert "begun" in state["output"]
    assert "User aborted the command" in state["output"]
    assert ran["info"]["time"]["completed"]


# -- init, share, background -------------------------------------------------------------------------


def test_init_is_the_command_of_that_name(place):
    session_id = place.session(title="init")
    body = {"providerID": "scripted", "modelID": "test", "messageID": "msg_2032244610015n72AwyMwaoI1Y"}
    path = "/session/{sessionID}/init"
    assert sound(place.http.post(f"/session/{session_id}/init", json=body), "POST", path) is True
    asked, answer = place.http.get(f"/session/{session_id}/message").json()
    assert asked["info"]["id"] == body["messageID"]
    assert "AGENTS.md" in asked["parts"][0]["text"]
    assert answer["info"]["role"] == "assistant"


def test_nothing_is_shared(place):
    session_id = place.session()
    path = "/session/{sessionID}/share"
    refused = sound(place.http.post(f"/session/{session_id}/share"), "POST", path, 400)
    assert "instar export" in refused["data"]["message"]
    kept = sound(place.http.delete(f"/session/{session_id}/share"), "DELETE", path)
    assert (kept["id"], "share" in kept) == (session_id, False)


# -- parts -------------------------------------------------------------------------------------------

PART = "/session/{sessionID}/message/{messageID}/part/{partID}"


def url_of(part):
    return f"/session/{part['sessionID']}/message/{part['messageID']}/part/{part['id']}"


@pytest.fixture
def part(place):
    return place.ask(place.session(), "words", noReply=True).json()["parts"][0]


def test_a_part_is_changed_and_clients_hear_of_it(place, part):
    with place.events() as events:
        changed = {**part, "text": "other words"}
        assert sound(place.http.patch(url_of(part), json=changed), "PATCH", PART) == changed
        heard = (event["properties"] for event in events if event["type"] == "message.part.updated")
        assert next(one for one in heard if one["part"]["id"] == part["id"])["part"] == changed
    path = f"/session/{part['sessionID']}/message/{part['messageID']}"
    assert place.http.get(path).json()["parts"] == [changed]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"type": "nonsense"}, 400),
        ({"type": None}, 400),
        ({"text": 5}, 400),
        ({"id": NO_PART}, 400),
        ({"messageID": NO_MESSAGE}, 400),
        ({"sessionID": ABSENT}, 400),
        ({"type": "reasoning", "time": {"start": 1}}, 400),
        (
            {
                "type": "tool",
                "tool": "bash",
                "callID": "c",
                "state": {"status": "pending", "input": {}, "raw": ""},
            },
            400,
        ),
    ],
)
def test_a_part_that_cannot_become_what_is_sent_stays_as_it_is(place, part, change, status):
    answer = place.http.patch(url_of(part), json={**part, **change})
    assert answer.status_code == status
    path = f"/session/{part['sessionID']}/message/{part['messageID']}"
    assert place.http.get(path).json()["parts"] == [part]


@pytest.mark.parametrize("place_of", ["id", "messageID", "sessionID"])
def test_a_part_that_is_not_there_is_not_found(place, part, place_of):
    absent = {**part, place_of: {"id": NO_PART, "messageID": NO_MESSAGE, "sessionID": ABSENT}[place_of]}
    body = sound(place.http.patch(url_of(absent), json=absent), "PATCH", PART, 404)
    assert body["name"] == "NotFoundError"


def test_while_a_turn_runs_no_part_is_changed_or_deleted(place, held):
    part = place.http.get(f"/session/{held}/message").json()[0]["parts"][0]
    for answer in (place.http.patch(url_of(part), json=part), place.http.delete(url_of(part))):
        assert answer.status_code == 400
        assert "busy" in answer.json()["data"]["message"]


# -- what is not there, and ends ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/session/{sessionID}/diff", 200, []),
        ("POST", "/session/{sessionID}/abort", 200, True),
        ("POST", "/experimental/session/{sessionID}/background", 200, False),
        ("GET", "/session/{sessionID}", 404, None),
        ("GET", "/session/{sessionID}/todo", 404, None),
        ("GET", "/session/{sessionID}/message", 404, None),
        ("POST", "/session/{sessionID}/share", 404, None),
        ("DELETE", "/session/{sessionID}/share", 404, None),
        ("POST", "/session/{sessionID}/unrevert", 404, None),
        ("DELETE", "/session/{sessionID}", 404, None),
    ],
)
def test_a_session_that_is_not_there_is_answered_as_a_real_one_answers(place, method, path, status, body):
    answer = place.http.request(method, path.replace("{sessionID}", ABSENT))
    found = sound(answer, method, path, status)
    assert found == body or (body is None and found["data"]["message"] == f"Session not found: {ABSENT}")


def test_the_diff_of_a_message_that_is_not_there_is_empty(place):
    url = f"/session/{place.session()}/diff"
    assert place.http.get(url, params={"messageID": NO_MESSAGE}).json() == []


def test_two_aborts_at_once_are_both_answered_and_the_turn_ends_once(place, held):
    with ThreadPoolExecutor() as pool:
        aborts = [pool.submit(place.http.post, f"/session/{held}/abort") for _ in range(2)]
    assert [one.result().json() for one in aborts] == [True, True]
    answer = place.http.get(f"/session/{held}/message").json()[-1]["info"]
    assert answer["error"]["name"] == "MessageAbortedError"
    assert held not in place.http.get("/session/status").json()


def test_a_session_that_is_deleted_while_prompts_come_is_gone_with_all_of_them(place, held):
    with ThreadPoolExecutor(12) as pool:
        waiting = pool.submit(place.ask, held, "one more")
        before = [pool.submit(place.ask, held, "x", "prompt_async") for _ in range(4)]
        deleted = pool.submit(place.http.delete, f"/session/{held}")
        after = [pool.submit(place.ask, held, "y") for _ in range(4)]
    assert deleted.result().json() is True
    for answer in (waiting.result(), *(one.result() for one in before + after)):
        assert answer.status_code in (200, 204, 400, 404), answer.text
        assert "instar.db" not in answer.text
    assert place.http.get(f"/session/{held}/message").status_code == 404
    assert held not in place.http.get("/session/status").json()
    assert held not in [one["id"] for one in place.http.get("/session", params={"limit": 999}).json()]
    assert place.ask(held, "z").status_code == 404
