"""instar's own part of the interface: figures, limits, stops, metrics, and its place in the document."""

import json
import sqlite3
import sys
from collections import Counter
from contextlib import closing

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.asking import asking
from tests.started import run
from tests.waiting import wait_until

from instar.server.metrics import NAMES, OTHER
from instar.settings.builtin_plugins import FLAGSHIPS

SCRIPT = """\
== when "^look"
text: ok
tool: bash {"command": "true"}
tool: bash {"command": "exit 3"}
tool: read {"filePath": "/nowhere/at/all"}
usage: input=100 output=20 reasoning=5 cache_read=300
== when "^wait"
tool: bash {"command": "sleep 60"}
== when ""
text: done
usage: input=50 output=10
"""
MANY = """\
WITH RECURSIVE generated(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM generated LIMIT 500)
INSERT INTO instar_usage (session_id, cause, provider_id, model_id, tokens_input, tokens_output, tokens_reasoning,
  tokens_cache_read, tokens_cache_write, time_created)
SELECT 's', 'turn', 'p', 'odd"' || char(10) || '\\' || value, 1, 1, 1, 1, 1, 1 FROM generated
"""
"""Calls of models with names that nobody foresaw."""
PRICED = {"input": 10, "output": 20, "cache_read": 1, "cache_write": 10}


@pytest.fixture
def person(tmp_path, clean_environment):
    """A person with a project, a model with a price, and limits."""
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "script.txt").write_text(SCRIPT)
    settings = {
        "provider": {"scripted": {"models": {"dear": {"cost": PRICED}}}},
        "model": "scripted/dear",
        "limits": {"day": {"cost": 5.0}, "session": {"tokens": 1000}, "cause": {"title": {"cost": 1}}},
        "permission": "allow",
    }
    (folder / "instar.json").write_text(json.dumps(settings))
    environment = {**clean_environment, "INSTAR_SCRIPT": str(tmp_path / "script.txt"), "INSTAR_TRUST": "all"}
    return folder, environment


def prompt(http, text, path="message", session=None, status=200):
    session = session or http.post("/session", {"title": "t"})["id"]
    http.post(f"/session/{session}/{path}", {"parts": [{"type": "text", "text": text}]}, status)
    return session


# -- figures -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_figures_are_those_of_the_command_for_the_same_choice(person):
    folder, environment = person
    with asking(folder, environment) as http:
        session = prompt(http, "look")
        other = prompt(http, "hi")

        def printed(*words):
            done = run(["stats", "--json", *words], cwd=folder, environment=environment, timeout=60)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        every = http.get("/instar/stats")
        assert every == printed()
        assert every["total"]["calls"] == 3
        assert http.get("/instar/stats", by="day,session", tools="true") == printed(
            "--by", "day", "--by", "session", "--tools"
        )
        one = http.get("/instar/stats", session=other, by="session")
        assert one == printed("--session", other, "--by", "session")
        assert [line["key"] for line in one["by"]["session"]] == [other]
        assert http.get("/instar/stats", project="") == printed("--project", "")
        assert http.get("/instar/stats", project=str(folder))["total"]["calls"] == 3
        assert http.get("/instar/stats", project="/nowhere")["total"]["calls"] == 0
        assert http.get("/instar/stats", until="2001-01-01")["total"]["calls"] == 0
        assert http.get("/instar/stats", days=0)["total"]["calls"] == 3
        assert http.get("/instar/stats", session=session, tools="true")["tools"] == {"bash": 2, "read": 1}


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ({"by": "colour"}, 400, "by: 'colour' is none of day, session"),
        ({"days": "-1"}, 400, "days"),
        ({"days": "1", "since": "2026-01-01"}, 400, "days stands alone"),
        ({"since": "soon"}, 400, "since 'soon' is no date"),
        ({"until": "9999-12-31"}, 400, "is no date"),
        ({"since": "2026-01-02", "until": "2026-01-01"}, 400, "since is not before until"),
        ({"session": "ses_none"}, 404, "there is no session 'ses_none'"),
        ({"project": "\0"}, 200, ""),
        ({"session": "%"}, 404, "there is no session"),
    ],
)
def test_a_choice_that_is_none_is_said_with_its_place(shared, query, status, says):
    answered = shared.http.get("/instar/stats", params=query)
    assert answered.status_code == status
    assert says in answered.text


