"""What a person and a model are told while they find out how evolve works."""

import json

import pytest

from instar.plugins.evolve.script import DISCOVER

DONE = "== turn\ntext: done\n"
BOT = """\
#!/bin/sh
case "$1" in
discover) echo '{"name": "bot", "test": "bot_test.sh", "tools": [{"name": "hello"}]}';;
execute_tool) echo '{"result": "Hello!"}';;
*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1;;
esac
"""


def tool(name: str, **args: object) -> str:
    return f"== turn\ntool: {name} {json.dumps(args)}\n"


@pytest.fixture
def bot(person):
    """A workspace with a script and its test."""
    person.script("bot.sh", BOT)
    person.write("tests/bot_test.sh", "#!/bin/sh\nexit 0\n", 0o755)
    return person


# -- a test that fails ------------------------------------------------------------------------------------


def test_a_test_that_failed_before_the_change_too_says_so_and_what_a_person_can_do(bot):
    bot.write("tests/bot_test.sh", "#!/bin/sh\necho 1 of 459 failed\nexit 1\n", 0o755)
    bot.run(tool("evolve_hook_edit", hook="bot.sh", oldString="Hello!", newString="Hi!") + DONE)
    (said,) = bot.results()
    assert (
        "the test failed before your change too, so no change can pass it: its test tests/bot_test.sh failed"
        in said
    )
    assert "A person can mend tests/bot_test.sh and run instar evolve accept" in said
    assert "1 of 459 failed" in said
    bot.write("tests/bot_test.sh", "#!/bin/sh\n! grep -q Hi! hooks/bot.sh\n", 0o755)
    bot.accept()
    bot.run(tool("evolve_hook_edit", hook="bot.sh", oldString="Hello!", newString="Hi!") + DONE)
    assert "before your change" not in bot.results()[-1]


@pytest.mark.slow
def test_a_test_that_times_out_says_so_and_how_long_it_may_take(bot):
    bot.write("config/evolve.jsonc", '{"hook_timeout": 1000}')
    bot.write("tests/bot_test.sh", "#!/bin/sh\nsleep 30\n", 0o755)
    bot.run(tool("evolve_hook_edit", hook="bot.sh", oldString="Hello!", newString="Hi!") + DONE)
    said = bot.results()[-1]
    assert (
        "it timed out: it took longer than hook_timeout (1000 ms), which a person sets in config/evolve.jsonc"
        in said
    )


# -- discover ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_key_of_discover_that_has_no_effect_is_said_when_it_is_installed_and_by_status(bot):
    ran = bot.run(
        tool("evolve_hook_edit", hook="bot.sh", oldString='"test"', newString='"network": true, "test"')
        + DONE
    )
    note = "bot.sh: discover answers 'network', which has no effect: it knows name, test, tools, sandbox"
    assert note in bot.results()[-1]
    assert f"evolve: {note}" in ran.stderr
    assert note not in bot.run(DONE).stderr
    assert note in bot.instar("evolve", "status").stdout


def test_a_file_without_its_run_bit_is_named_by_one_run_and_by_each_status(bot):
    bot.script("later.sh", BOT, 0o644)
    first, second = bot.run(tool("evolve_hook_list") + DONE), bot.run(DONE)
    assert "later.sh is missing its run bit: chmod +x" in first.stderr
    assert "later.sh" not in second.stderr
    assert "later.sh is missing its run bit: chmod +x" in bot.instar("evolve", "status").stdout
    bot.run(tool("evolve_hook_list") + DONE)
    assert bot.results()[-1] == "bot.sh\nlater.sh (not run: no run bit)"


@pytest.mark.slow
def test_a_script_that_is_broken_at_the_first_start_is_taken_over_untested_and_waits_for_its_repair(bot):
    bot.shell("broken.sh", discover="$ exit 3", mutate_request='{"system": ["x"]}')
    ran = bot.run(DONE)
    untested = "it has never answered discover here, so what stands there was taken over untested"
    assert untested in ran.stderr
    assert untested in bot.instar("evolve", "status").stdout
    assert bot.calls("broken.sh", "mutate_request") == []
    bot.run(tool("evolve_hook_edit", hook="broken.sh", oldString="exit 3", newString="echo '{}'") + DONE)
    assert "Installed hooks/broken.sh" in bot.results()[-1]
    assert untested not in bot.run(DONE).stderr
    assert "x" in bot.systems()[-1]


