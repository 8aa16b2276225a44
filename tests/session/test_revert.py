"""A session is taken back to an earlier message, its files with it, and forth again."""

import asyncio
from pathlib import Path

import pytest
from tests.history import repository, works

from instar.message import PatchPart, TextPart, ToolPart, text_of
from instar.plugin import Invalid, NotFound, PromptBody
from instar.session import revert
from instar.testing import Machine, RuntimeUnderTest, users

pytest_plugins = ["tests.turn"]


@pytest.fixture
def project(house: Machine) -> Path:
    house.says('== when ""\ntext: done\n')
    return repository(house)


@pytest.fixture
async def door(house: Machine, project: Path) -> RuntimeUnderTest:
    return await house.open()


@pytest.mark.slow
async def test_a_revert_takes_files_back_and_keeps_the_messages(
    door: RuntimeUnderTest, project: Path
) -> None:
    session = await door.session()
    await works(door, session, "one", {"a.txt": "two\n"})
    asked, _ = await works(door, session, "two", {"a.txt": "three\n", "b.txt": "b\n", "c/d.txt": "d\n"})
    await works(door, session, "three", {"b.txt": "B\n"})
    done = await door.client.revert(session, asked)
    assert (project / "a.txt").read_text() == "two\n"
    assert not (project / "b.txt").exists()
    assert not (project / "c").exists()
    assert sorted(done.files) == ["a.txt", "b.txt", "c/d.txt"]
    assert (done.changed, done.kept, done.note) == ([], [], None)
    assert users(await door.stored(session)) == ["one", "two", "three"]
    mark = (await door.client.get(session)).revert
    assert mark is not None
    assert mark.message_id == asked
    assert "+two" in (mark.diff or "")
    assert [one.file for one in await door.client.diff(session)] == ["a.txt"]


@pytest.mark.slow
async def test_unrevert_brings_back_the_files_also_those_that_the_person_changed(
    door: RuntimeUnderTest, project: Path
) -> None:
    session = await door.session()
    asked, _ = await works(door, session, "one", {"a.txt": "two\n", "b.txt": "b\n"})
    (project / "a.txt").write_text("the person's\n")
    done = await door.client.revert(session, asked)
    assert done.changed == ["a.txt"]
    assert (project / "a.txt").read_text() == "one\n"
    back = await door.client.unrevert(session)
    assert sorted(back.files) == ["a.txt", "b.txt"]
    assert (project / "a.txt").read_text() == "the person's\n"
    assert (project / "b.txt").read_text() == "b\n"
    assert back.session.revert is None
    assert (await door.client.unrevert(session)).files == ()


@pytest.mark.slow
async def test_a_second_revert_starts_from_where_the_session_was(
    door: RuntimeUnderTest, project: Path
) -> None:
    session = await door.session()
    first, _ = await works(door, session, "one", {"a.txt": "two\n"})
    second, _ = await works(door, session, "two", {"b.txt": "b\n"})
    await door.client.revert(session, first)
    await door.client.revert(session, second)
    assert (project / "a.txt").read_text() == "two\n"
    assert not (project / "b.txt").exists()
    await door.client.unrevert(session)
    assert (project / "b.txt").read_text() == "b\n"


@pytest.mark.slow
async def test_the_next_prompt_drops_what_was_reverted_for_good(
    door: RuntimeUnderTest, project: Path
) -> None:
    session = await door.session()
    await works(door, session, "one", {"a.txt": "two\n"})
    asked, holder = await works(door, session, "two", {"a.txt": "three\n"})
    await door.client.revert(session, asked)
    door.heard.clear()
    await door.ask(session, "again")
    assert users(await door.stored(session)) == ["one", "again"]
    assert users(await door.client.messages(session)) == ["one", "again"]
    assert [gone.message_id for gone in door.of("message.removed")] == [asked, holder.info.id]
    assert (await door.client.get(session)).revert is None
    assert (project / "a.txt").read_text() == "two\n"


async def test_what_was_reverted_is_not_sent_to_the_model_again(
    door: RuntimeUnderTest, house: Machine
) -> None:
    session = await door.session()
    await door.ask(session, "a secret plan")
    await door.client.revert(session)
    await door.ask(session, "again")
    assert "a secret plan" not in str(house.requests()[-1])


async def test_without_a_message_the_last_prompt_is_taken_back_and_then_the_one_before(
    door: RuntimeUnderTest,
) -> None:
    session = await door.session()
    for text in ("one", "two", "three"):
        await door.ask(session, text)
    for expected in ("three", "two", "one"):
        done = await door.client.revert(session)
        assert done.session.revert is not None
        assert text_of(await door.client.message(session, done.session.revert.message_id)) == expected
    with pytest.raises(NotFound, match="no message to go back to"):
        await door.client.revert(session)


async def test_a_revert_to_a_part_keeps_what_stands_before_it(house: Machine, project: Path) -> None:
    house.says('== turn\ntext: I look.\ntool: read {"filePath": "a.txt"}\n== turn\ntext: done\n')
    door = await house.open()
    session = await door.session()
    await door.ask(session, "look")
    answer = (await door.stored(session))[1]
    call = next(part for part in answer.parts if isinstance(part, ToolPart))
    done = await door.client.revert(session, answer.info.id, call.id)
    assert done.session.revert is not None
    assert (done.session.revert.message_id, done.session.revert.part_id) == (answer.info.id, call.id)
    door.heard.clear()
    await door.client.prompt(session, PromptBody.text("again", no_reply=True))
    stored = await door.stored(session)
    assert [type(part) for part in stored[1].parts][-1] is TextPart
    assert [text_of(message) for message in stored] == ["look", "I look.", "again"]
    assert call.id in [gone.part_id for gone in door.of("message.part.removed")]
    assert len(door.of("message.removed")) == 1


