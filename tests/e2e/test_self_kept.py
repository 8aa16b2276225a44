"""What a person meets of self: the switch, the lines of a run, `instar session self`, and profiles."""

import json
import re

import pytest


def call(**args) -> str:
    return f"== turn\ntool: self {json.dumps(args)}\n"


END = "== turn\ntext: {{tool}}\n"
KEEP = call(action="snapshot", name="coding", persist=True)
SET = call(action="modify", key="mine", value="careful") + call(
    action="modify", key="max_iterations", value=60
)
LOOK = call(action="inspect", key="mine") + END


@pytest.fixture
def tuned(person):
    """A person who has the switch on."""
    person.config(tools={"self_evolution": True})
    return person


def session_of(person) -> str:
    return json.loads(person.instar("session", "list", "--json").stdout)[0]["id"]


@pytest.mark.slow
def test_config_yaml_switches_it_on_for_its_owner_and_not_for_a_stranger(person):
    text = "tools:\n  self_evolution: true\n"
    (person.project / "config.yaml").write_text(text)
    ran = person.run(call(action="list_snapshots") + END)
    assert "tools.self_evolution was left out: an untrusted project may only take tools away" in ran.stderr
    assert "self" not in person.tools()
    home = person.home / ".config" / "instar"
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text(text + "provider: x\n")
    assert "No snapshots saved" in person.run(call(action="list_snapshots") + END).stdout
    checked = person.instar("config", "check", code=None)
    assert re.search(r"config\.yaml:3:11: provider: nothing reads this", checked.stdout + checked.stderr)


@pytest.mark.slow
def test_a_change_is_a_line_of_the_run_and_of_the_sessions_parts(tuned):
    ran = tuned.run(SET + END)
    assert "+ self Set _runtime_vars.mine = 'careful' (" in ran.stderr
    assert "+ self Set max_iterations = 60 (was 40) (" in ran.stderr
    shown = tuned.instar("session", "show", session_of(tuned)).stdout
    assert "+ self Set _runtime_vars.mine = 'careful'\n" in shown
    assert "+ self Set max_iterations = 60 (was 40)\n" in shown


@pytest.mark.slow
def test_the_state_of_a_session_is_shown_after_the_run_and_goes_with_the_session(tuned):
    tuned.run(
        SET
        + call(action="manage_tool", name="webfetch", manage_action="unregister")
        + call(action="snapshot", name="s1")
        + call(action="inspect", key="mine")
        + END
    )
    session = session_of(tuned)
    shown = tuned.instar("session", "self", session[:12]).stdout
    lines = shown.splitlines()
    assert lines[0] == f"{session}  1 reads, 0 calls, 3 changes"
    assert lines[1:7] == [
        *("set:", "  max_iterations: 60"),
        *("variables:", "  mine: 'careful'"),
        *("unregistered: webfetch", "snapshots: s1"),
    ]
    assert lines[7] == "changes:"
    assert "_runtime_vars.mine: None -> 'careful'" in lines[8]
    assert "max_iterations: 40 -> 60" in lines[9]
    assert "tools.webfetch: 'registered' -> 'unregistered'" in lines[10]
    kept = json.loads(tuned.instar("session", "self", session, "--json").stdout)
    assert (kept["session"], kept["changes"]) == (session, 3)
    tuned.instar("session", "delete", session)
    gone = tuned.instar("session", "self", session, code=None)
    assert gone.code != 0
    assert "nothing was set in it" in gone.stderr


@pytest.mark.slow
def test_what_was_set_last_is_shown_as_it_was_set_also_where_a_limit_ended_the_turn(tuned):
    tuned.run(call(action="modify", key="limits.session.tokens", value=50) + END, code=1)
    lines = tuned.instar("session", "self", session_of(tuned)).stdout.splitlines()
    assert lines[1:3] == ["set:", "  limits.session.tokens: 50"]


