"""The campaign of storage faults: a failed act, a kill and a loss of power at any moment."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_power_loses_nothing_where_the_settings_promise_it_and_a_kill_never_does() -> None:
    command = [sys.executable, "-m", "tests.campaign.storage", "--json", "--seed", "3", "--count", "80"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    report = json.loads(done.stdout)
    assert (done.returncode, report["findings"]) == (0, []), done.stderr
    lost = {
        one: report["counts"][f"cuts that lost something told, durability {one}"]
        for one in ("process", "power")
    }
    assert lost["power"] == 0
    # Else what is told by default would be on the disk too, and the setting would be for nothing.
    assert lost["process"] > 0
    assert report["counts"]["failed acts"] >= 5
