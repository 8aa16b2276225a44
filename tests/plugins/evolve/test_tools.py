"""evolve's own tools, on a real workspace with real git."""

from datetime import UTC, datetime, timedelta

import jsonschema
import pytest

from instar.plugin import ToolFailure
from instar.plugins.evolve import discovery
from instar.plugins.evolve.heartbeat.schedule import State

ADDED = '''
@tool(who="Whom to greet.")
def greet(who):
    """Greet somebody."""
    return {"result": f"Hello, {who}! $& costs \\\\1"}


# -- hooks'''
HEAD = "\n# -- hooks"

NEW_BOT = """\
#!/bin/sh
case "$1" in
discover) echo '{"tools": [{"name": "%s"}]}';;
execute_tool) echo '{"result": "new"}';;
esac
"""


async def refused(kit, running, root, tool: str, **args) -> str:
    """The failure's text; nothing in the workspace or its history may have changed."""
    before, log = kit.files(root), kit.git(root, "log", "--format=%H")
    with pytest.raises(ToolFailure) as error:
        await running.call(tool, **args)
    assert kit.files(root) == before
    assert kit.git(root, "log", "--format=%H") == log
    return str(error.value)


@pytest.mark.slow
async def test_the_story_a_failing_change_is_refused_a_passing_one_is_installed_and_its_tool_called_at_the_next_step(
    kit, start, hello
):
    running = await start(hello)
    said = await refused(
        kit,
        running,
        hello,
        "evolve_hook_edit",
        hook="hello.py",
        oldString='    """List the notes."""\n',
        newString="",
    )
    assert said.startswith("hooks/hello.py was not changed: its test tests/hello_test.py failed: exit code 1")
    assert "note_list has no description" in said
    assert said.endswith("The workspace is as it was.")

    result = await running.call("evolve_hook_edit", hook="hello.py", oldString=HEAD, newString=ADDED)
    commit = kit.git(hello, "rev-parse", "--short", "HEAD").strip()
    assert result.output == (
        f"Installed hooks/hello.py (commit {commit}): its test tests/hello_test.py passed.\n"
        "no evals: nothing measured whether it is better or worse.\n"
        "New tools, from the next step on: hello_greet"
    )
    assert "+def greet(who):" in result.metadata["diff"]
    assert "OK" in result.metadata["test_output"]
    assert "hello_greet" in result.metadata["tools"]
    assert kit.git(hello, "log", "--format=%s").splitlines() == ["evolve_hook_edit hello.py", "initial"]
    assert kit.git(hello, "show", "--name-only", "--format=").split() == ["hooks/hello.py"]
    assert kit.git(hello, "status", "--porcelain") == ""
    refusal, change, edited = running.client.published
    assert (refusal.type, refusal.properties.stage) == ("evolve.refused", "test")
    assert refusal.properties.file == "hooks/hello.py"
    assert "note_list has no description" in refusal.properties.message
    assert (change.type, change.properties.files) == ("evolve.installed", ["hooks/hello.py"])
    assert (change.properties.epoch, change.properties.session_id) == (2, "ses_1")
    assert (edited.type, edited.properties.file) == ("file.edited", str(hello / "hooks" / "hello.py"))

    greeting = await running.call("hello_greet", who="Ada")
    assert greeting.output == "Hello, Ada! $& costs \\1"


@pytest.mark.slow
async def test_a_tool_that_is_gone_is_said(kit, start, root):
    kit.script(root / "hooks", "a.sh", NEW_BOT % "one")
    running = await start(root)
    result = await running.call("evolve_hook_write", hook="a.sh", content=NEW_BOT % "two")
    assert "it registers no test, so only its discover was tried." in result.output
    assert "New tools, from the next step on: a_two" in result.output
    assert "Tools that are gone: a_one" in result.output
    assert "a_one" not in running.tools
    assert (await running.call("a_two")).output == "new"


