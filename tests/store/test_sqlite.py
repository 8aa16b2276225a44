import hashlib
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from instar import __version__
from instar.store import StoreError
from instar.store.database import statements
from instar.store.sqlite import Migration, connect, explain, migrations, prepare, read_migration
from instar.store.store import open_store

Sql = Callable[..., list[tuple[Any, ...]]]

CORE = {
    "project": "id worktree vcs name icon_url icon_url_override icon_color time_created time_updated "
    "time_initialized sandboxes commands",
    "session": "id project_id workspace_id parent_id slug directory path title version share_url summary_additions "
    "summary_deletions summary_files summary_diffs metadata cost tokens_input tokens_output tokens_reasoning "
    "tokens_cache_read tokens_cache_write revert permission agent model time_created time_updated time_compacting "
    "time_archived",
    "message": "id session_id time_created time_updated data",
    "part": "id message_id session_id time_created time_updated data",
    "todo": "session_id content status priority position time_created time_updated",
    "permission": "id project_id action resource time_created time_updated",
    "event": "id aggregate_id seq type data",
    "event_sequence": "aggregate_id seq owner_id",
    "workspace": "id type name branch directory extra project_id time_used",
}
"""The columns of opencode 1.18's core tables, in order."""


@pytest.fixture
def where(path: Path) -> Path:
    """Here it is about files."""
    return path


