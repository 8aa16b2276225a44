"""A workspace's copy: cheap where the machine can, whole everywhere, and gone afterwards."""

import os
import stat
import tempfile
import time
from pathlib import Path

import pytest
from tests.sandbox.conftest import Home, sandboxed, state_of
from tests.waiting import take_quickest

from instar.process import Processes
from instar.sandbox.level import Level
from instar.sandbox.place import copy_of, copy_tree, remove
from instar.sandbox.probe import find_level


def test_a_plain_copy_has_the_same_files_modes_times_and_links(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "a/b").mkdir(parents=True)
    (source / "a/run").write_bytes(b"#!/bin/sh\n")
    (source / "a/run").chmod(0o755)
    (source / "a/b/empty").touch()
    (source / "link").symlink_to("a/run")
    (source / "dangling").symlink_to("/no/such")
    (source / "big").write_bytes(os.urandom(3_000_000))
    os.utime(source / "big", ns=(1, 2))
    os.mkfifo(source / "pipe")
    copy_tree(source, tmp_path / "target")
    (source / "pipe").unlink()
    expected = {path.removeprefix(str(source)): state for path, state in state_of(source).items()}
    found = {
        path.removeprefix(str(tmp_path / "target")): state
        for path, state in state_of(tmp_path / "target").items()
    }
    assert found == expected


@pytest.mark.slow
async def test_two_thousand_files_are_copied_in_no_time_by_an_overlay(
    processes: Processes, tmp_path: Path
) -> None:
    level = await find_level(processes, os.environ)
    assert level.overlay
    for number in range(2000):
        folder = tmp_path / "ws" / f"d{number % 40}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.py").write_text("x = 1\n")

    def taken() -> float:
        started = time.monotonic()
        with copy_of(tmp_path / "ws", level) as made:
            seconds = time.monotonic() - started
            assert not list(made.changes.iterdir())
        return seconds

    assert take_quickest(taken, 0.05) < 0.05


async def test_a_copy_is_gone_after_its_block_whatever_a_candidate_left(
    processes: Processes, home: Home, level: Level
) -> None:
    with copy_of(home.workspace, level) as made:
        await sandboxed(
            processes, home, made, level, "mkdir -p a/b/c; touch a/b/c/d; chmod 000 a/b/c a/b; chmod 500 a"
        )
        assert made.scratch.exists()
    assert not made.scratch.exists()


async def test_without_an_overlay_the_copy_is_a_tree(processes: Processes, home: Home) -> None:
    found = await find_level(processes, os.environ)
    plain = Level("bubblewrap", found.program, found.landlock)
    with copy_of(home.workspace, plain) as made:
        assert (made.changes / "hooks/a.py").read_text() == "print('as it was')\n"
        assert stat.S_IMODE(made.scratch.stat().st_mode) == 0o700
        done = await sandboxed(processes, home, made, plain, "pwd; echo x > hooks/a.py")
        assert done.stdout.decode() == f"{home.workspace}\n"
        assert (made.changes / "hooks/a.py").read_text() == "x\n"
    assert (home.workspace / "hooks/a.py").read_text() == "print('as it was')\n"


def test_copies_of_a_process_that_was_killed_are_removed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    source = tmp_path / "source"
    (tmp_path / "tmp").mkdir()
    source.mkdir()
    left, young, other = (tmp_path / "tmp" / name for name in ("instar-copy-a", "instar-copy-b", "else"))
    for folder in (left, young, other):
        (folder / "tree").mkdir(parents=True)
    (left / "tree").chmod(0)
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "tmp" / "instar-copy-link").symlink_to(outside)
    with copy_of(source, Level("landlock"), tmp_path) as used:
        held = used.scratch.rename(tmp_path / "tmp" / "instar-copy-held")
        for folder in (left, other, held):
            os.utime(folder, (0, 0))
        with copy_of(source, Level("landlock")):
            assert {path.name for path in (tmp_path / "tmp").glob("*")} >= {
                "instar-copy-b",
                "instar-copy-held",
            }
            assert not left.exists()
            assert other.exists()
            assert outside.exists()
        held.rename(used.scratch)


def test_a_folder_is_removed_with_what_was_made_read_only_in_it_and_links_are_not_followed(
    tmp_path: Path,
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    deep = tmp_path / "gone" / "deep"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    (deep / "link").symlink_to(outside)
    (deep / "file").chmod(0)
    deep.chmod(0o500)
    (tmp_path / "gone").chmod(0o500)
    remove(tmp_path / "gone")
    assert not (tmp_path / "gone").exists()
    assert (outside / "kept").read_text() == "kept"
