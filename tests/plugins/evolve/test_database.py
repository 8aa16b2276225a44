"""The database of a workspace: several processes, damage, and what the version before kept in files."""

import json
import multiprocessing
import shutil
import sqlite3
import zlib
from pathlib import Path

import msgspec
import pytest
from tests.plugins.evolve.living import bot, discover, living, workspace

from instar.plugins.evolve.database import FILE, LOST, Database
from instar.plugins.evolve.gate.authority import Authority
from instar.plugins.evolve.gate.pending import Listing, Pending, Proposal
from instar.plugins.evolve.gate.record import HookCallRecord, Records
from instar.plugins.evolve.grants import ScriptGrants
from instar.plugins.evolve.heartbeat.book import HeartbeatBook
from instar.plugins.evolve.history.audit_log import AuditEntry, AuditLog
from instar.plugins.evolve.history.pins import Pins
from instar.plugins.evolve.takeover import take_over


@pytest.fixture
def database(tmp_path):
    return Database(tmp_path / "data", durable=False)


def add(folder, name):
    database = Database(folder)
    for number in range(50):
        row = (f"{name} {number}", b"1")
        database.change(lambda connection, row=row: connection.execute("INSERT INTO note VALUES (?, ?)", row))


@pytest.mark.slow
def test_processes_that_begin_and_write_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=add, args=(tmp_path / "data", name)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert Database(tmp_path / "data").rows("SELECT count(*) FROM note") == [(150,)]


def test_what_a_change_raises_undoes_all_of_it(database):
    def fails(connection):
        connection.execute("INSERT INTO note VALUES ('a', x'31')")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        database.change(fails)
    assert database.note("a") is None


def test_a_file_that_was_taken_away_or_replaced_is_not_written_to_any_more(database, tmp_path):
    database.keep("a", b"1")
    other = Database(tmp_path / "other")
    other.keep("a", b"2")
    other.close()
    for ending in ("-wal", "-shm"):
        database.path.with_name(f"{FILE}{ending}").unlink()
    other.path.replace(database.path)
    assert database.note("a") == b"2"
    database.path.unlink()
    assert database.note("a") is None


def spoil(database, *, page=None):
    """Overwrite a page of the closed file; without one its beginning."""
    database.close()
    with sqlite3.connect(database.path) as found:
        found.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with database.path.open("r+b") as file:
        file.seek(0 if page is None else (page - 1) * 4096)
        file.write(b"\xff" * 4096)


def root_page(database, table):
    ((page,),) = database.rows("SELECT rootpage FROM sqlite_master WHERE name = ?", table)
    return page


def test_a_damaged_page_costs_its_table_and_the_file_is_set_aside_and_named(database, caplog):
    ScriptGrants(database).settle("bot.sh", Authority("shield"))
    database.change(lambda connection: connection.execute("INSERT INTO beat VALUES (1, x'31')"))
    page = root_page(database, "beat")
    spoil(database, page=page)
    again = Database(database.folder)
    assert again.rows("SELECT * FROM beat") == []
    assert ScriptGrants(again).of("bot.sh").grant == Authority("shield")
    assert again.doubt() == ""
    assert "was damaged" in caplog.text
    (notice,) = again.notices
    assert "set aside as evolve.db.broken-1; lost in part: beat" in notice
    assert (database.folder / "evolve.db.broken-1").exists()


@pytest.mark.parametrize("table", ["granted", "pin", "note", "pending", None])
def test_where_what_restricts_the_agent_may_be_lost_nothing_is_granted_until_a_person_has_looked(
    database, table
):
    Pins(database).add("hooks/a.sh")
    page = None if table is None else root_page(database, table)
    spoil(database, page=page)
    again = Database(database.folder)
    grants = ScriptGrants(again)
    # Damage is found by who meets it.
    again.rows(f"SELECT * FROM {table or 'note'}")
    with pytest.raises(OSError, match=r"evolve\.db was damaged"):
        grants.of("bot.sh")
    assert "evolve.db.broken-1" in Database(database.folder).doubt()
    again.keep(LOST, b'""')
    assert grants.of("bot.sh") is None
    assert again.doubt() == ""


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("thing", ["folder", "link"])
def test_what_stands_in_a_files_place_is_put_aside_and_never_followed(database, tmp_path, ending, thing):
    database.keep("a", b"1")
    database.close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    path = database.path.with_name(f"{FILE}{ending}")
    path.unlink(missing_ok=True)
    if thing == "folder":
        path.mkdir()
    else:
        path.symlink_to(elsewhere)
    again = Database(database.folder)
    assert again.note("a") == (None if ending == "" else b"1")
    assert "something else stands" in again.doubt()
    assert elsewhere.read_text() == "precious"
    assert len(list(database.folder.glob("*.broken-1*"))) == (1 if ending == "" else 2)


def test_a_database_of_a_newer_version_is_left_as_it_is_and_named(database):
    database.change(
        lambda connection: connection.execute(
            "UPDATE instar_migration SET version = 99, instar = '9.9' WHERE version = 2"
        )
    )
    again = Database(database.folder)
    with pytest.raises(OSError, match=r"evolve\.db: written by instar 9\.9"):
        again.note("a")
    assert "9.9" in again.doubt()
    assert not list(database.folder.glob("*.broken*"))


