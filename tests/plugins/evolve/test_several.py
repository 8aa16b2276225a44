"""Several candidates for one file at once: at most the best is installed, and each is told what became of it."""

import asyncio
import re

import pytest
from tests.plugins.evolve.living import Living, bot, discover, living, workspace

from instar.plugin import ToolFailure

EVAL = """\
#!/bin/sh
printf '{"score": %s, "range": [0, 100]}\\n' "$(grep -c good hooks/bot.sh)"
"""


@pytest.fixture
async def live(root):
    workspace(root)
    async with living(root) as found:
        yield found


def whole(*texts: str) -> list[dict[str, str]]:
    return [{"content": text} for text in texts]


async def propose(live: Living, *alternatives: dict[str, object], **more: object) -> str:
    return await live.said("evolve_hook_propose", hook="bot.sh", alternatives=list(alternatives), **more)


def stood(live: Living) -> str:
    return (live.root / "hooks" / "bot.sh").read_text()


@pytest.mark.slow
async def test_of_several_candidates_the_best_that_passes_is_installed_by_one_commit_and_each_has_a_report(
    live,
):
    said = await propose(
        live,
        {"content": bot("# wrong"), "idea": "be\nwrong"},
        {"content": bot("# one\n# two")},
        {"oldString": "#!/bin/sh\n", "newString": "#!/bin/sh\n# one\n", "idea": "say less"},
    )
    assert stood(live) == bot().replace("#!/bin/sh\n", "#!/bin/sh\n# one\n")
    assert re.match(r"Installed hooks/bot\.sh \(commit \w+\): its test tests/bot_test\.sh passed\.", said)
    lines = [line for line in said.split("\n") if re.match(r"\d\. ", line)]
    assert lines == [
        "1. refused at the stage test (be wrong): its test tests/bot_test.sh failed: exit code 7",
        "2. passed over: alternative 3 was preferred: it changes 1 lines, this one 3",
        "3. installed (say less)",
    ]
    assert "it is wrong" in said
    assert live.subjects() == ["evolve_hook_propose bot.sh", "initial"]
    assert live.client.titles[:3] == [
        "hooks/bot.sh: alternative 1 of 3: parse",
        "hooks/bot.sh: alternative 1 of 3: test",
        "hooks/bot.sh: alternative 2 of 3: parse",
    ]
    assert [one.stage for one in live.events("refused")] == ["test"]
    assert len(live.events("installed")) == 1
    (over,) = live.audit_log("passed over")
    report = live.engine.storage.reports.get(over.report)
    assert report is not None
    assert (report.outcome, report.text) == ("passed over", lines[1].removeprefix("2. passed over: "))
    assert [one.name for one in report.stages] == ["parse", "test", "score", "authority"]
    assert over.call == "call_1"


@pytest.mark.slow
async def test_where_none_passes_nothing_is_changed_and_the_same_one_is_not_tried_twice(live, kit):
    before = kit.files(live.root)
    said = await propose(live, *whole(bot("# wrong"), bot("# wrong") + "\n\n", bot(), bot(discover="exit 3")))
    assert said.startswith(
        "hooks/bot.sh was not changed: none of 4 alternatives was installed.\n1. refused at the stage test: "
    )
    assert "\n2. not tried: it is the same as alternative 1\n" in said
    assert "\n3. not tried: hooks/bot.sh already says exactly that: nothing to change\n" in said
    assert "\n4. refused at the stage parse: " in said
    assert said.endswith("The workspace is as it was.")
    assert kit.files(live.root) == before
    assert [one.stage for one in live.audit_log("refused")] == ["parse", "test"]


@pytest.mark.slow
async def test_an_edit_that_does_not_fit_is_told_and_the_others_are_tried(live):
    said = await propose(live, {"oldString": "nowhere", "newString": "x"}, *whole(bot("# more")))
    assert "1. not tried: hooks/bot.sh: oldString was not found" in said
    assert "2. installed" in said
    assert stood(live) == bot("# more")


@pytest.mark.parametrize(
    "wrong",
    [{}, {"content": "x", "oldString": "a", "newString": "b"}, {"oldString": "a"}, {"idea": "nothing"}],
)
async def test_an_alternative_that_is_neither_a_text_nor_an_edit_is_named_before_anything_is_tried(
    live, wrong
):
    with pytest.raises(
        ToolFailure, match="alternative 2 must have either content, or oldString and newString"
    ):
        await live.call("evolve_hook_propose", hook="bot.sh", alternatives=[*whole(bot("# more")), wrong])
    assert live.audit_log("refused") == live.audit_log("installed") == []


