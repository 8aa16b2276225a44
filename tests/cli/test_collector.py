"""Garbage is left alone while the program starts, and collected seldom once it has."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

COUNTED = """
import atexit, gc, json, sys

# Registered first, it is called last.
atexit.register(lambda: sys.__stderr__.write(json.dumps(seen | {"last": gc.get_freeze_count()})))
seen = {"before": gc.get_threshold(), "full": 0}
def collected(phase, info):
    seen["full"] += phase == "start" and info["generation"] == 2 and not gc.get_freeze_count()
def ended(code):
    seen["after"], seen["frozen"], seen["code"] = gc.get_threshold(), gc.get_freeze_count(), code

from instar.cli import main
gc.callbacks.append(collected)
main(["run", "-m", "scripted/echo", "hi"], exit_with=ended)
"""


@pytest.mark.slow
def test_a_start_is_not_searched_for_garbage_and_what_it_made_is_left_alone_afterwards(
    tmp_path: Path, clean_environment: Mapping[str, str]
) -> None:
    env = {**clean_environment, "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", COUNTED], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    seen = json.loads(done.stderr.splitlines()[-1])
    assert (seen["code"], seen["full"]) == (0, 0)
    assert seen["after"] == [max(seen["before"][0], 5000), *seen["before"][1:]]
    assert seen["frozen"] > 10_000
    # What plugins left open since then is found at the end.
    assert seen["last"] <= seen["frozen"]


HELPED = """
import atexit, gc, sys

atexit.register(lambda: print(len(gc.get_objects()), file=sys.stderr))
from instar.cli import main
main(["--help"])
"""


def test_the_end_of_a_command_is_not_searched_for_garbage(clean_environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELPED], env=clean_environment, capture_output=True, text=True, check=True
    )
    assert int(done.stderr) < 1000
