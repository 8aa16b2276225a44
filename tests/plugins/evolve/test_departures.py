"""What stands in a workspace without the gate's word: it is told, not run, not committed; the last good one serves."""

import json

import pytest
from tests.plugins.evolve.living import bot, discover, living, workspace

from instar.plugins.evolve.install import ChangeCause

BY_HAND = bot("# by hand", execute_tool="""echo '{"result": "by hand"}'""")


async def test_a_script_changed_by_hand_is_told_and_not_run_and_the_version_before_answers(root, kit):
    workspace(root)
    async with living(root) as live:
        path = root / "hooks" / "bot.sh"
        path.write_text(BY_HAND)
        assert await live.said("bot_greet") == "hello"
        await live.step()
        (problem,) = live.problems
        assert "hooks/bot.sh was changed, behind the gate" in problem
        assert "instar evolve accept hooks/bot.sh" in problem
        assert kit.git(root, "status", "--porcelain").strip() == "M hooks/bot.sh"
        assert live.subjects() == ["initial"]
        said = await live.refused(bot("# over it"))
        assert "a person must accept or restore it first" in said
        assert path.read_text() == BY_HAND


async def test_what_a_person_accepts_runs_and_is_committed_as_theirs(root, kit):
    workspace(root)
    async with living(root) as live:
        (root / "hooks" / "bot.sh").write_text(BY_HAND)
        await live.step()
        await live.engine.rollback.accept(["hooks/bot.sh"])
        assert await live.said("bot_greet") == "by hand"
        assert live.problems == []
        assert live.subjects() == ["accept by hand", "initial"]
        assert "By: person" in kit.git(root, "log", "-1", "--format=%B")
        assert [one.by for one in live.audit_log("accepted")] == ["person"]


async def test_what_a_person_restores_is_the_accepted_version_again(root):
    workspace(root)
    async with living(root) as live:
        (root / "hooks" / "bot.sh").write_text(BY_HAND)
        (root / "prompts" / "chat.md").unlink()
        await live.engine.rollback.restore(None)
        assert (root / "hooks" / "bot.sh").read_text() == bot()
        assert (root / "prompts" / "chat.md").read_text() == "Be kind.\n"
        assert live.problems == []
        assert await live.said("bot_greet") == "hello"


@pytest.mark.slow
async def test_scripts_and_prompts_that_are_gone_serve_on_and_new_ones_are_not_run(root, kit):
    code = """sed 's/.*"chat":"\\([^"\\\\]*\\).*/{"result": "\\1"}/'"""
    workspace(root, bot(execute_tool=code))
    async with living(root) as live:
        (root / "hooks" / "bot.sh").unlink()
        (root / "prompts" / "chat.md").write_text("Be rude.\n")
        kit.shell(root, "new.sh", discover='{"tools": [{"name": "t"}]}')
        await live.step()
        assert await live.said("bot_greet") == "Be kind."
        assert "new_t" not in live.hooks["tool"]
        assert kit.calls(root, "new.sh", "discover") == []
        told = "\n".join(live.problems)
        for words in ("hooks/bot.sh is gone", "prompts/chat.md was changed", "hooks/new.sh is new"):
            assert words in told
        await live.engine.rollback.accept(["hooks/new.sh"])
        assert "new_t" in live.hooks["tool"]


@pytest.mark.slow
async def test_a_test_that_was_weakened_behind_the_gate_does_not_judge(root):
    workspace(root)
    async with living(root) as live:
        (root / "tests" / "bot_test.sh").write_text("#!/bin/sh\nexit 0\n")
        assert "it is wrong" in await live.refused(bot("# wrong"))
        (root / "tests" / "bot_test.sh").unlink()
        assert "it is wrong" in await live.refused(bot("# wrong"))
        await live.write(bot("# right"))
        assert not (root / "tests" / "bot_test.sh").exists()


@pytest.mark.slow
async def test_an_eval_that_was_taken_away_behind_the_gate_judges_on_and_one_that_was_put_there_does_not(
    root, kit
):
    workspace(root, bot("# point"))
    eval_ = kit.script(root / "evals", "points", "#!/bin/sh\ngrep -c point hooks/bot.sh\n")
    async with living(root) as live:
        eval_.unlink()
        kit.script(root / "evals", "mine", "#!/bin/sh\ngrep -c mine hooks/bot.sh\n")
        said = await live.refused(bot("# mine"))
        assert "(refused at the stage score)" in said
        assert "1 no worse in" in await live.write(bot("# point\n# and more"))


