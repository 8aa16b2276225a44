import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instar import event, wire
from instar.event import (
    Event,
    MessageUpdated,
    PartDelta,
    PartUpdated,
    SessionDeleted,
    SessionIdle,
    SessionUpdated,
)
from instar.message import (
    Assistant,
    CacheTokens,
    ErrorText,
    MessageAbortedError,
    Rule,
    Session,
    SessionTime,
    Tokens,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolPending,
    ToolSpan,
    UnknownPart,
    User,
    WithParts,
    decode_part,
)
from instar.store import (
    DropAsk,
    DropFollowUp,
    DropMessage,
    DropPart,
    DropSession,
    FollowUp,
    Lease,
    LeaseLost,
    PutApproval,
    PutAsk,
    PutFollowUp,
    PutMessage,
    PutPart,
    PutProject,
    PutSession,
    PutUsage,
    PutValue,
    StoreError,
    Usage,
)
from instar.store.sqlite import SqliteFile
from instar.store.store import Store, open_store
from instar.store.values import Values
from instar.store.writer import Near
from instar.wire import ids

Where = Path | str
Talk = tuple[Session, User]
Sql = Callable[..., list[tuple[Any, ...]]]


async def test_what_was_put_comes_back(store: Store, talk: Talk, make: Any) -> None:
    session, user = talk
    parts = [make.text(user, "a"), make.tool(user), make.text(user, "b")]
    await store.commit([PutPart(part) for part in reversed(parts)])
    assert await store.session(session.id) == session
    assert await store.messages(session.id) == [WithParts(info=user, parts=parts)]


async def test_what_is_not_there_is_none_or_empty(store: Store) -> None:
    assert await store.session("ses_none") is None
    assert await store.messages("ses_none") == []
    assert await store.sessions() == []
    assert await store.events_since("ses_none", 0) == []
    assert await store.follow_ups("ses_none") == []
    assert await store.asks() == []
    assert await store.approvals("none") == []
    assert await store.value("p", "k") is None
    assert await store.values("p") == {}
    assert await store.usage() == []


async def test_a_reopened_store_has_everything(store: Store, talk: Talk, make: Any, where: Where) -> None:
    session, user = talk
    part = decode_part(
        {"id": "prt_1", "sessionID": session.id, "messageID": user.id, "type": "hologram", "z": [1]}
    )
    user = wire.decode({**wire.to_plain(user), "later": None}, User)
    session = wire.decode({**wire.to_plain(session), "colour": {"r": 1}}, Session)
    await store.commit([PutSession(session), PutMessage(user), PutPart(part)])
    await store.close()
    again = await open_store(where, lambda event: None)
    (message,) = await again.messages(session.id)
    assert isinstance(message.parts[0], UnknownPart)
    assert message.to_plain() == {"info": {**wire.to_plain(user), "later": None}, "parts": [part.fields]}  # type: ignore[union-attr]
    assert wire.to_plain(await again.session(session.id))["colour"] == {"r": 1}
    await again.close()


async def test_messages_come_oldest_first_and_a_limit_keeps_the_newest(store: Store, make: Any) -> None:
    session, other = make.session(), make.session()
    users = [make.user(session.id, created=created) for created in (5, 3, 3, 9)]
    stray = make.user(other.id, created=4)
    parts = [make.text(user) for user in (*users, stray)]
    await store.commit([PutSession(session), PutSession(other)])
    await store.commit([*map(PutMessage, (*users, stray)), *map(PutPart, parts)])
    expected = [users[1].id, users[2].id, users[0].id, users[3].id]
    for limit in (None, 4, 3, 1, 99, 0):
        found = await store.messages(session.id, limit)
        assert [one.info.id for one in found] == (
            expected if limit is None else expected[max(0, 4 - limit) :]
        )
        assert all([part.message_id for part in one.parts] == [one.info.id] for one in found)


