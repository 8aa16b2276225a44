"""Probation at work: a version that fails as the one before it did not, or breaks its word, is taken back and told."""

import asyncio
import logging

import pytest
from tests.plugins.evolve.living import Living, bot, living, workspace

LATE = """[ -e late ] && { echo broken >&2; exit 3; }; echo '{"result": "hello"}'"""
"""Answers as the version before it until something happens that no trial knew."""


async def fail(live: Living, times: int) -> None:
    """Let the script's tool fail."""
    (live.root / "late").write_text("")
    for _ in range(times):
        assert "exit code 3" in await live.said("bot_greet")


@pytest.mark.slow
async def test_a_late_crasher_is_taken_back_by_a_new_commit_the_session_is_told_and_the_reason_is_kept(
    root, kit
):
    workspace(root)
    async with living(root) as live:
        await live.call("bot_greet")
        await live.write(bot(execute_tool=LATE))
        epoch = live.engine.storage.ledger.epoch
        await fail(live, 3)
        await live.step()
        assert live.told == []
        await fail(live, 1)
        await live.step()
        assert (root / "hooks" / "bot.sh").read_text() == bot()
        assert await live.said("bot_greet") == "hello"
        (said,) = live.told
        ((session, body),) = live.client.session.told
        assert (session, body.no_reply, body.parts[0]["synthetic"]) == ("ses_1", True, True)
        assert said.startswith("[evolve] hooks/bot.sh was rolled back to its version before: 4 of its first")
        assert "execute_tool crash" in said
        assert live.subjects()[:2] == ["roll back hooks/bot.sh", "evolve_hook_write bot.sh"]
        message = kit.git(root, "log", "-1", "--format=%B")
        assert "By: instar" in message
        assert "Cause: 4 of its first" in message
        (event,) = live.events("rolledback")
        assert (event.files, event.epoch) == (["hooks/bot.sh"], epoch + 1)
        (entry,) = live.audit_log("rolled back")
        assert entry.by == "instar"
        assert "execute_tool crash" in entry.text
        await live.step()
        assert len(live.told) == 1


@pytest.mark.slow
async def test_a_rollback_that_a_change_by_hand_stands_in_the_way_of_is_told_once_and_done_when_it_may_be(
    root,
):
    workspace(root)
    async with living(root) as live:
        await live.call("bot_greet")
        await live.write(bot(execute_tool=LATE))
        await fail(live, 4)
        (root / "hooks" / "bot.sh").write_text(bot("# by hand"))
        for _ in range(3):
            await live.step()
        (said,) = live.told
        assert "was to be rolled back" in said
        assert (root / "hooks" / "bot.sh").read_text() == bot("# by hand")
        await live.engine.rollback.restore(None)
        await live.step()
        assert (root / "hooks" / "bot.sh").read_text() == bot()
        assert len(live.told) == 2


@pytest.mark.slow
async def test_what_a_session_is_told_leaves_its_agent_and_the_form_of_its_answer_as_they_were(root, kit):
    workspace(root)
    async with living(root, config={"probation_failures": 0}) as live:
        asked = kit.user("hi", "plan")
        asked.info.format = {"type": "json_schema", "schema": {"type": "object"}}
        live.client.session.history = [asked]
        await live.write(bot(execute_tool=LATE))
        await fail(live, 1)
        await live.step()
        ((_, body),) = live.client.session.told
        assert (body.agent, body.model, body.format) == ("plan", asked.info.model, asked.info.format)


@pytest.mark.slow
async def test_a_rollback_that_was_decided_is_done_after_a_restart(root):
    workspace(root)
    async with living(root) as live:
        await live.call("bot_greet")
        await live.write(bot(execute_tool=LATE))
        await fail(live, 4)
        values = live.values
    async with living(root, values=values) as again:
        await again.step()
        assert (root / "hooks" / "bot.sh").read_text() == bot()
        assert len(again.told) == 1


