"""Whether another process on the workspace is at work."""

import subprocess
import sys

import pytest

from instar.plugins.evolve.heartbeat.owner import Activity

HOLD = """\
import pathlib, sys
from instar.plugins.evolve.heartbeat.owner import Activity
Activity(pathlib.Path(sys.argv[1])).began("ses_1")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_session_is_seen_from_elsewhere_while_it_works_and_not_by_its_own(tmp_path):
    mine, yours = Activity(tmp_path / "new"), Activity(tmp_path / "new")
    assert not yours.elsewhere()
    mine.began("ses_1")
    mine.began("ses_2")
    assert yours.elsewhere()
    mine.ended("ses_1")
    assert yours.elsewhere()
    mine.ended("ses_2")
    assert not yours.elsewhere()
    assert not mine.elsewhere()


@pytest.mark.slow
@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_the_end_of_a_process_ends_what_it_did(tmp_path, end):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    mine = Activity(tmp_path)
    assert mine.elsewhere()
    getattr(child, end)()
    child.communicate()
    assert not mine.elsewhere()


def test_what_is_closed_holds_nothing(tmp_path):
    mine = Activity(tmp_path)
    mine.began("ses_1")
    mine.close()
    mine.close()
    assert not Activity(tmp_path).elsewhere()
