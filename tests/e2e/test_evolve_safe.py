"""`--safe`: a start with none of the agent's changes, in which nothing is changed."""

import json
import shutil

import pytest

SCRIPT = """\
#!/bin/sh
cat >/dev/null
case "$1" in
discover) echo '{"name": "bot", "test": "bot_test.sh", "tools": [{"name": "who"}]}' ;;
mutate_request) echo '{"system": ["made by a person"]}' ;;
execute_tool) echo "{\\"result\\": \\"a person's, $(head -1 prompts/chat.md)\\"}" ;;
*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1 ;;
esac
"""
ASK = "== turn\ntool: bot_who {}\n== turn\ntext: {{tool}}\n"


def edit(tool: str, file: str, old: str, new: str) -> str:
    arguments = json.dumps({tool.split("_")[1]: file, "oldString": old, "newString": new, "replaceAll": True})
    return f"== turn\ntool: {tool} {arguments}\n"


BY_AGENT = (
    edit("evolve_hook_edit", "bot.sh", "a person", "the agent")
    + edit("evolve_prompt_edit", "chat.md", "be kind", "be quick")
    + "== turn\ntext: done\n"
)


@pytest.fixture
def changed(person):
    """A person whose script and prompt the agent has changed."""
    person.script("bot.sh", SCRIPT)
    person.write("tests/bot_test.sh", "#!/bin/sh\nexit 0\n", 0o755)
    person.write("prompts/chat.md", "be kind\n")
    person.config(permission="allow")
    person.run(BY_AGENT)
    assert len(person.subjects()) == 3, "both changes are installed"
    return person


@pytest.mark.slow
def test_a_safe_run_has_the_scripts_and_prompts_that_the_person_left_and_changes_no_byte(changed):
    before = changed.files()
    assert "the agent's, be quick" in changed.run(ASK).stdout
    ran = changed.run(ASK, "--safe")
    assert "a person's, be kind" in ran.stdout
    assert changed.systems()[-1] == ["made by a person"]
    said = "hooks/bot.sh as a person left it, prompts/chat.md as a person left it"
    assert f"instar: evolve: this run is safe (--safe): {said}; nothing is changed" in ran.stderr
    assert ran.logged("evolve=safe", said)
    assert "the agent's, be quick" in changed.run(ASK).stdout
    assert changed.files() == before
    assert f"person  safe: this run is safe (--safe): {said}" in changed.instar("evolve", "log").stdout


@pytest.mark.slow
def test_status_says_what_a_safe_run_would_start_with_and_changes_nothing(changed):
    said = "problem    this run is safe (--safe): hooks/bot.sh as a person left it, prompts/chat.md as"
    assert said in changed.instar("evolve", "status", "--safe").stdout
    assert "this run is safe" not in changed.instar("evolve", "status").stdout
    assert not changed.instar("evolve", "log").stdout.count("safe:")


@pytest.mark.slow
def test_in_a_safe_run_the_model_is_told_that_nothing_is_changed(changed):
    before = changed.files()
    changed.run(edit("evolve_hook_edit", "bot.sh", "a person", "me") + "== turn\ntext: done\n", "--safe")
    assert "hooks/bot.sh was not changed: this run is safe (--safe)" in changed.results()[0]
    assert changed.files() == before


@pytest.mark.slow
def test_a_session_that_goes_on_safely_is_not_led_by_the_prompt_that_the_agents_version_made(changed):
    story = "== turn\ntext: one\n== turn\ntext: two\n== turn\ntext: three\n"
    changed.run(story)
    assert changed.systems()[-1] == ["made by the agent"]
    changed.run(story, "--safe", "--continue")
    assert changed.systems()[-1] == ["made by a person"]
    changed.run(story, "--continue")
    assert changed.systems()[-1] == ["made by the agent"]


@pytest.mark.slow
def test_a_safe_run_in_a_clone_on_another_machine_goes_by_the_commits(changed, tmp_path):
    changed.git("clone", "--quiet", str(changed.root), str(tmp_path / "clone"))
    elsewhere = {"XDG_DATA_HOME": str(tmp_path / "data"), "INSTAR_WORKSPACE": str(tmp_path / "clone")}
    assert "a person's, be kind" in changed.run(ASK, "--safe", **elsewhere).stdout
    assert "the agent's, be quick" in changed.run(ASK, **elsewhere).stdout


