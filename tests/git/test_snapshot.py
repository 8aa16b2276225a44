"""Snapshots of a project's files: taken, compared, put back, and never the person's own repository touched."""

import asyncio
import contextlib
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instar.git.project import Project
from instar.git.snapshot import GROWN, LARGEST, Patch, Restored, Snapshot
from instar.process import Processes


async def taken(snapshot: Snapshot) -> str:
    tree = await snapshot.track()
    assert tree is not None, snapshot.off
    return tree


async def put_back(snapshot: Snapshot, tree: str) -> Restored:
    done = await snapshot.revert([await snapshot.patch(tree)])
    assert done is not None
    return done


def contents(folder: Path) -> dict[str, bytes | str]:
    """Every file and link of a worktree, without its repository."""
    found: dict[str, bytes | str] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if ".git" in path.relative_to(folder).parts:
            continue
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


async def test_what_changed_between_two_snapshots_is_told_file_by_file(
    snapshot: Snapshot, project: Path
) -> None:
    (project / "gone.txt").write_text("x\n")
    before = await taken(snapshot)
    (project / "a.txt").write_text("one\nTWO\nthree\n")
    (project / "gone.txt").unlink()
    (project / "new").mkdir()
    (project / "new" / "b.txt").write_text("b\n")
    (project / "picture").write_bytes(b"\0\1\2")
    after = await taken(snapshot)
    found = await snapshot.diff_full(before, after)
    assert found is not None
    told = [(one.file, one.status, one.additions, one.deletions) for one in found]
    assert told == [
        ("a.txt", "modified", 2, 1),
        ("gone.txt", "deleted", 0, 1),
        ("new/b.txt", "added", 1, 0),
        ("picture", "added", 0, 0),
    ]
    assert found[0].patch is not None
    assert "-two\n+TWO\n+three\n" in found[0].patch
    assert "b.txt" not in found[0].patch
    assert [str(project / (one.file or "")) for one in found] == list((await snapshot.patch(before)).files)
    assert "".join(one.patch or "" for one in found) == await snapshot.diff(before, after)


@pytest.mark.parametrize("rules", ["", None])
async def test_a_file_that_an_ignore_file_named_then_is_not_deleted(
    snapshot: Snapshot, project: Path, rules: str | None
) -> None:
    (project / ".gitignore").write_text(".env\n/made/\n")
    (project / ".env").write_text("KEY=1\n")
    before = await taken(snapshot)
    (project / ".gitignore").unlink()
    if rules is not None:
        (project / ".gitignore").write_text(rules)
    (project / "made").mkdir()
    (project / "made" / "x").write_text("x\n")
    (project / "new").write_text("new\n")
    done = await put_back(snapshot, before)
    assert sorted(done.kept) == [".env", "made/x"]
    assert sorted(done.files) == [".gitignore", "new"]
    assert (project / ".env").read_text() == "KEY=1\n"
    assert (project / ".gitignore").read_text() == ".env\n/made/\n"
    assert not (project / "new").exists()


async def test_only_the_files_asked_for_are_told(snapshot: Snapshot, project: Path) -> None:
    before = await taken(snapshot)
    for name in ("a.txt", "b.txt"):
        (project / name).write_text("new\n")
    found = await snapshot.diff_full(before, await taken(snapshot), {str(project / "b.txt")})
    assert found is not None
    assert [one.file for one in found] == ["b.txt"]
    assert found[0].patch is not None
    assert found[0].patch.startswith("diff --git a/b.txt b/b.txt\n")


async def test_a_file_that_became_a_link_keeps_the_patches_in_step(snapshot: Snapshot, project: Path) -> None:
    (project / "z.txt").write_text("z\n")
    before = await taken(snapshot)
    (project / "a.txt").unlink()
    (project / "a.txt").symlink_to("z.txt")
    (project / "z.txt").write_text("Z\n")
    found = await snapshot.diff_full(before, await taken(snapshot))
    assert found is not None
    assert {one.file: "+Z" in (one.patch or "") for one in found} == {"a.txt": False, "z.txt": True}


