"""Held-out evals: what the gate lets through and they find worse is taken back, and the model never reads them."""

from pathlib import Path
from typing import Any

import pytest
from tests.plugins.evolve.cli.conftest import Hand, hand
from tests.plugins.evolve.conftest import script
from tests.plugins.evolve.living import bot, living, workspace
from tests.waiting import until

__all__ = ["hand"]
CASES = "#!/bin/sh\ngrep -c {word} hooks/bot.sh || true\n"


async def hold(live: Any, folder: Path, word: str) -> None:
    live.engine.held_out.add(script(folder, f"{word}.sh", CASES.format(word=word)))


async def test_a_change_that_only_learned_the_evals_of_the_gate_is_taken_back(
    root: Path, tmp_path: Path
) -> None:
    workspace(root, bot("# shown\n# hidden"))
    script(root / "evals", "shown.sh", CASES.format(word="shown"))
    async with living(root) as live:
        await hold(live, tmp_path / "mine", "hidden")
        await live.write(bot("# shown\n# shown"))
        await until(lambda: live.audit_log("rolled back"))
        [entry] = live.audit_log("rolled back")
        assert "the held-out eval hidden.sh shows that it is worse than what a person accepted" in entry.text
        assert "# hidden" in (root / "hooks" / "bot.sh").read_text()


async def test_a_change_that_is_no_worse_stays_and_what_is_better_is_measured_against_later(
    root: Path, tmp_path: Path
) -> None:
    workspace(root, bot("# hidden"))
    async with living(root) as live:
        await hold(live, tmp_path / "mine", "hidden")
        await live.write(bot("# hidden\n# hidden"))
        await until(lambda: live.engine.held_out.due() is None)
        assert not live.audit_log("rolled back")
        await live.write(bot("# hidden"))
        await until(lambda: live.audit_log("rolled back"))
        assert (root / "hooks" / "bot.sh").read_text().count("# hidden") == 2


@pytest.mark.slow
async def test_what_a_process_cut_short_is_watched_by_the_next_one(root: Path, tmp_path: Path) -> None:
    workspace(root, bot("# hidden"))
    async with living(root) as live:
        await hold(live, tmp_path / "mine", "hidden")
        slow = script(tmp_path / "mine", "slow.sh", "#!/bin/sh\nsleep 1\necho 1\n")
        live.engine.held_out.add(slow)
        await live.write(bot())
        assert live.engine.held_out.due() is not None
    async with living(root) as live:
        await until(lambda: live.audit_log("rolled back"))


@pytest.mark.slow
async def test_a_worse_change_is_found_although_another_one_was_installed_meanwhile(
    root: Path, tmp_path: Path
) -> None:
    workspace(root, bot("# hidden"))
    async with living(root) as live:
        live.engine.held_out.add(
            script(
                tmp_path / "mine", "hidden.sh", "#!/bin/sh\nsleep 1\ngrep -c hidden hooks/bot.sh || true\n"
            )
        )
        await live.write(bot())
        await live.call("evolve_prompt_write", prompt="chat.md", content="Be kinder.\n")
        await until(lambda: len(live.audit_log("rolled back")) == 2)
        assert "# hidden" in (root / "hooks" / "bot.sh").read_text()


@pytest.mark.slow
async def test_a_version_that_passed_its_probation_meanwhile_is_taken_back_too(
    root: Path, tmp_path: Path
) -> None:
    workspace(root, bot("# hidden"))
    async with living(root, config={"probation_calls": 0}) as live:
        await hold(live, tmp_path / "mine", "hidden")
        await live.write(bot())
        await until(lambda: live.audit_log("rolled back"))
        assert "# hidden" in (root / "hooks" / "bot.sh").read_text()


def test_a_person_adds_lists_and_removes_them(hand: Hand, tmp_path: Path) -> None:
    mine = script(tmp_path / "mine", "cases.sh", CASES.format(word="hidden"))
    assert hand("held-out").stdout == "no held-out evals\n"
    assert hand.json("held-out", "--add", mine) == {"names": ["cases.sh"]}
    mine.chmod(0o644)
    assert "is no executable file: chmod +x it" in hand("held-out", "--add", mine, code=1).output
    assert "there is no held-out eval 'other.sh'" in hand("held-out", "--remove", "other.sh", code=1).output
    assert hand("held-out", "--remove", "cases.sh").stdout == "no held-out evals\n"


def test_nothing_that_runs_for_the_model_can_read_or_add_them(hand: Hand, tmp_path: Path) -> None:
    mine = script(tmp_path / "mine", "cases.sh", CASES.format(word="hidden"))
    hand("held-out", "--add", mine)
    [kept] = (
        (tmp_path / "data").rglob("held-out/cases.sh")
        if (tmp_path / "data").exists()
        else hand.folder.rglob("held-out/cases.sh")
    )
    words = ["evolve", "--workspace", str(hand.root), "held-out", "--remove", "cases.sh"]
    assert hand.behind_the_shield(*words).code
    assert kept.exists()
