"""The rows of projects: what a person gave one stays, whoever writes the row again."""

import sqlite3

from instar.api.project import ProjectCommands, ProjectIcon
from instar.store import PutProject
from instar.store.store import open_store


async def test_what_a_person_gave_a_project_stays_field_by_field(tmp_path):
    store = await open_store(tmp_path / "s.db", lambda event: None)
    await store.commit(
        [PutProject("a", "/a", "git", 1, "A", ProjectIcon(color="red"), ProjectCommands(start="x"))]
    )
    await store.commit([PutProject("b", "/", None, 2)])
    await store.commit([PutProject("a", "/moved", "git", 3, icon=ProjectIcon(url="u"))])
    first, second = await store.projects()
    assert (first.id, first.worktree, first.name, first.commands) == (
        "a",
        "/moved",
        "A",
        ProjectCommands(start="x"),
    )
    assert first.icon == ProjectIcon(url="u", color="red")
    assert (first.time.created, first.time.updated) == (1, 3)
    assert (second.id, second.vcs, second.name, second.icon, second.commands) == ("b", None, None, None, None)
    assert await store.projects("b") == [second]
    assert await store.projects("c") == []
    await store.close()


async def test_commands_that_cannot_be_read_hide_no_project(tmp_path):
    store = await open_store(tmp_path / "s.db", lambda event: None)
    await store.commit([PutProject("a", "/a", "svn", 1)])
    with sqlite3.connect(tmp_path / "s.db") as other:
        other.execute("UPDATE project SET commands = '{'")
    (found,) = await store.projects()
    await store.close()
    assert (found.commands, found.vcs) == (None, None)