@pytest.mark.slow
async def test_a_departed_file_is_not_committed_with_a_tool_run_that_changes_others(root, kit):
    workspace(
        root, bot(execute_tool="""echo 1 >>notes.md; echo '# x' >>hooks/bot.sh; echo '{"result": "done"}'""")
    )
    async with living(root, config={"own_scripts": "free"}) as live:
        await live.call("bot_greet")
        assert kit.git(root, "show", "--name-only", "--format=").split() == ["notes.md"]
        assert await live.said("bot_greet") == "done"
        assert "hooks/bot.sh" in "\n".join(live.problems)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
async def test_a_script_in_a_sandbox_writes_its_folder_also_while_another_file_has_departed(root, level):
    (root / "state").mkdir()
    code = """echo 1 >>state/n && printf '{"result": "%s"}\\n' "$(wc -l <state/n)" """
    workspace(root, bot(execute_tool=code))
    async with living(root, level=level) as live:
        held = bot(discover=discover(sandbox={"write": ["state"]}), execute_tool=code)
        await live.write(held)
        assert (await live.said("bot_greet")).strip() == "1"
        (root / "prompts" / "chat.md").write_text("Be rude.\n")
        assert (await live.said("bot_greet")).strip() == "2"
        assert (root / "state" / "n").read_text() == "1\n1\n"


async def test_what_departed_while_nobody_looked_is_told_at_the_start(root):
    workspace(root)
    async with living(root) as live:
        values = live.values
    (root / "hooks" / "bot.sh").write_text(BY_HAND)
    async with living(root, values=values) as again:
        assert await again.said("bot_greet") == "hello"
        assert "hooks/bot.sh was changed" in again.problems[0]


@pytest.mark.slow
async def test_settings_broken_on_disk_leave_the_last_good_ones_in_force_also_after_a_restart(root):
    workspace(root)
    config = root / "config" / "evolve.jsonc"
    config.parent.mkdir()
    config.write_text('{"hook_timeout": 3000}')
    async with living(root) as live:
        config.write_text('{"hook_timeout": ')
        assert await live.said("bot_greet") == "hello"
        await live.step()
        assert "config/evolve.jsonc was changed" in live.problems[0]
        values = live.values
    async with living(root, values=values) as again:
        assert await again.said("bot_greet") == "hello"
        assert "hook_timeout (3000 ms)" in await again.refused(bot(discover="sleep 60"))


async def test_the_gates_own_settings_may_not_stand_in_the_workspace(root):
    workspace(root)
    (root / "config").mkdir()
    (root / "config" / "evolve.jsonc").write_text('{"create": "allow", "frozen": false, "unsafe": true}')
    async with living(root) as live:
        assert any("create" in problem for problem in live.problems)
        assert "may not create files" in await live.refused("new\n", "new.md", "evolve_prompt_write")


# -- pins and freezing ----------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_pinned_file_is_not_changed_by_the_agent_and_others_are(root):
    workspace(root)
    async with living(root, config={"pins": ["prompts"]}) as live:
        said = await live.refused("Be rude.\n", "chat.md", "evolve_prompt_write")
        assert "it is pinned by settings" in said
        await live.write(bot("# more"))
        live.engine.storage.pins.add("./hooks/bot.sh", "ada")
        assert "it is pinned by ada" in await live.refused(bot("# again"))
        live.engine.storage.pins.remove("hooks/bot.sh")
        await live.write(bot("# again"))


@pytest.mark.slow
async def test_what_a_person_froze_stays_frozen_over_a_restart_until_they_thaw_it(root):
    workspace(root)
    async with living(root) as live:
        await live.engine.evolution.freeze("away for a week")
        values = live.values
    async with living(root, values=values) as again:
        said = await again.refused(bot("# more"))
        assert "frozen: away for a week" in said
        assert "instar evolve thaw" in said
        assert await again.said("bot_greet") == "hello"
        assert any("away for a week" in problem for problem in again.problems)
        await again.engine.evolution.thaw()
        await again.write(bot("# more"))
        assert [len(again.audit_log(kind)) for kind in ("frozen", "thawed")] == [1, 1]


@pytest.mark.parametrize(
    ("level", "config", "words"),
    [
        ("bubblewrap", {"frozen": True}, '"evolve": {"frozen": true}'),
        (
            "none",
            {},
            'nothing can be tried safely here: the settings ask for no shield: {"shield": {"level": "none"}}',
        ),
        ("none", {"unsafe": True, "sandbox": "require"}, "nothing can be tried safely here"),
    ],
)
async def test_settings_and_a_machine_without_a_sandbox_freeze(root, level, config, words):
    workspace(root)
    async with living(root, level=level, config=config) as live:
        assert words in await live.refused(bot("# more"))
        assert words in await live.refused("x\n", "chat.md", "evolve_prompt_write")
        assert await live.said("bot_greet") == "hello"
        assert any(words in problem for problem in live.problems)