async def test_a_text_part_is_put_again_and_again_as_it_grows(store: Store, talk: Talk, make: Any) -> None:
    session, user = talk
    part = make.text(user, "")
    for piece in "grow":
        part.text += piece
        await store.commit([PutPart(part)])
    assert [one.parts for one in await store.messages(session.id)] == [[part]]


async def test_sessions_are_chosen_and_come_last_updated_first(store: Store, make: Any) -> None:
    await store.commit([PutProject("p2", "/repo", "git", 1)])
    a = make.session(time=SessionTime(created=1, updated=10))
    b = make.session(time=SessionTime(created=1, updated=30), project_id="p2", directory="/repo")
    c = make.session(time=SessionTime(created=1, updated=20), parent_id=a.id)
    d = make.session(time=SessionTime(created=1, updated=40, archived=41))
    await store.commit([PutSession(one) for one in (a, b, c, d)])
    for chosen, expected in (
        ({}, [b, c, a]),
        ({"archived": True}, [d, b, c, a]),
        ({"limit": 2}, [b, c]),
        ({"project_id": "p2"}, [b]),
        ({"project_id": "global", "archived": True}, [d, c, a]),
        ({"directory": "/work"}, [c, a]),
        ({"parent_id": a.id}, [c]),
        ({"project_id": "p2", "parent_id": a.id}, []),
    ):
        assert await store.sessions(**chosen) == expected, chosen


async def test_sync_events_are_kept_in_order_and_the_others_only_published(
    store: Store, talk: Talk, make: Any, published: list[Event]
) -> None:
    session, user = talk
    part = make.text(user)
    delta = PartDelta(session_id=session.id, message_id=user.id, part_id=part.id, field="text", delta="d")
    events = [
        event.make(one)
        for one in (
            SessionUpdated(session_id=session.id, info=session),
            delta,
            MessageUpdated(session_id=session.id, info=user),
            SessionIdle(session_id=session.id),
            PartUpdated(session_id=session.id, part=part, time=7),
        )
    ]
    assert await store.commit([PutPart(part)], events) == 3
    assert published == events
    kept = await store.events_since(session.id, 0)
    assert [(one.seq, one.event_id, one.session_id, one.type) for one in kept] == [
        (1, events[0].id, session.id, "session.updated.1"),
        (2, events[2].id, session.id, "message.updated.1"),
        (3, events[4].id, session.id, "message.part.updated.1"),
    ]
    assert [one.data for one in kept] == [events[index].to_plain()["properties"] for index in (0, 2, 4)]
    assert await store.events_since(session.id, 1, limit=1) == [kept[1]]
    assert await store.events_since(session.id, 3) == []


async def test_a_published_event_is_already_readable(where: Where, make: Any) -> None:
    session = make.session()
    reads: list[asyncio.Task[Any]] = []
    opened = await open_store(
        where, lambda event: reads.append(asyncio.get_running_loop().create_task(opened.session(session.id)))
    )
    changed = event.make(SessionUpdated(session_id=session.id, info=session))
    await opened.commit([PutProject("global", "/", None, 1), PutSession(session)], [changed])
    assert await reads[0] == session
    await opened.close()


async def test_a_commit_that_fails_publishes_and_keeps_nothing(
    store: Store, talk: Talk, make: Any, published: list[Event]
) -> None:
    session, user = talk
    good, lost = make.text(user), make.text(make.user("ses_none"))
    changed = event.make(PartUpdated(session_id=session.id, part=good, time=1))
    with pytest.raises(StoreError, match="belongs to a project, session or message that is not in the store"):
        await store.commit([PutPart(good), PutPart(lost)], [changed])
    assert published == []
    assert (await store.messages(session.id))[0].parts == []
    assert await store.commit([PutPart(good)], [changed]) == 1