@pytest.mark.slow
def test_a_discover_that_hangs_is_waited_for_once_and_named_meanwhile(bot):
    path = bot.shell("slow.sh", discover="$ sleep 60")
    bot.tell(DONE)
    ran = bot.instar("run", "-m", "scripted/x", "hi")
    assert "instar: hooks/slow.sh has not answered discover yet; it may take 5 s\n" in ran.stderr
    assert f"longer than a discover may take ({DISCOVER * 1000:.0f} ms)" in ran.stderr
    for again in (bot.run(DONE), bot.run(DONE)):
        assert "has not answered" not in again.stderr
        assert (
            "slow.sh discover: hung, and is not asked again until its file changes (touch it)" in again.stderr
        )
    assert len(bot.calls("slow.sh", "discover")) == 1
    path.touch()
    bot.run(DONE)
    assert len(bot.calls("slow.sh", "discover")) == 2


# -- what waits, and what was named ----------------------------------------------------------------------


@pytest.mark.slow
def test_a_change_that_waits_is_whole_in_its_line_and_named_at_the_end_of_each_run(bot):
    held = BOT.replace('"test"', '"sandbox": {"write": ["notes"]}, "test"')
    bot.script("bot.sh", held)
    free = held.replace('["notes"]', '["notes", "state"]')
    ran = bot.run(tool("evolve_hook_write", hook="bot.sh", content=BOT) + DONE)
    ran = bot.run(tool("evolve_hook_write", hook="bot.sh", content=held) + DONE)
    ran = bot.run(tool("evolve_hook_write", hook="bot.sh", content=free) + DONE)
    assert "hooks/bot.sh was not changed. It waits for a person as " in ran.stderr
    for each in (ran, bot.run(DONE)):
        assert each.stderr.rstrip().endswith("evolve: 1 change waits: instar evolve pending")


def test_accept_looks_whether_there_is_anything_before_it_asks_for_a_terminal(bot):
    bot.run(DONE)
    assert bot.instar("evolve", "accept").stdout == "there is nothing to accept\n"
    bot.script("bot.sh", BOT + "# mine\n")
    refused = bot.instar("evolve", "accept", code=2)
    assert "+# mine" in refused.stdout
    assert "there is no terminal to ask on: look at what is shown, then accept --yes" in refused.stderr


def test_a_workspace_that_was_named_and_is_missing_ends_the_run_with_2(person):
    ran = person.run(DONE, "--workspace", "/nope", code=2)
    assert (
        "there is no workspace at /nope: name one that is there, or make one with instar init" in ran.stderr
    )


def test_the_workspace_of_init_moves_with_its_folder(person):
    person.instar("init", "mine")
    person.project = (person.project / "mine").rename(person.folder / "moved")
    person.instar("trust", ".")
    person.instar("trust", "workspace")
    status = person.instar("evolve", "status", INSTAR_WORKSPACE="").stdout
    assert f"workspace  {person.folder / 'moved/workspace'} (the plugin's workspace option)" in status


def test_a_config_yaml_that_switches_nothing_on_is_said(person):
    path = person.home / ".config" / "instar" / "config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("self_evolution: true\n")
    ran = person.run(DONE)
    assert (
        f"{path} names self_evolution, and switches nothing on: write it as tools: {{self_evolution: true}}"
        in ran.stderr
    )
    path.write_text("tools: {self_evolution: true}\n")
    assert "switches nothing on" not in person.run(DONE).stderr


# -- sessions ---------------------------------------------------------------------------------------------


def test_a_call_that_its_schema_refuses_is_neither_begun_nor_ended_for_scripts(bot):
    bot.shell("log.sh", discover="{}", tool_before="{}", tool_after="{}")
    bot.run(tool("bot_hello", more=1) + tool("bot_hello") + DONE)
    assert len(bot.calls("log.sh", "tool_before")) == 1
    assert len(bot.calls("log.sh", "tool_after")) == 1


def test_a_run_writes_down_which_model_answered_and_leaves_the_repository_clean(bot):
    bot.run(DONE)
    state = json.loads((bot.root / "state" / "evolve.json").read_text())
    assert state == {"model": {"providerID": "scripted", "modelID": "x"}}
    assert bot.git("status", "--porcelain") == ""


def test_a_commit_is_titled_by_the_tool_that_names_its_files(bot):
    writes = "".join(
        f"tool: {name} {json.dumps(args)}\n"
        for name, args in [
            ("write", {"filePath": str(bot.root / "a.md"), "content": "a"}),
            ("bash", {"command": "sleep 1", "description": "Wait"}),
            ("bot_hello", {}),
        ]
    )
    bot.run(f"== turn\n{writes}{DONE}", "--auto")
    assert bot.subjects()[0] == "write"


def test_the_agents_that_there_are_are_named_where_the_heartbeats_is_missing(bot):
    bot.write("prompts/heartbeat.md", "Look around.\n")
    said = bot.instar("heartbeat", "now", code=1).stdout
    assert "heartbeat_agent: there is no agent 'evolve'; there are: build, plan, " in said
