"""Git worktrees for sessions: made hardened, trusted as their repository is, removed only when no work is lost."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from instar.plugin import Invalid, LocalTarget, SessionBody, wire
from instar.settings.paths import Paths
from instar.settings.trust import Trust
from instar.store import PutValue
from instar.testing import Machine

pytest_plugins = ["tests.turn"]


def git(folder: Path, *args: str) -> str:
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", *name, *args], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(house: Machine) -> Path:
    git(house.folder, "init", "-q", "-b", "main")
    (house.folder / "a.txt").write_text("one\n")
    git(house.folder, "add", ".")
    git(house.folder, "commit", "-qm", "first")
    return house.folder


def commit(folder: Path, name: str = "b.txt") -> None:
    (folder / name).write_text("two\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "second")


@pytest.mark.slow
async def test_a_worktree_stands_in_instars_data_on_a_branch_of_its_own(
    house: Machine, repository: Path
) -> None:
    workspaces = (await house.open()).runtime.workspace
    info = await workspaces.create(name="fix")
    folder = Path(str(info.directory))
    assert folder.is_relative_to(house.data / "worktrees")
    assert git(folder, "branch", "--show-current") == info.branch == "instar/fix"
    assert await workspaces.target("fix") == LocalTarget(folder)
    other = await workspaces.create(name="other", branch="topic/x")
    assert git(Path(str(other.directory)), "branch", "--show-current") == "topic/x"
    assert git(repository, "status", "--porcelain") == ""


@pytest.mark.slow
async def test_a_worktree_may_begin_at_another_ones_branch(house: Machine, repository: Path) -> None:
    workspaces = (await house.open()).runtime.workspace
    first = await workspaces.create(name="first")
    commit(Path(str(first.directory)))
    second = await workspaces.create(name="second", from_id=first.id)
    assert (Path(str(second.directory)) / "b.txt").exists()


@pytest.mark.slow
async def test_one_can_be_made_from_within_another_and_from_a_folder_of_the_project(
    house: Machine, repository: Path
) -> None:
    info = await (await house.open()).runtime.workspace.create(name="one")
    house.folder = Path(str(info.directory))
    within = (await house.open()).runtime.workspace
    second = await within.create(name="two")
    assert Path(str(second.directory)).parent == house.folder.parent
    await within.remove("two")
    (repository / "sub").mkdir()
    house.folder = repository / "sub"
    third = await (await house.open()).runtime.workspace.create(name="three")
    assert Path(str(third.directory)).parent == Path(str(info.directory)).parent


@pytest.mark.slow
async def test_two_clones_of_one_repository_have_worktrees_of_the_same_branch(
    house: Machine, repository: Path
) -> None:
    await (await house.open()).runtime.workspace.create(name="one")
    git(repository.parent, "clone", "-q", "project", "clone")
    house.folder = repository.parent / "clone"
    in_clone = (await house.open()).runtime.workspace
    info = await in_clone.create(name="two", branch="instar/one")
    # The two clones are one project: either removes what the other made.
    await in_clone.remove("one")
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert Path(str(info.directory)).is_dir()


async def test_outside_a_repository_and_before_the_first_commit_there_is_no_worktree(house: Machine) -> None:
    for said in ("lies in no git repository, so it has no worktrees: git init it", "begins at a commit"):
        workspaces = (await house.open()).runtime.workspace
        with pytest.raises(Invalid, match=said):
            await workspaces.create()
        assert await workspaces.list() == []
        git(house.folder, "init", "-q")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("branch", "said"),
    [
        ("main", "the branch main is there already"),
        ("-x", "cannot be a branch's name"),
        ("a..b", "cannot be a branch's name"),
        ("a b", "cannot be a branch's name"),
        ("main/x", "main/x"),
    ],
)
async def test_a_branch_that_cannot_be_made_is_refused(
    house: Machine, repository: Path, branch: str, said: str
) -> None:
    workspaces = (await house.open()).runtime.workspace
    with pytest.raises(Invalid, match=said):
        await workspaces.create(name="x", branch=branch)
    assert await workspaces.list() == []
    assert git(repository, "branch", "--format=%(refname:short)") == "main"
    assert git(repository, "worktree", "prune", "--verbose") == ""
    await workspaces.create(name="x")


@pytest.mark.slow
async def test_a_folder_in_the_way_is_left_alone(house: Machine, repository: Path) -> None:
    workspaces = (await house.open()).runtime.workspace
    folder = Path(str((await workspaces.create(name="x")).directory))
    await workspaces.remove("x")
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(Invalid, match="is there already, and no workspace"):
        await workspaces.create(name="x")
    assert (folder / "mine.txt").read_text() == "mine"


def _nothing(folder: Path) -> None: ...


def _untracked(folder: Path) -> None:
    (folder / "new.txt").write_text("new")
    git(folder, "config", "status.showUntrackedFiles", "no")


def _detached(folder: Path) -> None:
    git(folder, "checkout", "-q", "--detach")
    commit(folder)


def _merged(folder: Path) -> None:
    commit(folder)
    git(folder, "branch", "kept")


def _ignored(folder: Path) -> None:
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "ignore")
    git(folder, "tag", "kept")
    (folder / "a.log").write_text("noise")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "lost"),
    [
        (_nothing, None),
        (_untracked, "1 changed file:"),
        (lambda folder: (folder / "a.txt").unlink(), "1 changed file:"),
        (commit, "1 commit that no other branch has"),
        (_detached, "1 commit that no other branch has"),
        (_merged, None),
        (_ignored, None),
    ],
)
async def test_a_worktree_is_removed_with_its_branch_when_no_work_is_lost(
    house: Machine, repository: Path, work: Callable[[Path], object], lost: str | None
) -> None:
    workspaces = (await house.open()).runtime.workspace
    folder = Path(str((await workspaces.create(name="fix")).directory))
    work(folder)
    if lost is not None:
        with pytest.raises(Invalid, match=f"workspace fix holds {lost}"):
            await workspaces.remove("fix")
        assert folder.is_dir()
    await workspaces.remove("fix", force=lost is not None)
    assert not folder.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert "instar/fix" not in git(repository, "branch")


async def test_a_worktree_that_a_person_locked_is_not_removed(house: Machine, repository: Path) -> None:
    workspaces = (await house.open()).runtime.workspace
    folder = Path(str((await workspaces.create(name="fix")).directory))
    git(repository, "worktree", "lock", "--reason", "a stick", str(folder))
    with pytest.raises(Invalid, match="a stick"):
        await workspaces.remove("fix", force=True)
    assert folder.is_dir()
    assert [info.name for info in await workspaces.list()] == ["fix"]


async def test_a_worktree_whose_repository_is_gone_is_removed_by_force_alone(
    house: Machine, repository: Path
) -> None:
    workspaces = (await house.open()).runtime.workspace
    folder = Path(str((await workspaces.create(name="fix")).directory))
    (repository / ".git").rename(repository / "gone")
    with pytest.raises(Invalid, match="files of a repository that is gone"):
        await workspaces.remove("fix")
    await workspaces.remove("fix", force=True)
    assert not folder.exists()


async def test_a_folder_that_is_not_below_ours_is_never_deleted(house: Machine, repository: Path) -> None:
    door = await house.open()
    info = await door.runtime.workspace.create(name="fix")
    precious = repository.parent / "precious"
    precious.mkdir()
    for directory in (str(precious), f"{info.directory}/../../../../../../precious", "/", None):
        changed = wire.replace(info, directory=directory)
        kept = {"info": wire.to_plain(changed), "ready": True}
        await door.runtime.instance.store.commit([PutValue("instar", f"workspace:{info.id}", kept)])
        with pytest.raises(Invalid, match="is not below"):
            await door.runtime.workspace.remove("fix", force=True)
    assert precious.is_dir()


@pytest.mark.slow
async def test_hooks_of_the_repository_do_not_run(house: Machine, repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch hooked\n")
    hook.chmod(0o755)
    info = await (await house.open()).runtime.workspace.create()
    assert not (Path(str(info.directory)) / "hooked").exists()


def _filtered(repository: Path) -> None:
    (repository / ".gitattributes").write_text("* filter=mark\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "attributes")
    git(repository, "config", "filter.mark.smudge", f"touch {repository.parent}/ran; cat")


@pytest.mark.slow
async def test_filters_of_the_repositorys_own_settings_run_only_where_it_is_trusted(
    house: Machine, repository: Path
) -> None:
    _filtered(repository)
    del house.environment["INSTAR_TRUST"]
    workspaces = (await house.open()).runtime.workspace
    with pytest.raises(Invalid, match=r"is not trusted, and .*filter.mark.smudge.*instar trust"):
        await workspaces.create()
    assert not (repository.parent / "ran").exists()
    Trust(Paths.from_environment(house.environment), {}).add(repository)
    await workspaces.create()
    assert (repository.parent / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["onbranch:instar/**", "gitdir:**/worktrees/**"])
async def test_filters_that_hold_in_the_new_worktree_alone_do_not_run_untrusted(
    house: Machine, repository: Path, where: str
) -> None:
    _filtered(repository)
    git(repository, "config", "--unset", "filter.mark.smudge")
    (repository / ".git" / "more").write_text(
        f'[filter "mark"]\n\tsmudge = touch {repository.parent}/ran; cat\n'
    )
    git(repository, "config", f"includeIf.{where}.path", "more")
    del house.environment["INSTAR_TRUST"]
    with pytest.raises(Invalid, match=r"is not trusted, and .*includeif"):
        await (await house.open()).runtime.workspace.create()
    assert not (repository.parent / "ran").exists()


@pytest.mark.slow
async def test_a_worktree_is_trusted_exactly_while_its_repository_is(
    house: Machine, repository: Path
) -> None:
    del house.environment["INSTAR_TRUST"]
    trust = Trust(Paths.from_environment(house.environment), {})
    info = await (await house.open()).runtime.workspace.create(name="fix")
    folder = Path(str(info.directory))
    (folder / "sub").mkdir()
    assert not trust.is_trusted(folder)
    trust.add(repository)
    assert trust.is_trusted(folder)
    assert trust.is_trusted(folder / "sub")
    assert trust.list() == [repository]
    git(folder, "init", "-q", "inner")
    assert not trust.is_trusted(folder / "inner")
    trust.remove(repository)
    assert not trust.is_trusted(folder)
    trust.add(repository)
    git(repository, "worktree", "remove", "--force", str(folder))
    folder.mkdir()
    assert not trust.is_trusted(folder)


@pytest.mark.slow
async def test_what_was_accepted_of_a_repository_holds_in_its_worktree(
    house: Machine, repository: Path
) -> None:
    trust = Trust(Paths.from_environment(house.environment), {})
    (repository / "instar.json").write_text('{"evolve": {"frozen": true}}')
    trust.add(repository)
    folder = Path(str((await (await house.open()).runtime.workspace.create(name="fix")).directory))
    view = trust.view(folder)
    assert view.served(folder / "instar.json").read_text() == '{"evolve": {"frozen": true}}'
    assert [*view.changes] == [("instar.json", "gone")]
    trust.remove(repository)
    assert trust.view(folder).tree is None


@pytest.mark.slow
async def test_a_worktree_cannot_make_itself_one_of_a_trusted_repository(
    house: Machine, repository: Path
) -> None:
    del house.environment["INSTAR_TRUST"]
    trust = Trust(Paths.from_environment(house.environment), {})
    good = await (await house.open()).runtime.workspace.create(name="good")
    trust.add(repository)
    bad = repository.parent / "bad"
    git(repository.parent, "init", "-q", "bad")
    commit(bad)
    house.folder = bad
    info = await (await house.open()).runtime.workspace.create(name="bad")
    folder = Path(str(info.directory))
    assert trust.is_trusted(Path(str(good.directory)))
    (folder / ".git").write_text((Path(str(good.directory)) / ".git").read_text())
    assert not trust.is_trusted(folder)
    forged = folder / "worktrees" / "bad"
    forged.mkdir(parents=True)
    (forged / "HEAD").write_text("ref: refs/heads/main\n")
    (forged / "commondir").write_text(str(repository / ".git"))
    (forged / "gitdir").write_text(str(folder / ".git"))
    (folder / ".git").write_text(f"gitdir: {forged}\n")
    assert not trust.is_trusted(folder)


async def test_a_worktree_elsewhere_is_not_trusted_with_its_repository(
    house: Machine, repository: Path
) -> None:
    # What a person checks out beside, a stranger's branch perhaps, they trust by themselves.
    trust = Trust(Paths.from_environment(house.environment), {})
    trust.add(repository)
    git(repository, "worktree", "add", "-q", "../beside")
    assert not trust.is_trusted(repository.parent / "beside")


@pytest.mark.slow
async def test_what_a_project_brings_runs_in_its_worktree_too(house: Machine, repository: Path) -> None:
    del house.environment["INSTAR_TRUST"]
    house.plugin("""
        async def shout(input, options):
            async def complete(given, output):
                output.text = output.text.upper()

            return {"text.complete": complete}
    """)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "plugin")
    house.says('== when ""\ntext: hello\n')
    house.trust()
    info = await (await house.open()).runtime.workspace.create()
    house.folder = Path(str(info.directory))
    there = await house.open()
    session = await there.client.create(SessionBody(title="named", workspace_id=info.id))
    assert "HELLO" in str(await there.ask(session.id, "hi"))
    assert os.fspath(house.folder) == session.directory


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["the folder", "its link to the repository"])
async def test_what_git_left_of_a_worktree_while_it_tidied_up_is_removed_with_its_branch(
    house: Machine, repository: Path, gone: str
) -> None:
    workspaces = (await house.open()).runtime.workspace
    folder = Path(str((await workspaces.create(name="fix")).directory))
    if gone == "the folder":
        shutil.rmtree(folder)
    else:
        (folder / ".git").unlink()
    (repository / ".git" / "worktrees" / "fix" / "locked").write_text("initializing")
    await workspaces.remove("fix")
    assert not folder.exists()
    assert git(repository, "branch") == "* main"
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.slow
async def test_what_git_left_of_a_worktree_whose_checkout_was_ended_is_removed_with_its_branch(
    house: Machine, repository: Path
) -> None:
    workspaces = (await house.open()).runtime.workspace
    folder = Path(str((await workspaces.create(name="fix")).directory))
    entry = repository / ".git" / "worktrees" / "fix"
    (entry / "index").rename(entry / "index.lock")
    (folder / "a.txt").unlink()
    await workspaces.remove("fix")
    assert not folder.exists()
    assert git(repository, "branch") == "* main"


@pytest.mark.slow
async def test_what_git_left_of_a_worktree_while_it_took_it_back_is_removed_and_no_work_with_it(
    house: Machine, repository: Path
) -> None:
    workspaces = (await house.open()).runtime.workspace
    folder = Path(str((await workspaces.create(name="fix")).directory))
    entry = repository / ".git" / "worktrees" / "fix"
    (entry / "gitdir").unlink()
    (folder / "b.txt").write_text("work\n")
    with pytest.raises(Invalid, match="holds 1 changed file"):
        await workspaces.remove("fix")
    (entry / "index").rename(entry / "index.lock")
    await workspaces.remove("fix")
    assert not folder.exists()
    assert git(repository, "branch") == "* main"
    assert not entry.exists()
