"""The gate's stages through the model's tools: each refuses by its name, and what is refused changes no byte."""

import re
import tempfile
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.plugins.evolve.living import Living, bot, discover, living, workspace

SLOW = '{"hook_timeout": 4000}'
UNNAMED = discover(name="other")


@pytest.fixture
async def live(root: Path) -> AsyncIterator[Living]:
    """evolve on a workspace whose script has a test."""
    workspace(root)
    (root / "config").mkdir()
    (root / "config" / "evolve.jsonc").write_text(SLOW)
    async with living(root) as found:
        yield found


# -- parse ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("echo hi\n", "its first line must name its interpreter"),
        ("", "its first line must name its interpreter"),
        ("#!/no/such/interpreter\n", "does not answer discover"),
        ("#!/usr/bin/env python3\ndef discover(:\n", "SyntaxError"),
        ("#!/bin/sh\nif\n", "does not answer discover"),
        (bot(discover="sleep 60"), "longer than hook_timeout"),
        (bot(discover="kill -9 $$"), "signal 9"),
        (bot(discover="echo hello"), "JSON"),
        (bot(discover="echo '[1]'"), "JSON"),
        (bot(discover="yes '{}' | head -c 11000000"), "printed more than"),
        (bot(discover=UNNAMED), "must keep the name 'bot'"),
        (bot(discover=discover(test=None)), "must keep the test 'bot_test.sh'"),
        (bot(discover=discover(test="easy.sh")), "must keep the test 'bot_test.sh'"),
        (bot(discover="echo '{}'"), "must keep the test"),
        (bot(discover=discover(tools=[{"name": "x", "parameters": 3}])), "tool 'x' is left out"),
        (bot(discover=discover(sandbox={"netwrok": False})), "did you mean 'network'?"),
        (bot(discover=discover(sandbox={"write": ["hooks"]})), "never writable"),
    ],
)
async def test_a_script_that_does_not_start_or_keep_its_name_and_test_is_refused_at_parse(
    live, content, words
):
    said = await live.refused(content)
    assert words in said
    assert "(refused at the stage parse) The workspace is as it was." in said
    assert [one.stage for one in live.events("refused")] == ["parse"]
    assert [one.stage for one in live.audit_log("refused")] == ["parse"]


@pytest.mark.slow
async def test_the_name_and_test_to_be_kept_are_known_also_when_the_live_script_answers_nothing_any_more(
    live, root
):
    await live.write(bot("[ -e state/x ] && exit 3\n"))
    (root / "state" / "x").write_text("")
    async with living(root, values=live.values) as again:
        assert "must keep the name 'bot'" in await again.refused(bot(discover=UNNAMED))
        await again.write(bot())
        assert "bot_greet" in again.hooks["tool"]


# -- test -----------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_script_whose_test_fails_is_refused_with_what_the_test_printed(live):
    said = await live.refused(bot("# wrong"))
    assert "its test tests/bot_test.sh failed: exit code 7" in said
    assert "it is wrong" in said
    assert "(refused at the stage test)" in said
    (entry,) = live.audit_log("refused")
    assert (entry.by, entry.tool, entry.session, entry.call) == (
        "agent",
        "evolve_hook_write",
        "ses_1",
        "call_1",
    )
    assert "it is wrong" in entry.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "mode", "words"),
    [
        ("#!/bin/sh\nsleep 60\n", 0o755, "longer than hook_timeout"),
        ("#!/bin/sh\nexit 0\n", 0o644, "chmod +x tests/bot_test.sh"),
        ("#!/bin/sh\nkill -9 $$\n", 0o755, "signal 9"),
        ("#!/no/such\n", 0o755, "its interpreter /no/such does not exist"),
    ],
)
async def test_a_test_that_cannot_be_run_to_its_end_refuses(root, test, mode, words):
    workspace(root, test=test)
    (root / "tests" / "bot_test.sh").chmod(mode)
    (root / "config").mkdir()
    (root / "config" / "evolve.jsonc").write_text(SLOW)
    async with living(root) as live:
        said = await live.refused(bot("# more"))
        assert words in said
        assert "(refused at the stage test)" in said


@pytest.mark.slow
async def test_a_test_that_is_missing_refuses_and_says_who_can_mend_it(root):
    workspace(root)
    (root / "tests" / "bot_test.sh").unlink()
    async with living(root) as live:
        said = await live.refused(bot("# more"))
        assert "tests/bot_test.sh is missing: a person must add it" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "spoil", ["echo >tests/bot_test.sh", "rm -rf tests", "cp /bin/true tests/bot_test.sh"]
)
async def test_a_discover_that_spoils_the_test_in_its_trial_meets_the_test_as_it_stands(live, spoil):
    said = await live.refused(bot(f"# wrong\n{spoil} 2>/dev/null"))
    assert "it is wrong" in said