async def test_an_answer_goes_with_its_prompt(door: RuntimeUnderTest) -> None:
    session = await door.session()
    answer = await door.ask(session, "one")
    done = await door.client.revert(session, answer.info.id)
    assert done.session.revert is not None
    assert done.session.revert.message_id == (await door.stored(session))[0].info.id
    first = answer.parts[0]
    again = await door.client.revert(session, answer.info.id, first.id)
    assert again.session.revert is not None
    assert again.session.revert.part_id is None


@pytest.mark.parametrize("part", [None, "prt_none"])
async def test_a_message_or_part_that_is_not_there_changes_nothing(
    door: RuntimeUnderTest, part: str | None
) -> None:
    session = await door.session()
    answer = await door.ask(session, "one")
    with pytest.raises(NotFound, match=r"not found: (msg|prt)_none"):
        await door.client.revert(session, answer.info.id if part else "msg_none", part)
    assert (await door.client.get(session)).revert is None


async def test_a_session_that_works_is_not_changed(door: RuntimeUnderTest, house: Machine) -> None:
    house.says('== when ""\ntool: bash {"command": "sleep 4711"}\n')
    session = await door.session()
    await door.start(session, "go")
    await door.running()
    message = (await door.client.messages(session))[0].info.id
    for work in (
        door.client.revert(session),
        door.client.unrevert(session),
        door.client.remove(session, message),
    ):
        with pytest.raises(Invalid, match=f"session {session} is busy"):
            await work
    await door.client.abort(session)


async def test_a_prompt_and_a_summary_are_refused_while_files_are_put_back(door: RuntimeUnderTest) -> None:
    session = await door.session()
    await works(door, session, "one", {"a.txt": "two\n"})
    going = asyncio.create_task(door.client.revert(session))
    while session not in door.client._changing:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    with pytest.raises(Invalid, match="is being changed"):
        await door.ask(session, "two")
    with pytest.raises(Invalid, match="is busy"):
        await door.client.summarize(session)
    await going
    await door.ask(session, "two")
    assert users(await door.stored(session)) == ["two"]


async def test_outside_a_repository_the_messages_are_reverted_and_the_files_said_not_to_be(
    house: Machine,
) -> None:
    house.says('== when ""\ntext: done\n')
    door = await house.open()
    session = await door.session()
    answer = await door.ask(session, "one")
    live = await door.live(session)
    patch = PatchPart(
        id="prt_x", session_id=session, message_id=answer.info.id, hash="1" * 40, files=["/etc/hostname"]
    )
    await door.runtime.instance.sessions.save_part(live.history[-1], patch)
    done = await door.client.revert(session)
    assert "the files were left as they are" in (done.note or "")
    assert "in no git repository" in (done.note or "")
    assert done.session.revert is not None
    assert await door.client.diff(session) == []


async def test_snapshots_that_are_gone_are_named(
    door: RuntimeUnderTest, house: Machine, project: Path
) -> None:
    session = await door.session()
    await works(door, session, "one", {"a.txt": "two\n"})
    for path in house.data.glob("snapshot/*/objects/*/*"):
        path.unlink()
    done = await door.client.revert(session)
    assert "snapshots that are gone" in (done.note or "")
    assert (project / "a.txt").read_text() == "two\n"


@pytest.mark.slow
async def test_a_revert_is_there_after_a_restart(
    door: RuntimeUnderTest, house: Machine, project: Path
) -> None:
    session = await door.session()
    await works(door, session, "one", {"a.txt": "two\n"})
    await door.client.revert(session)
    await door.runtime.close()
    again = await house.open()
    await again.client.unrevert(session)
    assert (project / "a.txt").read_text() == "two\n"


@pytest.mark.slow
async def test_a_long_difference_is_cut_in_the_session(door: RuntimeUnderTest, project: Path) -> None:
    session = await door.session()
    await works(door, session, "one", {"a.txt": "line\n" * 50_000})
    done = await door.client.revert(session)
    assert done.session.revert is not None
    assert done.session.revert.diff is not None
    assert len(done.session.revert.diff) < revert.LONGEST_DIFF + 100
    assert done.session.revert.diff.endswith(" characters in all)\n")


async def test_a_message_and_a_part_are_deleted_and_files_stay(door: RuntimeUnderTest, project: Path) -> None:
    session = await door.session()
    asked, holder = await works(door, session, "one", {"a.txt": "two\n"})
    part = holder.parts[-1]
    await door.client.remove(session, holder.info.id, part.id)
    assert part.id not in [one.id for one in (await door.stored(session))[-1].parts]
    await door.client.revert(session, asked)
    await door.client.remove(session, asked)
    assert [message.info.id for message in await door.stored(session)] == [holder.info.id]
    # The mark names a message that is gone: nothing is left to drop, and nothing fails.
    await door.client.unrevert(session)
    for message_id, part_id in (("msg_none", None), (holder.info.id, "prt_none")):
        with pytest.raises(NotFound):
            await door.client.remove(session, message_id, part_id)
