"""Walking a workspace's files."""

import os

from instar.plugins.evolve.history import tree


def test_a_scan_tells_every_kind_of_change_apart_and_passes_over_repositories(root):
    (root / "a").write_text("1")
    (root / "b").write_text("1")
    (root / "link").symlink_to("a")
    (root / "inner" / ".git").mkdir(parents=True)
    (root / "inner" / "x").write_text("x")
    os.mkfifo(root / "pipe")
    before = tree.scan(root)
    assert set(before) == {"a", "b", "link"}
    (root / "a").chmod(0o755)
    (root / "link").unlink()
    (root / "new").write_text("n")
    after = tree.scan(root)
    assert before["a"] != after["a"]
    assert before["b"] == after["b"]
    assert set(after) == {"a", "b", "new"}


def test_a_copy_goes_where_the_person_says_and_a_large_one_not_into_memory(root, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(root))
    assert tree.place_for_copy(root) is None
    monkeypatch.delenv("TMPDIR")
    with (root / "large").open("wb") as file:
        file.truncate(100 << 20)
    assert tree.place_for_copy(root) is None