@pytest.mark.slow
async def test_failures_that_the_version_before_had_too_take_nothing_back(root):
    workspace(root, bot(execute_tool=LATE))
    async with living(root) as live:
        await fail(live, 4)
        await live.write(bot("# no worse", execute_tool=LATE))
        await fail(live, 4)
        await live.step()
        assert live.told == []
        assert "# no worse" in (root / "hooks" / "bot.sh").read_text()


@pytest.mark.slow
async def test_after_its_calls_a_version_is_kept_whatever_comes(root):
    workspace(root)
    async with living(root, config={"probation_calls": 4}) as live:
        await live.write(bot(execute_tool=LATE))
        assert (live.engine.observer.describe("hooks/bot.sh") or "").startswith("on probation")
        for _ in range(4):
            await live.call("bot_greet")
        assert live.engine.observer.describe("hooks/bot.sh") is None
        await fail(live, 5)
        await live.step()
        assert live.told == []


@pytest.mark.slow
async def test_a_prompt_is_on_probation_by_the_calls_that_read_it(root):
    code = """grep -q rude && [ -e late ] && exit 3; echo '{"system": ["x"]}'"""
    workspace(root, bot(mutate_request=code))
    async with living(root, config={"probation_failures": 0}) as live:
        assert await live.system("ses_1") == ["x"]
        await live.call("evolve_prompt_write", prompt="chat.md", content="Be rude.\n")
        (root / "late").write_text("")
        await live.system("ses_2")
        await live.step()
        assert (root / "prompts" / "chat.md").read_text() == "Be kind.\n"
        assert "prompts/chat.md was rolled back" in live.told[0]


# -- predictions ----------------------------------------------------------------------------------------


def expected(**more: object) -> dict[str, object]:
    return {
        "hook": "execute_tool",
        "field": "answer.result",
        "equals": "hello",
        "within": {"calls": 2},
        **more,
    }


@pytest.mark.slow
async def test_a_prediction_that_holds_is_kept_with_the_commit_and_nothing_is_taken_back(root, kit):
    workspace(root)
    async with living(root) as live:
        await live.write(bot("# better"), expect=expected())
        assert "Expect: " in kit.git(root, "log", "-1", "--format=%B")
        assert "expected" in (live.engine.observer.describe("hooks/bot.sh") or "")
        for _ in range(3):
            await live.call("bot_greet")
        await live.step()
        assert live.told == []
        assert "# better" in (root / "hooks" / "bot.sh").read_text()


@pytest.mark.slow
async def test_a_prediction_that_is_broken_takes_the_change_back_and_says_so(root):
    workspace(root)
    async with living(root) as live:
        await live.write(bot("# better"), expect=expected(equals="good day"))
        await live.call("bot_greet")
        await live.step()
        assert (root / "hooks" / "bot.sh").read_text() == bot()
        assert "its prediction is broken" in live.told[0]
        assert "good day" in live.told[0]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"within": {}}, "expect.within"),
        ({"at_most": 3}, "exactly one of at_most, at_least, equals"),
        ({"field": "speed"}, "expect.field must be"),
    ],
)
async def test_a_prediction_that_cannot_be_checked_is_refused_and_nothing_is_installed(root, wrong, words):
    workspace(root)
    async with living(root) as live:
        assert words in await live.refused(bot("# better"), expect=expected(**wrong))


# -- too much of it -------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_too_many_rollbacks_in_a_short_time_freeze_the_agent_until_a_person_thaws_it(root):
    workspace(root)
    async with living(root, config={"probation_failures": 0}) as live:
        for count in range(5):
            (root / "late").unlink(missing_ok=True)
            await live.write(bot(f"# {count}", execute_tool=LATE))
            await fail(live, 1)
            await live.step()
        assert len(live.told) == 5
        (root / "late").unlink()
        said = await live.refused(bot("# once more"))
        assert "instar evolve thaw" in said
        assert await live.said("bot_greet") == "hello"
        values = live.values
    async with living(root, values=values) as again:
        await again.refused(bot("# once more"))
        await again.engine.evolution.thaw()
        await again.write(bot("# once more"))