def test_a_session_in_which_nobody_called_it_says_so_in_one_line(person):
    ran = person.instar("session", "self", "ses_none", code=2)
    said = "in no session of the id 'ses_none' was the tool self called: nothing was set in it"
    assert ran.stderr == f"instar: {said}\n"


@pytest.mark.slow
def test_the_note_holds_no_secret_and_no_escape_of_a_terminal(tuned):
    tuned.environment["MY_API_KEY"] = "sk-ENVIRONMENT-1234"
    tuned.run(
        call(action="modify", key="mine", value="sk-ENVIRONMENT-1234")
        + call(action="modify", key="other", value="\x1b[2J")
        + END
    )
    for form in ([], ["--json"]):
        shown = tuned.instar("session", "self", session_of(tuned), *form).stdout
        assert "sk-ENVIRONMENT" not in shown
        assert "\x1b" not in shown
        assert "***" in shown


# -- kept on purpose ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_snapshot_is_kept_through_the_gate_as_a_commit_and_a_later_run_starts_with_it(tuned):
    ran = tuned.run(SET + KEEP + END)
    assert re.search(
        r"Snapshot 'coding' saved and kept: config/profiles/coding\.json \(commit [0-9a-f]+\)", ran.stdout
    )
    kept = json.loads((tuned.root / "config/profiles/coding.json").read_text())
    assert kept["variables"] == {"mine": "careful"}
    assert kept["parameters"]["max_iterations"] == 60
    assert tuned.subjects()[0] == "self profiles/coding.json"
    body = tuned.git("log", "-1", "--format=%B")
    assert "parse: " in body
    assert session_of(tuned) in body
    # Off by default: a run that does not name it starts as ever.
    assert "not found" in tuned.run(LOOK).stdout
    begun = tuned.run(LOOK, "--profile", "coding")
    assert "mine: 'careful'" in begun.stdout
    assert "instar: self: max_iterations = 60 (was 40)" in begun.stderr
    shown = tuned.instar("session", "self", session_of(tuned)).stdout
    assert "max_iterations: 40 -> 60  (no call of the agent's)" in shown


@pytest.mark.slow
def test_the_same_profile_is_kept_anew_once_it_says_something_else(tuned):
    tuned.run(SET + KEEP + KEEP + END)
    assert "it says so already" in tuned.results()[-1]
    again = call(action="modify", key="mine", value="bold") + KEEP + END
    assert "(commit " in tuned.run(again).stdout
    assert json.loads((tuned.root / "config/profiles/coding.json").read_text())["variables"] == {
        "mine": "bold"
    }
    assert tuned.subjects()[:2] == ["self profiles/coding.json"] * 2
    tuned.instar("evolve", "rollback")
    assert "mine: 'careful'" in tuned.run(LOOK, "--profile", "coding").stdout


def test_without_a_workspace_it_is_refused_and_nothing_is_saved(tuned):
    del tuned.environment["INSTAR_WORKSPACE"]
    tuned.run(SET + KEEP + call(action="list_snapshots") + END)
    refused, listed = tuned.results()[-2:]
    assert refused.startswith(
        "Error: snapshot 'coding' was not saved: persist needs an evolve workspace in use"
    )
    assert listed == "No snapshots saved"


@pytest.mark.slow
def test_where_changes_are_frozen_it_stays_in_memory_and_says_why(tuned):
    tuned.run("== turn\ntext: begun\n")
    tuned.instar("evolve", "freeze")
    tuned.run(SET + KEEP + call(action="list_snapshots") + END)
    refused, listed = tuned.results()[-2:]
    assert refused.startswith("Error: snapshot 'coding' was saved in memory, but not kept: ")
    assert "frozen" in refused
    assert listed == "Snapshots (1): ['coding']"
    assert not (tuned.root / "config" / "profiles").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("my mode", "is no name of a profile"),
        ("../../hooks/x", "is no name of a profile"),
        (".hidden", "is no name of a profile"),
    ],
)
def test_a_name_that_is_none_of_a_file_is_refused(tuned, name, said):
    tuned.run(call(action="snapshot", name=name, persist=True) + END)
    assert said in tuned.results()[-1]
    assert not (tuned.root / "config").exists()


