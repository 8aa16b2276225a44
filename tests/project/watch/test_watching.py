"""Files, branches and projects that are watched: met through a runtime, a plugin and a real git."""

import asyncio
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from instar.api.project import ProjectBody
from instar.project.projects import Projects
from instar.testing import TIMEOUT, Machine, RuntimeUnderTest, said

pytest_plugins = ["tests.turn"]

WATCHED = "file.watcher.updated"


def git(folder: Path, *args: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True)


def committed(folder: Path) -> None:
    git(folder, "init", "-q")
    (folder / "kept.txt").write_text("1")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")


async def watched(house: Machine) -> RuntimeUnderTest:
    """Open the house, listen, and return once changes are heard."""
    door = await house.open()
    door.runtime.watch()
    await heard(
        door, lambda: (house.folder / "ready").write_text(os.urandom(4).hex()), house.folder / "ready"
    )
    return door


async def heard(door: RuntimeUnderTest, act: Any, path: Path) -> None:
    """Act again and again until a change of `path` is heard: the watch begins at a time of its own."""
    async with asyncio.timeout(TIMEOUT):
        while str(path) not in [told.file for told in door.of(WATCHED)]:
            act()
            await asyncio.sleep(0.05)


async def told(door: RuntimeUnderTest, path: Path, kind: str) -> None:
    await door.until(
        lambda event: (
            event.type == WATCHED and (event.properties.file, event.properties.event) == (str(path), kind)
        )
    )


async def settled(door: RuntimeUnderTest, folder: Path) -> None:
    """Return when all that happened before was told."""
    mark = folder / f"mark-{os.urandom(4).hex()}"
    mark.write_text("x")
    await told(door, mark, "add")


def kinds(door: RuntimeUnderTest, path: Path) -> list[str]:
    return [one.event for one in door.of(WATCHED) if one.file == str(path)]


async def test_a_file_that_is_added_changed_and_removed_is_told_each_time(house: Machine) -> None:
    door = await watched(house)
    path = house.folder / "a.txt"
    for act, kind in (
        (lambda: path.write_text("1"), "add"),
        (lambda: path.write_text("2"), "change"),
        (path.unlink, "unlink"),
    ):
        act()
        await told(door, path, kind)


async def test_a_file_replaced_by_a_rename_is_a_change_and_the_temporary_one_is_nothing(
    house: Machine,
) -> None:
    path, beside = house.folder / "a.txt", house.folder / "a.new"
    path.write_text("1")
    door = await watched(house)
    beside.write_text("2")
    beside.replace(path)
    await told(door, path, "change")
    await settled(door, house.folder)
    assert set(kinds(door, path)) == {"change"}
    # It may be looked at while it is there, also before it is whole; it is gone again then.
    told_beside = kinds(door, beside)
    assert (told_beside[:1], told_beside[-1:]) in (([], []), (["add"], ["unlink"]))


@pytest.mark.slow
async def test_new_folders_are_watched_too_and_one_that_was_made_again(house: Machine) -> None:
    door = await watched(house)
    deep = house.folder / "one" / "two"
    for text in ("1", "2"):
        deep.mkdir(parents=True)
        (deep / "a.txt").write_text(text)
        await told(door, deep / "a.txt", "add")
        await heard(door, lambda: (deep / "later.txt").write_text(os.urandom(4).hex()), deep / "later.txt")
        door.heard.clear()
        shutil.rmtree(house.folder / "one")
        await told(door, deep / "a.txt", "unlink")
        await settled(door, house.folder)
        door.heard.clear()