@pytest.mark.slow
async def test_every_own_tool_has_a_schema_that_holds_and_describes_every_property(start, hello):
    running = await start(hello)
    own = {name: tool for name, tool in running.tools.items() if name in discovery.OWN}
    assert set(own) == discovery.OWN
    for tool in running.tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.parameters)
        assert all(found["description"] for found in tool.parameters["properties"].values())
        assert tool.description
    assert own["evolve_hook_edit"].parameters["required"] == ["hook", "oldString", "newString"]
    assert own["evolve_hook_read"].parameters["properties"]["hook"]["enum"] == ["hello.py"]
    stages = ["preamble.md", "chat.md", "heartbeat.md", "compaction.md", "recover.md"]
    assert own["evolve_prompt_write"].parameters["properties"]["prompt"]["enum"] == stages


async def test_all_tools_are_there_while_there_is_no_script_and_say_so(start, root):
    running = await start(root)
    assert set(running.tools) == discovery.OWN
    assert "enum" not in running.tools["evolve_hook_read"].parameters["properties"]["hook"]
    assert (await running.call("evolve_hook_list")).output == "(no hook scripts)"
    with pytest.raises(ToolFailure, match=r"there is no hooks/x\.py"):
        await running.call("evolve_hook_read", hook="x.py")


@pytest.mark.slow
async def test_all_tools_are_there_when_the_only_script_is_broken(kit, start, root):
    kit.script(root / "hooks", "a.sh", "#!/bin/sh\nexit 3\n")
    running = await start(root)
    assert set(running.tools) == discovery.OWN
    assert running.tools["evolve_hook_write"].parameters["properties"]["hook"]["enum"] == ["a.sh"]


@pytest.mark.slow
async def test_own_tools_go_by_each_scripts_prefix_unless_a_script_has_a_tool_of_that_name(kit, start, root):
    kit.shell(root, "persona.sh", discover='{"tools": [{"name": "datetime"}]}')
    kit.shell(root, "evolve.sh")
    running = await start(root)
    assert running.tools["evolve_datetime"].aliases == ()
    assert running.tools["evolve_hook_write"].aliases == ("persona_hook_write",)
    assert "persona_datetime" in running.tools
    ask = running.asks("evolve_hook_write", hook="persona.sh", content="x")
    assert (ask.permission, list(ask.patterns)) == ("evolve_hook_write", ["persona.sh"])
    assert list(ask.always) == ["persona.sh"]
    assert ask.aliases == ("persona_hook_write",)
    assert list(running.asks("evolve_prompt_list").patterns) == ["*"]


@pytest.mark.slow
async def test_the_date_is_in_utc(start, root):
    said = (await (await start(root)).call("evolve_datetime")).output
    assert said.endswith("Z")
    assert abs(datetime.fromisoformat(said) - datetime.now(UTC)) < timedelta(minutes=1)


async def test_the_time_of_the_last_heartbeat_is_told_in_utc(start, root):
    running = await start(root)
    assert (await running.call("evolve_heartbeat_time")).output == "never"
    begun = int(datetime(2026, 3, 1, 12, 30, tzinfo=UTC).timestamp() * 1000)
    running.engine.storage.heartbeat.change(lambda state: (State(last=begun), []))
    assert (await running.call("evolve_heartbeat_time")).output == "2026-03-01T12:30:00.000Z"


@pytest.mark.slow
async def test_hooks_and_prompts_are_listed_and_read_by_lines(kit, start, hello):
    kit.script(hello / "hooks", "later.py", "x", mode=0o644)
    (hello / "prompts" / "recover.md").unlink()
    running = await start(hello)
    listed = (await running.call("evolve_hook_list")).output
    assert listed == "hello.py\nlater.py (not run: no run bit)"
    assert (
        (await running.call("evolve_prompt_list"))
        .output.splitlines()[-1]
        .startswith("(not there: recover.md; ")
    )
    text = (hello / "hooks" / "hello.py").read_text()
    assert (await running.call("evolve_hook_read", hook="hello.py")).output == text
    second = (await running.call("evolve_hook_read", hook="hello.py", offset=2, limit=1)).output
    assert second.startswith(text.splitlines()[1] + "\n\n(lines 2 to 2 of ")
    assert (await running.call("evolve_prompt_read", prompt="recover.md")).output == "(empty)"
    with pytest.raises(ToolFailure, match="past the end"):
        await running.call("evolve_prompt_read", prompt="chat.md", offset=99)