def test_what_persist_is_must_be_true_or_false(tuned):
    tuned.run(call(action="snapshot", name="a", persist="yes") + END)
    assert "persist" in tuned.results()[-1]
    assert not (tuned.root / "config").exists()


def test_a_secret_is_never_written_down(tuned):
    tuned.environment["MY_API_KEY"] = "sk-ENVIRONMENT-1234"
    tuned.run(call(action="modify", key="mine", value="sk-ENVIRONMENT-1234") + KEEP + END)
    assert "it holds what looks like a secret" in tuned.results()[-1]
    assert not (tuned.root / "config").exists()


def test_a_rule_may_ask_about_keeping_alone(person):
    person.config(tools={"self_evolution": True}, permission={"self": {"snapshot persist": "deny"}})
    person.run(KEEP + call(action="snapshot", name="coding") + END)
    kept, saved = person.results()[-2:]
    assert not (person.root / "config").exists()
    assert "saved" not in kept
    assert saved == "Snapshot 'coding' saved"


# -- starting with one -------------------------------------------------------------------------------


def test_a_profile_that_is_not_there_ends_the_turn_before_the_model_is_called(tuned):
    ran = tuned.run("== turn\ntext: never\n", "--profile", "codign", code=None)
    assert "never" not in ran.stdout
    assert tuned.requests() == []
    assert "the profile codign cannot be used: there is no profile 'codign'" in ran.stderr
    assert ran.code != 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"parameters": {"max_iterations": 1000}}, "must be <= 100"),
        ({"parameters": {"provider_retry_mode": "persistent"}}, "is no parameter of a profile"),
        ({"variables": {"__class__": 1}}, "is no name of a variable"),
        ({"variables": {f"k{one}": 1 for one in range(65)}}, "max 64 keys"),
        ({"hooks": {}}, "nothing else"),
        ({"variables": []}, "are objects"),
    ],
)
def test_a_profile_that_a_hand_has_spoilt_is_refused_whole(tuned, content, said):
    tuned.write("config/profiles/bad.json", json.dumps(content))
    ran = tuned.run("== turn\ntext: never\n", "--profile", "bad", code=None)
    assert tuned.requests() == []
    assert said in ran.stderr


@pytest.mark.slow
def test_a_profile_that_was_changed_behind_the_gates_back_is_not_what_a_run_starts_with(tuned):
    tuned.run(SET + KEEP + END)
    path = tuned.root / "config/profiles/coding.json"
    path.write_text(path.read_text().replace("careful", "reckless"))
    assert "mine: 'careful'" in tuned.run(LOOK, "--profile", "coding").stdout


@pytest.mark.slow
def test_the_profiles_model_answers_unless_the_person_names_one_for_the_run(person):
    person.config(tools={"self_evolution": True}, model="scripted/z")
    person.run(KEEP + END)
    person.tell("== turn\ntext: hello\n")
    person.instar("run", "--title", "t", "--profile", "coding", "hi")
    assert person.requests()[-1]["model"].endswith("x")
    person.instar("run", "--title", "t", "--profile", "coding", "-m", "scripted/y", "hi")
    assert person.requests()[-1]["model"].endswith("y")
    person.instar("run", "--title", "t", "hi")
    assert person.requests()[-1]["model"].endswith("z")


@pytest.mark.slow
def test_a_safe_run_starts_with_no_profile(tuned):
    tuned.run(SET + KEEP + END)
    before = len(tuned.requests())
    ran = tuned.run("== turn\ntext: never\n", "--profile", "coding", "--safe", code=None)
    assert "a safe run starts with none of the agent's changes" in ran.stderr
    assert len(tuned.requests()) == before


def test_without_the_switch_the_flag_is_refused(person):
    ran = person.run("== turn\ntext: never\n", "--profile", "coding", code=1)
    assert '--profile needs "tools": {"self_evolution": true}' in ran.stderr
    assert person.requests() == []