async def test_what_machines_make_and_what_is_ignored_is_not_told(house: Machine) -> None:
    committed(house.folder)
    (house.folder / ".gitignore").write_text("large/\n*.secret\n")
    (house.folder / ".git" / "info" / "exclude").write_text("mine.txt\n")
    (house.home.parent / "git").mkdir(parents=True)
    (house.home.parent / "git" / "ignore").write_text("*.orig\n")
    house.settings(watcher={"ignore": ["*.log", "docs/"]})
    quiet = ["node_modules/a.js", ".git/a", "large/a", "docs/a", "x.log", "src/__pycache__/a.pyc"]
    quiet += ["a.secret", "src/own.secret", "src/mine.txt", "src/b.orig"]
    for name in quiet:
        (house.folder / name).parent.mkdir(parents=True, exist_ok=True)
    door = await watched(house)
    for name in [*quiet, "src/seen"]:
        (house.folder / name).write_text("x")
    (house.folder / "late" / "node_modules").mkdir(parents=True)
    await told(door, house.folder / "src" / "seen", "add")
    await settled(door, house.folder)
    paths = {str(Path(one.file).relative_to(house.folder)) for one in door.of(WATCHED)}
    assert {path for path in paths if not path.startswith(("ready", "mark"))} == {"src/seen"}


async def test_a_rule_that_an_ignore_file_gets_later_holds(house: Machine) -> None:
    committed(house.folder)
    door = await watched(house)
    (house.folder / ".gitignore").write_text("*.late\n")
    await told(door, house.folder / ".gitignore", "add")
    await settled(door, house.folder)
    (house.folder / "a.late").write_text("x")
    await settled(door, house.folder)
    assert kinds(door, house.folder / "a.late") == []


@pytest.mark.slow
@pytest.mark.parametrize("language", ["js", "py"])
async def test_a_listener_that_writes_a_file_for_each_event_is_told_of_it_less_and_less_often(
    house: Machine, language: str
) -> None:
    if language == "js":
        house.write(".opencode/plugin/log.js", """
            import { appendFileSync } from "node:fs"
            const event = async ({ event }) => appendFileSync("events", event.type + "\\n")
            export const Log = async () => ({ event })
        """)  # fmt: skip
    else:
        house.plugin("""
            async def log(given, options=None):
                async def event(event):
                    with open(given.directory / "events", "a") as file:
                        file.write(event.type + "\\n")
                return {"event": event}
        """)
    door = await watched(house)
    await door.until(lambda event: event.type == WATCHED and event.properties.file.endswith("events"))
    await asyncio.sleep(5)
    # At 0, 0.5, 1.5, 3.5 and 7.5 s: it began before.
    assert 2 <= len(kinds(door, house.folder / "events")) <= 6
    (house.folder / "other").write_text("x")
    await told(door, house.folder / "other", "add")


async def test_the_last_of_the_changes_that_were_merged_is_told(house: Machine) -> None:
    door = await watched(house)
    path = house.folder / "a.txt"
    path.write_text("1")
    await told(door, path, "add")
    path.write_text("2")
    await settled(door, house.folder)
    path.unlink()
    await told(door, path, "unlink")
    # On a slow machine the pause is over before the file is removed.
    assert kinds(door, path) in (["add", "unlink"], ["add", "change", "unlink"])


