"""Walking, copying and removing a workspace's files."""

import os

from instar.plugins.evolve import tree


def test_a_copy_holds_files_modes_and_inner_links_but_nothing_from_outside(kit, root, tmp_path):
    outside = tmp_path / "secret"
    outside.write_text("secret")
    kit.script(root / "hooks", "a.sh", "x", mode=0o750)
    (root / ".git").mkdir()
    (root / "inner").symlink_to("hooks/a.sh")
    (root / "absolute").symlink_to(root / "hooks")
    (root / "outer").symlink_to(outside)
    os.mkfifo(root / "pipe")
    target = tmp_path / "copy"
    tree.copy(root, target)
    assert sorted(path.name for path in target.iterdir()) == ["absolute", "hooks", "inner"]
    assert (target / "inner").resolve() == target / "hooks" / "a.sh"
    assert (target / "absolute").resolve() == target / "hooks"
    assert (target / "hooks" / "a.sh").stat().st_mode & 0o777 == 0o750


def test_a_scan_tells_every_kind_of_change_apart_and_passes_over_repositories(root):
    (root / "a").write_text("1")
    (root / "b").write_text("1")
    (root / "link").symlink_to("a")
    (root / "inner" / ".git").mkdir(parents=True)
    (root / "inner" / "x").write_text("x")
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


def test_a_large_file_is_copied_whole(root, tmp_path):
    (root / "large").write_bytes(os.urandom(3 << 20))
    tree.copy(root, tmp_path / "copy")
    assert (tmp_path / "copy" / "large").read_bytes() == (root / "large").read_bytes()
