"""The soak: what grows is found, and a hundred turns are noted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.campaign.soak import judge

ROOT = Path(__file__).parents[2]


def note(memory: float = 70.0, descriptors: int = 20, log: float = 4.0) -> dict[str, float]:
    return {"memory MiB": memory, "descriptors": descriptors, "threads": 5, "children": 1, "log MiB": log}


def test_what_grows_is_found() -> None:
    warming = [note(memory=50), note(memory=60)]
    assert judge([*warming, note(), note(memory=70.4)]) == []
    assert judge([*warming, note(), note(), note(memory=72)]) == ["memory grows by 1.00 MiB in 100 turns"]
    assert judge([*warming, note(), note(descriptors=30)]) == ["descriptors grew from 20 to 30"]
    assert judge([*warming, note(), note(log=90)]) == ["the log of the database takes 90 MiB"]


@pytest.mark.slow
def test_a_hundred_turns_are_noted() -> None:
    command = [sys.executable, "-m", "tests.campaign.soak", "--json", "--count", "100"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    report = json.loads(done.stdout)
    assert (done.returncode, report["findings"], report["done"]) == (0, [], 100), done.stderr
    assert report["counts"]["after 00100 turns: event rows"] > 1000