@pytest.mark.parametrize("value", [object(), {1, object()}, {"deep": lambda: None}])
async def test_what_is_not_json_is_refused_before_anything_is_written(store: Store, value: object) -> None:
    with pytest.raises(StoreError, match="cannot be written as JSON"):
        await store.commit([PutValue("p", "a", 1), PutValue("p", "b", value)])
    assert await store.values("p") == {}


async def test_a_number_too_large_for_a_column_is_an_error_not_a_crash(store: Store, make: Any) -> None:
    session = make.session(time=SessionTime(created=2**70, updated=1))
    with pytest.raises(StoreError, match="too large"):
        await store.commit([PutSession(session)])
    assert await store.sessions() == []


async def test_text_that_is_not_unicode_is_stored_with_replacement_characters(
    store: Store, talk: Talk, make: Any
) -> None:
    session, user = talk
    await store.commit([PutPart(make.text(user, "file \udcff name"))])
    assert (await store.messages(session.id))[0].parts[0].text == "file \ufffd name"  # type: ignore[union-attr]
    await store.commit(
        [PutSession(wire.replace(session, title="cut \ud83d", metadata={"k\udcff": "\udcff"}))]
    )
    kept = await store.session(session.id)
    assert kept is not None
    assert (kept.title, kept.metadata) == ("cut \ufffd", {"k\ufffd": "\ufffd"})


async def test_dropping_takes_what_belongs_to_it(store: Store, talk: Talk, make: Any, sql: Sql) -> None:
    session, user = talk
    first, second = make.text(user, "a"), make.text(user, "b")
    other = make.user(session.id, created=5)
    await store.commit([PutMessage(other), *map(PutPart, (first, second, make.text(other)))])
    await store.commit([DropPart(first)])
    assert next(one.parts for one in await store.messages(session.id)) == [second]
    await store.commit([DropMessage(other.id)])
    assert sql("SELECT id FROM part") == [(second.id,)]
    await store.commit([
        PutFollowUp(FollowUp(ids.new("fup"), session.id, "person", {}, 1)),
        PutAsk("per_1", session.id, {}),
        PutUsage(Usage(session.id, None, "prompt", "p", "m", Tokens.zero(), None, 1)),
    ])  # fmt: skip
    assert await store.lease(session.id, "me", 1000)
    await store.commit(
        [DropSession(session.id)], [event.make(SessionDeleted(session_id=session.id, info=session))]
    )
    for table in ("session", "message", "part", "event", "event_sequence", "instar_follow_up", "instar_ask",
                  "instar_lease", "instar_leftover"):  # fmt: skip
        assert sql(f"SELECT * FROM {table}") == [], table
    assert len(await store.usage()) == 1  # what was spent stays spent


async def test_follow_ups_wait_in_the_order_they_came(store: Store, talk: Talk) -> None:
    session, _ = talk
    queued = [FollowUp(f"fup_{name}", session.id, "person", {"parts": [{"text": name}]}, 9) for name in "zab"]
    for one in queued:
        await store.commit([PutFollowUp(one)])
    assert await store.follow_ups(session.id) == queued
    await store.commit([DropFollowUp("fup_a"), DropFollowUp("fup_never")])
    assert await store.follow_ups(session.id) == [queued[0], queued[2]]


async def test_asks_wait_until_they_are_dropped(store: Store, talk: Talk, make: Any) -> None:
    session, _ = talk
    other = make.session()
    await store.commit(
        [PutSession(other), PutAsk("per_2", session.id, {"a": [1]}), PutAsk("per_1", other.id, {})]
    )
    assert await store.asks() == [PutAsk("per_2", session.id, {"a": [1]}), PutAsk("per_1", other.id, {})]
    assert await store.asks(other.id) == [PutAsk("per_1", other.id, {})]
    await store.commit([DropAsk("per_2")])
    assert await store.asks(session.id) == []


