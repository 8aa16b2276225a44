"""Files and sessions as a user meets them: a turn writes, the session is taken back, and forth."""

import json
import subprocess
from pathlib import Path

import pytest
from tests import started
from tests.turn import trace

from instar.message import PatchPart, StepFinishPart, StepStartPart
from instar.testing import Machine

pytest_plugins = ["tests.turn"]

WRITE = """
    == turn
    text: I write.
    tool: write {"filePath": "b.txt", "content": "b\\n"}
    tool: bash {"command": "echo two >> a.txt"}
    == turn
    tool: read {"filePath": "a.txt"}
    == turn
    text: Done.
"""


@pytest.fixture
def project(house: Machine) -> Path:
    subprocess.run(["git", "init", "-q"], cwd=house.folder, check=True)
    (house.folder / "a.txt").write_text("one\n")
    house.says(WRITE)
    return house.folder


@pytest.mark.slow
async def test_a_step_that_writes_has_snapshots_and_a_patch_and_one_that_reads_has_none(
    house: Machine, project: Path
) -> None:
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    _, wrote, read, done = await door.stored(session)
    kinds = [type(part) for part in wrote.parts]
    assert kinds[-2:] == [StepFinishPart, PatchPart]
    (patch,) = [part for part in wrote.parts if isinstance(part, PatchPart)]
    assert sorted(patch.files) == [str(project / "a.txt"), str(project / "b.txt")]
    for message, taken in ((wrote, True), (read, False), (done, False)):
        for part in message.parts:
            if isinstance(part, StepStartPart | StepFinishPart):
                assert (part.snapshot is not None) is taken
    words = trace(door.heard)
    assert words[words.index("session.idle") :] == [
        "session.idle",
        "session.updated",
        "session.diff",
        "message user",
    ]


@pytest.mark.slow
async def test_a_turn_is_reverted_with_its_files_and_brought_back(house: Machine, project: Path) -> None:
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    await door.client.revert(session)
    assert (project / "a.txt").read_text() == "one\n"
    assert not (project / "b.txt").exists()
    await door.client.unrevert(session)
    assert (project / "a.txt").read_text() == "one\ntwo\n"
    assert (project / "b.txt").read_text() == "b\n"


@pytest.mark.slow
async def test_what_an_aborted_step_wrote_is_reverted_too(house: Machine, project: Path) -> None:
    house.says('== turn\ntool: bash {"command": "echo x > c.txt; echo began; sleep 60"}\n')
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    await door.until(lambda event: "began" in str(event.to_plain()) and (project / "c.txt").exists())
    await door.client.abort(session)
    await door.client.revert(session)
    assert not (project / "c.txt").exists()


@pytest.mark.slow
def test_the_command_line_takes_files_back(tmp_path: Path, house: Machine, project: Path) -> None:
    def instar(*arguments: str) -> str:
        done = started.run([*arguments], cwd=project, environment=house.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    first = instar("run", "-m", "scripted/x", "--auto", "--format", "json", "go").splitlines()[0]
    session = json.loads(first)["sessionID"]
    assert "+two" in instar("session", "diff", session)
    said = instar("session", "revert", session)
    assert "  a.txt\n" in said
    assert (project / "a.txt").read_text() == "one\n"
    instar("session", "unrevert", session)
    assert (project / "a.txt").read_text() == "one\ntwo\n"