@pytest.mark.slow
async def test_prompts_are_tested_too_by_the_tests_of_the_scripts(root):
    workspace(root, test="#!/bin/sh\ngrep -q kind prompts/chat.md || { echo 'not kind'; exit 1; }\n")
    async with living(root) as live:
        said = await live.refused("Be rude.\n", "chat.md", "evolve_prompt_write")
        assert "not kind" in said
        assert "(refused at the stage test)" in said
        result = await live.call("evolve_prompt_edit", prompt="chat.md", oldString="Be", newString="Be very")
        assert "tests/bot_test.sh passed." in result.output
        assert (root / "prompts" / "chat.md").read_text() == "Be very kind.\n"


@pytest.mark.parametrize("content", ["a\0b", "x" * ((1 << 20) + 1)])
async def test_a_prompt_that_is_no_text_of_a_bearable_length_is_refused(live, content):
    assert "(refused at the stage parse)" in await live.refused(content, "chat.md", "evolve_prompt_write")


# -- replay ---------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_candidate_that_fails_on_a_recorded_call_is_refused_with_that_call(live):
    await live.call("bot_greet")
    said = await live.refused(bot(execute_tool="echo broken >&2; exit 3"))
    assert (
        "bot.sh execute_tool: it fails on a recorded call that the live version answers: exit code 3" in said
    )
    assert "broken" in said
    assert "(refused at the stage replay)" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("sleep 60", "it hangs on a recorded call"),
        ("echo hello", "its answer is malformed on a recorded call"),
        ("echo '{}'", "the live version answers 1 recorded call of it, the candidate none"),
        ("""echo '{"error": "unknown hook: execute_tool"}'; exit 1""", "the candidate none"),
    ],
)
async def test_a_candidate_that_hangs_prints_rubbish_or_falls_silent_on_a_recorded_call_is_refused(
    live, code, words
):
    await live.call("bot_greet")
    said = await live.refused(bot(execute_tool=code))
    assert words in said
    assert "(refused at the stage replay)" in said


@pytest.mark.slow
async def test_a_changed_answer_is_told_with_its_difference_and_installed(live):
    await live.call("bot_greet")
    said = await live.write(bot(execute_tool="""echo '{"result": "good day"}'"""))
    assert "It would have changed 1 of 1 past answers:" in said
    assert '- "result": "hello"' in said.replace("-  ", "- ")
    assert '"good day"' in said
    assert "tests/bot_test.sh passed" in said


@pytest.mark.slow
async def test_a_record_that_cannot_be_read_is_named_and_the_others_are_replayed(live):
    await live.call("bot_greet")
    await live.call("bot_greet")
    await live.engine.storage.records.read()  # written by now
    damage = "UPDATE call SET value = x'00' WHERE number = (SELECT min(number) FROM call WHERE hook = 'execute_tool')"
    live.engine.storage.database.change(lambda connection: connection.execute(damage))
    said = await live.write(bot(execute_tool="""echo '{"result": "good day"}'"""))
    assert "It would have changed 1 of 1 past answers:" in said
    assert re.search(r"the record of bot.sh execute_tool at \d+ is left out, it cannot be read", said)


@pytest.mark.slow
async def test_a_changed_answer_is_refused_where_the_person_says_strict(root):
    workspace(root)
    async with living(root, config={"replay": "strict"}) as live:
        await live.call("bot_greet")
        said = await live.refused(bot(execute_tool="""echo '{"result": "good day"}'"""))
        assert '"evolve.replay" is "strict"' in said
        assert "good day" in said
        await live.write(bot("# the same answers"))


@pytest.mark.slow
async def test_a_replay_in_which_no_call_came_to_an_end_in_its_seconds_refuses(root):
    answer = """[ -e "$HOME/fast" ] || sleep 60; echo '{"result": "hello"}'"""
    workspace(root, bot(execute_tool=answer))
    async with living(root, config={"replay_seconds": 1}) as live:
        (root.parent / "home").mkdir(exist_ok=True)
        (root.parent / "home" / "fast").write_text("")  # no trial sees the person's home
        await live.call("bot_greet")
        said = await live.refused(bot("# the same answers", execute_tool=answer))
        assert "none of the recorded calls came to an end within 1 s" in said


