import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instar.event import Event, SessionIdle, make
from instar.store import StoreError
from instar.store.sqlite import SqliteFile
from instar.store.writer import Near, Readers, Writer

Work = Callable[[sqlite3.Connection], Any]


def put(key: str) -> Work:
    """Insert a row; a second one with the same key fails."""
    return lambda connection: (
        connection.execute("INSERT INTO instar_value VALUES ('p', ?, '1')", (key,)).rowcount
    )


def keys(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT key FROM instar_value ORDER BY key")]


def idle(session_id: str) -> Event:
    return make(SessionIdle(session_id=session_id))


class Gate:
    """Work that holds the writer until it is opened, so that what follows waits together."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, connection: sqlite3.Connection) -> None:
        self.reached.set()
        self.opened.wait()


@pytest.fixture
async def writer(path: Path, published: list[Event]) -> Any:
    made = Writer(SqliteFile(path), published.append)
    await made.start()
    yield made
    await made.close()


async def hold(writer: Writer) -> Gate:
    gate = Gate()
    writer.submit(gate)
    await asyncio.to_thread(gate.reached.wait)
    return gate


async def test_work_is_durable_and_announced_before_its_future_resolves(
    writer: Writer, path: Path, published: Any
) -> None:
    one = idle("ses_1")
    future = writer.submit(put("a"), [one])
    assert published == []
    future.add_done_callback(lambda _: published.append("resolved"))
    assert await future == 1
    assert published[0] == one
    other = sqlite3.connect(path)
    assert keys(other) == ["a"]
    other.close()


async def counted(writer: Writer) -> list[str]:
    """The COMMITs of the writer from now on."""
    commits: list[str] = []
    connections: list[sqlite3.Connection] = []
    await writer.submit(connections.append)
    connections[0].set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    return commits


async def test_what_is_submitted_in_one_round_of_the_loop_is_one_transaction(writer: Writer) -> None:
    commits = await counted(writer)
    await asyncio.gather(*[writer.submit(put(f"k{number:02}")) for number in range(20)])
    assert len(commits) == 1


async def test_what_waits_together_is_one_transaction(writer: Writer) -> None:
    commits = await counted(writer)
    gate = await hold(writer)
    futures = [writer.submit(put(f"k{number:02}")) for number in range(20)]
    gate.opened.set()
    await asyncio.gather(*futures)
    assert len(commits) == 2  # the gate's, and one for all twenty


async def test_what_is_only_told_in_between_parts_no_transaction(
    writer: Writer, published: list[Event]
) -> None:
    gate = await hold(writer)
    made: list[str] = []

    def noted(key: str) -> Work:
        def work(connection: sqlite3.Connection) -> None:
            made.append(key)
            put(key)(connection)

        return work

    first = writer.submit(noted("a"))
    writer.publish(idle("ses_a"))
    second = writer.submit(noted("b"), [idle("ses_b")])
    gate.opened.set()
    await asyncio.gather(first, second)
    # A transaction that fails is done again, each commit in one of its own.
    assert made == ["a", "b"]
    assert [event.session_id for event in published] == ["ses_a", "ses_b"]


async def test_one_bad_commit_fails_alone_and_announces_nothing(
    writer: Writer, published: list[Event]
) -> None:
    gate = await hold(writer)
    events = [idle(f"ses_{number}") for number in range(5)]
    futures = [
        writer.submit(put(key), [one]) for key, one in zip(["a", "b", "a", "c", "b"], events, strict=True)
    ]
    gate.opened.set()
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert [isinstance(result, StoreError) for result in results] == [False, False, True, False, True]
    assert published == [events[0], events[1], events[3]]
    assert await writer.submit(keys) == ["a", "b", "c"]


async def test_half_of_a_failed_commit_is_not_written(writer: Writer) -> None:
    def half(connection: sqlite3.Connection) -> None:
        put("half")(connection)
        connection.execute("INSERT INTO nowhere VALUES (1)")

    with pytest.raises(StoreError, match="no such table"):
        await writer.submit(half)
    assert await writer.submit(keys) == []


async def test_an_error_that_is_not_sqlites_reaches_the_caller_and_the_writer_goes_on(writer: Writer) -> None:
    def odd(connection: sqlite3.Connection) -> None:
        put("odd")(connection)
        raise KeyError("odd")

    with pytest.raises(KeyError):
        await writer.submit(odd)
    assert await writer.submit(keys) == []


async def test_events_are_announced_on_the_loops_thread_in_the_order_of_the_commits(path: Path) -> None:
    heard: list[tuple[str | None, bool]] = []
    loop_thread = threading.get_ident()
    made = Writer(
        SqliteFile(path),
        lambda event: heard.append((event.session_id, threading.get_ident() == loop_thread)),
    )
    await made.start()
    await asyncio.gather(*(made.submit(put(f"{n}"), [idle(f"{n}"), idle(f"{n}b")]) for n in range(300)))
    assert heard == [(f"{n}{tail}", True) for n in range(300) for tail in ("", "b")]
    await made.close()


async def test_a_subscriber_that_raises_keeps_nobody_from_hearing(path: Path) -> None:
    heard: list[str] = []
    reported: list[dict[str, Any]] = []

    def publish(event: Event) -> None:
        if event.session_id == "bad":
            raise ValueError("subscriber")
        heard.append(str(event.session_id))

    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    made = Writer(SqliteFile(path), publish)
    await made.start()
    assert await made.submit(put("a"), [idle("bad"), idle("good")]) == 1
    assert heard == ["good"]
    assert "publishing session.idle failed" in reported[0]["message"]
    await made.close()


async def test_a_caller_that_gave_up_does_not_undo_its_commit(writer: Writer, published: list[Event]) -> None:
    gate = await hold(writer)
    future = writer.submit(put("a"), [idle("ses_1")])
    future.cancel()
    gate.opened.set()
    assert await writer.submit(keys) == ["a"]
    assert len(published) == 1


async def test_closing_finishes_what_was_submitted_and_then_refuses(writer: Writer, path: Path) -> None:
    futures = [writer.submit(put(f"{n}")) for n in range(50)]
    await writer.close()
    await writer.close()
    assert all(future.result() == 1 for future in futures)
    with pytest.raises(StoreError, match="the store is closed"):
        writer.submit(keys)
    other = sqlite3.connect(path)
    assert len(keys(other)) == 50
    other.close()


async def test_a_writer_that_cannot_open_says_why(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match="unable to open"):
        await Writer(SqliteFile(path), lambda event: None).start()


async def test_a_file_that_another_process_holds_is_an_error_for_all_who_wait(
    writer: Writer, path: Path
) -> None:
    connections: list[sqlite3.Connection] = []
    await writer.submit(connections.append)
    await writer.submit(lambda connection: None)
    gate = await hold(writer)
    futures = [writer.submit(put(f"{n}")) for n in range(3)]
    connections[0].execute("PRAGMA busy_timeout = 20")
    gate.opened.set()
    await asyncio.gather(*futures)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    results = await asyncio.gather(*(writer.submit(put(f"x{n}")) for n in range(3)), return_exceptions=True)
    assert all("another program is writing" in str(result) for result in results)
    other.execute("ROLLBACK")
    other.close()
    assert await writer.submit(put("after")) == 1


async def test_a_reader_sees_what_was_committed_and_one_state_throughout(writer: Writer, path: Path) -> None:
    readers = Readers(SqliteFile(path))
    await writer.submit(put("a"))
    assert await readers.submit(keys) == ["a"]
    reading, written = threading.Event(), threading.Event()

    def twice(connection: sqlite3.Connection) -> list[list[str]]:
        first = keys(connection)
        reading.set()
        written.wait()
        return [first, keys(connection)]

    future = readers.submit(twice)
    await asyncio.to_thread(reading.wait)
    await writer.submit(put("b"))  # a reader does not hold up the writer
    written.set()
    assert await future == [["a"], ["a"]]
    assert await readers.submit(keys) == ["a", "b"]
    readers.close()


async def test_a_reader_outlives_a_read_that_fails(writer: Writer, path: Path) -> None:
    readers = Readers(SqliteFile(path))
    for _ in range(4):
        with pytest.raises(StoreError, match="no such table"):
            await readers.submit(lambda connection: connection.execute("SELECT * FROM nowhere"))
    assert await readers.submit(keys) == []
    readers.close()
    with pytest.raises(StoreError, match="the store is closed"):
        readers.submit(keys)


async def test_what_is_not_kept_is_told_at_once_or_after_what_was_submitted_before_it(
    writer: Writer, published: list[Event]
) -> None:
    first, then, last = idle("ses_1"), idle("ses_2"), idle("ses_3")
    writer.publish(first)
    assert published == [first]
    gate = await hold(writer)
    kept = writer.submit(put("a"), (then,))
    writer.publish(last)
    assert published == [first]
    gate.opened.set()
    await kept
    assert published == [first, then, last]


async def test_what_is_not_kept_is_told_while_the_writer_closes(
    writer: Writer, published: list[Event]
) -> None:
    gate = await hold(writer)
    closing = asyncio.create_task(writer.close())
    await asyncio.sleep(0)
    writer.publish(idle("ses_1"))
    assert len(published) == 1
    gate.opened.set()
    await closing


async def test_words_that_are_told_alone_write_nothing(writer: Writer, published: list[Event]) -> None:
    connections: list[sqlite3.Connection] = []
    await writer.submit(connections.append)
    statements: list[str] = []
    connections[0].set_trace_callback(statements.append)
    await writer.submit(None, (idle("ses_1"),))
    assert len(published) == 1
    assert statements == []


def test_a_near_row_is_read_at_once_and_what_another_process_locks_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "near.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE t (a)")
    near = Near(SqliteFile(path))
    assert near.read(lambda connection: connection.execute("SELECT count(*) FROM t").fetchall()) == [(0,)]
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(BlockingIOError):
        near.read(lambda connection: connection.execute("SELECT * FROM t").fetchall())
    other.execute("ROLLBACK")
    with pytest.raises(StoreError, match="no such table"):
        near.read(lambda connection: connection.execute("SELECT * FROM u").fetchall())
    near.close()
    with pytest.raises(StoreError, match="the store is closed"):
        near.read(lambda connection: None)
    other.close()
