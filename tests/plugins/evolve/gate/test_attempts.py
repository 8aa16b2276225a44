"""What was tried before: shown to the model before it proposes again, and not tried twice."""

import pytest
from tests.plugins.evolve.living import TEST, bot, living, workspace

from instar.plugins.evolve.install import ChangeCause

WRONG = bot("# wrong")


@pytest.fixture
async def live(root):
    workspace(root)
    async with living(root) as found:
        yield found


@pytest.mark.slow
async def test_the_same_candidate_is_refused_at_once_naming_the_report_and_why(live):
    first = await live.refused(WRONG)
    assert "(refused at the stage test) The workspace is as it was." in first
    (entry,) = live.audit_log("refused")
    said = await live.refused(WRONG + "\n")
    assert (
        "just this was refused before, at the stage test, and nothing that it is judged by has changed since"
        in said
    )
    assert f"(report {entry.report}): its test tests/bot_test.sh failed: exit code 7 it is wrong" in said
    assert "instar evolve again hooks/bot.sh" in said
    assert "(refused at the stage known) 2 were refused since it last changed: see evolve_attempts." in said
    again = live.audit_log("refused")[0]
    assert (again.stage, again.report) == ("known", entry.report)
    assert live.events("refused")[1].gate == {"known": live.events("refused")[1].gate["known"]}
    assert "would be refused: just this was refused before" in await live.said(
        "evolve_hook_validate", hook="bot.sh", content=WRONG
    )
    assert "its test tests/bot_test.sh failed" in await live.refused(bot("# wrong too"))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["live", "test", "eval", "settings"])
async def test_it_is_tried_again_once_something_that_it_is_judged_by_has_changed(live, kit, what):
    await live.refused(WRONG)
    if what == "live":
        await live.write(bot("# better"))
    else:
        path = {"test": "tests/bot_test.sh", "eval": "evals/one", "settings": "config/evolve.jsonc"}[what]
        text = {"test": TEST + "# more\n", "eval": "#!/bin/sh\necho 1\n", "settings": "{}"}[what]
        kit.script(live.root / path.partition("/")[0], path.partition("/")[2], text)
        await live.engine.rollback.accept([path])
    assert "its test tests/bot_test.sh failed" in await live.refused(WRONG)


@pytest.mark.slow
async def test_what_the_machine_refused_is_tried_again(root):
    workspace(root, test="#!/bin/sh\n[ -e /nowhere ] || sleep 60\n")
    (root / "config").mkdir()
    (root / "config" / "evolve.jsonc").write_text('{"hook_timeout": 1500}')
    async with living(root) as live:
        for _ in range(2):
            assert "longer than hook_timeout" in await live.refused(bot("# more"))


@pytest.mark.slow
async def test_without_a_sandbox_nothing_is_known(root):
    workspace(root)
    async with living(root, level="none", config={"unsafe": True}) as live:
        await live.refused(WRONG)
        assert "just this was refused before" in await live.refused(WRONG)
    async with living(root, level="none") as held:
        assert "frozen" in await held.refused(WRONG)


@pytest.mark.slow
async def test_a_script_is_read_with_what_was_tried_before_a_line_each(live):
    assert (await live.said("evolve_hook_read", hook="bot.sh")) == bot()
    await live.refused(bot("# wrong \x1b[2J\u202e" + "y" * 300))
    await live.refused(WRONG)
    await live.refused(WRONG)
    read = await live.said("evolve_hook_read", hook="bot.sh")
    text, _, told = read.partition("\n\nTried before and not kept, newest first (")
    assert text == bot()
    newest, older = told.split("\n")[1:]
    assert newest.endswith(
        "  refused at test (proposed 1 more time): its test tests/bot_test.sh failed: exit code 7 it is wrong"
        "  changed: +# wrong"
    )
    assert "\\x1b[2J\\u202eyyy" in older
    assert len(older) < 600
    assert "\x1b" not in told
    listed = await live.said("evolve_attempts", file="hooks/bot.sh", limit=1)
    assert listed.split("\n")[1:] == [newest]
    assert await live.said("evolve_attempts", file="prompts/chat.md") == (
        "(nothing was tried at prompts/chat.md that is not live)"
    )


@pytest.mark.slow
async def test_what_was_passed_over_and_what_was_taken_back_are_told_with_the_idea_and_why(live):
    await live.call(
        "evolve_hook_propose",
        hook="bot.sh",
        alternatives=[{"content": bot("# a\n# b"), "idea": "two lines"}, {"content": bot("# one")}],
    )
    await live.engine.rollback.roll_back("", ChangeCause(session="ses_1"))
    told = (await live.said("evolve_attempts", file="hooks/bot.sh")).split("\n")[1:]
    assert len(told) == 2
    assert "  passed over: alternative 2 was preferred: it changes " in told[0]
    assert "  idea: two lines  changed: " in told[0]
    assert "  taken back: by the agent: " in told[1]
    assert "+# one" in told[1]


@pytest.mark.slow
async def test_what_probation_took_back_is_told_with_its_reason(live):
    await live.write(bot(execute_tool="exit 3"))
    for _ in range(4):
        await live.said("bot_greet")
    await live.step()
    (told,) = (await live.said("evolve_attempts", file="hooks/bot.sh")).split("\n")[1:]
    assert "  taken back: by its probation: " in told
    assert "execute_tool crash (ended with exit code 3) 4 times  changed: -execute_tool)" in told
