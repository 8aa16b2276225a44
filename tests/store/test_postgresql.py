"""What is a PostgreSQL server's alone; the other tests of the store run on one too, by `make test-cluster`."""

import asyncio
import json
import re
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.postgresql import cluster
from tests.store.conftest import Make
from tests.turn import house
from tests.waiting import PATIENCE, until

from instar.event import Event, SessionIdle, SessionUpdated
from instar.event import make as announced
from instar.store import PutProject, PutSession, PutValue, StoreError
from instar.store.database import SQL, SqlConnection, statements
from instar.store.postgresql import Connections, PostgresConnection
from instar.store.sqlite import ADDS, migrations
from instar.store.store import Store, open_store
from instar.testing import Machine, results

__all__ = ["house"]


@pytest.fixture
def url() -> str:
    return cluster().database()


@pytest.fixture
async def stores(url: str) -> AsyncIterator[list[Store]]:
    """Three processes' stores on one database, opened at once."""
    opened = await asyncio.gather(*(open_store(url, lambda event: None) for _ in range(3)))
    await opened[0].commit([PutProject("global", "/", None, 1)])
    yield opened
    await asyncio.gather(*(store.close() for store in opened))


async def refused(url: str) -> str:
    with pytest.raises(StoreError) as caught:
        await open_store(url, lambda event: None)
    return str(caught.value)