def test_the_limits_tell_what_is_set_used_and_left(person):
    folder, environment = person
    with asking(folder, environment) as http:
        before = http.get("/instar/limits")
        day, title = before["limits"]
        assert (day["path"], day["most"], day["left"]) == (
            "limits.day",
            {"tokens": None, "cost": 5.0},
            {"tokens": None, "cost": 5.0},
        )
        assert title["path"] == "limits.cause.title"
        assert (before["calls"], before["failures"], before["minutes"], before["waiting"]) == (
            1000,
            3,
            None,
            {},
        )
        session = prompt(http, "hi")
        told = {one["path"]: one for one in http.get("/instar/limits", session=session)["limits"]}
        assert told["limits.session"]["used"]["tokens"] == 60
        assert told["limits.session"]["left"] == {"tokens": 940, "cost": None}
        spent = (50 * 10 + 10 * 20) / 1e6
        assert told["limits.day"]["used"]["cost"] == pytest.approx(spent)
        assert told["limits.day"]["left"]["cost"] == pytest.approx(5 - spent)
        assert "ses_none" in http.get("/instar/limits", 404, session="ses_none")


@pytest.mark.slow
def test_what_fills_a_window_is_told_part_by_part_in_the_provider_s_count(person):
    folder, environment = person
    (folder / "AGENTS.md").write_text("Be brief. " * 100)
    (folder / ".instar/plugins").mkdir(parents=True)
    (folder / ".instar/plugins/own.py").write_text(PLUGIN)
    (folder / "toy.py").write_text(MCP)
    toy = {"type": "local", "command": [sys.executable, str(folder / "toy.py")]}
    (folder / "opencode.json").write_text(json.dumps({"mcp": {"toy": toy}}))
    with asking(folder, environment) as http:
        session = http.post("/session", {"title": "t"})["id"]
        before = http.get(f"/instar/session/{session}/context")
        assert (before["model"], before["counted"], before["automatic"]) == ("scripted/dear", False, True)
        assert before["used"] > 1000
        prompt(http, "look", session=session)
        told = http.get(f"/instar/session/{session}/context")
        assert told["counted"]
        # The last answer took 50 tokens and gave 10: all parts together.
        assert told["used"] == 60
        assert told["left"] == told["room"] - 60
        assert sum(one["tokens"] for one in told["parts"]) == pytest.approx(60, abs=5)
        parts = {(one["kind"], one["name"]): one for one in told["parts"]}
        assert parts["system", str(folder / "AGENTS.md")]["characters"] > 1000
        assert parts["system", "plugin own"]["characters"] == len("Mind the gap. " * 50)
        assert parts["messages", "plugin own"]["characters"] == len("Be quick. " * 30)
        assert parts["system", "agent build"]["characters"] > 500
        assert parts["tools", "mcp toy"]["count"] == 2
        assert (parts["tools", "plugin own"]["count"], parts["tools", "built-in"]["count"] > 5) == (1, True)
        assert parts["messages", "calls of bash"]["count"] == 2
        assert {"prompts", "answers", "calls of read"} <= {name for kind, name in parts if kind == "messages"}
        assert http.get("/instar/session/ses_none/context", 404)


MCP = """\
import json, sys

tools = [{"name": name, "description": "Plays.", "inputSchema": {"type": "object"}} for name in ("hop", "spin")]
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        version = request.get("params", {}).get("protocolVersion")
        began = {"protocolVersion": version, "serverInfo": {"name": "toy", "version": "1"}}
        began["capabilities"] = {"tools": {}}
        result = began if request["method"] == "initialize" else {"tools": tools}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
PLUGIN = """\
from instar.plugin import Tool, wire


async def server(input, options):
    async def add(given, output):
        output.system.append("Mind the gap. " * 50)

    async def remind(given, output):
        parts = output.messages[0].parts
        parts.append(wire.replace(parts[0], id="prt_own", text="Be quick. " * 30))

    async def run(args, context):
        return "done"

    tool = Tool("A tool of its own.", {"type": "object", "properties": {}}, run)
    return {
        "experimental.chat.system.transform": add,
        "experimental.chat.messages.transform": remind,
        "tool": {"own_tool": tool},
    }