@pytest.mark.slow
def test_a_safe_run_answers_though_workspace_and_repository_are_broken(changed):
    shutil.rmtree(changed.root / ".git")
    (changed.root / ".git").write_text("broken")
    (changed.root / "hooks" / "bot.sh").write_bytes(b"\0\xff")
    (changed.root / "prompts" / "chat.md").unlink()
    assert "a person's, be kind" in changed.run(ASK, "--safe").stdout


@pytest.mark.slow
def test_a_file_that_the_agent_made_is_left_out(changed):
    changed.config(permission="allow", evolve={"create": "allow"})
    text = SCRIPT.replace('"bot"', '"own"').replace("bot_test", "own_test")
    made = json.dumps({"hook": "own.sh", "content": text, "test": "#!/bin/sh\nexit 0\n"})
    changed.run(f"== turn\ntool: evolve_hook_write {made}\n== turn\ntext: done\n")
    changed.run("== turn\ntext: done\n")
    assert "own_who" in changed.tools()
    ran = changed.run("== turn\ntext: done\n", "--safe")
    assert {"bot_who"} == {name for name in changed.tools() if name.endswith("_who")}
    assert "hooks/own.sh left out, since the agent made it" in ran.stderr
    assert "tests/own_test.sh left out, since the agent made it" in ran.stderr


@pytest.mark.slow
def test_what_a_person_accepted_or_took_back_by_hand_is_theirs(changed):
    changed.script("bot.sh", SCRIPT.replace("a person's,", "mine,"))
    changed.instar("evolve", "accept", "--yes", "hooks/bot.sh")
    assert "mine, be kind" in changed.run(ASK, "--safe").stdout
    changed.run(edit("evolve_hook_edit", "bot.sh", "mine", "its") + "== turn\ntext: done\n")
    assert "mine, be kind" in changed.run(ASK, "--safe").stdout
    changed.instar("evolve", "rollback")
    changed.instar("evolve", "rollback", "@4")
    assert "the agent's, be quick" in changed.run(ASK).stdout
    assert "a person's, be kind" in changed.run(ASK, "--safe").stdout


def test_a_safe_run_where_the_agent_changed_nothing_says_so(person):
    person.script("bot.sh", SCRIPT)
    person.write("prompts/chat.md", "be kind\n")
    ran = person.run(ASK, "--safe")
    assert "a person's, be kind" in ran.stdout
    assert "this run is safe (--safe): the agent has changed nothing here" in ran.stderr


@pytest.mark.slow
def test_in_a_clone_a_script_that_the_agent_changed_is_sandboxed_and_one_of_the_persons_may_be_free(
    person, tmp_path
):
    person.config(evolve={"own_scripts": "free"})
    writes = """$ echo by $0 >prompts/$(basename $0).md; echo '{"result": "wrote"}'"""
    for name in ("its", "mine"):
        found = '{"name": "NAME", "tools": [{"name": "write"}]}'.replace("NAME", name)
        person.shell(f"{name}.sh", discover=found, execute_tool=writes)
    (person.root / "prompts").mkdir()
    person.commit_all()
    (person.root / "hooks" / "its.sh").write_text((person.root / "hooks" / "its.sh").read_text() + "# more\n")
    person.git(
        "commit", "--all", "--quiet", "--message", "evolve_hook_edit its.sh\n\nSession: ses_1\nCall: c"
    )
    person.git("clone", "--quiet", str(person.root), str(tmp_path / "clone"))
    (tmp_path / "clone" / "prompts").mkdir(exist_ok=True)
    person.run(
        "== turn\ntool: its_write {}\ntool: mine_write {}\n== turn\ntext: done\n",
        INSTAR_WORKSPACE=str(tmp_path / "clone"),
    )
    assert [path.name for path in (tmp_path / "clone" / "prompts").iterdir()] == ["mine.sh.md"]


@pytest.mark.slow
def test_a_rollback_that_is_owed_waits_until_the_safe_run_is_over(person):
    person.config(permission="allow", evolve={"probation_failures": 0})
    idle = 'idle) echo "{}" ;;\n*)'
    person.script("bot.sh", SCRIPT.replace("*)", idle))
    person.write("tests/bot_test.sh", "#!/bin/sh\nexit 0\n", 0o755)
    edited = edit("evolve_hook_edit", "bot.sh", 'echo "{}"', '[ -e late ] && exit 3; echo "{}"')
    person.run(edited + "== turn\ntext: done\n")
    person.write("late", "")
    person.run("== turn\ntext: done\n")
    installed = person.subjects()
    person.run("== turn\ntext: done\n", "--safe")
    assert person.subjects() == installed
    person.run("== turn\ntext: done\n== turn\ntext: I see\n")
    assert person.subjects()[0] == "roll back hooks/bot.sh"
