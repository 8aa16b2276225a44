"""evolve through the server: it says what `instar evolve` says, and does what a person orders there."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.asking import asking
from tests.plugins.evolve.cli.conftest import BOT, TEST, Hand

from instar.plugins.evolve.heartbeat import heart, report, scheduler

BEATING = BOT.replace("mutate_request)", 'heartbeat) echo \'{"user": "Look around."}\' ;;\nmutate_request)')


@pytest.fixture
def person(tmp_path: Path) -> Hand:
    """A person with a workspace of one script, and a project in which evolve works on it."""
    made = Hand(tmp_path, tmp_path / "ws")
    made.write("hooks/bot.sh", BOT)
    made.write("tests/bot_test.sh", TEST)
    (tmp_path / "project").mkdir()
    made.environment |= {"INSTAR_WORKSPACE": str(made.root)}
    return made


def served(person: Hand, **more: Any) -> Any:
    return asking(person.folder / "project", person.environment, **more)


@pytest.mark.slow
def test_the_operations_answer_what_the_commands_print(person):
    person.edit("Hello!", "Hello there!")
    waits = person.ask_for_more()
    with served(person) as http:
        by_flag = {**person.json("status"), "source": "INSTAR_WORKSPACE"}
        assert http.get("/instar/evolve") == by_flag
        assert http.get("/instar/evolve/log") == person.json("log")
        assert http.get("/instar/evolve/log/HEAD") == person.json("show")
        assert http.get("/instar/evolve/log/@2") == person.json("show", "@2")
        assert http.get("/instar/evolve/candidate") == person.json("pending")
        shown = http.get(f"/instar/evolve/candidate/{waits}")
        assert shown == person.json("pending", waits)
        assert http.post("/instar/evolve/pin", {"file": "prompts"}) == (person.json("pins"))[0]
        assert http.get("/instar/evolve/pin") == person.json("pins")
    assert "Hello there!" in shown["proposal"]["content"]
    assert shown["proposal"]["raised"]


@pytest.mark.slow
def test_the_log_is_paged_and_narrowed_to_a_session_or_a_file(person):
    person.edit("Hello!", "Hello there!")
    person("pin", "prompts/chat.md")
    with served(person) as http:

        def kinds(**query: Any) -> list[str]:
            found = http.get("/instar/evolve/log", **query)
            return [one["kind"] for one in found["changes"]]

        every = kinds()
        assert every[:2] == ["pinned", "installed"]
        assert kinds(limit=1) == every[:1]
        assert kinds(limit=1, offset=1) == every[1:2]
        assert kinds(session="ses_1") == ["installed"]
        assert kinds(session="ses_2") == []
        assert kinds(file="prompts/chat.md") == ["pinned"]
        assert "installed" in kinds(file="bot.sh")
        for wrong in {"limit": 0}, {"limit": 1001}, {"offset": -1}, {"limit": "many"}:
            assert "query" in http.get("/instar/evolve/log", 400, **wrong)


@pytest.mark.slow
def test_a_rollback_takes_a_change_back_in_the_running_instance(person):
    person.edit("Hello!", "Hello there!")
    with served(person) as http:
        runtime = http.runtime
        heard: list[str] = []
        runtime.instance.bus.observe(lambda event: heard.append(event.type))
        made = http.post("/instar/evolve/rollback")
        assert (made["files"], made["epoch"]) == (["hooks/bot.sh"], 3)
        assert person.bot == BOT
        assert "evolve.rolledback" in heard
        newest = (http.get("/instar/evolve/log", limit=1))["changes"][0]
        assert (newest["kind"], newest["by"], newest["epoch"]) == ("rolled back", "person", 3)
        assert newest["commit"].startswith(made["commit"])
        assert 'instar_evolutions_total{outcome="rolled back"} 1\n' in http.get("/instar/metrics")
        again = http.post("/instar/evolve/rollback", {"ref": ""}, 404)
    assert f"instar: {again}\n" == person("rollback", code=1).stderr
    assert again == "there is no change of the agent's to take back"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ref", "status", "says"),
    [("nonsense", 404, "nonsense"), ("initial", 404, "first commit"), ("@99", 404, "@99")],
)
def test_what_cannot_be_taken_back_is_refused_as_the_command_refuses_it(person, ref, status, says):
    with served(person) as http:
        refused = http.post("/instar/evolve/rollback", {"ref": ref}, status)
    assert says in refused
    assert f"instar: {refused}\n" == person("rollback", ref, code=1).stderr


@pytest.mark.slow
def test_a_pin_keeps_the_agent_from_a_file_until_it_is_taken_away(person):
    with served(person) as http:
        pinned = http.post("/instar/evolve/pin", {"file": "./hooks//bot.sh"})
        assert pinned["file"] == "hooks/bot.sh"
        with pytest.raises(Exception, match="it is pinned by"):
            person.edit("Hello!", "Hi, Hello!")
        assert (http.delete("/instar/evolve/pin", file="hooks/bot.sh"))["file"] == "hooks/bot.sh"
        assert http.get("/instar/evolve/pin") == []
        assert http.delete("/instar/evolve/pin", 400, file="hooks/bot.sh") == "hooks/bot.sh is not pinned"
        assert "no path in the workspace" in http.post("/instar/evolve/pin", {"file": "../x"}, 400)
        assert "file" in http.post("/instar/evolve/pin", {"file": "x" * 5000}, 400)
    told = [one["kind"] for one in person.json("log")["changes"]]
    assert told[:2] == ["unpinned", "pinned"]


@pytest.mark.slow
def test_a_person_approves_what_waits_and_rejects_it(person):
    first = person.ask_for_more()
    with served(person) as http:
        rejected = http.post(f"/instar/evolve/candidate/{first}/reject", {"reason": "ask me"})
        assert rejected == {"id": first, "file": "hooks/bot.sh"}
        assert (http.get("/instar/evolve/candidate"))["entries"] == []
        (entry,) = (http.get("/instar/evolve/candidate", all="true"))["entries"]
        assert (entry["id"], entry["decision"]["approved"]) == (first, False)
        made = http.post(f"/instar/evolve/candidate/{first}/approve")
        assert made["files"] == ["hooks/bot.sh"]
        assert '"permission"' not in person.bot
        assert "bot_greet" in http.do(http.runtime.tools())
        for order in "approve", "reject":
            gone = http.post(f"/instar/evolve/candidate/{first}/{order}", status=404)
            assert gone.startswith(f"nothing waits under the id '{first}'")
        assert (http.get("/instar/evolve/candidate/nonsense", 404)).startswith("nothing waits")
    kinds = [one["kind"] for one in person.json("log")["changes"]]
    assert {"approved", "rejected", "installed"} <= set(kinds)


@pytest.mark.slow
def test_orders_are_refused_where_nobody_had_to_log_in_and_looking_is_not(person):
    waits = person.ask_for_more()
    with served(person, login=False) as http:
        assert (http.get("/instar/evolve/candidate"))["entries"]
        for path in (
            *(f"/instar/evolve/candidate/{waits}/{order}" for order in ("approve", "reject")),
            *("/instar/evolve/rollback", "/instar/heartbeat/now", "/instar/heartbeat/pause"),
            *("/instar/heartbeat/resume", "/instar/stop/resume"),
        ):
            assert "is a person's to ask for" in http.post(path, status=403)
        assert "is a person's" in http.post("/instar/evolve/pin", {"file": "hooks"}, 403)
        assert "is a person's" in http.delete("/instar/evolve/pin", 403, file="hooks")
    assert person.json("pending")["entries"][0]["decision"] is None
    assert person.json("pins") == []


@pytest.mark.slow
def test_in_a_safe_run_nothing_is_changed_and_no_heart_beats(person):
    person.edit("Hello!", "Hello there!")
    with served(person, safe=True) as http:
        for path in "/instar/evolve/rollback", "/instar/heartbeat/now":
            assert (http.post(path, status=400)).startswith("this run is safe (--safe)")
        status = http.get("/instar/evolve")
    assert status["frozen"].startswith("this run is safe")
    assert "Hello there!" in person.bot


def test_where_evolve_is_not_in_use_its_operations_say_so_and_why(person, tmp_path):
    del person.environment["INSTAR_WORKSPACE"]
    with served(person) as http:
        said = http.get("/instar/evolve/log", 404)
        assert said.startswith("evolve is not in use in this directory: set INSTAR_WORKSPACE")
    person.environment["INSTAR_WORKSPACE"] = str(tmp_path / "gone")
    with served(person) as http:
        said = http.post("/instar/evolve/rollback", status=404)
        assert said.startswith(
            f"evolve is not in use in this directory: there is no workspace at {tmp_path}/gone"
        )


@pytest.mark.slow
def test_with_broken_settings_the_status_says_so_and_nothing_is_approved(person):
    waits = person.ask_for_more()
    person.write("config/evolve.jsonc", "{", 0o644)
    person("accept", "--yes")
    with served(person) as http:
        status = http.get("/instar/evolve")
        assert status["active"] is False
        assert "evolve.jsonc" in status["problems"][0]
        assert "evolve.jsonc" in http.post(f"/instar/evolve/candidate/{waits}/approve", status=400)
        heartbeat = http.get("/instar/heartbeat")
        assert heartbeat["every"] is None
        assert "evolve.jsonc" in heartbeat["problems"][0]


# -- the heartbeat -----------------------------------------------------------------------------------------


@pytest.fixture
def beating(person: Hand, monkeypatch: pytest.MonkeyPatch) -> Hand:
    """A person whose workspace beats every hour, and when they order it."""
    monkeypatch.setattr(scheduler, "LOOK", 0.02)
    monkeypatch.setattr(heart, "GRACE", 0.01)
    monkeypatch.setattr(report, "LOOK", 0.02)
    person.write("hooks/bot.sh", BEATING)
    (person.folder / "script.txt").write_text('== when "."\ntext: fine\nusage: input=100 output=20\n')
    settings = Path(person.environment["XDG_CONFIG_HOME"]) / "instar" / "instar.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"agent": {"evolve": {"prompt": "You are the heart."}}}))
    person.environment |= {
        "EVOLVE_HEARTBEAT_MS": "3600000",
        "INSTAR_SCRIPT": str(person.folder / "script.txt"),
    }
    return person


@pytest.mark.slow
def test_a_person_lets_the_heart_beat_now_and_reads_what_came_of_it(beating):
    with served(beating, model="scripted/x") as http:
        beat = http.post("/instar/heartbeat/now")
        assert beat["kind"] == "ran", beat
        assert (beat["kind"], beat["asked"], beat["tokens"]) == ("ran", True, 120)
        told = http.get("/instar/heartbeat")
        assert (told["last"], told["every"], told["paused"]) == (beat, 3_600_000, None)
        printed = beating.instar("heartbeat", "status", "--json")
        assert json.loads(printed.stdout) == http.get("/instar/heartbeat")


@pytest.mark.slow
def test_a_pause_holds_until_it_is_resumed_and_a_stop_has_to_be_resumed_first(beating):
    with served(beating, model="scripted/x") as http:
        paused = http.post("/instar/heartbeat/pause", {"reason": "quiet"})
        assert paused["paused"]
        assert paused["why"].endswith(": quiet")
        told = http.get("/instar/heartbeat")
        assert (told["paused"]["why"], told["next"]) == (paused["why"], None)
        assert "paused" in http.post("/instar/heartbeat/now", status=400)
        assert http.post("/instar/heartbeat/resume") == {"paused": False, "why": paused["why"]}
        http.post("/instar/stop")
        assert "POST /instar/stop/resume" in http.post("/instar/heartbeat/resume", status=400)
        http.post("/instar/stop/resume")
        assert (http.post("/instar/heartbeat/resume"))["paused"] is False


@pytest.mark.slow
def test_without_an_interval_the_heart_does_not_beat_and_says_what_to_set(beating):
    beating.environment["EVOLVE_HEARTBEAT_MS"] = "0"
    with served(beating) as http:
        assert "heartbeats are off: heartbeat_ms is 0" in http.post("/instar/heartbeat/now", status=400)
