"""self through the server: the tree, and what the agent set of it in a session."""

import json

import pytest
from tests.asking import asking
from tests.started import run

SCRIPT = """\
== turn
tool: self {"action": "modify", "key": "max_iterations", "value": 12}
tool: self {"action": "modify", "key": "plan", "value": {"api_key": "sk-hidden", "step": 2}}
== turn
text: done
"""


@pytest.fixture
def person(tmp_path, clean_environment):
    """A person whose agent may tune itself, and does."""
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "script.txt").write_text(SCRIPT)
    (folder / "instar.json").write_text(json.dumps({"tools": {"self_evolution": True}}))
    environment = {**clean_environment, "INSTAR_SCRIPT": str(tmp_path / "script.txt"), "INSTAR_TRUST": "all"}
    return folder, environment


def turn(http):
    session = http.post("/session", {"title": "t"})["id"]
    parts = [{"type": "text", "text": "go"}]
    model = {"providerID": "scripted", "modelID": "x"}
    http.post(f"/session/{session}/message", {"parts": parts, "model": model})
    return session


@pytest.mark.slow
def test_a_session_is_shown_as_the_command_shows_it(person):
    folder, environment = person
    with asking(folder, environment) as http:
        session = turn(http)
        state = http.get(f"/instar/self/session/{session}")
        done = run(["session", "self", session, "--json"], cwd=folder, environment=environment, timeout=60)
        assert json.loads(done.stdout) == state
        assert state["values"] == {"max_iterations": 12}
        assert state["variables"] == {"plan": {"api_key": "***", "step": 2}}
        assert http.get("/instar/self/session") == [state]
        changes = http.get(f"/instar/self/session/{session}/change")
        assert changes == state["log"]
        assert (changes[0]["path"], changes[0]["new"]) == ("max_iterations", 12)
        assert "sk-hidden" not in json.dumps([state, changes, http.get("/instar/self/tree", session=session)])


def test_a_session_in_which_nothing_was_set_is_not_there(person):
    folder, environment = person
    with asking(folder, environment) as http:
        session = http.post("/session", {"title": "t"})["id"]
        for path in f"/instar/self/session/{session}", f"/instar/self/session/{session}/change":
            assert http.get(path, 404).endswith("nothing was set in it")
        assert "sessionID" in http.get("/instar/self/session/nonsense", 400)


@pytest.mark.slow
def test_the_tree_lists_what_is_declared_and_the_values_of_a_session(person):
    folder, environment = person
    with asking(folder, environment) as http:
        session = turn(http)
        tree = {one["path"]: one for one in http.get("/instar/self/tree")}
        assert tree["limits"]["kind"] == "branch"
        assert (tree["max_iterations"]["kind"], tree["max_iterations"]["settable"]) == ("value", True)
        assert not any("value" in one for one in tree.values())
        (told,) = http.get("/instar/self/tree", session=session, path="max_iterations")
        assert told["value"] == 12
        below = http.get("/instar/self/tree", session=session, path="limits")
        assert below[0]["path"] == "limits"
        assert {one["path"]: one.get("value") for one in below}["limits.calls"] == 1000
        assert all(one["path"].startswith("limits") for one in below)
        assert "nowhere" in http.get("/instar/self/tree", 404, path="nowhere")
        assert "ses_none" in http.get("/instar/self/tree", 404, session="ses_none")


@pytest.mark.slow
def test_the_values_of_a_session_are_asked_for_in_its_own_directory(person, tmp_path):
    folder, environment = person
    other = tmp_path / "other"
    other.mkdir()
    (other / "instar.json").write_text((folder / "instar.json").read_text())
    with asking(folder, environment) as http:
        session = http.post("/session", {"title": "t"})["id"]
        said = http.get("/instar/self/tree", 400, session=session, directory=str(other))
    assert said == f"{session} lives in {folder}: ask there (?directory=)"


def test_where_the_agent_may_not_tune_itself_that_is_said(person):
    folder, environment = person
    (folder / "instar.json").write_text("{}")
    with asking(folder, environment) as http:
        said = http.get("/instar/self/session", 404)
    assert (
        said == 'self is not in use in this directory: set "tools": {"self_evolution": true} in the settings'
    )
