"""A session that moves to another folder of its project: when it may, and what is left when it may not."""

import subprocess
from pathlib import Path

import pytest

from instar.plugin import Busy, Invalid, NotFound
from instar.testing import Machine

pytest_plugins = ["tests.turn"]


def git(folder: Path, *args: str) -> str:
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", *name, *args], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def side(house: Machine, tmp_path: Path) -> Path:
    """A worktree beside the project."""
    git(house.folder, "init", "-q", "-b", "main")
    (house.folder / "a.txt").write_text("one\n")
    git(house.folder, "add", ".")
    git(house.folder, "commit", "-qm", "first")
    git(house.folder, "worktree", "add", "-q", str(tmp_path / "side"))
    return tmp_path / "side"


async def test_a_session_does_not_move_while_its_turn_runs(house: Machine, side: Path) -> None:
    house.says("== turn\ntext: hello\ndelay: 90s\n")
    door = await house.open()
    session = await door.session()
    await door.start(session, "hi")
    with pytest.raises(Busy, match="cannot be moved"):
        await door.runtime.sessions.move(session, side)
    await door.client.abort(session)
    await door.idle(session)
    await door.runtime.sessions.move(session, side)
    assert (await door.client.get(session)).directory == str(side)


async def test_a_moved_session_goes_on_there_and_not_here(house: Machine, side: Path) -> None:
    house.says("== turn\ntext: one\n\n== turn\ntext: two\n")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "hi")
    moved = await door.runtime.sessions.move(session, side)
    assert (moved.directory, moved.path, moved.workspace_id) == (str(side), "", None)
    told = [event for event in door.heard if event.type == "session.updated"]
    assert told[-1].properties.info.directory == str(side)
    (side / "below").mkdir()
    deeper = await door.runtime.sessions.move(session, side / "below")
    assert deeper.path == "below"


async def test_changes_that_a_person_staged_move_too(house: Machine, side: Path) -> None:
    door = await house.open()
    session = await door.session()
    (house.folder / "a.txt").write_text("two\n")
    git(house.folder, "add", "a.txt")
    await door.runtime.sessions.move(session, side, "move")
    assert (side / "a.txt").read_text() == "two\n"
    assert (house.folder / "a.txt").read_text() == "one\n"


async def test_changes_of_one_worktree_stay_when_the_session_moves_within_it(
    house: Machine, side: Path
) -> None:
    (house.folder / "below").mkdir()
    (house.folder / "a.txt").write_text("two\n")
    door = await house.open()
    session = await door.session()
    await door.runtime.sessions.move(session, house.folder / "below", "move")
    assert (house.folder / "a.txt").read_text() == "two\n"


async def test_another_clone_is_another_project_and_a_session_that_is_not_there_does_not_move(
    house: Machine, side: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", str(house.folder), "clone")
    door = await house.open()
    session = await door.session()
    with pytest.raises(Invalid, match="another project"):
        await door.runtime.sessions.move(session, tmp_path / "clone")
    with pytest.raises(NotFound):
        await door.runtime.sessions.move("ses_none", side)
