"""The durable events of all sessions, as somebody who was away reads them."""

from collections.abc import Callable
from typing import Any

from instar import event
from instar.event import Event, SessionUpdated
from instar.message import Session
from instar.store import DropSession, PutSession
from instar.store.store import Store
from instar.wire import ids


async def update(store: Store, session: Session) -> Event:
    """Publish a durable event of a session."""
    updated = event.make(SessionUpdated(session_id=session.id, info=session))
    await store.commit([PutSession(session)], [updated])
    return updated


async def ids_after(store: Store, last: str | int, directory: str | None = None) -> list[str]:
    return [one.event_id for one in await store.events_after(last, directory)]


async def test_events_of_all_sessions_come_in_the_order_of_their_commits(store: Store, make: Any) -> None:
    one, other = make.session(directory="/one"), make.session(directory="/other")
    told = [await update(store, session) for session in (one, other, one, other, one)]
    found = await store.events_after(0)
    assert [(found.event_id, found.seq) for found in found] == [
        (one.id, seq) for one, seq in zip(told, (1, 1, 2, 2, 3), strict=True)
    ]
    assert [one.seq for one in told] == [1, 1, 2, 2, 3], "the events themselves know their numbers"
    assert {(one.type, one.version, one.project_id) for one in found} == {("session.updated", 1, "global")}
    assert await ids_after(store, told[1].id) == [one.id for one in told[2:]]
    assert await ids_after(store, told[0].id, "/other") == [told[1].id, told[3].id]
    assert await ids_after(store, found[2].place) == [one.id for one in told[3:]]
    assert [one.event_id for one in await store.events_after(0, None, 2)] == [one.id for one in told[:2]]


async def test_an_event_that_is_not_stored_stands_for_its_time(store: Store, make: Any) -> None:
    session = make.session()
    before = ids.new("evt")
    first = await update(store, session)
    between = ids.new("evt")
    second = await update(store, session)
    assert await ids_after(store, before) == [first.id, second.id]
    assert await ids_after(store, between) == [second.id]
    assert await ids_after(store, ids.new("evt")) == []


async def test_an_event_made_before_but_stored_after_another_is_not_missed(store: Store, make: Any) -> None:
    session = make.session()
    early = event.make(SessionUpdated(session_id=session.id, info=session))
    between = ids.new("evt")
    late = await update(store, session)
    await store.commit([PutSession(session)], [early])
    assert await ids_after(store, late.id) == [early.id]
    assert await ids_after(store, between) == [late.id, early.id]


async def test_of_a_session_that_is_gone_nothing_is_told_and_of_others_all(store: Store, make: Any) -> None:
    gone, stays = make.session(), make.session()
    first = await update(store, gone)
    kept = await update(store, stays)
    await store.commit([DropSession(gone.id)])
    assert await ids_after(store, first.id) == [kept.id]


async def test_what_another_program_wrote_over_several_lines_is_one_line(
    store: Store, make: Any, sql: Callable[..., list[Any]]
) -> None:
    told = await update(store, make.session())
    sql("UPDATE event SET data = ?, type = 'session.updated.x'", '{\n"sessionID":\r\n"ses_1"}')
    (found,) = await store.events_after(0)
    assert (found.event_id, found.version) == (told.id, 1)
    assert found.data.split() == ["{", '"sessionID":', '"ses_1"}']
    assert "\n" not in found.data
    assert "\r" not in found.data
