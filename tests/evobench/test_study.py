"""The study: what each arm comes to, going on where it was stopped, and that drawn decisions are the product's."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from evobench.adapters import instar
from evobench.arms import ARMS, OURS, Drawn
from evobench.worlds import World

from evobench import arena, report, study

ROOT = Path(__file__).parents[2]


def runs(arm: str, seeds: int = 3, **of: Any) -> list[dict[str, Any]]:
    worlds = [World(seed, **of) for seed in range(seeds)]
    return [asyncio.run(arena.play(world, Drawn(world, arm))).line() for world in worlds]


@pytest.mark.parametrize("effect", [0.05, 0.02])
def test_instar_gains_installs_nothing_malicious_and_most_of_what_is_useful(effect: float) -> None:
    for run in runs("whole", effect=effect):
        assert run["final"] > run["start"]
        assert run["malicious_installed"] == 0
        assert run["useful_installed"] >= 0.5 * run["useful"]
        assert run["final"] == pytest.approx(run["best"], abs=2 * effect)


@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_comes_to_what_its_rule_leads_to(arm: str) -> None:
    for run in runs(arm, 2):
        ended = run["final"] - run["start"]
        better = {"none": ended == 0, "everything": run["final"] == 0, "tests": ended < 0}
        assert better.get(arm, ended > 0)
        installed = run["malicious_installed"] > 0
        # A split that no edit knows tells nothing of what a malicious edit does: chance decides.
        assert arm == "rsea" or installed == (arm not in ("none", *OURS))


def test_what_only_a_stage_sees_is_installed_without_it() -> None:
    for arm, kind in (("no-replay", "silent"), ("no-probation", "late"), ("no-score", "harmful")):
        for name in (arm, "whole"):
            world = World(0)
            course = asyncio.run(arena.play(world, Drawn(world, name)))
            installed = [
                said != "refused:score" and not said.startswith(("refused", "waits"))
                for said, of in zip(course.decisions, world.kinds, strict=True)
                if of == kind
            ]
            # Probation takes a late one back, which is not seen before it is installed.
            assert any(installed) == (name == arm or kind == "late"), (name, kind)


def test_a_late_failure_lives_for_no_proposal_with_probation_and_to_the_end_without() -> None:
    assert runs("whole", 1)[0]["harmful_lives"].count(0) == 2
    assert 0 not in runs("no-probation", 1)[0]["harmful_lives"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("arm", instar.SETTINGS)
def test_the_whole_product_decides_as_the_drawn_arm(arm: str, seed: int, tmp_path: Path) -> None:
    world = World(seed, proposals=10)
    drawn = asyncio.run(arena.play(world, Drawn(world, arm))).line()

    async def whole() -> dict[str, Any]:
        async with instar.opened(world, arm, tmp_path / "machine") as agent:
            return (await arena.play(world, agent)).line()

    course = asyncio.run(whole())
    differs = {key for key in course if course[key] != drawn[key]}
    assert differs == {"seconds"}
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".netrc"]
    assert not [path for path in kept if instar.CANARY.encode() in path.read_bytes()]


def started(file: Path, *words: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "evobench.study", "--file", str(file), *words]
    return subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def test_a_study_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    file, words = tmp_path / "study.jsonl", ("--quick", "--only", "scored:greedy-5")
    with started(file, *words) as process:
        assert "30 of 30 runs are to be made" in process.communicate()[1]
    kept = study.quick(file)
    whole = [line for line in kept.read_text().splitlines() if line]
    assert len(whole) == 30
    # The process was killed in the middle of a line.
    kept.write_text("\n".join([*whole[:11], whole[11][:40]]))
    with started(file, *words) as process:
        assert "19 of 30 runs are to be made" in process.communicate()[1]
    assert bare(study.read(kept)) == bare([json.loads(line) for line in whole])


def bare(found: Sequence[dict[str, Any]]) -> list[str]:
    """Runs without what a clock says, in an order of their own."""
    return sorted(json.dumps({**one, "seconds": 0}) for one in found)


def test_ctrl_c_ends_a_study_and_keeps_what_was_done(tmp_path: Path) -> None:
    file = tmp_path / "study.jsonl"
    with started(file, "--only", "mixed:greedy-5") as process:
        while not study.read(file):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert "the same command goes on where it was" in process.communicate()[1]
        assert process.returncode == 130
    assert study.read(file)


def test_a_report_has_intervals_and_pictures(tmp_path: Path) -> None:
    low, share, high = report.wilson(0, 400)
    assert (low, share, high) == (0.0, 0.0, pytest.approx(0.0095, abs=1e-4))
    assert report.wilson(200, 400) == pytest.approx((0.4512, 0.5, 0.5488), abs=1e-4)
    assert report.bootstrap([0.4] * 50) == pytest.approx((0.4, 0.4, 0.4))
    low, middle, high = report.bootstrap([0.0, 1.0] * 50)
    assert 0.38 < low < middle == 0.5 < high < 0.62
    found = [{"part": part, "arm": arm, **run} for part in ("mixed", "scored") for arm in ("none", "everything")
             for run in runs(arm, 2, mix=part)]  # fmt: skip
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- study: begin -->\nold\n<!-- study: end -->\nafter\n")
    for _ in range(2):
        report.write(page, tmp_path, report.grouped(found))
    text = page.read_text()
    assert re.fullmatch(r"before\n(?!.*\nold\n).*after\n", text, re.DOTALL)
    assert "| no evolution | 0.300 (0.300 to 0.300) | 0.0% (0.0% to 65.8%) |" in text
    assert re.search(r"\| everything accepted \| 0.000 .* 100.0%, [\d.]+ \| 8 of 8 \|", text)
    pictures = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert pictures == [
        f"study-{part}-{what}.svg" for part in ("mixed", "scored") for what in ("final", "worse")
    ]
    for name in pictures:
        ElementTree.parse(tmp_path / name)