def run(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        done = connection.execute(statement)  # type: ignore[arg-type]
        return done.fetchall() if done.description else []


async def test_another_programs_tables_are_left_alone(url: str) -> None:
    run(url, "CREATE TABLE session (id int)")
    assert "another program has tables there (session); nothing was changed" in await refused(url)
    assert run(url, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()") == [("session",)]


async def test_a_newer_instars_database_is_refused_with_both_versions(url: str) -> None:
    await (await open_store(url, lambda event: None)).close()
    run(url, "INSERT INTO instar_migration VALUES (77, 'later', 'c', '9.8.7', 0)")
    assert "written by instar 9.8.7 (schema 77), and this is instar" in await refused(url)


async def test_a_newer_instars_database_to_which_it_only_added_something_is_used(url: str) -> None:
    await (await open_store(url, lambda event: None)).close()
    run(url, "INSERT INTO instar_migration VALUES (77, 'add_later', 'c', '9.8.7', 0)")
    run(url, "ALTER TABLE instar_value ADD COLUMN later text")
    store = await open_store(url, lambda event: None)
    await store.commit([PutValue("p", "k", 1)])
    assert await store.values("p") == {"k": 1}
    await store.close()


@pytest.mark.parametrize("folder", [SQL, SQL / "postgresql"])
def test_a_step_that_is_said_to_add_does_nothing_else(folder: Path) -> None:
    adds = re.compile(
        r"CREATE (UNLOGGED )?TABLE|CREATE INDEX|ALTER TABLE \w+ ADD COLUMN (?!.*NOT NULL(?! DEFAULT))"
    )
    for step in migrations(folder):
        if step.name.startswith(ADDS):
            lines = "\n".join(line for line in step.sql.splitlines() if not line.startswith("--"))
            for statement in filter(None, map(str.strip, lines.split(";"))):
                assert adds.match(statement), f"{step.name}: {statement}"


async def test_a_process_that_holds_the_lock_holds_nobody_up_for_ever(url: str) -> None:
    stopped = PostgresConnection(Connections(url))
    store = await open_store(url, lambda event: None)
    stopped.begin(writes=True)
    stopped.run("last_place")
    with pytest.raises(StoreError, match="another instar holds the database for longer than five seconds"):
        await store.commit([PutValue("p", "k", 1)])
    stopped.close()
    await store.commit([PutValue("p", "k", 1)])
    await store.close()


@pytest.mark.parametrize("place", ["host=/nowhere&user=u&password=hush", "user=u&password=hush"])
async def test_a_server_that_is_not_there_is_said_without_its_password(place: str) -> None:
    said = await refused(f"postgresql://someone:secret@localhost:1/base?{place}")
    assert said.startswith("postgresql://localhost:1/base: ")
    assert "make sure that the server runs and can be reached" in said
    assert "secret" not in said
    assert "hush" not in said


async def test_a_reader_of_all_events_misses_none_of_those_that_several_processes_write(
    stores: list[Store], make: Make
) -> None:
    written: list[Event] = []
    heard: list[str] = []

    async def write(store: Store) -> None:
        session = make.session()
        for number in range(100):
            session.title = str(number)
            event = announced(SessionUpdated(session_id=session.id, info=session))
            written.append(event)
            await store.commit([PutSession(session)], [event])

    async def read() -> bool:
        last = 0 if not heard else heard[-1]
        heard.extend(one.event_id for one in await stores[2].events_after(last))
        return len(heard) == 200

    await asyncio.gather(write(stores[0]), write(stores[1]), until(read))
    assert sorted(heard) == sorted(event.id for event in written)


async def test_a_store_works_again_once_its_server_is_back(url: str) -> None:
    store = await open_store(url, lambda event: None)
    await store.commit([PutValue("p", "before", 1)])
    await asyncio.to_thread(cluster().stop, "fast")
    with pytest.raises(StoreError, match="make sure that the server runs"):
        await store.commit([PutValue("p", "lost", 1)])
    with pytest.raises(StoreError, match="make sure that the server runs"):
        await store.values("p")
    await asyncio.to_thread(cluster().start)
    await store.commit([PutValue("p", "after", 1)])
    assert await store.values("p") == {"after": 1, "before": 1}
    await store.close()


async def test_the_stores_of_one_process_share_a_few_connections(url: str) -> None:
    stores = [await open_store(url, lambda event: None) for _ in range(12)]
    most = 0
    for number in range(5):
        asked = [store.values("p") for store in stores]
        written = [store.commit([PutValue("p", f"k{index}", number)]) for index, store in enumerate(stores)]
        await asyncio.gather(*asked, *written)
        most = max(most, len(run(url, OURS)))
    assert 1 <= most <= 8
    assert len(await stores[0].values("p")) == 12
    for store in stores:
        await store.close()
    assert await until(lambda: asyncio.to_thread(lambda: not run(url, OURS)))


OURS = """SELECT pid FROM pg_stat_activity WHERE application_name = 'instar' AND pid <> pg_backend_pid()"""


async def test_what_is_only_passed_on_waits_for_a_commit(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instar.store.writer._LINGER", 60)
    store = await open_store(url, lambda event: None)
    # With the first one what is old is deleted, which is waited for.
    store.publish(announced(SessionIdle(session_id="ses_1")))
    await store.settled()
    for _ in range(10):
        store.publish(announced(SessionIdle(session_id="ses_1")))
        await asyncio.sleep(0)
    await asyncio.wait_for(store.commit([PutValue("p", "k", 1)]), PATIENCE)
    rows = "SELECT xmin FROM instar_relay OFFSET 1"
    assert run(url, f"SELECT count(*) FROM ({rows}) a JOIN instar_value v ON v.xmin = a.xmin") == [(10,)]
    await store.close()


async def test_a_connection_that_was_cut_while_nobody_used_it_is_not_noticed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What was used just now is not tried before it is used again.
    monkeypatch.setattr("instar.store.postgresql._IDLE", 0)
    store = await open_store(url, lambda event: None)
    await store.commit([PutValue("p", "k", 1)])
    await store.values("p")
    run(url, CUT)
    assert await store.values("p") == {"k": 1}
    await store.commit([PutValue("p", "k", 2)])
    await store.close()


async def test_a_statement_that_failed_works_again_once_its_reason_is_gone(url: str) -> None:
    store = await open_store(url, lambda event: None)
    run(url, "ALTER TABLE instar_value RENAME TO gone")
    # Some are prepared at the server when they have been asked for a few times.
    for _ in range(12):
        with pytest.raises(StoreError, match="does not exist"):
            await store.values("p")
        with pytest.raises(StoreError, match="does not exist"):
            await store.commit([PutValue("p", "lost", 1)])
    run(url, "ALTER TABLE gone RENAME TO instar_value")
    for number in range(4):
        await store.commit([PutValue("p", "k", number)])
        assert await store.values("p") == {"k": number}
    await store.close()


CUT = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND query NOT LIKE 'LISTEN%'"""


async def test_a_connection_that_is_cut_at_the_end_of_a_transaction_is_made_anew(url: str) -> None:
    store = await open_store(url, lambda event: None)
    await store.commit([PutValue("p", "k", 1)])

    def question(connection: SqlConnection) -> list[Any]:
        # The last answer is there before the cut: what ends the transaction is the first to notice.
        found = connection.execute("SELECT id FROM project").fetchall()
        run(url, CUT)
        return list(found)

    # More often than there are threads that read.
    for _ in range(4):
        assert await asyncio.wait_for(store.ask(question), PATIENCE) == []
    assert await asyncio.wait_for(store.values("p"), PATIENCE) == {"k": 1}
    await store.close()


async def test_no_statement_of_a_turn_reads_a_whole_table(url: str) -> None:
    store = await open_store(url, lambda event: None)
    await store.commit([PutProject(f"p{number}", "/", None, 1) for number in range(200)])
    await store.close()
    for statement in FILLED:
        run(url, statement)
    run(url, "ANALYZE")
    connection = PostgresConnection(Connections(url))
    connection.begin(writes=False)
    for name, statement in statements("postgresql").items():
        if (
            name in WHOLE
            or name == "enqueue_task"
            or not statement.upper().startswith(("SELECT", "(SELECT", "UPDATE", "DELETE", "INSERT", "WITH"))
        ):
            continue
        plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {statement}", _asked(statement)))
        assert "Seq Scan" not in plan, f"{name}\n{plan}"
    connection.close()


def _asked(statement: str) -> dict[str, Any] | tuple[Any, ...]:
    """Parameters of the kind that a statement takes; a number is one also where a text is wanted."""
    names = re.findall(r"(?<!:):([a-z_]+)", statement)
    if names:
        return {name: _OF.get(name, "1") for name in names}
    numbers = [int(number) for number in re.findall(r"\?(\d)", statement)]
    return ("1",) * max(numbers or [statement.count("?")])


_OF: dict[str, Any] = {"archived": False, "project_id": None, "directory": "/1", "parent_id": None}

FILLED = (
    """INSERT INTO session (id, project_id, slug, directory, title, version, time_created, time_updated)
SELECT 's' || n, 'p' || n % 200, 's', '/' || n, 't', '1', n, n FROM generate_series(1, 100000) n""",
    "INSERT INTO message SELECT 'm' || n, 's' || n, n, n, '{}' FROM generate_series(1, 100000) n",
    "INSERT INTO part SELECT 'r' || n, 'm' || n, 's' || n, n, n, '{}' FROM generate_series(1, 100000) n",
    "INSERT INTO event_sequence SELECT 's' || n, 1 FROM generate_series(1, 100000) n",
    """INSERT INTO event (id, aggregate_id, seq, type, data)
SELECT 'e' || n, 's' || n, 1, 'session.updated.1', '{}' FROM generate_series(1, 100000) n""",
    """INSERT INTO instar_relay (id, session_id, type, data, directory, project_id, time_created)
SELECT 'e' || n, 's' || n, 'session.idle.1', '{}', '/', 'p', n FROM generate_series(1, 10000) n""",
    """INSERT INTO instar_follow_up (id, session_id, source, prompt, time_created)
SELECT 'f' || n, 's' || n, 'person', '{}', n FROM generate_series(1, 10000) n""",
    "INSERT INTO instar_leftover SELECT 's' || n, '{}' FROM generate_series(1, 10000) n",
    """INSERT INTO instar_ask (id, session_id, properties)
SELECT 'a' || n, 's' || n, '{}' FROM generate_series(1, 10000) n""",
    "INSERT INTO instar_value SELECT 'p' || n, 'k', '1' FROM generate_series(1, 10000) n",
    "INSERT INTO instar_lease SELECT 's' || n, 'me', 1, 1 FROM generate_series(1, 100000) n",
    "INSERT INTO instar_origin SELECT 'm' || n, 's' || n, '{}' FROM generate_series(1, 100000) n",
    "INSERT INTO instar_spent SELECT 'session', 's' || n, 0, 1, 1, 1, 0 FROM generate_series(1, 100000) n",
    """INSERT INTO instar_reserved
SELECT 'session', 's' || n, 'c' || n, 1, 1, 0, n FROM generate_series(1, 10000) n""",
    """INSERT INTO instar_usage (session_id, cause, provider_id, model_id, tokens_input, tokens_output,
  tokens_reasoning, tokens_cache_read, tokens_cache_write, time_created)
SELECT 's' || n, 'turn', 'p', 'm', 1, 1, 1, 1, 1, n FROM generate_series(1, 100000) n""",
    """INSERT INTO todo SELECT 's' || n, 'c', 'pending', 'high', 0, 1, 1 FROM generate_series(1, 10000) n""",
    """INSERT INTO permission (id, project_id, action, resource, time_created, time_updated)
SELECT 'q' || n, 'p' || n % 200, 'bash', 'r' || n, 1, 1 FROM generate_series(1, 10000) n""",
)
"""A hundred thousand sessions with what belongs to them."""

WHOLE = {
    "projects",
    "saying",
    "usage",
    "schema",
    "waiting",
    "stops",
    "drop_stops",
    "trust_ids",
    "trust_order",
    "drop_trust",
}
"""What a person asks about everything: the list of projects, a search, the statistics, all that waits.

Of stops there is a row or two for each folder that was ever stopped, of trust for each that was ever decided on.
"""


REACHES = """
import socket, sys
for path in sys.argv[1:]:
    try:
        if path.endswith(".pgpass"):
            print(open(path).read())
        else:
            socket.socket(socket.AF_UNIX).connect(path)
            print("answered")
    except OSError as error:
        print("refused")
"""


@pytest.mark.parametrize(("level", "finds"), [("bubblewrap", ["refused"] * 2), ("landlock", ["refused"])])
async def test_what_the_model_runs_does_not_find_the_way_to_the_database(
    house: Machine, url: str, level: str, finds: list[str]
) -> None:
    """What is allowed for always stands there."""
    home = Path(house.environment["HOME"])
    (home / ".pgpass").write_text("host:port:db:user:hush")
    house.environment["INSTAR_DATABASE"] = url
    house.settings(shield={"level": level}, permission={"*": "allow"})
    places = [str(home / ".pgpass"), str(cluster().folder / ".s.PGSQL.5432")]
    command = shlex.join([sys.executable, str(house.write("reaches.py", REACHES)), *places[: len(finds)]])
    house.says(f"== turn\ntool: bash {json.dumps({'command': command})}\n== turn\ntext: done\n")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    assert results(await door.stored(session))[0].split() == finds


async def test_a_file_of_passwords_that_nobody_made_becomes_no_folder(house: Machine, url: str) -> None:
    """The server's client would say at each connection that it cannot read it."""
    house.environment["INSTAR_DATABASE"] = url
    house.settings(shield={"level": "bubblewrap"}, permission={"*": "allow"})
    house.says('== turn\ntool: bash {"command": "cat ~/.pgpass || echo refused"}\n== turn\ntext: done\n')
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    assert "refused" in results(await door.stored(session))[0]
    assert not (Path(house.environment["HOME"]) / ".pgpass").is_dir()


@pytest.mark.parametrize(("said", "lasts"), [("", 10_000), ("1.5", 1500), ("3600", 3_600_000)])
async def test_a_lease_lasts_as_long_as_the_server_says(said: str, lasts: int) -> None:
    store = await open_store(_with(said), lambda event: None)
    assert store.lease_ms == lasts
    await store.close()


@pytest.mark.parametrize("said", ["0.9", "3601", "soon", "nan", "1e999"])
async def test_a_lease_that_cannot_be_is_refused(said: str) -> None:
    with pytest.raises(
        StoreError, match=f"instar.lease_seconds is a number from 1 to 3600, and not '{said}'"
    ):
        await open_store(_with(said), lambda event: None)


def _with(seconds: str) -> str:
    return f"{cluster().database()}%20-cinstar.lease_seconds%3D{seconds}"