# -- creating -------------------------------------------------------------------------------------------

NEW = bot(discover=discover(name="fresh", test="fresh_test.sh", tools=[{"name": "hi"}]))
NEW_TEST = """#!/bin/sh\n[ "$(hooks/fresh.sh execute_tool </dev/null)" = '{"result": "hello"}' ]\n"""


async def test_new_files_are_refused_unless_the_person_allows_them(root):
    workspace(root)
    async with living(root) as live:
        for file, tool in (("fresh.sh", "evolve_hook_write"), ("fresh.md", "evolve_prompt_write")):
            said = await live.refused(NEW, file, tool)
            assert '"evolve": {"create": "allow"}' in said
        assert "fresh.sh" not in json.dumps(live.hooks["tool"]["evolve_hook_write"].parameters)


@pytest.mark.slow
async def test_a_new_script_comes_with_its_test_both_through_the_gate_in_one_commit(root, kit):
    workspace(root)
    async with living(root, config={"create": "allow"}) as live:
        said = await live.refused(NEW, "fresh.sh")
        assert "tests/fresh_test.sh is missing" in said
        said = await live.refused(NEW, "fresh.sh", test="#!/bin/sh\necho no; exit 1\n")
        assert "its test tests/fresh_test.sh failed: exit code 1" in said
        untested = bot(discover=discover(name="fresh", test=None))
        said = await live.refused(untested, "fresh.sh", test=NEW_TEST)
        assert "a new script must register a test, and bring it" in said
        said = await live.refused(bot(), "fresh.sh", test=NEW_TEST)
        assert "both register the name 'bot'" in said
        said = await live.write(NEW, "fresh.sh", test=NEW_TEST)
        assert "New tools, from the next step on: fresh_hi" in said
        files = kit.git(root, "show", "--name-only", "--format=").split()
        assert files == ["hooks/fresh.sh", "tests/fresh_test.sh"]
        assert (root / "tests" / "fresh_test.sh").stat().st_mode & 0o111
        assert await live.said("fresh_hi") == "hello"
        await live.call("evolve_prompt_write", prompt="recover.md", content="x\n")
        assert (root / "prompts" / "recover.md").read_text() == "x\n"


@pytest.mark.slow
async def test_a_new_script_may_bring_no_test_over_one_that_stands_and_no_hidden_or_distant_file(root, kit):
    workspace(root)
    async with living(root, config={"create": "allow"}) as live:
        weak = "#!/bin/sh\nexit 0\n"
        said = await live.refused(bot("# wrong"), "bot.sh", test=weak)
        assert "only a new script brings a test" in said
        kit.script(root / "tests", "fresh_test.sh", weak)
        assert "there is a tests/fresh_test.sh already" in await live.refused(NEW, "fresh.sh", test=NEW_TEST)
        await live.engine.rollback.accept(["tests/fresh_test.sh"])
        assert "there is a tests/fresh_test.sh already" in await live.refused(NEW, "fresh.sh", test=NEW_TEST)
        for file in ("../x.sh", ".x.sh", "__x.sh", "a/b.sh", "", "x\0.sh"):
            await live.refused(NEW, file, test=weak)


@pytest.mark.slow
async def test_a_new_script_runs_behind_the_shield_from_the_start(root):
    workspace(root)
    text = bot(
        discover=discover(name="fresh", test="fresh_test.sh", tools=[{"name": "hi"}]),
        execute_tool="""echo x >prompts/x.md 2>/dev/null || echo '{"result": "hello"}'""",
    )
    test = "#!/bin/sh\nexit 0\n"
    async with living(root, config={"create": "allow"}) as live:
        await live.write(text, "fresh.sh", test=test)
        assert await live.said("fresh_hi") == "hello"
        assert not (root / "prompts" / "x.md").exists()


@pytest.mark.slow
async def test_a_person_may_change_what_is_pinned_and_frozen_for_the_agent(root):
    workspace(root)
    async with living(root, config={"pins": ["hooks"]}) as live:
        await live.engine.evolution.freeze()
        content = bot("# by their order")
        installed = await live.engine.evolution.change(
            "hooks/bot.sh", lambda text: content, ChangeCause(by="person")
        )
        assert installed.commit is not None
        assert (root / "hooks" / "bot.sh").read_text() == content