@pytest.mark.slow
async def test_one_that_evals_show_to_be_better_comes_before_a_shorter_one(root):
    workspace(root)
    (root / "evals").mkdir()
    (root / "evals" / "words").write_text(EVAL)
    (root / "evals" / "words").chmod(0o755)
    async with living(root) as live:
        better, best = (
            bot("# good\n# and long\n# and longer"),
            bot("# good\n# good\n# and long\n# and longer"),
        )
        said = await propose(live, *whole(bot("# less"), better, best))
        assert stood(live) == best
        assert "1. passed over: alternative 3 was preferred: it is better in 1 evals, this one 0" in said
        assert (
            "2. passed over: alternative 3 was preferred: it is ahead of the reference by 2 of its score, this one 1"
            in said
        )


@pytest.mark.slow
async def test_one_that_needs_nobody_comes_before_one_that_a_person_must_allow(live):
    more = discover(sandbox={"network": True})
    await live.write(bot("# first"))
    said = await propose(live, *whole(bot("# first", discover=more), bot("# one\n# two\n# three")))
    assert (
        "1. passed over: alternative 2 was preferred: it needs a person's word on 0 things, this one 1"
        in said
    )
    assert "2. installed" in said
    alone = await propose(live, *whole(bot("# first", discover=more), bot("# wrong")))
    assert "1. waits: hooks/bot.sh was not changed. It waits for a person as" in alone
    assert "none of 2 alternatives was installed" in alone
    assert stood(live) == bot("# one\n# two\n# three")


@pytest.mark.slow
async def test_one_that_answers_past_calls_as_before_comes_before_one_that_does_not(live):
    await live.call("bot_greet")
    other = """echo '{"result": "hi"}'"""
    said = await propose(live, *whole(bot(execute_tool=other), bot("# one\n# two\n# three")))
    assert "1. passed over: alternative 2 was preferred: it changes 0 past answers, this one 1" in said


@pytest.mark.slow
async def test_prompts_are_proposed_in_the_same_way(live):
    said = await live.said(
        "evolve_prompt_propose",
        prompt="chat.md",
        alternatives=whole("Be\0.\n", "Be very kind.\n", "Be kind!\nBe!\n"),
    )
    assert said.startswith("Wrote prompts/chat.md (commit ")
    assert "1. refused at the stage parse: a prompt is text: this one holds a NUL character" in said
    assert (live.root / "prompts" / "chat.md").read_text() == "Be very kind.\n"


@pytest.mark.slow
async def test_a_frozen_workspace_tries_none_of_them(live):
    await live.engine.evolution.freeze("holidays")
    with pytest.raises(ToolFailure, match="frozen: holidays"):
        await live.call("evolve_hook_propose", hook="bot.sh", alternatives=whole(bot("# a"), bot("# b")))
    assert live.audit_log("passed over") == live.audit_log("refused") == []


async def test_proposing_asks_for_the_permission_of_writing(live):
    tool = live.hooks["tool"]["evolve_hook_propose"]
    (ask,) = tool.permissions({"hook": "bot.sh", "alternatives": []}, None)
    assert (ask.permission, list(ask.patterns)) == ("evolve_hook_write", ["bot.sh"])
    assert ask.aliases == ("bot_hook_write",)
    assert tool.aliases == ("bot_hook_propose",)
    assert tool.ordered


@pytest.mark.slow
async def test_an_abort_while_they_are_tried_leaves_nothing_installed(root, kit):
    workspace(root, test="#!/bin/sh\ngrep -q slow hooks/bot.sh && sleep 60\nexit 0\n")
    async with living(root) as live:
        before = kit.files(live.root)
        proposing = asyncio.create_task(propose(live, *whole(bot("# quick"), bot("# slow"))))
        while "hooks/bot.sh: alternative 2 of 2: test" not in live.client.titles:
            await asyncio.sleep(0.01)
        proposing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await proposing
        assert kit.files(live.root) == before
        assert live.audit_log("installed") == live.audit_log("passed over") == []
        assert "Installed" in await live.write(bot("# quick"))