@pytest.mark.slow
async def test_a_workspace_whose_database_is_lost_runs_at_its_accepted_version_and_changes_nothing(tmp_path):
    root = workspace(tmp_path / "ws")
    async with living(root) as live:
        await live.write(bot("# one", discover=discover(sandbox={"write": ["state"]})))
    live.engine.storage.database.path.write_bytes(b"nonsense" * 1000)
    async with living(root, values=live.values) as again:
        assert await again.said("bot_greet") == "hello"
        said = await again.refused(bot("# two", discover=discover(sandbox={"write": ["state"]})))
        assert "changes are frozen: " in said
        assert "evolve.db.broken-1" in said
        assert "instar evolve thaw" in said
        assert (
            await again.engine.policy.place("bot.sh", again.engine.version("hooks/bot.sh"), root, {})
        ).confine
        await again.engine.evolution.thaw()
        await again.write(bot("# two", discover=discover(sandbox={"write": ["state"]})))


# -- the version before ---------------------------------------------------------------------------------

GRANT = {"grant": {"hold": "shield"}, "own": "mine", "touched": True}
FROZEN, THAWED = {"kind": "frozen", "time": 1}, {"kind": "thawed", "time": 2}
RAN = {"kind": "ran", "number": 0, "at": 7}


def put_old(folder, **instead):
    """Write what the version before kept; return an entry that waited."""
    before = Pending(Database(folder.parent / "other", durable=False))
    entry = before.put(Proposal("hooks/bot.sh", "", "text", ("more",)))
    record = HookCallRecord(script="bot.sh", hook="idle", at=5, stdin=b"{}", duration=1)
    files = {
        "grants/grants.json": json.dumps({"bot.sh": GRANT}),
        f"pending/{entry.id}.json": msgspec.json.encode(entry).decode(),
        "pins/pins.json": json.dumps([{"file": "hooks/A.sh", "by": "ada", "time": 3}]),
        "owed/owed.json": json.dumps([{"files": ["a.md"], "message": "tool"}]),
        "notes/frozen.json": json.dumps({"why": "a holiday"}),
        "heartbeat/beats.jsonl": f'{{"state": {{"every": 5, "number": 1}}, "entries": [{json.dumps(RAN)}]}}\n'
        '{"state": {"every": 5, "number": 2}}\n{"sta',
        "chronicle/log.1.jsonl": json.dumps(FROZEN) + "\n",
        "chronicle/log.jsonl": json.dumps(THAWED) + "\n",
        "notices/queues": "sealed",
        **instead,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    call = folder / "records" / "bot.sh" / "idle" / "000000000000005-1-000000.call"
    call.parent.mkdir(parents=True)
    call.write_bytes(zlib.compress(msgspec.msgpack.encode(record)))
    return entry


async def test_what_the_version_before_kept_is_taken_over_once_and_told_in_one_line(tmp_path, caplog):
    folder = tmp_path / "data"
    entry = put_old(folder)
    database = Database(folder, take_over)
    assert ScriptGrants(database).held("bot.sh", "x").authority == Authority("shield")
    assert Pending(database).list() == Listing([entry], [])
    assert Pins(database).find("hooks/a.sh").by == "ada"
    assert database.note("frozen") == b'{"why": "a holiday"}'
    assert [one.kind for one in AuditLog(database).read().entries] == ["thawed", "frozen"]
    assert [one.kind for one in HeartbeatBook(database).entries()] == ["ran"]
    assert HeartbeatBook(database).state.number == 2
    assert database.rows("SELECT value FROM debt") == [(b'{"files": ["a.md"], "message": "tool"}',)]
    records = Records(database)
    assert [one.at for one in (await records.read()).records] == [5]
    await records.close()
    (said,) = database.notices
    assert said == (
        "taken over from the version before: grants, what waits for a person, pins, notes, audit log, owed commits, "
        "recorded calls, heartbeats, schedule; not: notices (sessions are told of later changes alone)"
    )
    assert said in caplog.text
    assert database.doubt() == ""
    assert (folder / "grants" / "grants.json.before").exists()
    assert (folder / "chronicle.before").is_dir()
    again = Database(folder, take_over)
    assert AuditLog(again).add(AuditEntry(kind="pinned")).kind == "pinned"
    assert [one.kind for one in AuditLog(again).read().entries] == ["pinned", "thawed", "frozen"]
    assert again.notices == []


def test_a_takeover_that_a_crash_cut_short_is_made_once(tmp_path):
    folder = tmp_path / "data"
    put_old(folder)
    shutil.copytree(folder, tmp_path / "kept")
    database = Database(folder, take_over)
    database.keep("a", b"1")
    # The rows are written, and the files not yet renamed.
    shutil.copytree(tmp_path / "kept", folder, dirs_exist_ok=True)
    for path in folder.rglob("*.before"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    database.close()
    again = Database(folder, take_over)
    assert len(AuditLog(again).read().entries) == 2
    assert again.rows("SELECT count(*) FROM beat") == [(1,)]


@pytest.mark.parametrize("name", ["grants/grants.json", "pins/pins.json", "notes/frozen.json"])
def test_an_old_file_that_restricts_the_agent_and_cannot_be_read_leaves_nothing_granted(tmp_path, name):
    put_old(tmp_path / "data", **{name: "{"})
    database = Database(tmp_path / "data", take_over)
    assert "of the version before could not be read" in database.doubt()
    (said,) = database.notices
    assert "; not: notices" not in said


def test_a_crash_while_a_damaged_file_is_set_aside_loses_no_row(tmp_path, monkeypatch):
    database = Database(tmp_path)
    database.keep("what a person said", b"1")
    database.close()
    (tmp_path / f"{FILE}-wal").mkdir()
    rename = Path.rename

    def killed(path, target):
        if path.name == f"{FILE}.new":
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            Database(tmp_path).note("what a person said")
    assert not (tmp_path / FILE).exists()
    assert Database(tmp_path).note("what a person said") == b"1"
