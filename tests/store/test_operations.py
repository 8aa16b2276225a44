import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from instar import event, wire
from instar.event import Event, MessageRemoved, PartUpdated, SessionDeleted, SessionIdle
from instar.message import Rule, Session
from instar.store import (
    DropSession,
    PruneValues,
    PutApproval,
    PutMessage,
    PutPart,
    PutProject,
    PutSession,
    PutValue,
    StoreError,
)
from instar.store.commit import encode_commit
from instar.store.sqlite import migrations, prepare
from instar.wire import ids


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    opened = prepare(path, "NORMAL", migrations())
    encode_commit([PutProject("global", "/", None, 1)], [], 1).run(opened)()
    yield opened
    opened.close()


def removed(session_id: str) -> Event:
    return event.make(MessageRemoved(session_id=session_id, message_id="msg_1"))


def test_a_commit_is_what_its_values_were_when_it_was_asked_for(
    connection: sqlite3.Connection, make: Any
) -> None:
    session = make.session()
    user = make.user(session.id)
    part = make.text(user, "before")
    published = event.make(PartUpdated(session_id=session.id, part=part, time=1))
    commit = encode_commit([PutSession(session), PutMessage(user), PutPart(part)], [published], 5)
    part.text = session.title = user.agent = "after"
    commit.run(connection)()
    for table in ("session", "message", "part", "event"):
        assert "after" not in str(connection.execute(f"SELECT * FROM {table}").fetchall())
    assert "before" in connection.execute("SELECT data FROM part").fetchone()[0]
    assert "before" in connection.execute("SELECT data FROM event").fetchone()[0]


def test_events_are_numbered_from_one_in_each_session_without_gaps(connection: sqlite3.Connection) -> None:
    assert encode_commit([], [removed("ses_a"), removed("ses_b"), removed("ses_a")], 1).run(connection)() == 2
    assert encode_commit([], [removed("ses_b")], 1).run(connection)() == 2
    assert encode_commit([], [event.make(SessionIdle(session_id="ses_a"))], 1).run(connection)() == 0
    assert encode_commit([], [], 1).run(connection)() == 0
    rows = connection.execute("SELECT aggregate_id, seq FROM event ORDER BY aggregate_id, seq").fetchall()
    assert rows == [("ses_a", 1), ("ses_a", 2), ("ses_b", 1), ("ses_b", 2)]
    assert connection.execute("SELECT * FROM event_sequence ORDER BY 1").fetchall() == [
        ("ses_a", 2, None),
        ("ses_b", 2, None),
    ]


def test_a_durable_event_is_opencodes_row(connection: sqlite3.Connection) -> None:
    one = removed("ses_a")
    encode_commit([], [one], 1).run(connection)()
    ((event_id, aggregate, seq, kind, data),) = connection.execute(
        "SELECT id, aggregate_id, seq, type, data FROM event"
    )
    assert (event_id, aggregate, seq, kind) == (one.id, "ses_a", 1, "message.removed.1")
    assert json.loads(data) == {"sessionID": "ses_a", "messageID": "msg_1"}


def test_of_the_values_with_a_prefix_the_last_keys_stay(connection: sqlite3.Connection) -> None:
    keys = ["a", "n", "n:1", "n:2", "n:3", "n:\U0001f600", "o"]
    put = [PutValue(plugin, key, 1) for plugin in ("p", "q") for key in keys]
    encode_commit([*put, PruneValues("p", "n:", 2)], [], 1).run(connection)()
    found = connection.execute("SELECT plugin, key FROM instar_value ORDER BY 1, 2").fetchall()
    gone = {("p", "n:1"), ("p", "n:2")}
    assert set(map(tuple, found)) == {(plugin, key) for plugin in ("p", "q") for key in keys} - gone


def test_of_a_deleted_session_nothing_stays(connection: sqlite3.Connection, make: Any) -> None:
    session = make.session()
    user = make.user(session.id)
    part = make.text(user)
    created = event.make(PartUpdated(session_id=session.id, part=part, time=1))
    encode_commit([PutSession(session), PutMessage(user), PutPart(part)], [created], 1).run(connection)()
    deleted = event.make(SessionDeleted(session_id=session.id, info=session))
    assert encode_commit([DropSession(session.id)], [deleted], 2).run(connection)() == 2
    for table in ("session", "message", "part", "event", "event_sequence"):
        assert connection.execute(f"SELECT * FROM {table}").fetchall() == [], table


def test_a_row_keeps_its_time_of_creation(connection: sqlite3.Connection, make: Any) -> None:
    session = make.session()
    user = make.user(session.id, created=111)
    part = make.text(user)
    writes = [PutSession(session), PutMessage(user), PutPart(part)]
    encode_commit(writes, [], 500).run(connection)()
    part.text = "more"
    encode_commit(writes, [], 600).run(connection)()
    assert connection.execute("SELECT time_created, time_updated FROM message").fetchall() == [(111, 600)]
    assert connection.execute("SELECT time_created, time_updated FROM part").fetchall() == [(500, 600)]


def test_putting_a_session_again_keeps_its_messages(connection: sqlite3.Connection, make: Any) -> None:
    session = make.session()
    encode_commit([PutSession(session), PutMessage(make.user(session.id))], [], 1).run(connection)()
    session.title = "new"
    encode_commit([PutSession(session), PutProject("global", "/", "git", 9)], [], 2).run(connection)()
    assert connection.execute("SELECT count(*) FROM message").fetchone() == (1,)
    assert connection.execute("SELECT title FROM session").fetchone() == ("new",)
    assert connection.execute("SELECT vcs, time_created, time_updated FROM project").fetchone() == (
        "git",
        1,
        9,
    )


def test_what_no_longer_goes_beyond_the_columns_is_forgotten(
    connection: sqlite3.Connection, make: Any
) -> None:
    session = wire.decode({**wire.to_plain(make.session()), "later": 1}, Session)
    encode_commit([PutSession(session)], [], 1).run(connection)()
    assert connection.execute("SELECT data FROM instar_leftover").fetchall() == [('{"later":1}',)]
    session.__dict__.clear()
    encode_commit([PutSession(session)], [], 1).run(connection)()
    assert connection.execute("SELECT data FROM instar_leftover").fetchall() == []


@pytest.mark.parametrize("action", ["deny", "ask"])
def test_only_an_allowance_can_be_remembered_for_a_project(action: Any) -> None:
    with pytest.raises(StoreError, match="only `allow` can be remembered"):
        encode_commit([PutApproval("global", Rule(permission="bash", pattern="*", action=action))], [], 1)


def test_an_approval_is_opencodes_row_and_stands_once(connection: sqlite3.Connection) -> None:
    rule = Rule(permission="bash", pattern="git *", action="allow")
    for now in (1, 2):
        encode_commit([PutApproval("global", rule)], [], now).run(connection)()
    ((row_id, *rest),) = connection.execute("SELECT * FROM permission").fetchall()
    assert ids.is_id(row_id, "per")
    assert rest == ["global", "bash", "git *", 1, 2]
