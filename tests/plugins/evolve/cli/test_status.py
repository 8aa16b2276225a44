"""`instar evolve status`: what a workspace is made of, what goes on in it, what is wrong; and how it is named."""

import json
import os
import re

import pytest


def test_status_shows_scripts_tests_tools_and_problems(kit, run, hello):
    kit.script(hello / "hooks", "later.py", "x", mode=0o644)
    said = run("--workspace", hello, "status")
    assert said.exit_code == 0
    assert f"workspace  {hello} (--workspace)" in said.output
    assert (
        "hooks/hello.py: name hello, test tests/hello_test.py, tools hello_note_list, hello_note_read"
        in said.output
    )
    assert "history    no repository yet" in said.output
    assert "problem    later.py is missing its run bit" in said.output


def test_status_of_broken_settings_names_the_place_and_exits_1(run, hello):
    (hello / "config" / "evolve.jsonc").write_text("{\n oops\n}")
    said = run("status", INSTAR_WORKSPACE=str(hello))
    assert said.exit_code == 1
    assert "evolve.jsonc:2:2: expected" in said.output


def test_an_untrusted_workspace_is_shown_but_nothing_in_it_runs(kit, run, tmp_path):
    root = tmp_path / "home" / "workspace"
    kit.shell(root, "a.sh", discover="{}")
    said = run("status")
    assert said.exit_code == 1
    assert "hooks/a.sh (not run)" in said.output
    assert "is not trusted" in said.output
    assert run("validate", root / "hooks" / "a.sh").exit_code == 1
    assert kit.calls(root, "a.sh", "discover") == []


def test_a_workspace_that_does_not_exist_is_one_line(run, tmp_path):
    said = run("status")
    assert said.exit_code == 1
    assert said.output.count("\n") == 1
    assert f"there is no workspace at {tmp_path}/home/workspace (the default)" in said.output


def test_the_workspace_may_be_named_before_and_after_the_subcommand(kit, run, hello):
    for arguments in (("--workspace", hello, "status"), ("status", "--workspace", hello)):
        assert f"workspace  {hello} (--workspace)" in run(*arguments).output


def test_the_configurations_workspace_is_used_where_the_person_named_none(run, hello, tmp_path):
    said = run("status", options={"workspace": str(hello)})
    assert f"workspace  {hello} (the plugin's workspace option)" in said.output
    assert "is not trusted" in said.output
    named = run("status", options={"workspace": str(tmp_path / "no")}, INSTAR_WORKSPACE=str(hello))
    assert f"workspace  {hello} (INSTAR_WORKSPACE)" in named.output


def test_status_as_json_has_what_the_lines_have(kit, run, hello):
    shown = json.loads(run("status", "--workspace", hello, "--json").output)
    (script,) = shown["scripts"]
    assert (script["file"], script["name"], script["test"]) == (
        "hooks/hello.py",
        "hello",
        "tests/hello_test.py",
    )
    assert "hello_note_read" in script["tools"]
    assert (shown["workspace"], shown["active"], shown["problems"]) == (str(hello), True, [])


def test_status_names_a_setting_that_means_nothing(run, hello):
    (hello / "config" / "evolve.jsonc").write_text('{"hook_timeuot": 3}')
    said = run("status", "--workspace", hello)
    assert said.exit_code == 0
    assert "unknown setting 'hook_timeuot' is ignored; did you mean 'hook_timeout'?" in said.output


def test_status_names_a_test_that_is_missing(run, hello):
    (hello / "tests" / "hello_test.py").unlink()
    assert "its test tests/hello_test.py is missing" in run("status", "--workspace", hello).output


@pytest.mark.slow
def test_status_of_a_workspace_that_evolve_works_on_has_epoch_sandbox_probation_and_what_waits(hand):
    hand.edit("Hello!", "Hello, you!")
    asked = hand.ask_for_more()
    said = hand("status").stdout
    assert "epoch      2\nsandbox    " in said
    assert re.search(
        r"^probation  hooks/bot.sh: on probation: \d of 50 calls, 0 of them failed anew$", said, re.M
    )
    more = "its tool bot_greet would run without asking a person first (so far it asks about who)"
    assert f"waits      {asked} hooks/bot.sh: {more}\n" in said
    shown = hand.json("status")
    assert (shown["epoch"], list(shown["probation"])) == (2, ["hooks/bot.sh"])
    assert shown["level"] in ("bubblewrap", "landlock", "none")
    assert shown["problems"] == []


def test_where_evolve_would_be_off_nothing_is_called_changed_before_its_first_run(hand):
    hand.write("config/evolve.jsonc", '{"spawn": "wram"}')
    said = hand("status", code=1)
    assert "spawn: expected one of warm, plain" in said.stdout
    assert "behind the gate" not in said.stdout


@pytest.mark.slow
def test_a_look_at_a_workspace_accepts_nothing_so_a_script_may_still_be_written_by_hand(hand):
    assert hand.json("status")["epoch"] is None
    hand.write("hooks/later.sh", "#!/bin/sh\necho '{}'\n")
    assert [one["file"] for one in hand.json("status")["scripts"]] == ["hooks/bot.sh", "hooks/later.sh"]
    assert not (hand.root / ".git").exists()
    hand.edit("Hello!", "Hello, you!")
    assert hand.json("status")["departures"] == []


def test_orders_and_trials_are_refused_where_nobody_trusts_the_workspace(run, hand):
    for words in (
        ["validate", hand.root / "hooks" / "bot.sh"],
        ["rollback"],
        ["accept", "--yes"],
        ["bisect", "true"],
    ):
        said = run(*words, options={"workspace": str(hand.root)})
        assert said.exit_code == 1
        assert "is not trusted" in said.stderr
        assert said.stderr.count("\n") == 1
    assert not (hand.root / ".git").exists()


@pytest.mark.slow
def test_a_look_does_not_count_as_a_call_on_probation(hand):
    hand.edit("Hello!", "Hello, you!")
    before = hand.json("status")["probation"]
    assert hand.json("status")["probation"] == before


@pytest.mark.slow
def test_a_file_whose_name_is_no_utf_8_is_reported_all_the_same(hand):
    hand.edit("Hello!", "Hello, you!")
    (hand.root / "hooks" / os.fsdecode(b"caf\xe9.sh")).write_text("#!/bin/sh\n")
    (departed,) = hand.json("status")["departures"]
    assert departed["path"] == "hooks/caf\udce9.sh"
    assert "problem    hooks/caf.sh cannot be used: its name is not UTF-8" in hand("status").stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", ["config/evolve.jsonc", "prompts/chat.md", "hooks/pipe.py"])
def test_a_pipe_in_a_workspace_that_came_from_elsewhere_is_not_waited_for(hand, path):
    (hand.root / path).parent.mkdir(exist_ok=True)
    (hand.root / path).unlink(missing_ok=True)
    os.mkfifo(hand.root / path)
    done = hand.instar("evolve", "--workspace", hand.root, "status")
    assert done.returncode == int(path == "config/evolve.jsonc"), done.stderr
    assert "workspace  " in done.stdout