async def test_approvals_of_a_project_come_oldest_first(store: Store) -> None:
    await store.commit([PutProject("p2", "/repo", "git", 1)])
    rules = [
        Rule(permission="bash", pattern=pattern, action="allow") for pattern in ("git *", "a *", "git *")
    ]
    for rule in rules:
        await store.commit([PutApproval("global", rule)])
    assert await store.approvals("global") == rules[:2]
    assert await store.approvals("p2") == []


@pytest.mark.parametrize("value", [0, False, "", [], {}, {"a": [1, None, 1.5]}, "☃", 2**80])
async def test_a_plugins_value_comes_back_and_none_deletes_it(store: Store, value: object) -> None:
    await store.commit([PutValue("p", "k", value), PutValue("q", "k", "other")])
    assert await store.value("p", "k") == value
    await store.commit([PutValue("p", "k", None)])
    assert await store.value("p", "k") is None
    assert await store.value("q", "k") == "other"


async def test_of_several_that_change_a_plugins_value_at_once_one_does(store: Store) -> None:
    values = Values(store, "p")
    for before, after in ((None, {"n": 1}), ({"n": 1}, {"n": 2})):
        assert sorted(await asyncio.gather(*(values.swap("k", before, after) for _ in range(3)))) == [0, 0, 1]
        assert await values.get("k") == after
    assert not await values.swap("k", None, 3)


async def test_a_prefix_is_a_prefix_and_no_pattern(store: Store) -> None:
    for key in ("a%", "a%b", "aXb", "a_", "A%", "b"):
        await store.commit([PutValue("p", key, key)])
    assert list(await store.values("p", "a%")) == ["a%", "a%b"]
    assert list(await store.values("p", "a_")) == ["a_"]
    assert len(await store.values("p")) == 6


async def test_usage_is_booked_and_chosen_by_session_and_time(store: Store) -> None:
    tokens = Tokens(total=15, input=1, output=2, reasoning=3, cache=CacheTokens(read=4, write=5))
    calls = [
        Usage("ses_a", "msg_1", "prompt", "p", "m", tokens, 0.25, 30),
        Usage("ses_b", None, "title", "p", "m", Tokens.zero(), None, 10),
        Usage("ses_a", None, "heartbeat", "p", "m", Tokens.zero(), 0.0, 20),
    ]
    await store.commit([PutUsage(call) for call in calls])
    assert await store.usage() == [calls[1], calls[2], calls[0]]
    assert await store.usage("ses_a") == [calls[2], calls[0]]
    assert await store.usage("ses_a", since=21) == [calls[0]]
    assert await store.usage(since=20) == [calls[2], calls[0]]


async def test_a_lease_is_one_owners_and_its_fence_rises_with_every_holder(store: Store, talk: Talk) -> None:
    session, _ = talk
    mine = await store.lease(session.id, "me", 60_000)
    assert mine is not None
    assert mine.fence == 1
    renewed = await store.lease(session.id, "me", 120_000)
    assert renewed is not None
    assert (renewed.fence, renewed.expires > mine.expires) == (1, True)
    assert await store.lease(session.id, "you", 60_000) is None
    assert await store.holder(session.id) == Lease(session.id, "me", 1, renewed.expires)
    await store.release(renewed)
    assert await store.holder(session.id) is None
    yours = await store.lease(session.id, "you", -1)
    assert yours is not None
    assert yours.fence == 2
    assert await store.holder(session.id) is None  # it has run out
    taken = await store.lease(session.id, "me", 60_000)
    assert taken is not None
    assert taken.fence == 3
    await store.release(yours)
    assert await store.lease(session.id, "you", 60_000) is None


