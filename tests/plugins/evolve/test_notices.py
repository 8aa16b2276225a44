"""Notices: each session is told once what others changed, also after a crash."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.plugin import Origin
from instar.plugins.evolve import notices
from instar.plugins.evolve.database import Database
from instar.plugins.evolve.notices import KEPT, LARGEST, MOST, HookNotice, Notices, NotNow

CHANGED = {"type": "note_changed", "files": ["notes/a.md"]}


class Killed(BaseException):
    """The process is killed here."""


class Room:
    """Sessions that keep their messages. `word` is what the scripts answer; `fail` is raised at the named place."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.database = Database(folder, durable=False)
        self.messages = {}
        self.asked = []
        self.answer = None
        self.fail = {}

    async def word(self, session, given_):
        self.asked.append([one.said for one in given_])
        # Others come to their turn meanwhile, as they do while a script runs.
        await asyncio.sleep(0)
        self._fail("word")
        return self.answer

    def _fail(self, place):
        if place in self.fail:
            raise self.fail.pop(place)

    async def has(self, session, message_id):
        return message_id in self.messages.get(session, {})

    async def put(self, session, message_id, text):
        self._fail("before")
        told = self.messages.setdefault(session, {})
        assert message_id not in told
        told[message_id] = text
        self._fail("after")

    async def deliver(self, *sessions):
        """What a new process does: nothing of an earlier one is in its memory."""
        return await Notices(Database(self.folder, durable=False)).deliver(sessions, self)

    def told(self, session):
        return list(self.messages.get(session, {}).values())


def said(*values, **more):
    return [HookNotice(value, **more) for value in values]


@pytest.fixture
def room(tmp_path):
    return Room(tmp_path / "data")


@pytest.fixture
def queue(room):
    return Notices(room.database)


async def test_each_other_session_is_told_once_in_one_message(room, queue):
    queue.notify(said(CHANGED, {"type": "b", "files": ["b.md"]}), ["s2", "s3"])
    queue.notify(said({"type": "c", "files": ["notes/a.md", "c.md"]}), ["s2", "s3"])
    assert queue.waiting() == ["s2", "s3"]
    assert await room.deliver("s1", "s2", "s3", "s2") == ["s2", "s3"]
    text = "[update] modified: notes/a.md, b.md, c.md. Read again what you need."
    assert [room.told(session) for session in ("s1", "s2", "s3")] == [[], [text], [text]]
    assert queue.waiting() == []
    assert await room.deliver("s2") == []


async def test_the_scripts_word_the_message(room, queue):
    room.answer = "Look at a.md again."
    queue.notify(said(CHANGED, "plain"), ["s2"])
    assert await room.deliver("s2")
    assert room.asked == [[CHANGED, "plain"]]
    assert room.told("s2") == ["Look at a.md again."]


async def test_what_the_scripts_fail_to_word_is_told_all_the_same(room, queue):
    room.fail["word"] = RuntimeError("no")
    queue.notify(said(CHANGED), ["s2"])
    await room.deliver("s2")
    assert room.told("s2") == ["[update] modified: notes/a.md. Read again what you need."]


@pytest.mark.parametrize("place", ["word", "before", "after"])
@pytest.mark.parametrize("killed", [Killed(), asyncio.CancelledError()])
async def test_a_crash_at_any_point_neither_loses_nor_doubles_a_notice(room, queue, place, killed):
    queue.notify(said({"type": "a", "files": ["a"]}), ["s2"])
    room.fail[place] = killed
    with pytest.raises(type(killed)):
        await room.deliver("s2")
    Notices(Database(room.folder)).notify(said({"type": "b", "files": ["b"]}), ["s2"])
    while await room.deliver("s2"):
        pass
    assert room.told("s2") == [f"[update] modified: {name}. Read again what you need." for name in ("a", "b")]


@pytest.mark.parametrize("error", [ValueError("the session is away"), NotNow("it is at work")])
async def test_a_message_that_is_refused_is_sent_again_and_keeps_no_other_session_waiting(room, queue, error):
    queue.notify(said(CHANGED), ["s2", "s3"])
    room.fail["before"] = error
    if isinstance(error, NotNow):
        assert await room.deliver("s2", "s3") == ["s3"]
    else:
        with pytest.raises(ValueError, match="away"):
            await room.deliver("s2")
    assert "s2" in queue.waiting()
    assert await room.deliver("s2")
    assert len(room.told("s2")) == 1


async def test_two_processes_that_tell_one_session_at_once_tell_it_once(room, queue):
    queue.notify(said(CHANGED), ["s2"])
    assert sorted(await asyncio.gather(*(room.deliver("s2") for _ in range(5)))) == [[]] * 4 + [["s2"]]
    assert len(room.told("s2")) == 1