def make(path: Path, steps: tuple[Migration, ...] | None = None) -> sqlite3.Connection:
    return prepare(path, "NORMAL", migrations() if steps is None else steps)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder that this process may read and not write, also when a superuser runs the tests."""
    folder = Path(tempfile.mkdtemp(prefix="instar-closed-"))
    make(folder / "instar.db").close()
    (folder / "instar.db").chmod(0o444)
    folder.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)
        yield folder
        os.seteuid(0)
    else:
        yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("table", CORE)
def test_a_table_of_opencode_has_opencodes_columns(path: Path, table: str, sql: Sql) -> None:
    make(path).close()
    assert [row[1] for row in sql(f"PRAGMA table_info({table})")] == CORE[table].split()


def test_every_other_table_bears_our_prefix(path: Path, sql: Sql) -> None:
    make(path).close()
    names = {row[0] for row in sql("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {name for name in names - set(CORE) if not name.startswith("instar_")} == set()


def test_the_references_between_tables_are_opencodes(path: Path, sql: Sql) -> None:
    make(path).close()
    found = {
        (table, row[3], row[2], row[4], row[6])
        for table in CORE
        for row in sql(f"PRAGMA foreign_key_list({table})")
    }
    assert found == {
        ("session", "project_id", "project", "id", "CASCADE"),
        ("message", "session_id", "session", "id", "CASCADE"),
        ("part", "message_id", "message", "id", "CASCADE"),
        ("todo", "session_id", "session", "id", "CASCADE"),
        ("permission", "project_id", "project", "id", "CASCADE"),
        ("event", "aggregate_id", "event_sequence", "aggregate_id", "CASCADE"),
        ("workspace", "project_id", "project", "id", "CASCADE"),
    }


def test_the_indexes_are_opencodes(path: Path, sql: Sql) -> None:
    make(path).close()
    found = {row[0] for row in sql("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")}
    assert {name for name in found if not name.startswith("instar_")} == {
        "event_aggregate_seq_idx", "event_aggregate_type_seq_idx", "message_session_time_created_id_idx",
        "part_message_id_id_idx", "part_session_idx", "permission_project_action_resource_idx", "session_parent_idx",
        "session_project_idx", "session_workspace_idx", "todo_session_idx",
    }  # fmt: skip


def test_migrations_are_numbered_from_one_without_gaps_and_recorded(path: Path, sql: Sql) -> None:
    make(path).close()
    steps = migrations()
    assert [step.version for step in steps] == list(range(1, len(steps) + 1))
    recorded = sql("SELECT version, name, checksum, instar FROM instar_migration ORDER BY version")
    assert recorded == [(step.version, step.name, step.checksum, __version__) for step in steps]
    assert all(len(step.checksum) == 64 for step in steps)


def test_every_statement_is_one_that_the_schema_understands(path: Path) -> None:
    connection = make(path)
    for name, statement in statements().items():
        named = dict.fromkeys(re.findall(r":(\w+)", statement))
        numbered = max([int(number) for number in re.findall(r"\?(\d)", statement)] or [statement.count("?")])
        assert connection.execute("EXPLAIN " + statement, named or [None] * numbered).fetchall(), name
    connection.close()


def test_the_connection_has_the_settings_of_the_design(path: Path) -> None:
    connection = make(path)
    settings = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in (
        "journal_mode", "synchronous", "foreign_keys", "busy_timeout")}  # fmt: skip
    assert settings == {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "busy_timeout": 5000}
    connection.close()
    full = prepare(path, "FULL", migrations())
    assert full.execute("PRAGMA synchronous").fetchone() == (2,)
    full.close()


def test_only_its_owner_reads_the_file(path: Path) -> None:
    make(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_opening_again_changes_nothing(path: Path) -> None:
    make(path).close()
    before = digest(path)
    make(path).close()
    assert digest(path) == before


def test_a_new_step_is_applied_to_what_is_there(path: Path, tmp_path: Path, sql: Sql) -> None:
    make(path).close()
    sql(
        "INSERT INTO project (id, worktree, time_created, time_updated, sandboxes) VALUES ('p', '/', 1, 1, '[]')"
    )
    file = tmp_path / "0099_more.sql"
    file.write_text(
        "-- a comment; with a semicolon\nCREATE TABLE instar_more (a text);\nUPDATE project SET name = 'x;y';\n"
    )
    make(path, (*migrations(), read_migration(file))).close()
    assert sql("SELECT name FROM project") == [("x;y",)]
    assert sql("SELECT max(version) FROM instar_migration") == [(99,)]


def test_a_step_that_fails_leaves_nothing_of_itself(path: Path, tmp_path: Path, sql: Sql) -> None:
    make(path).close()
    file = tmp_path / "0099_bad.sql"
    file.write_text("CREATE TABLE instar_more (a text);\nINSERT INTO nowhere VALUES (1);\n")
    with pytest.raises(StoreError, match="no such table: nowhere"):
        make(path, (*migrations(), read_migration(file)))
    assert sql("SELECT name FROM sqlite_master WHERE name = 'instar_more'") == []
    assert sql("SELECT max(version) FROM instar_migration") == [(len(migrations()),)]
    make(path).close()


async def refused(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        await open_store(path, lambda event: None)
    assert str(path) in str(caught.value)
    return str(caught.value)


async def test_a_newer_instars_database_is_refused_with_both_versions_and_left_alone(
    path: Path, sql: Sql
) -> None:
    make(path).close()
    sql("INSERT INTO instar_migration VALUES (77, 'later', 'c', '9.8.7', 1)")
    before = digest(path)
    text = await refused(path)
    assert "written by instar 9.8.7 (schema 77)" in text
    assert f"this is instar {__version__} (schema {len(migrations())})" in text
    assert digest(path) == before
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]


async def test_a_database_whose_steps_differ_from_ours_is_refused_and_left_alone(
    path: Path, sql: Sql
) -> None:
    make(path).close()
    sql("UPDATE instar_migration SET checksum = 'other' WHERE version = 1")
    before = digest(path)
    assert "0001_opencode was applied to it in another form" in await refused(path)
    assert digest(path) == before


async def test_another_programs_database_is_refused_and_left_alone(path: Path, sql: Sql) -> None:
    path.parent.mkdir()
    sql("CREATE TABLE session (id text)")
    before = digest(path)
    assert "another program's database" in await refused(path)
    assert digest(path) == before


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("# my notes\n" * 200)
    before = digest(path)
    assert "file is not a database: move the file away" in await refused(path)
    assert digest(path) == before


async def test_a_damaged_database_is_refused_with_what_to_do(path: Path) -> None:
    make(path).close()
    data = bytearray(path.read_bytes())
    data[100:4096] = b"\xff" * 3996
    path.write_bytes(data)
    assert "keep a copy" in await refused(path)


@pytest.mark.parametrize("name", ["instar.db", "other.db", "deeper/instar.db"])
async def test_a_place_that_cannot_be_written_to_is_refused_with_what_to_do(
    closed_folder: Path, name: str
) -> None:
    assert "make the file and its folder writable, or name another data folder" in await refused(
        closed_folder / name
    )


@pytest.mark.parametrize("kind", ["folder", "file in the way"])
async def test_a_path_that_cannot_be_a_database_is_refused(path: Path, kind: str) -> None:
    if kind == "folder":
        path.mkdir(parents=True)
    else:
        path.parent.write_text("")
    said = await refused(path)
    assert "Errno" not in said
    if kind == "file in the way":
        assert f"{path.parent} is a file, and a folder is needed there: move it away" in said


@pytest.mark.slow
def test_processes_that_open_a_new_database_at_once_all_succeed(path: Path, sql: Sql) -> None:
    script = (
        "import sys; from pathlib import Path; from instar.store.sqlite import prepare, migrations\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "prepare(Path(sys.argv[1]), 'NORMAL', migrations()).close()\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    children = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [(child.communicate()[1], child.returncode) for child in children] == [("", 0)] * 4
    assert sql("SELECT count(*) FROM instar_migration") == [(len(migrations()),)]


def test_a_reader_connection_guards_references_too(path: Path) -> None:
    make(path).close()
    connection = connect(path)
    assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    connection.close()


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("database is locked", "end that program"),
        ("database or disk is full", "free some space"),
        ("database disk image is malformed", "keep a copy"),
        ("something new", "something new"),
    ],
)
def test_an_error_of_sqlite_says_where_and_what_to_do(text: str, advice: str) -> None:
    found = str(explain(sqlite3.OperationalError(text), Path("/x/instar.db")))
    assert found.startswith(f"/x/instar.db: {text}")
    assert advice in found
