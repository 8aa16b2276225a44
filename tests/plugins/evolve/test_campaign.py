"""A sample of the gate's campaign, which `python -m tests.campaign.gate` runs at length."""

import asyncio
import random

import pytest
from tests.campaign import bad, gate, good
from tests.campaign.bad import Bad
from tests.campaign.world import Round, Wrong, world

ROUNDS = {
    Round("bash", scored=True, create=False): (
        *(
            "syntax error",
            "test weakener",
            "eval weakener",
            "network caller",
            "daemon",
            "authority in one step",
        ),
        *("comments", "a new tool", "less authority", "a prompt's line", "late daemon"),
    ),
    Round("python", scored=False, create=True): (
        *("malformed tools", "writer outside the copy", "crash in replay", "name changer", "new action"),
        *(
            "refactoring",
            "a new script",
            "a prediction that holds",
            "authority in small steps",
            "late unknown",
        ),
    ),
}


@pytest.fixture
async def level():
    """The best level of confinement that this machine has."""
    found = await gate.levels()
    assert found, "this machine has no sandbox, without which the gate installs nothing"
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("made", ROUNDS, ids=lambda made: made.test)
async def test_bad_candidates_change_nothing_and_good_ones_are_installed_without_a_question(
    tmp_path, level, made
):
    made = Round(made.test, made.scored, made.create, level)
    kinds = ROUNDS[Round(made.test, made.scored, made.create)]
    async with world(tmp_path / "w", made, "86399.5") as one:
        for number, kind in enumerate(kinds):
            chance = random.Random(number)
            if kind in bad.KINDS:
                assert await one.bad(bad.bad(kind, one.case(chance)))
            else:
                assert await one.good(good.good(chance, kind, one.bot, one.prompts)) == "installed"


@pytest.mark.slow
async def test_the_campaign_sees_what_goes_live_or_is_changed_or_is_left_running(
    tmp_path, level, monkeypatch
):
    async with world(tmp_path / "w", Round(scored=False, level=level), "86398.5") as one:
        harmless = good.good(random.Random(1), "comments", one.bot, one.prompts)
        with pytest.raises(Wrong, match="it went live"):
            await one.bad(Bad("harmless", harmless.tool, harmless.args))
        refused = bad.bad("syntax error", one.case(random.Random(1)))
        use = one._use

        async def meddle(tool, args):
            (one.root / "prompts" / "chat.md").chmod(0o600)
            await use(tool, args)

        one._use = meddle
        with pytest.raises(Wrong, match=r"prompts/chat\.md was changed"):
            await one.bad(refused)
        left = []

        async def leave(tool, args):
            left.append(await asyncio.create_subprocess_exec("sleep", "86398.5"))
            await use(tool, args)

        one._use = leave
        monkeypatch.setattr("tests.campaign.world.PATIENCE", 0.2)
        with pytest.raises(Wrong, match=r"left behind: .*86398"):
            await one.bad(refused)
        for child in left:
            child.kill()
            await child.wait()


@pytest.mark.slow
async def test_a_new_script_that_does_not_know_a_hook_takes_back_no_prompt_that_is_on_probation(
    tmp_path, level
):
    async with world(tmp_path / "w", Round("python", False, True, level), "86397.5") as one:
        for kind in ("a prompt's line", "a new script"):
            await one.good(good.good(random.Random(3), kind, one.bot, one.prompts))
        assert one.engine.observer.describe("prompts/chat.md") is not None


def test_the_same_seed_makes_the_same_rounds_and_every_kind_of_candidate():
    made = gate.plans(310, 310, 6, ["bubblewrap", "landlock"])
    assert made == gate.plans(310, 310, 6, ["bubblewrap", "landlock"])
    kinds = [kind for plan in made for kind in plan.kinds]
    assert set(kinds) == {*bad.KINDS, *good.kinds(create=True)}
    assert sum(kind in bad.KINDS for kind in kinds) == 310
    assert {plan.made.level for plan in made} == {"bubblewrap", "landlock"}