async def test_of_too_many_notices_the_oldest_are_dropped_and_counted(room, queue):
    for number in range(MOST + 7):
        queue.notify(said({"type": "t", "files": [f"{number}"]}), ["s2"])
    await room.deliver("s2")
    assert room.asked[0][0]["files"] == ["7"]
    assert len(room.asked[0]) == MOST
    assert room.told("s2")[0].endswith("\n(7 earlier notices were dropped.)")
    queue.notify(said(CHANGED), ["s2"])
    await room.deliver("s2")
    assert "dropped" not in room.told("s2")[1]


async def test_what_comes_while_a_message_waits_is_told_in_the_next_one(room, queue):
    queue.notify(said({"type": "a"}), ["s2"])
    room.fail["before"] = NotNow("it is at work")
    assert await room.deliver("s2") == []
    queue.notify(said({"type": "b"}), ["s2"])
    assert await room.deliver("s2") == ["s2"]
    assert queue.waiting() == ["s2"]
    assert await room.deliver("s2") == ["s2"]
    assert room.told("s2") == ["[update] a.", "[update] b."]
    assert kept(room) == {"notice": 0, "waiting": 0}


def kept(room):
    """How many rows each table has."""
    tables = ("notice", "waiting")
    return {table: room.database.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables}


@pytest.mark.slow
async def test_the_queue_is_bounded(room, queue):
    for number in range(KEPT + 5):
        queue.notify(said(CHANGED), [f"s{number}"])
    assert len(queue.waiting()) == KEPT
    assert "s0" not in queue.waiting()
    assert kept(room) == {"notice": KEPT, "waiting": KEPT}


def test_a_notice_is_kept_once_however_many_sessions_it_waits_for(room, queue):
    queue.notify(said(CHANGED), [f"s{number}" for number in range(50)])
    assert kept(room)["notice"] == 1


async def test_a_script_may_say_that_there_is_nothing_to_tell(room, queue):
    room.answer = ""
    queue.notify(said(CHANGED), ["s2"])
    assert await room.deliver("s2") == ["s2"]
    assert (room.told("s2"), queue.waiting()) == ([], [])


async def test_a_notice_keeps_where_it_comes_from(room, queue):
    heard = []

    async def word(session, given_):
        heard.extend(given_)

    room.word = word
    origin = Origin("heartbeat", "ws/3", "evolve.send", 1)
    queue.notify(said(CHANGED, origin=origin, hops=1), ["s2"])
    await room.deliver("s2")
    assert heard == [HookNotice(CHANGED, origin, 1)]


async def test_a_notice_of_any_size_becomes_a_sentence(room, queue):
    queue.notify(said({"type": "big", "text": "x" * LARGEST}, ["y" * LARGEST]), ["s2"])
    await room.deliver("s2")
    big, other = room.asked[0]
    assert (big["type"], set(other)) == ("big", {"note"})
    assert "bytes" in big["note"]


async def test_nothing_waits_for_a_session_that_is_gone(room, queue):
    queue.notify(said(CHANGED), ["s2", "s3"])
    queue.forget("s2")
    queue.forget("s9")
    assert queue.waiting() == ["s3"]


async def test_a_notice_that_is_damaged_is_left_out_and_the_log_says_so(room, queue, caplog):
    queue.notify(said({"type": "a"}, {"type": "b"}), ["s2"])
    room.database.change(
        lambda connection: connection.execute("UPDATE notice SET value = x'FF' WHERE number = 1")
    )
    assert await room.deliver("s2")
    assert room.told("s2") == ["[update] b."]
    assert "damaged=HookNotice" in caplog.text


@pytest.mark.parametrize(
    ("given_", "text"),
    [
        ([CHANGED], "[update] modified: notes/a.md. Read again what you need."),
        ([{"type": "mood"}, "sun"], "[update] mood, sun."),
        ([{"type": "a", "files": "x"}], "[update] a."),
        (
            [{"type": "a", "files": ["x\n\x1b[2Jy", 3]}],
            "[update] modified: x [2Jy. Read again what you need.",
        ),
        ([3, None], "[update] 2 notices from another session, of no known form."),
        (
            [{"files": [str(number) for number in range(22)]}],
            f"[update] modified: {', '.join(map(str, range(20)))} and 2 more. Read again what you need.",
        ),
    ],
)
def test_the_default_message_names_files_else_types(given_, text):
    assert notices.default_text(given_) == text


json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["type", "files"]), inner),
    max_leaves=10,
)


@pytest.mark.slow
@given(st.lists(json, min_size=1, max_size=5))
def test_whatever_a_script_says_the_default_message_is_one_line(said):
    text = notices.default_text(said)
    assert text.startswith("[update] ")
    assert "\n" not in text
