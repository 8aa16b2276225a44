"""Settings over HTTP: read without their secrets, amended, heard by the next request; instances that end."""

import itertools
import json
import threading

import pytest
from tests.server.conformance import problems_of
from tests.server.machine import served_in
from tests.waiting import wait_until

SETTINGS = """\
{
  // whose model answers
  "model": "mine/big", // the big one
  "hooks": {},
  "agent": {"poet": {"prompt": "You write poems.", "reasoningEffort": "high", "options": {"api_key": "sk-poets-key"}}},
  "mcp": {
    "far": {
      "type": "remote", "url": "http://ada:sk-pass@127.0.0.1:1", "enabled": false,
      "headers": {"x-far": "sk-in-a-header"}
    },
    "keyed": {"type": "remote", "url": "http://127.0.0.1:1/mcp?team=7&apiKey=sk-in-a-query&b=2", "enabled": false},
    "near": {
      "type": "local", "enabled": false,
      "command": ["near", "--api-key", "sk-word", "--token=sk-joined", "--header", "Authorization: Bearer sk-said"]
    }
  },
  "provider": {
    "mine": {
      "npm": "@ai-sdk/openai-compatible",
      "options": {"apiKey": "sk-in-the-settings", "baseURL": "http://bob:sk-userinfo@127.0.0.1:1/v1"},
      "headers": {"x-mine": "sk-in-headers"},
      "models": {"big": {
        "name": "Big", "limit": {"context": 1000, "output": 100}, "headers": {"x-big": "sk-in-model-headers"},
        "options": {"apiKey": "sk-in-model-options"}, "variants": {"high": {"secret": "sk-in-a-variant"}}
      }, "odd": {"limit": {"context": 1}}}
    }
  },
  "instructions": ["{env:HIDDEN_TOKEN}"],
}
"""


KEYED = {
    "instructions": ["sk-of-the-environment", "sk-of-our-own"],
    "provider": {"own": {"options": {"apiKey": "sk-of-our-own"}}},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    script = '== turn\ntool: bash {"command": "touch running; sleep 4716"}\n'
    root = tmp_path_factory.mktemp("settings")
    with served_in(root, script, HIDDEN_TOKEN="sk-of-the-environment") as served:
        yield served


@pytest.fixture
def settings(server):
    path = server.directory / "opencode.jsonc"
    path.write_text(SETTINGS)
    server.http.post("/instance/dispose")
    yield path
    path.unlink()


def ask(server, method, path, **how):
    answer = server.http.request(method, path, **how)
    assert problems_of(method, path, answer.status_code, answer.json()) == []
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.slow
def test_settings_are_shown_in_opencodes_form_without_one_secret(server, settings):
    shown = ask(server, "GET", "/config")
    assert "sk-" not in json.dumps(shown)
    assert "hooks" not in shown
    assert shown["agent"]["poet"]["reasoningEffort"] == "high"
    assert shown["provider"]["mine"]["options"] == {"apiKey": "***", "baseURL": "http://***@127.0.0.1:1/v1"}
    assert shown["mcp"]["far"]["headers"] == {"x-far": "***"}
    assert shown["mcp"]["keyed"]["url"] == "http://127.0.0.1:1/mcp?team=7&apiKey=***&b=2"
    words = ["near", "--api-key", "***", "--token=***", "--header", "Authorization: ***"]
    assert shown["mcp"]["near"]["command"] == words
    # What does not fit opencode's schema is left out, the rest of its block is not.
    assert shown["provider"]["mine"]["models"]["odd"] == {}


def test_sharing_reads_as_switched_off_so_that_no_client_offers_it(server, settings):
    ask(server, "PATCH", "/config", json={"share": "manual"})
    assert ask(server, "GET", "/config")["share"] == "disabled"


@pytest.mark.parametrize(
    "path", ["/config/providers", "/provider", "/agent", "/api/model", "/api/provider", "/api/agent"]
)
def test_no_other_answer_holds_a_secret(server, settings, path):
    assert "sk-" not in json.dumps(ask(server, "GET", path))


def test_a_change_is_written_beside_the_comments_and_the_next_request_has_it(server, settings):
    with server.events("/global/event") as events:
        assert ask(
            server, "PATCH", "/config", json={"username": "ada", "agent": {"poet": {"color": "#00ff00"}}}
        ) == {
            "username": "ada",
            "agent": {"poet": {"color": "#00ff00", "permission": {}}},
        }
        ended = next(one for one in events if one["payload"]["type"] == "server.instance.disposed")
    assert ended["payload"]["properties"] == {"directory": str(server.directory)}
    text = settings.read_text()
    assert "// whose model answers" in text
    assert '"mine/big", // the big one' in text
    assert ask(server, "GET", "/config")["username"] == "ada"
    (poet,) = (agent for agent in ask(server, "GET", "/agent") if agent["name"] == "poet")
    assert (poet["color"], poet["prompt"]) == ("#00ff00", "You write poems.")


def test_what_was_shown_can_be_sent_back_whole(server, settings):
    ask(server, "PATCH", "/config", json=ask(server, "GET", "/config"))
    for secret in (
        "sk-in-the-settings",
        "sk-userinfo",
        "sk-poets-key",
        "sk-in-a-header",
        "sk-in-a-query",
        "sk-word",
        "sk-joined",
        "sk-said",
        "{env:HIDDEN_TOKEN}",
    ):
        assert secret in settings.read_text()
    assert "***" not in settings.read_text()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"model": 5}', "$.model"),
        ('{"permission": {"bash": "sometimes"}}', "permission.bash"),
        ('{"agent": {"poet": {"steps": 0}}}', "agent.poet.steps"),
        ('{"username": "ada", "permision": "allow"}', "did you mean permission"),
        ('{"limits": {"day": {"tokens": -5}}}', "limits.day"),
        ("{", "does not fit"),
        ("[]", "object"),
    ],
)
@pytest.mark.parametrize("path", ["/config", "/global/config"])
def test_a_mistake_refuses_the_whole_change_and_names_its_place(server, settings, path, body, said):
    answer = server.http.patch(path, content=body)
    assert (answer.status_code, answer.json()["name"]) == (400, "BadRequest")
    assert said in answer.json()["data"]["message"]
    assert settings.read_text() == SETTINGS


