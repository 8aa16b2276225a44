"""Rollbacks by a person's order: of a change, of a new script with its test, and of what cannot be taken back."""

import asyncio

import pytest
from tests.plugins.evolve.living import bot, discover, living, workspace

from instar.plugins.evolve.history.repository import NoSuchChange
from instar.plugins.evolve.install import ChangeCause, NotChanged

PERSON = ChangeCause(by="person")
NEW = bot(discover=discover(name="fresh", test="fresh_test.sh", tools=[{"name": "hi"}]))
PASSES = "#!/bin/sh\nexit 0\n"


@pytest.mark.slow
async def test_the_newest_change_is_taken_back_by_a_commit_that_names_it_and_then_the_one_before(root, kit):
    workspace(root)
    async with living(root) as live:
        for number in (1, 2):
            await live.write(bot(f"# {number}"))
        taken = kit.git(root, "rev-parse", "HEAD").strip()
        await live.engine.rollback.roll_back("", PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == bot("# 1")
        message = kit.git(root, "log", "-1", "--format=%B")
        assert f"Rolls-back: {taken}" in message
        assert "By: person" in message
        assert live.problems == []
        assert await live.said("bot_greet") == "hello"
        (event,) = live.events("rolledback")
        assert event.epoch == live.engine.storage.ledger.epoch
        await live.engine.rollback.roll_back(kit.git(root, "rev-parse", "HEAD~2").strip()[:9], PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == bot()


@pytest.mark.slow
async def test_a_new_script_goes_with_its_test_and_its_tools(root):
    workspace(root)
    async with living(root, config={"create": "allow"}) as live:
        await live.write(NEW, "fresh.sh", test=PASSES)
        assert "fresh_hi" in live.hooks["tool"]
        await live.engine.rollback.roll_back("", PERSON)
        assert not (root / "hooks" / "fresh.sh").exists()
        assert not (root / "tests" / "fresh_test.sh").exists()
        assert "fresh_hi" not in live.hooks["tool"]
        assert live.problems == []
        await live.write(NEW, "fresh.sh", test=PASSES)


@pytest.mark.slow
async def test_what_is_rolled_back_by_a_person_is_no_longer_on_probation(root):
    workspace(root)
    async with living(root) as live:
        await live.write(bot("# 1"))
        assert live.engine.observer.describe("hooks/bot.sh") is not None
        await live.engine.rollback.roll_back("", PERSON)
        assert live.engine.observer.describe("hooks/bot.sh") is None


@pytest.mark.slow
async def test_a_file_that_has_departed_is_not_overwritten_by_a_rollback(root, kit):
    workspace(root)
    async with living(root) as live:
        await live.write(bot("# 1"))
        (root / "hooks" / "bot.sh").write_text(bot("# mine"))
        head = kit.git(root, "rev-parse", "HEAD")
        with pytest.raises(NotChanged, match="nothing was changed"):
            await live.engine.rollback.roll_back("", PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == bot("# mine")
        assert kit.git(root, "rev-parse", "HEAD") == head


@pytest.mark.parametrize("ref", ["nonsense", "--all", "HEAD~99", "0" * 40])
async def test_a_change_that_there_is_not_is_named(root, ref):
    workspace(root)
    async with living(root) as live:
        with pytest.raises(NoSuchChange):
            await live.engine.rollback.roll_back(ref, PERSON)


async def test_with_nothing_to_take_back_it_says_so(root):
    workspace(root)
    async with living(root) as live:
        with pytest.raises((NoSuchChange, NotChanged)):
            await live.engine.rollback.roll_back("", PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == bot()


@pytest.mark.slow
async def test_after_a_persons_version_is_live_again_its_successor_is_held_by_the_shield_without_a_question(
    root,
):
    workspace(root)
    async with living(root) as live:
        await live.write(bot(discover=discover(sandbox={"write": ["state"]})))
        assert "would be able to" not in await live.refused(bot("# no manifest"))
        await live.engine.rollback.roll_back("", PERSON)
        assert "Installed" in await live.write(bot("# no manifest"))


@pytest.mark.slow
async def test_a_change_whose_caller_goes_away_meanwhile_is_told_and_granted_all_the_same(root):
    workspace(root)
    async with living(root) as live:
        make = live.engine.storage.installer.install
        begun = asyncio.Event()

        async def slowly(*args, **named):
            begun.set()
            return await make(*args, **named)

        live.engine.storage.installer.install = slowly
        changing = asyncio.create_task(live.write(bot("# 1")))
        await begun.wait()
        changing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await changing
        assert (root / "hooks" / "bot.sh").read_text() == bot("# 1")
        assert live.engine.storage.grants.of("bot.sh").touched
        assert live.audit_log("installed")
        assert live.events("installed")


MINE = bot("# mine")


def change_by_hand(root, kit):
    """Make a workspace in git, and change its script without committing it."""
    workspace(root)
    kit.git(root, "init", "-q")
    kit.git(root, "add", "-A")
    kit.git(root, "commit", "-qm", "first")
    (root / "hooks" / "bot.sh").write_text(MINE)


@pytest.mark.slow
async def test_what_a_person_had_not_committed_when_evolve_first_saw_it_comes_back(root, kit):
    change_by_hand(root, kit)
    async with living(root) as live:
        await live.write(bot("# one"))
        await live.engine.rollback.roll_back("", PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == MINE
        assert not live.engine.storage.own.is_changed("hooks/bot.sh")
        assert kit.git(root, "show", "HEAD:hooks/bot.sh") == MINE
        # The same again, once that itself was taken back.
        change = kit.git(root, "rev-parse", "HEAD^").strip()
        await live.engine.rollback.roll_back("HEAD", PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == bot("# one")
        assert live.engine.storage.own.is_changed("hooks/bot.sh")
        await live.engine.rollback.roll_back(change, PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == MINE


@pytest.mark.slow
async def test_a_file_that_git_never_had_comes_back_and_is_not_deleted(root, kit):
    workspace(root)
    kit.git(root, "init", "-q")
    kit.git(root, "add", "tests", "prompts")
    kit.git(root, "commit", "-qm", "first")
    async with living(root) as live:
        await live.write(bot("# one"))
        await live.engine.rollback.roll_back("", PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == bot()


@pytest.mark.slow
@pytest.mark.parametrize("makes_up", [False, True])
async def test_what_a_person_accepted_while_git_could_not_commit_comes_back(root, kit, makes_up):
    workspace(root)
    async with living(root) as live:
        await live.write(bot("# one"))
        lock = root / ".git" / "index.lock"
        lock.touch()
        (root / "hooks" / "bot.sh").write_text(MINE)
        await live.engine.rollback.accept(None)
        if not makes_up:
            lock.unlink()
        await live.write(bot("# two"))
        lock.unlink(missing_ok=True)
        await live.step()
        await live.write(bot("# three"))
        for _ in range(2):
            await live.engine.rollback.roll_back("", PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == MINE


@pytest.mark.slow
async def test_what_no_copy_is_left_of_is_said_and_nothing_is_taken_back(root, kit):
    change_by_hand(root, kit)
    async with living(root) as live:
        await live.write(bot("# one"))
        left = live.engine.storage.own.changed["hooks/bot.sh"]
        objects = live.engine.storage.ledger.kept.place / "objects"
        (objects / left.blob[:2] / left.blob[2:]).unlink()
        with pytest.raises(NotChanged, match=r"no copy of hooks/bot\.sh as it was before"):
            await live.engine.rollback.roll_back("", PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == bot("# one")


@pytest.mark.slow
async def test_a_rollback_over_what_git_never_had_can_be_taken_back_itself(root, kit):
    workspace(root)
    async with living(root) as live:
        (root / "hooks" / "bot.sh").write_text(bot("# older"))
        await live.engine.rollback.accept(None)
        older = kit.git(root, "rev-parse", "HEAD").strip()
        lock = root / ".git" / "index.lock"
        lock.touch()
        (root / "hooks" / "bot.sh").write_text(MINE)
        await live.engine.rollback.accept(None)
        await live.write(bot("# one"))
        lock.unlink()
        await live.step()
        await live.engine.rollback.roll_back(older, PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == bot()
        await live.engine.rollback.roll_back("HEAD", PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == bot("# one")
        assert live.engine.storage.own.is_changed("hooks/bot.sh")
        await live.engine.rollback.roll_back("HEAD~2", PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == MINE
