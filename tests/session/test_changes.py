"""What steps, turns and sessions do to files, told by snapshots around the tools that may write."""

from pathlib import Path

import pytest
from tests.history import other_tool, repository, works

from instar.message import PatchPart, SnapshotPart, StepStartPart, User
from instar.session import changes
from instar.testing import Machine, RuntimeUnderTest

pytest_plugins = ["tests.turn"]


@pytest.fixture
def project(house: Machine) -> Path:
    house.says('== when ""\ntext: done\n')
    return repository(house)


@pytest.fixture
async def door(house: Machine, project: Path) -> RuntimeUnderTest:
    return await house.open()


async def test_a_step_that_wrote_names_the_files_and_the_snapshot_before_them(
    door: RuntimeUnderTest, project: Path
) -> None:
    session = await door.session()
    _, holder = await works(door, session, "go", {"a.txt": "two\n", "new/b.txt": "b\n"})
    stored = (await door.stored(session))[-1]
    (patch,) = [part for part in stored.parts if isinstance(part, PatchPart)]
    (start,) = [part for part in stored.parts if isinstance(part, StepStartPart)]
    assert patch.files == [str(project / "a.txt"), str(project / "new" / "b.txt")]
    assert patch.hash == start.snapshot
    assert isinstance(stored.parts[-1], SnapshotPart)
    assert stored.parts[-1].snapshot == changes.last_snapshot([holder])


async def test_a_step_that_only_reads_takes_no_snapshot(door: RuntimeUnderTest, house: Machine) -> None:
    session = await door.session()
    for tool in sorted(changes.READING):
        _, holder = await works(door, session, "look", {}, tool=tool)
        assert not any(isinstance(part, PatchPart | SnapshotPart) for part in holder.parts)
        assert [part.snapshot for part in holder.parts if isinstance(part, StepStartPart)] == [None]
    assert not (house.data / "snapshot").exists()


async def test_a_plugins_tool_with_a_reading_ones_name_may_write(door: RuntimeUnderTest) -> None:
    session = await door.session()
    await door.ask(session, "go")
    instance, live = door.runtime.instance, await door.live(session)
    await changes.before(instance, live.history[-1], [("read", other_tool(instance.tools["read"]))])
    assert (await changes.after(instance, live.history[-1])).snapshot is not None


async def test_what_the_person_changes_between_steps_is_not_the_sessions(
    door: RuntimeUnderTest, project: Path
) -> None:
    session = await door.session()
    await works(door, session, "one", {"a.txt": "two\n"})
    (project / "mine.txt").write_text("mine\n")
    await works(door, session, "two", {"b.txt": "b\n"})
    assert [one.file for one in await door.client.diff(session)] == ["a.txt", "b.txt"]


async def test_the_end_of_a_turn_saves_and_publishes_what_it_changed(door: RuntimeUnderTest) -> None:
    session = await door.session()
    await works(door, session, "one", {"a.txt": "one\ntwo\n"})
    door.heard.clear()
    asked, _ = await works(door, session, "two", {"b.txt": "b\n"})
    assert door.types()[-3:] == ["session.updated", "session.diff", "message.updated"]
    assert [one.file for one in door.of("session.diff")[-1].diff] == ["a.txt", "b.txt"]
    summary = (await door.client.get(session)).summary
    assert summary is not None
    assert (summary.additions, summary.deletions, summary.files) == (2, 0, 2)
    user = next(m.info for m in await door.stored(session) if m.info.id == asked)
    assert isinstance(user, User)
    assert user.summary is not None
    assert [one.file for one in user.summary.diffs] == ["b.txt"]


async def test_a_turn_without_changes_says_so_in_its_message(door: RuntimeUnderTest) -> None:
    session = await door.session()
    asked, _ = await works(door, session, "one", {})
    user = next(m.info for m in await door.stored(session) if m.info.id == asked)
    assert isinstance(user, User)
    assert user.summary is not None
    assert user.summary.diffs == []
    assert door.of("session.diff")[-1].diff == []


async def test_one_turns_changes_are_asked_for_by_its_prompt_or_by_an_answer(door: RuntimeUnderTest) -> None:
    session = await door.session()
    asked, holder = await works(door, session, "one", {"a.txt": "two\n"})
    await works(door, session, "two", {"b.txt": "b\n"})
    for message_id in (asked, holder.info.id):
        assert [one.file for one in await door.client.diff(session, message_id)] == ["a.txt"]


async def test_changes_whose_snapshots_are_gone_are_told_as_they_were_kept(
    door: RuntimeUnderTest, house: Machine
) -> None:
    session = await door.session()
    await works(door, session, "one", {"a.txt": "two\n"})
    await works(door, session, "two", {"a.txt": "three\n"})
    for path in house.data.glob("snapshot/*/objects/*/*"):
        path.unlink()
    (told,) = await door.client.diff(session)
    assert (told.file, told.additions, told.deletions) == ("a.txt", 2, 2)
    assert told.patch is not None
    assert told.patch.index("+two") < told.patch.index("+three")


async def test_a_step_is_told_once_however_often_it_is_closed(door: RuntimeUnderTest) -> None:
    session = await door.session()
    _, holder = await works(door, session, "one", {"a.txt": "two\n"})
    await changes.close(door.runtime.instance, holder)
    assert len(changes.patches_of([holder])) == 1


async def test_outside_a_repository_a_session_has_no_changes(house: Machine) -> None:
    house.says('== when ""\ntext: done\n')
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    live = await door.live(session)
    await changes.before(door.runtime.instance, live.history[-1], [("bash", None)])
    assert await changes.after(door.runtime.instance, live.history[-1]) == changes.After()
    assert await door.client.diff(session) == []