@pytest.mark.slow
async def test_a_script_that_keeps_failing_is_given_a_pause_until_it_is_changed(root, kit):
    counted = """echo 1 >>state/count; exit 3"""
    (root / "state").mkdir()
    workspace(root, bot(tool_before=counted))
    async with living(root) as live:
        for _ in range(9):
            await live.evolve.scripts.call_all("tool_before", {})
        assert len((root / "state" / "count").read_text().splitlines()) == 5
        assert await live.said("bot_greet") == "hello"
        await live.write(bot(tool_before="echo 1 >>state/count"))
        await live.evolve.scripts.call_all("tool_before", {})
        assert len((root / "state" / "count").read_text().splitlines()) == 6


# -- the frozen prompt of a session ---------------------------------------------------------------------


def prompting(text: str) -> str:
    return bot(mutate_request=f"""echo '{{"system": ["{text}"]}}'""")


@pytest.mark.slow
async def test_an_install_leaves_the_prompt_bytes_of_a_running_session_and_a_new_one_has_the_new(root):
    workspace(root, prompting("one"))
    async with living(root) as live:
        assert await live.system("ses_1") == ["one"]
        await live.write(prompting("two"))
        assert [await live.system("ses_1") for _ in range(3)] == [["one"]] * 3
        assert [await live.system("ses_2") for _ in range(3)] == [["two"]] * 3
        values = live.values
    async with living(root, values=values) as again:
        assert await again.system("ses_1") == ["one"]
        assert await again.system("ses_2") == ["two"]


@pytest.mark.slow
async def test_a_session_that_nobody_managed_stays_so_over_an_install(root):
    workspace(root, bot(mutate_request="echo '{}'"))
    async with living(root) as live:
        assert await live.system("ses_1") == ["base"]
        await live.write(prompting("two"))
        assert await live.system("ses_1") == ["base"]
        assert await live.system("ses_2") == ["two"]


@pytest.mark.slow
async def test_an_install_while_a_prompt_is_asked_for_is_not_answered_by_the_version_before_for_good(root):
    slow = """{ until [ -e go ]; do touch asked; sleep 0.01; done; }; echo '{"system": ["%s"]}'"""
    workspace(root, bot(mutate_request=slow % "one"))
    async with living(root) as live:
        asking = asyncio.create_task(live.system("ses_1"))
        while not (root / "asked").exists():
            await asyncio.sleep(0.005)
        await live.write(bot(mutate_request=slow % "two"))
        (root / "go").write_text("")
        assert await asking == ["two"]
        assert await live.system("ses_1") == ["two"]
        epoch = live.registry.views["evolve"].children["epoch"].read("")
        assert await live.values.get("system:ses_1") == {"system": ["two"], "epoch": epoch}


@pytest.mark.slow
async def test_the_epoch_rises_by_one_with_each_change_and_is_seen(root, caplog):
    caplog.set_level(logging.INFO, "instar.evolve")
    workspace(root)
    async with living(root) as live:
        seen = live.registry.views["evolve"].children["epoch"]
        first = seen.read("")
        await live.write(bot("# 1"))
        await live.call("evolve_prompt_write", prompt="chat.md", content="x\n")
        await live.refused(bot("# wrong"))
        assert seen.read("") == first + 2
        assert [one.epoch for one in live.events("installed")] == [first + 1, first + 2]
        logged = [line.split()[1] for line in caplog.messages if line.startswith("evolution=installed")]
        assert logged == [f"epoch={first + 1}", f"epoch={first + 2}"]
        values = live.values
    async with living(root, values=values) as again:
        assert again.registry.views["evolve"].children["epoch"].read("") == first + 2
