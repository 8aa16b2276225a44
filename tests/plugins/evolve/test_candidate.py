"""Candidates: tried in a copy, refused with reasons, the workspace untouched."""

import os
from pathlib import Path

import pytest

from instar.plugin import ToolFailure
from instar.plugins.evolve.gate import stages

BOT = """\
#!/bin/sh
case "$1" in
discover) echo '{"name": "bot", "test": "bot_test.sh", "tools": []}';;
*) printf '{"error": "unknown hook: %s"}\\n' "$1"; exit 1;;
esac
"""
CHANGED = BOT + "# changed\n"


@pytest.fixture
def bot(kit, root):
    """A workspace of one shell script whose test prints its environment; quick to start."""
    kit.script(root / "hooks", "bot.sh", BOT)
    kit.script(
        root / "tests",
        "bot_test.sh",
        "#!/bin/sh\npwd; env; test -x hooks/bot.sh && grep -q discover hooks/bot.sh\n",
    )
    return root


async def refusal(kit, running, root: Path, file: str, content: str) -> str:
    """The refusal's text; nothing in the workspace may have changed."""
    before = kit.files(root)
    with pytest.raises(ToolFailure) as error:
        await running.call("evolve_hook_write", hook=file, content=content)
    assert kit.files(root) == before
    assert str(error.value).endswith("The workspace is as it was.")
    return str(error.value)


async def passes(running, file: str, content: str):
    """What validation tells of a candidate that would be installed."""
    result = await running.call("evolve_hook_validate", hook=file, content=content)
    assert result.title == f"hooks/{file}: passed"
    return result


@pytest.mark.slow
async def test_validation_tries_a_candidate_as_an_install_does_and_changes_nothing(kit, start, hello):
    running = await start(hello)
    before = kit.files(hello)
    text = (hello / "hooks" / "hello.py").read_text()
    broken = text.replace("def note_list", "def note_names")
    said = await running.call("evolve_hook_validate", hook="hello.py", content=broken)
    assert "its test tests/hello_test.py failed: exit code 1" in said.output
    assert "note_list" in said.output
    good = text.replace("There are no notes yet.", "No notes.")
    result = await passes(running, "hello.py", good)
    assert "hooks/hello.py would be installed: its test tests/hello_test.py passed." in result.output
    assert "OK" in result.metadata["test_output"]
    assert kit.files(hello) == before


async def test_a_syntax_error_is_refused_with_what_the_interpreter_said(kit, start, hello):
    running = await start(hello)
    said = await refusal(kit, running, hello, "hello.py", "#!/usr/bin/env python3\ndef broken(:\n")
    assert "does not answer discover" in said
    assert "SyntaxError" in said
    assert "def broken(:" in said
    assert "(refused at the stage parse)" in said


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ('{"name": "other", "test": "bot_test.sh"}', "must keep the name 'bot'"),
        ('{"name": "bot"}', "must keep the test 'bot_test.sh'"),
        ('{"name": "bot", "test": "other.sh"}', "must keep the test 'bot_test.sh'"),
        (
            '{"name": "bot", "test": "bot_test.sh", "tools": [{"name": "t", "parameters": {"a": {"type": "x"}}}]}',
            "unknown type 'x'",
        ),
        ("[]", "should be a JSON object, not a list"),
    ],
)
async def test_a_candidate_keeps_its_name_and_test_and_registers_well_formed_tools(
    kit, start, bot, answer, says
):
    said = await refusal(kit, await start(bot), bot, "bot.sh", f"#!/bin/sh\necho '{answer}'\n")
    assert says in said
    assert "(refused at the stage parse)" in said


async def test_a_missing_test_and_one_without_its_run_bit_are_refused_and_say_what_to_do(kit, start, bot):
    (bot / "tests" / "bot_test.sh").chmod(0o644)
    running = await start(bot)
    said = await refusal(kit, running, bot, "bot.sh", CHANGED)
    assert "missing its run bit: chmod +x tests/bot_test.sh" in said
    (bot / "tests" / "bot_test.sh").unlink()
    await running.accept("tests/bot_test.sh")
    said = await refusal(kit, running, bot, "bot.sh", CHANGED)
    assert "tests/bot_test.sh is missing" in said
    assert "(refused at the stage test)" in said