"""


@pytest.mark.slow
def test_a_server_says_what_is_missing_and_how_far_commands_are_confined(person):
    folder, environment = person
    with asking(folder, environment) as http:
        told = {one["name"]: one for one in http.get("/instar/doctor")["lines"]}
        assert (told["model"]["state"], "scripted/dear" in told["model"]["text"]) == ("ok", True)
        assert http.get("/instar/shield")["level"] in ("bubblewrap", "landlock", "none")


# -- stopping ----------------------------------------------------------------------------------------------


def test_a_stop_ends_what_runs_and_what_is_automatic_waits_until_a_person_resumes_it(person):
    folder, environment = person
    with asking(folder, environment) as http:
        assert http.get("/instar/stop") == {"stops": [], "halted": 0}
        session = prompt(http, "wait", "prompt_async", status=204)
        wait_until(lambda: '"running"' in json.dumps(http.get(f"/session/{session}/message")))
        report = http.post("/instar/stop")
        assert [(one["id"], one["ended"]) for one in report["sessions"]] == [(session, True)]
        assert report["stop"]["scope"] == str(folder)
        assert http.get("/session/status") == {}
        told = http.get("/instar/stop")
        assert told == {"stops": [report["stop"]], "halted": report["stop"]["time"]}
        assert http.post("/instar/stop/resume") == {"resumed": str(folder)}
        assert http.get("/instar/stop")["halted"] == 0
        assert http.post("/instar/stop", {"all": True})["stop"]["scope"] == "*"


def test_whoever_may_prompt_may_stop_but_only_a_known_person_lets_it_go_on(person):
    folder, environment = person
    with asking(folder, environment, login=False) as http:
        stopped = http.post("/instar/stop")
        assert "is a person's to ask for" in http.post("/instar/stop/resume", status=403)
        assert http.get("/instar/stop")["halted"] == stopped["stop"]["time"]


@pytest.mark.slow
def test_a_password_makes_a_person_known_and_without_one_nobody_is(shared, serve):
    assert shared.http.post("/instar/stop/resume").status_code == 200
    served = serve("--no-auth")
    plugin = {"plugin": ["file:///tmp/mine.py"]}
    for answered in (
        served.http.post("/instar/stop/resume"),
        served.http.patch("/config", json=plugin),
        served.http.patch("/global/config", json=plugin),
        served.http.post("/vcs/apply", json={"patch": ""}),
        served.http.post(
            "/experimental/project/global/copy", json={"strategy": "git_worktree", "directory": "/tmp"}
        ),
    ):
        assert answered.status_code == 403
        assert "start the server without --no-auth" in answered.json()["data"]["message"]
    assert served.http.get("/config").json()["plugin"] == []


def test_a_list_of_stops_that_cannot_be_read_is_an_answer_and_not_a_failure(person):
    folder, environment = person
    with asking(folder, environment) as http:
        http.post("/instar/stop")
        (file,) = (folder.parent / "home").rglob("stops.json")
        file.write_text("{")
        for method, path in ("GET", "/instar/stop"), ("POST", "/instar/stop/resume"):
            assert "stops.json cannot be read" in http.ask(method, path, 400)
        assert http.post("/instar/stop")["stop"]["scope"] == "*"


# -- metrics -----------------------------------------------------------------------------------------------


def metrics(text):
    """Samples by name and labels; whatever is not in the format does not parse."""
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    assert all(family.documentation and family.type in ("counter", "gauge") for family in families)
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_metrics_count_turns_steps_tools_tokens_and_cost(person):
    folder, environment = person
    with asking(folder, environment) as http:
        prompt(http, "look")
        found = metrics(http.get("/instar/metrics"))
        again = metrics(http.get("/instar/metrics"))
    labels = (("model", "scripted/dear"), ("origin", "person"))
    assert found["instar_turns_total",] == 1
    assert found["instar_steps_total",] == 2
    calls = {key[1:]: value for key, value in found.items() if key[0] == "instar_tool_calls_total"}
    assert calls == {
        (("result", "completed"), ("tool", "bash")): 2,
        (("result", "error"), ("tool", "read")): 1,
    }
    assert found["instar_model_calls_total", *labels] == 2
    assert found["instar_tokens_total", ("kind", "cache_read"), *labels] == 300
    assert found["instar_tokens_total", ("kind", "input"), *labels] == 150
    assert found["instar_cost_dollars_total", *labels] > 0
    assert found["instar_sessions_open",] == 1
    assert found["instar_sessions_busy",] == 0
    assert found["instar_instances",] == 1
    # Model calls that were summed once are not summed again.
    assert again["instar_model_calls_total", *labels] == 2


def test_the_metrics_of_a_server_tell_of_its_process_and_who_listens(shared):
    answered = shared.http.get("/instar/metrics")
    assert answered.headers["content-type"].startswith("text/plain; version=0.0.4")
    before = metrics(answered.text)
    assert before["process_resident_memory_bytes",] > 10_000_000
    assert before["process_cpu_seconds_total",] > 0
    assert before["process_start_time_seconds",] > 1.7e9
    assert before["instar_uptime_seconds",] >= 0
    with shared.events():
        during = metrics(shared.http.get("/instar/metrics").text)
    assert during["instar_event_streams",] == before["instar_event_streams",] + 1


def test_names_without_end_do_not_make_labels_without_end(person):
    folder, environment = person
    with asking(folder, environment) as http:
        http.get("/instar/stop")
        with closing(sqlite3.connect(http.runtime.instance.paths.database)) as connection, connection:
            connection.execute(MANY)
        found = metrics(http.get("/instar/metrics"))
    models = {value for key in found for label, value in key[1:] if label == "model"}
    assert len(models) == NAMES + 1
    assert OTHER in models
    assert 'p/odd"\n\\1' in models
    assert sum(value for key, value in found.items() if key[0] == "instar_model_calls_total") == 500


# -- the document ------------------------------------------------------------------------------------------


def test_the_document_holds_the_flagships_operations_whether_or_not_they_are_in_use(shared):
    document = shared.http.get("/doc").json()
    found = {
        one["operationId"]: (method, path)
        for path, methods in document["paths"].items()
        for method, one in methods.items()
    }
    own = {name for name in found if found[name][1].startswith("/instar/")}
    assert own == {name for name in found if name.startswith("instar.")}
    for name in (
        "evolve.log",
        "evolve.approve",
        "heartbeat.now",
        "hooks.stats",
        "self.session",
        "stats",
        "metrics",
    ):
        assert f"instar.{name}" in own
    counted = Counter(name for name in found)
    assert max(counted.values()) == 1
    assert sum(len(methods) for methods in document["paths"].values()) == len(found)


def test_each_operation_of_a_flagship_that_is_not_in_use_is_a_404_that_names_it(shared):
    document = shared.http.get("/doc").json()
    asked = 0
    for path, methods in document["paths"].items():
        words = path.split("/")
        name = "evolve" if words[1:3] == ["instar", "heartbeat"] else words[2] if len(words) > 2 else ""
        if words[1] != "instar" or name not in FLAGSHIPS:
            continue
        for method in methods:
            answered = shared.http.request(method, path.replace("{", "").replace("}", ""))
            assert answered.status_code == 404
            assert answered.json()["data"]["message"].startswith(f"{name} is not in use in this directory: ")
            asked += 1
    assert asked >= 20


@pytest.mark.parametrize(
    "path", ["/instar/stats", "/instar/metrics", "/instar/evolve/log", "/instar/nothing"]
)
def test_nothing_of_it_is_told_to_who_does_not_log_in(shared, path):
    assert shared.http.get(path, auth=("opencode", "wrong")).status_code == 401


def test_what_there_is_not_is_a_404_and_the_wrong_method_a_405(shared):
    assert shared.http.get("/instar/nothing").json()["name"] == "NotFoundError"
    answered = shared.http.post("/instar/stats")
    assert (answered.status_code, answered.headers["allow"]) == (405, "GET, HEAD")
    assert shared.http.put("/instar/evolve/pin").headers["allow"] == "DELETE, GET, HEAD, POST"
    assert shared.http.get("/instar/stats", params={"directory": "/nowhere"}).status_code == 400
    assert shared.http.get("/instar/evolve", params={"directory": "/nowhere"}).status_code == 400