async def test_nothing_changed_gives_the_same_snapshot(snapshot: Snapshot, project: Path) -> None:
    first = await taken(snapshot)
    (project / "a.txt").touch()
    assert await taken(snapshot) == first
    assert (await snapshot.patch(first)).files == []


def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Put a git on the PATH that notes each start; the function returned says how many there were."""
    log, folder = tmp_path / "started", tmp_path / "bin"
    log.touch()
    folder.mkdir()
    program = folder / "git"
    program.write_text(f'#!/bin/sh\necho x >>"{log}"\nexec "{shutil.which("git")}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return lambda: len(log.read_text().split())


async def unasked(snapshot: Snapshot, started: Callable[[], int]) -> str:
    """Take snapshots until one starts no git: what changed a moment ago is looked at again."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        before, tree = started(), await taken(snapshot)
        if started() == before:
            return tree
        await asyncio.sleep(0.005)
    raise AssertionError("each snapshot starts git")


def _in_place(project: Path) -> None:
    stamp = (project / "a.txt").stat()
    (project / "a.txt").write_text("ONE\ntwo\n")
    os.utime(project / "a.txt", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def _through_another_name(project: Path) -> None:
    (project / ".git" / "link").write_text("THREE\n")


def _in_a_new_folder(project: Path) -> None:
    (project / "made").mkdir()
    (project / "made" / "new.txt").write_text("x")


def _to_a_link(project: Path) -> None:
    (project / "a.txt").unlink()
    (project / "a.txt").symlink_to("one")


def _to_a_folder(project: Path) -> None:
    # What was ignored is a name with nothing behind it; now it is a folder, which another rule lets through.
    (project / "one.log").unlink()
    (project / "one.log").mkdir()
    (project / "one.log" / "inside").write_text("x")


def _no_repository(project: Path) -> None:
    (project / "nested" / ".git" / "HEAD").unlink()


def _none_at_the_place_named(project: Path) -> None:
    (project / ".git" / "elsewhere" / "HEAD").unlink()


CHANGES: Mapping[str, Callable[[Path], object]] = {
    "content of the same size and time": _in_place,
    "through another name of the file": _through_another_name,
    "run bit": lambda project: (project / "a.txt").chmod(0o755),
    "a link in its place": _to_a_link,
    "gone": lambda project: (project / "a.txt").unlink(),
    "renamed": lambda project: (project / "a.txt").rename(project / "b.txt"),
    "new": lambda project: (project / "sub" / "new.txt").write_text("x"),
    "new in a new folder": _in_a_new_folder,
    "new beside what is ignored": lambda project: (project / "built" / "source.c").write_text("x"),
    "ignored no more": lambda project: (project / "sub" / ".gitignore").write_text("!*.log\n"),
    "a folder that is ignored no more": lambda project: (project / ".gitignore").write_text(
        "*.log\n.gitignore\n"
    ),
    "ignored no more by the person": lambda project: (project / ".git" / "theirs").write_text(""),
    "a folder with the name of what was ignored": _to_a_folder,
    "a nested repository that is none": _no_repository,
    "a linked one that is none": _none_at_the_place_named,
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_after_a_snapshot_that_started_no_git_is_in_the_next_one(
    opened: Callable[..., Snapshot],
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    started = logged(tmp_path, monkeypatch)
    (project / ".gitignore").write_text("*.log\n!*.log/\n.gitignore\nmodules/\n")
    for name in (
        "sub/b.txt",
        "sub/one.log",
        "built/one.log",
        "modules/deep/x",
        "one.log",
        "theirs.txt",
        "c.txt",
    ):
        (project / name).parent.mkdir(exist_ok=True, parents=True)
        (project / name).write_text("three\n")
    (project / ".git" / "link").hardlink_to(project / "c.txt")
    (project / ".git" / "theirs").write_text("theirs.txt\n")
    (tmp_path / "gitconfig").write_text(f'[core]\n\texcludesFile = "{project}/.git/theirs"\n')
    for arguments in (["nested"], ["--separate-git-dir", ".git/elsewhere", "linked"]):
        subprocess.run(["git", "init", "-q", *arguments], cwd=project, check=True)
    for folder in ("nested", "linked"):
        (project / folder / "file").write_text("x")
    snapshot = opened()
    tree = await unasked(snapshot, started)
    CHANGES[change](project)
    after = await taken(snapshot)
    assert after != tree
    assert after == await taken(opened())
    assert await unasked(snapshot, started) == after


RULES = ("*.log\n", "gen/\n", "gen\n!a\n", "x/y/\n", "", "*.txt\n!c.txt\n", ".gitignore\nd\n")


def _anything(project: Path, choose: random.Random) -> None:
    """Do one of what people and programs do to files; much of it fails, as nothing is there."""
    names = [
        folder + name for folder in ("", "x/", "x/y/", "gen/", "z/") for name in ("a", "b.log", "c.txt", "d")
    ]
    path, other = project / choose.choice(names), project / choose.choice(names)
    match choose.randrange(9):
        case 0 | 1 | 2:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(choose.choice("ab") * choose.randrange(1, 4))
        case 3:
            path.unlink()
        case 4:
            path.rename(other)
        case 5:
            other.symlink_to(path)
        case 6:
            (other.parent / ".gitignore").write_text(choose.choice(RULES))
        case 7:
            shutil.copytree(project / ".git", path.parent / ".git")
        case 8:
            shutil.rmtree(
                choose.choice([path.parent, path.parent / ".git"]) if path.parent != project else other
            )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_whatever_changes_the_snapshot_is_that_of_a_runtime_that_asks_git(
    opened: Callable[..., Snapshot], project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    choose, started, unasked = random.Random(seed), logged(tmp_path, monkeypatch), 0
    snapshot = opened()
    before = await taken(snapshot)
    for number in range(120):
        for _ in range(choose.randrange(3)):
            with contextlib.suppress(OSError, shutil.Error):
                _anything(project, choose)
        if choose.random() < 0.5:
            await asyncio.sleep(choose.choice([0.001, 0.025]))
        count, tree = started(), await taken(snapshot)
        unasked += started() == count
        patch = await snapshot.patch(before)
        if number % 4 == 0:
            assert (await taken(opened()), await opened().patch(before)) == (tree, patch)
        before = tree
    assert unasked > 20


async def test_what_is_ignored_may_change_without_a_git(
    snapshot: Snapshot, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = logged(tmp_path, monkeypatch)
    (project / ".gitignore").write_text("modules/\n")
    (project / "modules").mkdir()
    tree = await unasked(snapshot, started)
    count = started()
    for number in range(2_001):
        (project / "modules" / str(number)).touch()
    assert await taken(snapshot) == tree
    (project / "modules" / "0").write_text("x")
    assert await taken(snapshot) == tree
    assert started() == count


async def test_of_many_files_git_says_what_changed(
    snapshot: Snapshot, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = logged(tmp_path, monkeypatch)
    for number in range(2_000):
        (project / str(number)).touch()
    tree, count = await taken(snapshot), started()
    assert await taken(snapshot) == tree
    assert started() > count
    (project / "0").write_text("x")
    assert (await snapshot.patch(tree)).files == [str(project / "0")]


async def test_files_are_put_back_byte_for_byte(snapshot: Snapshot, project: Path) -> None:
    (project / ".gitattributes").write_text("* text=auto eol=crlf\n*.bin filter=evil ident\n")
    (project / "dos.txt").write_bytes(b"one\r\ntwo\n$Id$\r\n")
    (project / "x.bin").write_bytes(bytes(range(256)))
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o755)
    (project / "link").symlink_to("a.txt")
    was = contents(project)
    tree = await taken(snapshot)
    for name in was:
        (project / name).unlink()
    (project / "later" / "deep").mkdir(parents=True)
    (project / "later" / "deep" / "file").write_text("x")
    done = await put_back(snapshot, tree)
    assert contents(project) == was
    assert os.access(project / "run.sh", os.X_OK)
    assert not (project / "later").exists()
    assert sorted(done.files) == sorted([*was, "later/deep/file"])
    assert done.kept == []


async def test_what_was_there_before_putting_back_can_be_had_again(snapshot: Snapshot, project: Path) -> None:
    tree = await taken(snapshot)
    (project / "a.txt").write_text("mine")
    (project / "b.txt").write_text("mine too")
    was = contents(project)
    patch = await snapshot.patch(tree)
    done = await snapshot.revert([patch])
    assert done is not None
    assert contents(project) == {"a.txt": b"one\ntwo\n"}
    await snapshot.revert([Patch(done.before, patch.files)])
    assert contents(project) == was


async def test_a_whole_snapshot_is_restored(snapshot: Snapshot, project: Path) -> None:
    tree, was = await taken(snapshot), contents(project)
    (project / "a.txt").write_text("x")
    (project / "b.txt").write_text("x")
    assert await snapshot.restore(tree) is not None
    assert contents(project) == was


async def test_the_first_patch_that_names_a_file_decides(snapshot: Snapshot, project: Path) -> None:
    trees = []
    for text in ("1", "2", "3"):
        (project / "a.txt").write_text(text)
        trees.append(await taken(snapshot))
    patches = [Patch(tree, [str(project / "a.txt")]) for tree in trees[:2]]
    await snapshot.revert(patches)
    assert (project / "a.txt").read_text() == "1"


SHAPES = st.sampled_from(("absent", "file", "other file", "folder", "link", "link to a folder"))


def _shape(path: Path, shape: str) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        for inside in path.iterdir():
            inside.unlink()
        path.rmdir()
    if shape == "folder":
        path.mkdir()
        (path / "inside").write_text(shape)
    elif shape.startswith("link"):
        path.symlink_to("a.txt" if shape == "link" else "there")
    elif shape != "absent":
        path.write_text(shape)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shapes=st.lists(st.tuples(SHAPES, SHAPES), min_size=2, max_size=2))
def test_whatever_a_name_became_it_is_put_back(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[str, str]]
) -> None:
    async def play() -> None:
        root = tmp_path_factory.mktemp("shape")
        project = root / "project"
        (project / "there").mkdir(parents=True)
        (project / "there" / "inside").write_text("there")
        (project / "a.txt").write_text("a")
        processes = Processes()
        found = Project("id", project, project, "git")
        snapshot = Snapshot.of(processes, found, root / "data", root, None)
        for name, (before, _) in zip("xy", shapes, strict=True):
            _shape(project / name, before)
        was, tree = contents(project), await taken(snapshot)
        for name, (_, after) in zip("xy", shapes, strict=True):
            _shape(project / name, after)
        patch = await snapshot.patch(tree)
        # Another runtime has to ask git for the difference.
        assert patch == await Snapshot.of(processes, found, root / "data", root, None).patch(tree)
        done = await put_back(snapshot, tree)
        assert contents(project) == was
        assert done.kept == []
        await processes.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("name", "why"),
    [("secret.env", "ignored"), ("big.bin", "too large"), ("nested/file", "another repository")],
)
async def test_a_file_that_no_snapshot_holds_is_never_overwritten_or_deleted(
    snapshot: Snapshot, project: Path, name: str, why: str
) -> None:
    (project / ".gitignore").write_text("*.env\n")
    tree = await taken(snapshot)
    path = project / name
    path.parent.mkdir(exist_ok=True)
    if why == "another repository":
        subprocess.run(["git", "init", "-q"], cwd=path.parent, check=True)
    path.write_bytes(b"x" * (LARGEST + 1 if why == "too large" else 1))
    assert (await snapshot.patch(tree)).files == []
    done = await snapshot.revert([Patch(tree, [str(path)])])
    assert done is not None
    assert done.kept == [name]
    assert path.is_file()


async def test_a_file_that_grew_beyond_measure_is_not_copied_again(snapshot: Snapshot, project: Path) -> None:
    path = project / "log.txt"
    path.write_text("small")
    first = await taken(snapshot)
    with path.open("ab") as file:
        file.truncate(GROWN + 1)
    grown = await taken(snapshot)
    with path.open("ab") as file:
        file.write(b"more")
    assert await taken(snapshot) == grown
    done = await snapshot.revert([Patch(first, [str(path)])])
    assert done is not None
    assert done.kept == ["log.txt"]
    assert path.stat().st_size == GROWN + 5


@pytest.mark.parametrize(
    "name", ["../outside.txt", "/etc/hostname", ".git/config", "sub/.GIT/config", "", ".", "a\0b"]
)
async def test_a_name_outside_the_worktree_is_not_touched(
    snapshot: Snapshot, project: Path, name: str
) -> None:
    """Names come from stored parts, and those from imported sessions."""
    outside = project.parent / "outside.txt"
    outside.write_text("mine")
    empty = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    (project / "a.txt").unlink()
    assert await taken(snapshot) == empty
    done = await snapshot.revert([Patch(empty, [name])])
    assert done is not None
    assert (done.files, done.kept) == ([], [])
    assert outside.read_text() == "mine"
    assert (project / ".git" / "config").is_file()


async def test_a_folder_that_became_a_link_is_not_followed(snapshot: Snapshot, project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "file").write_text("in the project")
    tree = await taken(snapshot)
    outside = project.parent / "outside"
    (project / "sub").rename(outside)
    (project / "sub").symlink_to(outside)
    (outside / "file").write_text("outside")
    await put_back(snapshot, tree)
    assert not (project / "sub").is_symlink()
    assert (project / "sub" / "file").read_text() == "in the project"
    assert (outside / "file").read_text() == "outside"


async def test_a_snapshot_that_is_gone_is_named_and_nothing_is_touched(
    snapshot: Snapshot, project: Path
) -> None:
    gone = "1" * 40
    done = await snapshot.revert([Patch(gone, [str(project / "a.txt")]), Patch("HEAD; rm", [])])
    assert done is not None
    assert done.gone == [gone, "HEAD; rm"]
    assert (project / "a.txt").read_text() == "one\ntwo\n"
    assert await snapshot.diff_full(gone, await taken(snapshot)) is None


async def test_the_persons_repository_is_neither_written_nor_run(
    snapshot: Snapshot, project: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    filters = f'[filter "evil"]\n\tclean = touch {ran}\n\tsmudge = touch {ran}\n'
    filters += f'[diff "evil"]\n\ttextconv = touch {ran}\n'
    (tmp_path / "gitconfig").write_text(filters)
    with (project / ".git" / "config").open("a") as config:
        config.write(filters + f"[core]\n\tfsmonitor = touch {ran}\n")
    hook = project / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    (project / ".gitattributes").write_text("* filter=evil diff=evil\n")
    before = _repository(project)
    tree = await taken(snapshot)
    (project / "a.txt").write_text("changed")
    await snapshot.diff_full(tree, await taken(snapshot))
    await put_back(snapshot, tree)
    assert _repository(project) == before
    assert not ran.exists()


def _repository(project: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in (project / ".git").rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


async def test_what_the_person_ignores_anywhere_is_not_taken_in(
    opened: Callable[..., Snapshot], project: Path, tmp_path: Path
) -> None:
    (project / ".gitignore").write_text("one\n")
    (project / ".git" / "info").mkdir(exist_ok=True)
    (project / ".git" / "info" / "exclude").write_text("two\n")
    (tmp_path / "my ignore").write_text("three\n")
    (tmp_path / "gitconfig").write_text(f'[core]\n\texcludesFile = "{tmp_path}/my ignore"\n')
    snapshot = opened()
    tree = await taken(snapshot)
    for name in ("one", "two", "three", "four"):
        (project / name).write_text("x")
    assert (await snapshot.patch(tree)).files == [str(project / "four")]


async def test_a_file_that_is_ignored_from_now_on_is_forgotten(snapshot: Snapshot, project: Path) -> None:
    (project / "log").write_text("1")
    await taken(snapshot)
    (project / ".gitignore").write_text("log\n")
    tree = await taken(snapshot)
    (project / "log").write_text("2")
    assert await taken(snapshot) == tree


async def test_files_that_cannot_be_told_are_left_out(snapshot: Snapshot, project: Path) -> None:
    tree = await taken(snapshot)
    Path(os.fsdecode(os.fsencode(project) + b"/\xff.txt")).write_text("x")
    os.mkfifo(project / "pipe")
    (project / 'ok "quoted"\t\n.txt').write_text("x")
    assert (await snapshot.patch(tree)).files == [str(project / 'ok "quoted"\t\n.txt')]
    assert snapshot.off is None


async def test_instars_own_data_inside_the_project_is_left_out(project: Path, processes: Processes) -> None:
    data = project / "my [data]"
    found = Project("id", project, project, "git")
    snapshot = Snapshot.of(processes, found, data, project.parent, None)
    tree = await taken(snapshot)
    assert (await snapshot.patch(tree)).files == []
    assert await taken(snapshot) == tree


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"vcs": None}, "in no git repository"),
        ({"wanted": False}, "the setting snapshot is false"),
        ({"worktree": Path("/")}, "in no git repository"),
    ],
)
async def test_where_no_snapshots_are_taken_it_says_why(
    opened: Callable[..., Snapshot], tmp_path: Path, options: dict[str, object], why: str
) -> None:
    snapshot = opened(**options)
    assert await snapshot.track() is None
    assert await snapshot.revert([]) is None
    await snapshot.cleanup()
    assert not snapshot.is_due()
    assert snapshot.off is not None
    assert why in snapshot.off
    assert not (tmp_path / "data").exists()


