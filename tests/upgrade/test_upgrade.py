"""What earlier versions left is opened, listed and continued: databases and evolve workspaces, which `make.py` kept."""

import json
from pathlib import Path

import pytest
from tests.upgrade.left import FOLDER, QUESTION, Home

KEPT = sorted(FOLDER.glob("*.tar.xz"))
STORY = "Write a note about what an instar is, and count the words in it."
LEARNED = "hello_note_count"
"""The tool that the agent gave itself in the story."""


@pytest.fixture(params=KEPT, ids=lambda archive: archive.name.partition(".")[0])
def left(request: pytest.FixtureRequest, tmp_path: Path, clean_environment: dict[str, str]) -> Home:
    return Home(request.param, tmp_path, clean_environment)


def test_sessions_are_listed_and_one_is_continued(left: Home) -> None:
    assert set(left.sessions()) == {STORY, QUESTION}
    left.goes_on()


@pytest.mark.slow
def test_what_the_agent_learned_is_at_work_and_can_be_taken_back(left: Home) -> None:
    left.script.write_text(
        f'== when "Count again"\ntool: {LEARNED} {{"name": "instar"}}\n\n== when "8"\ntext: Eight words.\n'
    )
    sessions = left.sessions()
    printed = left.instar("run", "--auto", "--session", sessions[STORY], "Count again.")
    assert "Eight words." in printed, printed
    assert LEARNED in json.dumps(left.request()["tools"])
    assert "evolve_hook_edit hello.py" in left.instar("evolve", "log")
    # With schema 2 evolve kept no ledger: git has its changes, and takes them back.
    if left.name != "schema-2":
        left.instar("evolve", "rollback")
        assert "note_count" not in (left.workspace / "hooks" / "hello.py").read_text()
