"""Scores over many changes: no number of small steps leads downhill, and a person has the last word."""

from typing import Any

import pytest
from tests.plugins.evolve.cli.conftest import Hand, hand

from instar.plugins.evolve.candidate import CandidateRefused
from instar.plugins.evolve.evolution import Waits
from instar.plugins.evolve.install import ChangeCause

__all__ = ["hand"]

LEVEL = """#!/usr/bin/env python3
# The score is the number in the prompt, and some chance that the seed fixes.
import json, random, re, sys
level = float(re.search(r"level ([0-9.]+)", open("prompts/chat.md").read())[1])
seeds = json.load(sys.stdin)["seeds"]
scores = [min(1, max(0, level + random.Random(seed).uniform(-0.02, 0.02))) for seed in seeds]
print(json.dumps({"scores": scores, "tolerance": 0.05, %s}))
"""
PROMPT = "prompts/chat.md"


@pytest.fixture
def owner(hand: Hand) -> Hand:
    """A person with a prompt of level 0.5 and an eval that measures it."""
    hand.write(PROMPT, "Be kind. level 0.500\n", 0o644)
    hand.write("evals/level", LEVEL % '"runs": 400')
    hand("status", code=None)
    hand("accept", "--yes", code=None)
    return hand


def propose(owner: Hand, level: float, claim: str = "") -> Any:
    """Let the agent write the prompt at another level."""
    text = f"Be kind. level {level:.3f}\n"
    return owner.play(lambda engine: engine.evolution.change(PROMPT, lambda old: text, cause(), claim=claim))


def outcome(owner: Hand, level: float) -> str:
    try:
        propose(owner, level)
    except CandidateRefused as error:
        return f"refused at {error.stage}"
    except Waits:
        return "waits"
    return "installed"


def cause() -> ChangeCause:
    return ChangeCause(tool="evolve_prompt_write", session="ses_1", call="call_1", agent="build")


def level(owner: Hand) -> float:
    return float((owner.root / PROMPT).read_text().split()[-1])


def test_many_small_steps_lead_no_further_down_than_one(owner: Hand) -> None:
    """Each is 0.012 below the one before, well within the tolerance of 0.05 if that were measured from there."""
    outcomes = [outcome(owner, 0.5 - step * 0.012) for step in range(1, 8)]
    assert outcomes[0] == "installed"
    assert outcomes[-1] == "refused at score"
    assert level(owner) >= 0.5 - 0.05


def test_what_has_shown_itself_better_is_the_reference_from_then_on(owner: Hand) -> None:
    installed = propose(owner, 0.7)
    assert installed.verdict.score.better == ["level"]
    with pytest.raises(CandidateRefused, match="worse than the reference") as refused:
        propose(owner, 0.55)
    assert refused.value.stage == "score"
    report = owner.json("log", "-n", "1")["changes"][0]
    assert (report["kind"], report["stage"]) == ("refused", "score")


def test_a_change_that_claims_to_be_better_has_to_show_it(owner: Hand) -> None:
    with pytest.raises(CandidateRefused, match="it is to be better in evals/level, and is not shown to be"):
        propose(owner, 0.501, claim="level")
    with pytest.raises(CandidateRefused, match="there is no eval 'speed' to be better in; there are level"):
        propose(owner, 0.9, claim="speed")
    assert propose(owner, 0.7, claim="level").epoch


def test_what_evals_do_not_decide_waits_and_a_person_makes_it_the_reference(owner: Hand) -> None:
    owner.write("evals/level", LEVEL % '"runs": 8')
    owner("accept", "evals/level", "--yes")
    with pytest.raises(Waits, match="its evals are undecided:\n- evals/level did not show") as waits:
        propose(owner, 0.46)
    shown = owner("pending", waits.value.id).stdout
    assert (
        "a person has to allow:\n- evals/level did not show that it is no worse than the reference" in shown
    )
    assert "8 pairs are all that may be taken" in shown
    owner("approve", waits.value.id)
    assert level(owner) == 0.46
    # What a person let in is what is compared with: the same step again may be taken from there.
    owner.write("evals/level", LEVEL % '"runs": 400')
    owner("accept", "evals/level", "--yes")
    assert propose(owner, 0.45).epoch


def test_an_approval_of_what_a_script_reaches_moves_no_reference(owner: Hand) -> None:
    assert propose(owner, 0.49).epoch
    owner("approve", owner.ask_for_more())
    with pytest.raises(CandidateRefused, match="worse than the reference"):
        propose(owner, 0.4)


@pytest.mark.slow
def test_a_rollback_takes_the_reference_back(owner: Hand) -> None:
    propose(owner, 0.7)
    owner("rollback")
    assert level(owner) == 0.5
    assert propose(owner, 0.49).epoch


def test_what_the_agent_takes_back_leaves_the_reference_of_the_version_before(owner: Hand) -> None:
    propose(owner, 0.6)
    propose(owner, 0.8)
    owner.play(lambda engine: engine.rollback.roll_back("", cause()))
    assert level(owner) == 0.6
    with pytest.raises(CandidateRefused, match="worse than the reference"):
        propose(owner, 0.5)


def test_a_gain_that_is_not_shown_yet_is_not_given_away(owner: Hand) -> None:
    assert propose(owner, 0.52).verdict.score.lines[0].verdict == "no worse"
    with pytest.raises(CandidateRefused, match=r"behind what is live: that was ahead by 0\.02"):
        propose(owner, 0.5)
    assert propose(owner, 0.515).epoch


def test_each_candidate_gets_seeds_of_its_own(owner: Hand) -> None:
    owner.write("evals/level", LEVEL % '"runs": 400' + "if level < 0.2: sys.exit(f'seeds {seeds}')\n")
    owner("accept", "evals/level", "--yes")
    with pytest.raises(CandidateRefused, match=r"seeds \[1000000, 1000001, .*, 1000007\]"):
        propose(owner, 0.1)
    with pytest.raises(CandidateRefused, match=r"seeds \[2000000, 2000001, .*, 2000007\]"):
        propose(owner, 0.15)


def test_without_evals_the_report_says_that_nothing_was_measured(hand: Hand) -> None:
    hand.edit("Hello!", "Hello there!")
    change = hand.json("log", "-n", "1")["changes"][0]
    assert change["kind"] == "installed"
    gate = hand("show", "@2").stdout
    assert "no evals: nothing measured whether it is better or worse" in gate
