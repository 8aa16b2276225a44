"""hooks through the server: the rules in force, what they did, as `instar hooks` prints it."""

import json

import pytest
from tests.asking import asking
from tests.started import run

RULES = {
    "PreToolUse": [
        {"matcher": "bash", "hooks": [{"type": "command", "command": "exit 2", "name": "no shells"}]},
        {"matcher": "read", "hooks": [{"type": "command", "command": "missing-program", "timeout": 5}]},
    ]
}
SCRIPT = '== turn\ntool: bash {"command": "true"}\n== turn\ntext: done\n'


@pytest.fixture
def person(tmp_path, clean_environment):
    """A person with two rules, and a model that calls a tool that one of them refuses."""
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "script.txt").write_text(SCRIPT)
    environment = {**clean_environment, "INSTAR_SCRIPT": str(tmp_path / "script.txt"), "INSTAR_TRUST": "all"}

    def write(**settings):
        (folder / "instar.json").write_text(json.dumps(settings))
        return folder, environment

    return write


def printed(folder, environment, *words):
    done = run(["hooks", *words, "--json"], cwd=folder, environment=environment, timeout=60)
    return json.loads(done.stdout)


def turn(http):
    session = http.post("/session", {"title": "t"})["id"]
    parts = [{"type": "text", "text": "go"}]
    model = {"providerID": "scripted", "modelID": "x"}
    http.post(f"/session/{session}/message", {"parts": parts, "model": model})
    return session


@pytest.mark.slow
def test_the_rules_and_their_figures_are_those_that_the_commands_print(person):
    folder, environment = person(hooks=RULES)
    with asking(folder, environment) as http:
        session = turn(http)
        rules = http.get("/instar/hooks")
        assert rules == printed(folder, environment, "check")
        assert [one["text"] for one in rules["rules"]] == ["no shells", "missing-program"]
        assert "missing-program" in rules["rules"][1]["problem"]
        stats = http.get("/instar/hooks/stats")
        assert stats == printed(folder, environment, "stats")
        (line,) = stats["lines"]
        assert (line["runs"], line["actions"]) == (1, {"deny": 1})
        assert line["rule"].startswith("no shells (")
        assert http.get("/instar/hooks/stats", session=session)["lines"] == stats["lines"]
        for none in {"session": "ses_none"}, {"session": "../../x"}:
            assert http.get("/instar/hooks/stats", **none)["lines"] == []
        assert http.get("/instar/hooks/stats", days=0)["lines"] == stats["lines"]
        counted = 'instar_hook_runs_total{event="PreToolUse",action="deny"} 1\n'
        assert counted in http.get("/instar/metrics")


@pytest.mark.slow
def test_the_record_of_a_session_is_told_newest_lines_in_order(person):
    folder, environment = person(hooks=RULES)
    with asking(folder, environment) as http:
        session = turn(http)
        record = http.get(f"/instar/hooks/session/{session}")
        assert [one["type"] for one in record] == ["hooks.armed", "hooks.ran"]
        assert record[1]["properties"]["action"] == "deny"
        assert http.get(f"/instar/hooks/session/{session}", limit=1) == record[1:]
        assert "ses_unknown" in http.get("/instar/hooks/session/ses_unknown", 404)
        assert "sessionID" in http.get("/instar/hooks/session/nonsense", 400)
        assert "query" in http.get(f"/instar/hooks/session/{session}", 400, limit=0)


def test_without_rules_the_operations_say_that_hooks_are_not_in_use(person):
    folder, environment = person()
    with asking(folder, environment) as http:
        said = http.get("/instar/hooks", 404)
    assert said.startswith(
        'hooks is not in use in this directory: no rule stands under "hooks" in the settings'
    )


def test_nothing_can_be_ordered_of_hooks(person):
    folder, environment = person(hooks=RULES)
    with asking(folder, environment) as http:
        for path in "/instar/hooks", "/instar/hooks/stats":
            assert http.post(path, {}, 405) == f"POST {path}: it is asked for by GET, HEAD"