async def test_a_link_out_of_the_project_is_not_followed(house: Machine, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (house.folder / "way").symlink_to(outside)
    door = await watched(house)
    (outside / "a.txt").write_text("x")
    await settled(door, house.folder)
    assert not [one.file for one in door.of(WATCHED) if "a.txt" in one.file]


@pytest.mark.slow
async def test_a_storm_of_changes_is_told_by_folder(house: Machine, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    for number in range(1500):
        path = outside / f"d{number % 5}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    door = await watched(house)
    inside = outside.rename(house.folder / "inside")
    for number in range(5):
        await told(door, inside / f"d{number}", "change")
    await settled(door, house.folder)
    assert len([one for one in door.of(WATCHED) if one.file.startswith(str(inside))]) == 5


async def test_another_branch_is_told_and_a_head_without_one(house: Machine) -> None:
    committed(house.folder)
    git(house.folder, "branch", "other")
    door = await watched(house)
    for target, branch in (("other", "other"), ("--detach", None), ("main", "main")):
        git(house.folder, "checkout", "-q", target)
        await door.until(
            lambda event, branch=branch: (
                event.type == "vcs.branch.updated" and event.properties.branch == branch
            )
        )
    assert [one.branch for one in door.of("vcs.branch.updated")] == ["other", None, "main"]


async def test_a_linked_worktrees_branch_is_its_own(house: Machine, tmp_path: Path) -> None:
    committed(house.folder)
    git(house.folder, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    house.folder = tmp_path / "linked"
    door = await watched(house)
    git(house.folder, "checkout", "-q", "-b", "aside")
    event = await door.until(lambda event: event.type == "vcs.branch.updated")
    assert event.to_plain()["properties"] == {"branch": "aside"}


async def test_a_project_is_told_when_it_is_new_and_when_its_worktree_moved(
    house: Machine, tmp_path: Path
) -> None:
    committed(house.folder)
    first = await house.open()
    first.runtime.watch()
    seen = (await first.until(lambda event: event.type == "project.updated")).to_plain()["properties"]
    assert (seen["worktree"], seen["vcs"], seen["sandboxes"]) == (str(house.folder), "git", [])
    await Projects(first.runtime.instance).update(seen["id"], ProjectBody(name="Named"))
    await first.runtime.close()
    again = await watched(house)
    assert again.of("project.updated") == []
    await again.runtime.close()
    house.folder = house.folder.rename(tmp_path / "moved")
    moved = await house.open()
    moved.runtime.watch()
    told = (await moved.until(lambda event: event.type == "project.updated")).to_plain()["properties"]
    assert (told["id"], told["worktree"]) == (seen["id"], str(tmp_path / "moved"))
    assert (told["name"], told["time"]["created"]) == ("Named", seen["time"]["created"])


async def test_a_folder_that_is_gone_is_named_and_everything_else_goes_on(
    house: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    house.says("== turn\ntext: still here\n")
    inner = house.folder / "inner"
    inner.mkdir()
    (inner / "a.txt").write_text("x")
    house.folder = inner
    door = await watched(house)
    shutil.rmtree(inner)
    await told(door, inner / "a.txt", "unlink")
    async with asyncio.timeout(TIMEOUT):
        while f"not watched any more directory={inner}: {inner} is gone" not in caplog.text:
            await asyncio.sleep(0.01)
    assert said(await door.ask(await door.session(), "hi")) == "still here"
    assert caplog.text.count("not watched any more") == 1


async def test_a_home_is_not_watched(house: Machine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "instar.watch")
    house.folder = Path(house.environment["HOME"])
    door = await house.open()
    door.runtime.watch()
    async with asyncio.timeout(TIMEOUT):
        while f"not watched directory={house.folder}: it holds a whole home" not in caplog.text:
            await asyncio.sleep(0.01)
    # One of an earlier test may be about to end; that of a home would go on.
    await until(lambda: "instar-watch" not in [thread.name for thread in threading.enumerate()])


@pytest.mark.slow
async def test_a_plugin_that_hears_events_is_told_of_files_and_the_end(house: Machine) -> None:
    house.plugin("""
        import json

        async def witness(input, options):
            seen = []

            async def event(event):
                seen.append(event.to_plain())

            async def dispose():
                (input.directory / "seen.json").write_text(json.dumps(seen))

            return {"event": event, "dispose": dispose}
    """)
    door = await house.open()
    await heard(door, lambda: (house.folder / "a").write_text(os.urandom(4).hex()), house.folder / "a")
    await door.runtime.close()
    seen = json.loads((house.folder / "seen.json").read_text())
    assert str(house.folder / "a") in [one["properties"].get("file") for one in seen]
    assert seen[-1]["type"] == "server.instance.disposed"
    assert seen[-1]["properties"] == {"directory": str(house.folder)}


async def test_nothing_is_watched_where_nobody_listens(house: Machine) -> None:
    house.says("== turn\ntext: hi\n")
    door = await house.open()
    await door.ask(await door.session(), "hi")
    assert "watch" not in [task.get_name() for task in asyncio.all_tasks()]
