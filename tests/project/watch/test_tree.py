"""What is different in a folder: decided by looking, whatever the kernel said."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar.project.watch import FileTree, collapse

NAMES = ("a", "b", "d/a", "d/e/a", "node_modules/a", "x.pyc")


def put(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(NAMES), unique=True),
    st.lists(st.tuples(st.booleans(), st.sampled_from([*NAMES, "d"])), max_size=8),
)
def test_what_is_settled_is_what_a_fresh_look_finds(before: list[str], acts: list[tuple[bool, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder))
        for name in before:
            put(root / name)
        tree, fresh = FileTree(str(root)), FileTree(str(root))
        tree.read()
        fresh.read()
        for there, name in acts:
            path = root / name
            if there and name != "d":
                put(path)
            elif path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        found, grown = tree.settle([str(root / name) for name in (*NAMES, "d", "d/e")])
        if grown:
            found.update(tree.read())
        wanted = fresh.read()
        assert {path: kind for path, kind in found.items() if kind != "change"} == wanted
        assert tree.read() == {}


def test_ignore_files_above_the_folder_and_below_it_hold(tmp_path: Path) -> None:
    root = tmp_path / "sub"
    for name in ("sub/out/a", "sub/deep/cache/a", "sub/keep/a", "sub/deep/.env"):
        put(tmp_path / name)
    put(tmp_path / ".gitignore", "out/\n")
    put(root / "deep" / ".gitignore", "cache\n.env\n")
    inside = FileTree(str(root), repository=str(tmp_path))
    assert {os.path.relpath(path, root) for path in inside.read()} == {
        "keep/a",
        "deep/.gitignore",
    }
    assert str(root / "out" / "a") in FileTree(str(root)).read()


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "large"])
def test_an_ignore_file_that_is_none_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ".gitignore"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"x" * (2 << 20))
    put(tmp_path / "a" / "b")
    assert str(tmp_path / "a" / "b") in FileTree(str(tmp_path), repository=str(tmp_path)).read()


def test_of_very_many_folders_the_nearest_are_seen_and_new_ones_are_not_asked_for(tmp_path: Path) -> None:
    put(tmp_path / "near" / "a")
    put(tmp_path / "near" / "far" / "further" / "a")
    tree = FileTree(str(tmp_path), most=2)
    tree.read()
    assert (tree.complete, tree.folders) == (False, [str(tmp_path), str(tmp_path / "near")])
    assert tree.read() == {}
    (tmp_path / "new").mkdir()
    assert tree.settle([str(tmp_path / "new")]) == ({}, False)


def test_a_folder_that_was_made_again_is_to_be_watched_again(tmp_path: Path) -> None:
    put(tmp_path / "d" / "a")
    tree = FileTree(str(tmp_path))
    tree.read()
    assert tree.settle([str(tmp_path / "d")]) == ({}, False)
    (tmp_path / "d").rename(tmp_path / "old")
    put(tmp_path / "d" / "a")
    assert tree.settle([str(tmp_path / "d")]) == ({}, True)


@given(st.sets(st.lists(st.sampled_from("abc"), min_size=1, max_size=5).map("/".join)), st.integers(1, 20))
def test_changes_that_are_too_many_are_told_by_folder_and_none_is_left_out(
    paths: set[str], most: int
) -> None:
    changes = {f"/r/{path}": "add" for path in paths}
    told = collapse(dict(changes), "/r", most)  # type: ignore[arg-type]
    assert len(told) <= most
    assert all(any(path == one or path.startswith(one + "/") for one in told) for path in changes)
    if len(changes) <= most:
        assert told == changes