@pytest.mark.parametrize("how", ["gone", "changed", "without its run bit"])
async def test_a_candidate_meets_the_accepted_test_whatever_was_done_to_it_by_hand(kit, start, bot, how):
    running = await start(bot)
    test = bot / "tests" / "bot_test.sh"
    if how == "gone":
        test.unlink()
    elif how == "changed":
        test.write_text("#!/bin/sh\nexit 7\n")
    else:
        test.chmod(0o644)
    result = await passes(running, "bot.sh", CHANGED)
    assert "INSTAR_WORKSPACE=" in result.metadata["test_output"]
    await running.step()
    assert any(problem.startswith("tests/bot_test.sh ") for problem in running.problems)


@pytest.mark.slow
async def test_a_test_that_hangs_is_ended_and_the_candidate_refused(kit, start, bot):
    kit.script(bot / "tests", "bot_test.sh", "#!/bin/sh\nsleep 60\n")
    kit.script(bot / "config", "evolve.jsonc", '{"hook_timeout": 3000}', mode=0o644)
    said = await refusal(kit, await start(bot), bot, "bot.sh", CHANGED)
    assert "longer than hook_timeout (3000 ms)" in said


async def test_of_a_long_test_output_the_end_is_kept(kit, start, bot):
    kit.script(
        bot / "tests",
        "bot_test.sh",
        "#!/bin/sh\nhead -c 50000 /dev/zero | tr '\\0' x; echo the end; exit 1\n",
    )
    said = await refusal(kit, await start(bot), bot, "bot.sh", CHANGED)
    assert "the end\n" in said
    assert len(said) < stages.SHOWN + 400


async def test_without_a_registered_test_only_discover_is_tried(kit, start, bot):
    kit.script(bot / "hooks", "bot.sh", '#!/bin/sh\necho \'{"name": "bot"}\'\n')
    kit.script(bot / "tests", "bot_test.sh", "#!/bin/sh\nexit 1\n")
    result = await passes(await start(bot), "bot.sh", '#!/bin/sh\necho \'{"name": "bot"}\' # changed\n')
    assert result.metadata["test_output"] is None
    assert "it registers no test, so only its discover was tried" in result.output


async def test_the_test_runs_in_the_copy_without_the_persons_keys(start, bot):
    keys = {"OPENAI_API_KEY": "key", "GH_TOKEN": "t", "SOME_SETTING": "s", "LANG": "C.UTF-8"}
    result = await passes(await start(bot, **keys), "bot.sh", CHANGED)
    printed = result.metadata["test_output"].splitlines()
    said = dict(line.split("=", 1) for line in printed[1:] if "=" in line)
    assert said["INSTAR_WORKSPACE"] == said["OPENCODE_EVOLVE_WORKSPACE"] == printed[0]
    assert said["HOME"] == said["TMPDIR"] != os.environ["HOME"]
    assert said["LANG"] == "C.UTF-8"
    assert said.keys() & {"OPENAI_API_KEY", "GH_TOKEN", "SOME_SETTING"} == set()


@pytest.mark.slow
async def test_a_candidate_that_writes_in_its_workspace_writes_in_the_copy(kit, start, bot):
    (bot / "state.txt").write_text("before")
    running = await start(bot)
    before = kit.files(bot)
    await passes(
        running, "bot.sh", BOT.replace("case", "echo broken >state.txt; echo x >hooks/new.sh; case", 1)
    )
    assert kit.files(bot) == before


@pytest.mark.slow
async def test_what_a_test_made_read_only_is_removed_too(start, bot, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    (bot / "tests" / "bot_test.sh").write_text(
        "#!/bin/sh\nmkdir d && touch d/f && chmod -R a-w d && chmod 0 d && pwd\n"
    )
    running = await start(bot)
    held = sorted((tmp_path / "t").iterdir())
    await passes(running, "bot.sh", CHANGED)
    assert sorted((tmp_path / "t").iterdir()) == held


async def test_a_candidates_discover_is_given_the_prompts_as_every_hook_is(kit, start, bot):
    kit.script(bot / "prompts", "chat.md", "Be kind.", mode=0o644)
    told = 'discover) grep -q \'"chat":"Be kind."\' || exit 3; echo'
    assert BOT.count("discover) echo") == 1
    await passes(await start(bot), "bot.sh", BOT.replace("discover) echo", told))
