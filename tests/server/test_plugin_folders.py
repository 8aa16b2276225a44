"""A server that runs takes up a plugin folder that a person adds, and lets go of one that they remove."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.server.conftest import Served
from tests.waiting import wait_until

FOLDERS = Path(__file__).parent.parent / "data/plugin-folders"


@pytest.mark.slow
def test_a_plugin_that_is_added_or_removed_is_taken_up_by_a_running_server(
    serve: Callable[..., Served], clean_environment: dict[str, str]
) -> None:
    # Files are looked at from the first turn on.
    served = serve(script="== turn\ntext: hello\n")
    served.ask(served.session())

    def instar(*words: str) -> None:
        command = [sys.executable, "-m", "instar", "plugin", *words]
        environment = {"PATH": os.environ["PATH"], **clean_environment}
        subprocess.run(command, env=environment, cwd=served.directory, check=True, capture_output=True)

    def named(what: str) -> set[str]:
        return {one["name"] for one in served.http.get(f"/{what}").json() if ":" in one["name"]}

    assert named("command") == set()
    instar("add", "--yes", str(FOLDERS / "reviewer"))
    wait_until(lambda: named("command") == {"reviewer:notes", "reviewer:review"})
    assert named("skill") == {"reviewer:review"}
    assert named("agent") == {"reviewer:critic"}
    instar("remove", "reviewer")
    wait_until(lambda: named("command") == set())