@pytest.mark.slow
async def test_a_prompt_is_replayed_with_the_scripts_that_read_it(root):
    code = """grep -q rude && exit 3; echo '{"system": ["x"]}'"""
    workspace(root, bot(mutate_request=code))
    async with living(root) as live:
        assert await live.system() == ["x"]
        said = await live.refused("Be rude.\n", "chat.md", "evolve_prompt_write")
        assert "mutate_request: it fails on a recorded call" in said
        assert "(refused at the stage replay)" in said


@pytest.mark.slow
async def test_no_secret_that_a_call_was_given_or_answered_stands_in_its_record(root):
    workspace(root, bot(execute_tool="""printf '{"result": "it is %s"}\\n' "$SOME_TOKEN" """))
    async with living(root, config={"env": ["SOME_TOKEN"]}, SOME_TOKEN="the-secret-value-4711") as live:
        said = await live.said("bot_greet", api_key="sk-another-secret-0815", text="the-secret-value-4711")
        assert said == "it is the-secret-value-4711"
        kept = await live.engine.storage.records.read("bot.sh")
        folder, calls = (
            live.engine.storage.folder,
            live.engine.storage.database.rows("SELECT value FROM call"),
        )
    (record,) = kept.records
    assert record.answer == {"result": "it is ***"}
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file() and "good" not in path.parts]
    held = [*files, *(zlib.decompress(value) for (value,) in calls)]
    assert not any(b"value-4711" in data or b"secret-0815" in data for data in held)


# -- score ----------------------------------------------------------------------------------------------

EVAL = "#!/bin/sh\ngrep -c point hooks/bot.sh prompts/chat.md | awk -F: '{s += $2} END {print s}'\n"


@pytest.mark.slow
async def test_a_candidate_that_scores_worse_than_what_is_live_is_refused(root, kit):
    workspace(root, bot("# point\n# point"))
    kit.script(root / "evals", "points", EVAL)
    async with living(root) as live:
        said = await live.refused(bot("# point"))
        assert "points" in said
        assert "(refused at the stage score)" in said
        await live.write(bot("# point\n# point\n# point"))
        assert "(refused at the stage score)" in await live.refused(bot("# point\n# point"))
        said = await live.said("evolve_prompt_write", prompt="chat.md", content="Be kind, point by point.\n")
        assert "1 better in " in said


@pytest.mark.slow
async def test_an_eval_that_a_candidate_makes_fail_refuses_it(root, kit):
    workspace(root)
    kit.script(root / "evals", "points", "#!/bin/sh\ngrep -q stop hooks/bot.sh && exit 1; echo 1\n")
    async with living(root) as live:
        assert "(refused at the stage score)" in await live.refused(bot("# stop"))


# -- the whole of it ------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_candidate_that_passes_is_one_commit_with_its_cause_one_event_and_one_epoch(live, root, kit):
    epoch = live.engine.storage.ledger.epoch
    await live.call("bot_greet")
    await live.write(bot("# better"))
    assert live.subjects() == ["evolve_hook_write bot.sh", "initial"]
    message = kit.git(root, "log", "-1", "--format=%B")
    assert "Session: ses_1" in message or "ses_1" in message
    (event,) = live.events("installed")
    assert (event.files, event.epoch, event.session_id) == (["hooks/bot.sh"], epoch + 1, "ses_1")
    (entry,) = live.audit_log("installed")
    assert (entry.epoch, entry.call, entry.commit != "") == (epoch + 1, "call_1", True)
    assert live.registry.views["evolve"].children["epoch"].read("") == epoch + 1


@pytest.mark.slow
async def test_nothing_of_a_trial_stays_behind(live, tmp_path, monkeypatch):
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    await live.call("bot_greet")
    await live.write(bot("# better"))
    await live.refused(bot("# wrong"))
    assert list(folder.iterdir()) == []
    assert [path.name for path in live.root.parent.iterdir() if path.name.startswith("instar-copy")] == []


@pytest.mark.slow
async def test_validating_goes_through_the_stages_and_changes_nothing(live, kit):
    await live.call("bot_greet")
    before = kit.files(live.root)
    passed = await live.said("evolve_hook_validate", hook="bot.sh", content=bot("# better"))
    assert "would be installed" in passed
    assert "tests/bot_test.sh passed" in passed
    refused = await live.said("evolve_hook_validate", hook="bot.sh", content=bot(execute_tool="exit 3"))
    assert "would be refused" in refused
    assert "it fails on a recorded call" in refused
    assert kit.files(live.root) == before
    assert live.client.published == []
