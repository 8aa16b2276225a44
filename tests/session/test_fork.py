"""A fork begins with copies of another session's messages and goes its own way."""

import asyncio

import pytest
from tests.history import repository, works

from instar.message import Assistant, CompactionPart, PatchPart, text_of
from instar.plugin import NotFound
from instar.session.revert import forked_title
from instar.testing import Machine, RuntimeUnderTest, users
from instar.wire import ids

pytest_plugins = ["tests.turn"]


@pytest.fixture
async def door(house: Machine) -> RuntimeUnderTest:
    house.says('== when ""\ntext: done\n')
    return await house.open()


@pytest.mark.parametrize(
    ("title", "forked"),
    [
        ("talk", "talk (fork #1)"),
        ("talk (fork #1)", "talk (fork #2)"),
        ("talk (fork #9)", "talk (fork #10)"),
        ("(fork #1)", "(fork #1) (fork #1)"),
        (f"a (fork #{'1' * 5000})", f"a (fork #{'1' * 5000}) (fork #1)"),
        ("a\nb (fork #2)", "a\nb (fork #3)"),
    ],
)
def test_forks_are_numbered(title: str, forked: str) -> None:
    assert forked_title(title) == forked


async def test_a_fork_holds_copies_with_ids_of_their_own_in_the_same_order(door: RuntimeUnderTest) -> None:
    session = await door.session()
    for text in ("one", "two"):
        await door.ask(session, text)
    made = await door.client.fork(session)
    original, copy = await door.stored(session), await door.stored(made.id)
    assert [text_of(message) for message in copy] == [text_of(message) for message in original]
    new = [message.info.id for message in copy]
    assert new == sorted(new)
    assert not {*new} & {message.info.id for message in original}
    assert not {p.id for m in copy for p in m.parts} & {p.id for m in original for p in m.parts}
    for message in copy:
        assert message.info.session_id == made.id
        assert all((part.session_id, part.message_id) == (made.id, message.info.id) for part in message.parts)
    assert [message.info.parent_id for message in copy if isinstance(message.info, Assistant)] == new[::2]
    assert made.title == "named (fork #1)"
    assert (made.cost, made.tokens.input) == (0.0, 0)


async def test_a_fork_ends_before_the_message_that_it_names(door: RuntimeUnderTest) -> None:
    session = await door.session()
    for text in ("one", "two", "three"):
        await door.ask(session, text)
    second = (await door.stored(session))[2].info.id
    made = await door.client.fork(session, second)
    assert users(await door.stored(made.id)) == ["one"]


async def test_a_fork_goes_its_own_way(door: RuntimeUnderTest, house: Machine) -> None:
    session = await door.session()
    await door.ask(session, "one")
    made = await door.client.fork(session)
    await door.ask(made.id, "only here")
    assert users(await door.stored(session)) == ["one"]
    assert users(await door.stored(made.id)) == ["one", "only here"]
    sent = str(house.requests()[-1])
    assert "one" in sent
    assert "only here" in sent


async def test_every_copy_is_published(door: RuntimeUnderTest) -> None:
    session = await door.session()
    await door.ask(session, "one")
    door.heard.clear()
    made = await door.client.fork(session)
    assert door.of("session.created")[0].info.id == made.id
    assert len(door.of("message.updated")) == 2
    stored = await door.stored(made.id)
    assert [event.part.id for event in door.of("message.part.updated")] == [
        part.id for message in stored for part in message.parts
    ]


async def test_the_tail_of_a_summary_is_the_copys_own(door: RuntimeUnderTest) -> None:
    session = await door.session()
    await door.ask(session, "one")
    live = await door.live(session)
    mark = CompactionPart(
        id=ids.new("prt"),
        session_id=session,
        message_id=live.history[-1].info.id,
        auto=False,
        tail_start_id=live.history[0].info.id,
    )
    await door.runtime.instance.sessions.save_part(live.history[-1], mark)
    copy = await door.stored((await door.client.fork(session)).id)
    (copied,) = [part for part in copy[-1].parts if isinstance(part, CompactionPart)]
    assert copied.tail_start_id == copy[0].info.id


async def test_an_answer_that_is_still_being_written_is_left_out(
    door: RuntimeUnderTest, house: Machine
) -> None:
    house.says('== when ""\ntool: bash {"command": "sleep 4711"}\n')
    session = await door.session()
    await door.start(session, "go")
    await door.running()
    made = await door.client.fork(session)
    assert [type(message.info).__name__ for message in await door.stored(made.id)] == ["User"]
    await door.client.abort(session)


@pytest.mark.slow
async def test_what_was_reverted_is_not_copied_and_a_copys_changes_are_its_own(house: Machine) -> None:
    house.says('== when ""\ntext: done\n')
    repository(house)
    door = await house.open()
    session = await door.session()
    await works(door, session, "one", {"a.txt": "two\n"})
    await works(door, session, "two", {"b.txt": "b\n"})
    await door.client.revert(session)
    made = await door.client.fork(session)
    copy = await door.stored(made.id)
    assert users(copy) == ["one"]
    assert any(isinstance(part, PatchPart) for part in copy[-1].parts)
    assert made.revert is None
    assert [one.file for one in await door.client.diff(made.id)] == ["a.txt"]
    await asyncio.gather(door.client.revert(made.id))
    assert (house.folder / "a.txt").read_text() == "one\n"


async def test_a_message_that_is_not_there_makes_no_fork(door: RuntimeUnderTest) -> None:
    session = await door.session()
    await door.ask(session, "one")
    with pytest.raises(NotFound, match="Message not found: msg_none"):
        await door.client.fork(session, "msg_none")
    assert len(await door.client.list()) == 1