async def test_a_home_folder_is_not_copied(opened: Callable[..., Snapshot], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    assert "home folder" in str(opened(tmp_path / "home").off)


async def test_a_failure_switches_snapshots_off_with_one_warning(
    snapshot: Snapshot, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "data").write_text("in the way")
    assert await snapshot.track() is None
    assert await snapshot.track() is None
    assert len([record for record in caplog.records if "snapshots are off" in record.message]) == 1


async def test_a_broken_index_is_made_anew(snapshot: Snapshot, tmp_path: Path) -> None:
    tree = await taken(snapshot)
    (index,) = tmp_path.glob("data/snapshot/*/index")
    index.write_bytes(b"rubbish")
    (index.parent / "index.lock").touch()
    assert await taken(snapshot) == tree


async def test_two_runtimes_share_the_snapshots_of_a_worktree(
    opened: Callable[..., Snapshot], project: Path
) -> None:
    one, other = opened(), opened()
    first = await taken(one)
    (project / "b.txt").write_text("b")
    assert await taken(other) != first
    # The index that `one` knows is another one now.
    assert await taken(one) == await taken(other)
    trees = await asyncio.gather(*(taken(snapshot) for snapshot in (one, other) * 5))
    assert len(set(trees)) == 1


async def test_a_snapshot_holds_what_was_written_before_it_was_asked_for(
    snapshot: Snapshot, project: Path
) -> None:
    """Callers share a snapshot only when none of them may have written since it began."""

    async def write(number: int) -> tuple[str, str]:
        path = project / f"{number}.txt"
        await asyncio.sleep(0.002 * number)
        path.write_text(str(number))
        return str(path), await taken(snapshot)

    empty = await taken(snapshot)
    for path, tree in await asyncio.gather(*(write(number) for number in range(8))):
        assert path in await snapshot.changed(empty, tree)


async def test_an_asker_that_is_cancelled_leaves_the_snapshot_to_the_others(snapshot: Snapshot) -> None:
    first, second = asyncio.create_task(snapshot.track()), asyncio.create_task(snapshot.track())
    await asyncio.sleep(0)
    first.cancel()
    assert await second is not None


async def test_old_snapshots_are_dropped_once_a_day(
    snapshot: Snapshot, project: Path, tmp_path: Path
) -> None:
    old = await taken(snapshot)
    (project / "a.txt").write_text("new")
    new = await taken(snapshot)
    await snapshot.cleanup()
    assert await snapshot.changed(old, new) != []
    long_ago = time.time() - 40 * 24 * 60 * 60
    (folder,) = tmp_path.glob("data/snapshot/*")
    for path in folder.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    assert snapshot.is_due()
    await snapshot.cleanup()
    assert not snapshot.is_due()
    assert await snapshot.changed(old, new) == []
    assert await taken(snapshot) == new
    assert await snapshot.restore(new) is not None


async def test_the_shadow_is_private(snapshot: Snapshot, tmp_path: Path) -> None:
    await taken(snapshot)
    (folder,) = tmp_path.glob("data/snapshot/*")
    assert folder.stat().st_mode & 0o077 == 0
