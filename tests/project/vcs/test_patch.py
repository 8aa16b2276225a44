"""Patches are applied whole or not at all, and only to files of the repository."""

import pytest

from instar.project import vcs

NEW = b"diff --git a/%s b/%s\nnew file mode 100644\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+x\n"


@pytest.mark.slow
async def test_what_was_taken_off_one_worktree_goes_onto_another(folder, git, opened, tmp_path):
    other = tmp_path / "other"
    git(folder, "worktree", "add", "-q", str(other))
    (folder / "a.txt").write_text("one\ntwo\n3\n")
    (folder / "new.bin").write_bytes(bytes(range(256)))
    (folder / "c.txt").unlink()
    source, target = await opened(folder), await opened(other)
    patch = await vcs.raw(source, folder)
    await vcs.apply(target, patch)
    assert (other / "new.bin").read_bytes() == bytes(range(256))
    assert not (other / "c.txt").exists()
    assert await vcs.raw(target, other) == patch
    await vcs.take_back(source, patch)
    assert await vcs.status(source, folder) == []
    assert git(folder, "status", "--porcelain") == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "patch",
    [
        b"",
        b"nonsense",
        NEW % (b"../out", b"../out", b"../out"),
        NEW % (b".git/hooks/x", b".git/hooks/x", b".git/hooks/x"),
        NEW % (b"up/out", b"up/out", b"up/out"),
        NEW % (b"good", b"good", b"good") + NEW % (b"a.txt", b"a.txt", b"a.txt"),
    ],
    ids=["empty", "no patch", "outside", "git's own", "through a link", "half of it"],
)
async def test_a_patch_that_does_not_fit_changes_nothing(folder, opened, tmp_path, patch):
    (folder / "up").symlink_to(tmp_path)
    repository = await opened(folder)
    before = await vcs.status(repository, folder)
    with pytest.raises(vcs.ApplyError) as error:
        await vcs.apply(repository, patch)
    assert error.value.reason == "not-clean"
    assert await vcs.status(repository, folder) == before
    assert not (tmp_path / "out").exists()
    assert not (folder / "good").exists()


async def test_outside_a_repository_no_patch_is_applied():
    with pytest.raises(vcs.ApplyError) as error:
        await vcs.apply(None, NEW)
    assert error.value.reason == "non-git"