def test_a_key_that_nobody_knows_is_left_out_as_in_opencode(server, settings):
    assert ask(server, "PATCH", "/config", json={"zzz": 1}) == {}
    assert settings.read_text() == SETTINGS


def test_the_persons_own_settings_are_a_file_of_their_own_and_every_instance_has_them(server, tmp_path):
    assert "username" not in ask(server, "GET", "/global/config")
    assert ask(server, "PATCH", "/global/config", json=KEYED)["provider"]["own"]["options"] == {
        "apiKey": "***"
    }
    assert "sk-" not in json.dumps(ask(server, "GET", "/global/config"))
    for directory in (server.directory, tmp_path):
        server.http.get("/config", params={"directory": str(directory)})
    with server.events("/global/event") as events:
        assert ask(server, "PATCH", "/global/config", json={"username": "own"})["username"] == "own"
        payloads = (event["payload"] for event in events)
        heard = list(itertools.takewhile(lambda payload: payload["type"] != "global.disposed", payloads))
    # One that took up the new file by itself before it was ended says so twice.
    ended = {one["properties"]["directory"] for one in heard if one["type"] == "server.instance.disposed"}
    assert ended == {str(server.directory), str(tmp_path)}
    assert server.http.get("/config", params={"directory": str(tmp_path)}).json()["username"] == "own"
    own = server.directory.parent / "config" / "instar" / "instar.json"
    assert json.loads(own.read_text()) == {**KEYED, "username": "own"}
    own.unlink()


@pytest.mark.parametrize("path", ["/instance/dispose", "/global/dispose"])
def test_an_instance_that_ends_aborts_its_turn_and_the_next_request_opens_it_anew(server, path):
    mark = server.directory / "running"
    session_id = server.session()
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(server.ask(session_id)))
    waiting.start()
    wait_until(mark.exists)
    mark.unlink()
    with server.events() as events:
        assert ask(server, "POST", path) is True
        heard = [event["type"] for event in events]
    assert heard[-1] == "server.instance.disposed"
    waiting.join()
    assert answers[0].json()["info"]["error"]["name"] == "MessageAbortedError"
    last = server.http.get(f"/session/{session_id}/message").json()[-1]
    assert last["info"]["error"]["name"] == "MessageAbortedError"
    assert server.http.get("/session/status").json() == {}


def test_requests_while_an_instance_ends_are_answered_clearly(server):
    answers = []

    def keep_asking():
        answers.extend(server.http.get("/session") for _ in range(15))

    askers = [threading.Thread(target=keep_asking) for _ in range(4)]
    for one in askers:
        one.start()
    for _ in range(5):
        server.http.post("/instance/dispose")
    for one in askers:
        one.join()
    for answer in answers:
        said = answer.json()
        assert answer.status_code == 200 or (
            answer.status_code == 400 and "disposed" in said["data"]["message"]
        )
    assert server.http.get("/session").status_code == 200


def test_a_folder_that_is_not_there_has_no_instance_to_end(server):
    answer = server.http.post("/instance/dispose", params={"directory": "/no/such/folder"})
    assert (answer.status_code, answer.json()["name"]) == (400, "BadRequest")