async def test_a_row_that_cannot_be_read_at_once_is_read_by_a_thread(
    store: Store, talk: Talk, path: Path
) -> None:
    other = path.parent.with_name("held.db")
    held = sqlite3.connect(other, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    store._near = Near(SqliteFile(other))
    assert await store.session(talk[0].id) == talk[0]
    held.close()


async def test_who_lost_a_session_changes_it_no_more_until_it_gave_it_back(
    store: Store, where: Where, talk: Talk, make: Any, published: list[Event]
) -> None:
    session, user = talk
    other = await open_store(where, lambda event: None)
    mine = await store.lease(session.id, "me", -1)
    yours = await other.lease(session.id, "you", 60_000)
    assert mine is not None
    assert yours is not None
    part = make.text(user)

    def change() -> tuple[list[PutPart], list[Event]]:
        return [PutPart(part)], [event.make(PartUpdated(session_id=session.id, part=part, time=1))]

    queued = PutFollowUp(FollowUp("fup_1", session.id, "person", {}, 1))
    with pytest.raises(LeaseLost, match=f"session {session.id} was taken over by another process"):
        await store.commit(*change())
    with pytest.raises(LeaseLost):
        await store.commit([DropFollowUp("fup_0")], session_id=session.id)
    assert published == []
    assert await store.lease(session.id, "me", 60_000) is None
    saved = [store.commit([queued]), store.commit(*change())]
    assert [type(one) for one in await asyncio.gather(*saved, return_exceptions=True)] == [int, LeaseLost]
    await store.release(mine)
    await other.commit(*change())
    await store.commit(*change())
    await other.release(yours)
    await other.close()


async def test_who_lost_a_session_that_is_free_again_gives_it_back_before_it_takes_it(
    store: Store, where: Where, talk: Talk, make: Any
) -> None:
    session, user = talk
    other = await open_store(where, lambda event: None)
    mine = await store.lease(session.id, "me", -1)
    yours = await other.lease(session.id, "you", 60_000)
    assert mine is not None
    assert yours is not None
    await other.release(yours)
    part = make.text(user)

    def change() -> tuple[list[PutPart], list[Event]]:
        return [PutPart(part)], [event.make(PartUpdated(session_id=session.id, part=part, time=1))]

    # A process that was stopped wakes up: its turn goes by what the session was before.
    assert await store.lease(session.id, "me", 60_000) is None
    with pytest.raises(LeaseLost):
        await store.commit(*change())
    await store.release(mine)
    assert await store.lease(session.id, "me", 60_000) is not None
    await store.commit(*change())
    await other.close()


async def test_two_stores_on_one_database_share_leases_and_numbers(
    store: Store, talk: Talk, where: Where
) -> None:
    session, user = talk
    other = await open_store(where, lambda event: None)
    took = await asyncio.gather(
        *(one.lease(session.id, f"o{n}", 60_000) for n, one in enumerate([store, other] * 5))
    )
    assert len([lease for lease in took if lease is not None]) == 1

    def changed() -> Event:
        return event.make(MessageUpdated(session_id=session.id, info=user))

    given = await asyncio.gather(*(one.commit([], [changed()]) for one in [store, other] * 20))
    assert sorted(given) == list(range(1, 41))
    await other.close()


async def test_a_lease_on_a_session_that_is_not_there_is_an_error(store: Store) -> None:
    with pytest.raises(StoreError, match="not in the store"):
        await store.lease("ses_none", "me", 1)


async def test_what_was_running_when_the_process_died_is_marked_in_one_commit(
    store: Store, talk: Talk, make: Any, published: list[Event]
) -> None:
    session, _ = talk
    cut, done = make.answer(session.id), make.answer(session.id, created=3)
    done.time.completed = 4
    failed = make.answer(session.id, created=4, error=MessageAbortedError(data=ErrorText(message="Aborted")))
    finished = ToolCompleted(
        input={}, output='"running"', title="t", metadata={}, time=ToolSpan(start=1, end=2)
    )
    running, pending = make.tool(cut), make.tool(cut, state=ToolPending(input={}, raw='{"a'))
    kept = [make.tool(cut, state=finished), make.text(cut, '{"type":"tool","status":"pending"}')]
    parts = [running, pending, *kept]
    await store.commit([*map(PutMessage, (cut, done, failed)), *map(PutPart, parts)])

    assert await store.interrupt(session.id, 1000) == 2

    found = {part.id: part for one in await store.messages(session.id) for part in one.parts}
    assert [found[part.id] for part in kept] == kept
    text = "Tool execution was interrupted: the process that ran it ended."
    ran, waited = found[running.id], found[pending.id]
    assert isinstance(ran, ToolPart)
    assert isinstance(waited, ToolPart)
    assert ran.state == ToolError(
        input={"command": "sleep 9"}, error=text,
        metadata={"output": "a", "interrupted": True, "began": True},
        time=ToolSpan(start=5, end=1000),
    )  # fmt: skip
    assert waited.state == ToolError(
        input={}, error=text, metadata={"interrupted": True}, time=ToolSpan(start=1000, end=1000)
    )
    answers = {
        one.info.id: one.info for one in await store.messages(session.id) if isinstance(one.info, Assistant)
    }
    assert answers[cut.id].time.completed == answers[failed.id].time.completed == 1000
    assert isinstance(answers[cut.id].error, MessageAbortedError)
    assert answers[failed.id].error == failed.error
    assert answers[done.id] == done
    kinds = ["message.part.updated"] * 2 + ["message.updated"] * 2
    assert [one.type for one in published] == kinds
    assert [one.type for one in await store.events_since(session.id, 0)] == [kind + ".1" for kind in kinds]
    assert await store.interrupt(session.id, 2000) == 0
    assert len(published) == 4


async def test_a_closed_store_says_so(where: Where) -> None:
    opened = await open_store(where, lambda event: None)
    await opened.session("ses_none")
    await opened.close()
    await opened.close()
    with pytest.raises(StoreError, match="the store is closed"):
        await opened.session("ses_none")
    with pytest.raises(StoreError, match="the store is closed"):
        await opened.commit([])


CHILD = """
import asyncio, sys
from pathlib import Path
from instar import event; from instar.wire import ids
from instar.event import MessageUpdated
from instar.message import Created, ModelRef, Session, SessionTime, User
from instar.store import PutMessage, PutProject, PutSession
from instar.store.store import open_store

async def main():
    store = await open_store(Path(sys.argv[1]), lambda one: print("told", one.properties.info.id, flush=True))
    session = Session(id="ses_1", slug="a-b", project_id="global", directory="/", title="t", version="1",
                      time=SessionTime(created=1, updated=1))
    await store.commit([PutProject("global", "/", None, 1), PutSession(session)])

    async def write(worker):
        while True:
            user = User(id=ids.new("msg"), session_id="ses_1", time=Created(created=1), agent="a",
                        model=ModelRef(provider_id="p", model_id="m"))
            seq = await store.commit([PutMessage(user)], [event.make(MessageUpdated(session_id="ses_1", info=user))])
            print("seq", seq, flush=True)

    await asyncio.gather(*map(write, range(4)))

asyncio.run(main())
"""


@pytest.mark.slow
async def test_what_was_announced_survives_kill_9(path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(200)]
    child.send_signal(signal.SIGKILL)
    rest, _ = child.communicate()
    whole = "".join(lines) + rest[: rest.rfind("\n") + 1]
    told = [line.split()[1] for line in whole.splitlines() if line.startswith("told")]
    numbers = [int(line.split()[1]) for line in whole.splitlines() if line.startswith("seq")]
    assert min(len(told), len(numbers)) >= 50

    again = await open_store(path, lambda event: None)
    kept = await again.events_since("ses_1", 0, limit=100_000)
    assert [one.seq for one in kept] == list(range(1, len(kept) + 1))
    assert {one.data["info"]["id"] for one in kept} >= set(told)
    assert {one.seq for one in kept} >= set(numbers)
    assert {one.info.id for one in await again.messages("ses_1")} == {one.data["info"]["id"] for one in kept}
    await again.close()
