"""Reading opencode's database: what a hostile one may cost."""

import sqlite3
from pathlib import Path

import pytest

from instar.opencode.database import OpencodeDatabase


@pytest.mark.slow
def test_a_column_that_is_computed_fills_no_memory_when_sessions_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    connection = sqlite3.connect(path)
    connection.executescript("""
        CREATE TABLE project (id, worktree, vcs);
        CREATE TABLE message (id, session_id, time_created, data);
        CREATE TABLE part (id, message_id, session_id, data);
        CREATE TABLE session (id, parent_id, directory, time_updated, project_id,
            title TEXT GENERATED ALWAYS AS (printf('%.*c', 20000000, 'x')) VIRTUAL);
        INSERT INTO session (id, directory, time_updated, project_id)
            VALUES ('ses_1', '/', 1, 'p'), ('ses_2', '/', 2, 'p');
    """)
    connection.close()
    with OpencodeDatabase(path) as database:
        found = database.summaries()
    assert [one.id for one in found] == ["ses_2", "ses_1"]
    assert all(len(one.title) < 2**20 for one in found)