@pytest.mark.slow
async def test_a_prompt_is_edited_literally_committed_and_given_to_the_scripts_at_once(kit, start, hello):
    running = await start(hello)
    await running.call(
        "evolve_prompt_edit", prompt="chat.md", oldString="sentence", newString="$& \\1", replaceAll=True
    )
    assert "$& \\1" in (hello / "prompts" / "chat.md").read_text()
    result = await running.call("evolve_prompt_write", prompt="chat.md", content="Be $&.")
    assert result.metadata["diff"].endswith("+Be $&.\n\\ No newline at end of file\n")
    assert kit.git(hello, "log", "--format=%s").splitlines() == [
        "evolve_prompt_write chat.md",
        "evolve_prompt_edit chat.md",
        "initial",
    ]
    assert (await running.system())[1] == "Be $&."


@pytest.mark.slow
async def test_no_new_file_is_created(kit, start, hello):
    (hello / "prompts" / "recover.md").unlink()
    running = await start(hello)
    for kind, file in [("prompt", "recover.md"), ("hook", "new.py")]:
        said = await refused(
            kit, running, hello, f"evolve_{kind}_write", **{kind: file}, content="#!/bin/sh\n"
        )
        assert said.startswith(f"there is no {kind}s/{file};")
        assert said.endswith('(a person allows it by "evolve": {"create": "allow"})')


@pytest.mark.slow
@pytest.mark.parametrize("file", ["../config/evolve.jsonc", "/etc/hostname", "..", ".git", "link.md", "a\0b"])
@pytest.mark.parametrize("kind", ["hook", "prompt"])
async def test_a_path_that_leaves_the_folder_is_refused_also_when_the_schema_was_not_asked(
    kit, start, hello, tmp_path, kind, file
):
    (tmp_path / "outside").write_text("outside")
    (hello / "prompts" / "link.md").symlink_to(tmp_path / "outside")
    (hello / "hooks" / "link.md").symlink_to(tmp_path / "outside")
    running = await start(hello)
    await refused(kit, running, hello, f"evolve_{kind}_write", **{kind: file}, content="x")
    await refused(kit, running, hello, f"evolve_{kind}_read", **{kind: file})
    assert (tmp_path / "outside").read_text() == "outside"


@pytest.mark.slow
async def test_a_hook_with_crlf_lines_is_edited_and_keeps_its_mode(kit, start, root):
    path = kit.script(root / "hooks", "a.py", "")
    path.write_bytes(b"#!/usr/bin/env -S python3 -u\nimport sys\r\nprint('{}')\r\n")
    path.chmod(0o750)
    running = await start(root)
    await running.call("evolve_hook_edit", hook="a.py", oldString="sys\nprint", newString="os\nprint")
    assert path.read_bytes() == b"#!/usr/bin/env -S python3 -u\nimport os\r\nprint('{}')\r\n"
    assert path.stat().st_mode & 0o777 == 0o750


@pytest.mark.slow
async def test_an_edit_that_cannot_be_made_tells_the_model_why(kit, start, hello):
    running = await start(hello)
    edits = [("nowhere", "x", "was not found"), ("def ", "x", "was found"), (HEAD, HEAD, "the same")]
    for old, new, says in edits:
        said = await refused(
            kit, running, hello, "evolve_hook_edit", hook="hello.py", oldString=old, newString=new
        )
        assert says in said
    text = (hello / "hooks" / "hello.py").read_text()
    said = await refused(kit, running, hello, "evolve_hook_write", hook="hello.py", content=text)
    assert "already says exactly that" in said


@pytest.mark.slow
async def test_validate_installs_nothing(kit, start, hello):
    running = await start(hello)
    text = (hello / "hooks" / "hello.py").read_text()
    before = kit.files(hello)
    good = await running.call("evolve_hook_validate", hook="hello.py", content=text.replace(HEAD, ADDED))
    assert good.output == (
        "hooks/hello.py would be installed: its test tests/hello_test.py passed.\n"
        "no evals: nothing measured whether it is better or worse."
    )
    bad = await running.call(
        "evolve_hook_validate", hook="hello.py", content=text.replace("Wrote", "Lost") + "oops("
    )
    assert bad.output.startswith("hooks/hello.py would be refused: it does not answer discover")
    assert "SyntaxError" in bad.output
    assert kit.files(hello) == before
