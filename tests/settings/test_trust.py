"""Which folders may bring code, and that an unclear list trusts nothing."""

import json
import os
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from instar.settings.paths import Paths
from instar.settings.trust import Trust, TrustError


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths.from_environment({"HOME": str(tmp_path / "home")})


@pytest.fixture
def trust(paths: Paths) -> Trust:
    return Trust(paths, {})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A worktree with a subfolder ``sub`` and, in ``inner``, a repository of its own."""
    subprocess.run(["git", "init", "-q", tmp_path / "repository"], check=True)
    subprocess.run(["git", "init", "-q", tmp_path / "repository/inner"], check=True)
    (tmp_path / "repository/sub/deep").mkdir(parents=True)
    return tmp_path / "repository"


def test_nothing_is_trusted_at_first(trust: Trust, tmp_path: Path) -> None:
    assert not trust.is_trusted(tmp_path)
    assert trust.list() == []
    assert trust.problem is None


def test_a_folder_is_trusted_from_when_it_is_added_until_it_is_removed(
    trust: Trust, paths: Paths, tmp_path: Path
) -> None:
    assert trust.add(tmp_path) == tmp_path
    assert trust.is_trusted(tmp_path)
    assert Trust(paths, {}).list() == [tmp_path]
    assert trust.remove(tmp_path)
    assert not trust.is_trusted(tmp_path)
    assert not trust.remove(tmp_path)


def test_the_list_is_for_the_person_alone(trust: Trust, paths: Paths, tmp_path: Path) -> None:
    trust.add(tmp_path)
    assert stat.S_IMODE(paths.trust_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.data.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("listed", "asked", "answer"),
    [
        (".", ".", True),
        (".", "sub", True),
        (".", "sub/deep", True),
        ("sub", "sub/deep", True),
        ("sub", ".", False),
        (".", "inner", False),
        ("inner", "inner", True),
        ("inner", ".", False),
        (".", "..", False),
        (".", "missing", True),
    ],
)
def test_trust_reaches_down_within_one_worktree(
    trust: Trust, repository: Path, listed: str, asked: str, answer: bool
) -> None:
    trust.add(repository / listed)
    assert trust.is_trusted(repository / asked) is answer


def test_outside_a_repository_trust_does_not_reach_down(trust: Trust, tmp_path: Path) -> None:
    (tmp_path / "plain/sub").mkdir(parents=True)
    trust.add(tmp_path / "plain")
    assert not trust.is_trusted(tmp_path / "plain/sub")


def test_a_repository_below_a_trusted_plain_folder_is_not_trusted(
    trust: Trust, repository: Path, tmp_path: Path
) -> None:
    trust.add(tmp_path)
    assert not trust.is_trusted(repository)


def test_a_repository_whose_git_folder_is_gone_is_not_trusted_with_the_one_around_it(
    trust: Trust, repository: Path
) -> None:
    trust.add(repository)
    assert trust.is_trusted(repository / "sub/deep")
    (repository / "sub/.git").write_text("gitdir: ../.git/modules/gone\n")
    assert not trust.is_trusted(repository / "sub")
    assert not trust.is_trusted(repository / "sub/deep")
    trust.add(repository / "sub")
    assert trust.is_trusted(repository / "sub")


def test_a_link_is_judged_by_what_it_points_to(trust: Trust, repository: Path, tmp_path: Path) -> None:
    (tmp_path / "evil").mkdir()
    (repository / "link").symlink_to(tmp_path / "evil")
    trust.add(repository)
    assert not trust.is_trusted(repository / "link")
    (tmp_path / "good").symlink_to(repository)
    assert trust.is_trusted(tmp_path / "good")


def test_a_loop_of_links_is_not_trusted(trust: Trust, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert not trust.is_trusted(tmp_path / "loop")


def test_the_home_configuration_is_trusted_always(trust: Trust, paths: Paths) -> None:
    for home in paths.config_homes:
        assert trust.is_trusted(home)
        assert trust.is_trusted(home / "plugin")
    assert not trust.is_trusted(paths.home)


@pytest.mark.parametrize(
    ("value", "answer"), [("all", True), ("", False), ("none", False), ("1", False), ("ALL", False)]
)
def test_only_the_word_all_in_the_environment_trusts_everything(
    paths: Paths, tmp_path: Path, value: str, answer: bool
) -> None:
    assert Trust(paths, {"INSTAR_TRUST": value}).is_trusted(tmp_path) is answer


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"folders": ', r"trust\.json:1:13: expected a value"),
        ("[]", r'trust\.json:1:1: expected \{"folders"'),
        ('{"folders": ["/"]}', r"expected \{"),
        ("", r"trust\.json:1:1: expected a value"),
    ],
)
def test_a_broken_list_trusts_nothing_says_so_and_is_left_alone(
    trust: Trust, paths: Paths, tmp_path: Path, content: str, said: str
) -> None:
    trust.add(tmp_path)
    paths.trust_file.write_text(content)
    assert not trust.is_trusted(tmp_path)
    for act in (trust.list, lambda: trust.add(tmp_path), lambda: trust.remove(tmp_path)):
        with pytest.raises(TrustError, match=said):
            act()
    assert "nothing is trusted until it is mended or deleted" in (trust.problem or "")
    assert paths.trust_file.read_text() == content


def test_a_list_that_others_may_write_trusts_nothing(trust: Trust, paths: Paths, tmp_path: Path) -> None:
    trust.add(tmp_path)
    paths.trust_file.chmod(0o666)
    assert not trust.is_trusted(tmp_path)
    assert "chmod 600" in (trust.problem or "")


def test_what_is_no_folder_cannot_be_trusted(trust: Trust, tmp_path: Path) -> None:
    with pytest.raises(TrustError, match="there is nothing to trust"):
        trust.add(tmp_path / "missing")


@pytest.mark.slow
def test_folders_added_at_once_by_several_processes_are_all_kept(paths: Paths, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from instar.settings.paths import Paths; from instar.settings.trust import Trust\n"
        f"Trust(Paths.from_environment({{'HOME': {str(paths.home)!r}}}), {{}}).add(Path(sys.argv[1]))"
    )
    folders = [tmp_path / str(n) for n in range(6)]
    for folder in folders:
        folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with ThreadPoolExecutor() as pool:
        runs = [
            pool.submit(
                subprocess.run, [sys.executable, "-c", code, str(folder)], env=environment, check=True
            )
            for folder in folders
        ]
    for run in runs:
        run.result()
    assert Trust(paths, {}).list() == folders
    assert json.loads(paths.trust_file.read_text())["version"] == 1


def test_a_no_is_remembered_trusts_nothing_and_gives_way_to_a_later_yes(
    trust: Trust, paths: Paths, tmp_path: Path
) -> None:
    trust.refuse(tmp_path)
    assert Trust(paths, {}).is_refused(tmp_path)
    assert not trust.is_trusted(tmp_path)
    assert trust.list() == []
    assert not trust.remove(tmp_path)
    trust.add(tmp_path)
    assert trust.is_trusted(tmp_path)
    assert not trust.is_refused(tmp_path)
    trust.refuse(tmp_path)
    assert trust.is_trusted(tmp_path)


# -- what steers -------------------------------------------------------------------------------------


def test_what_steers_is_read_as_it_was_accepted_for_the_very_folder(trust: Trust, repository: Path) -> None:
    file = repository / "sub" / "instar.json"
    trust.add(repository)
    file.write_text('{"model": "a/b"}')
    view = trust.view(repository / "sub")
    assert trust.is_trusted(repository / "sub")
    assert (view.served(file).exists(), [*view.changes]) == (False, [("instar.json", "new")])
    trust.add(repository / "sub")
    file.write_text("{}")
    view = trust.view(repository / "sub")
    assert view.served(file).read_text() == '{"model": "a/b"}'
    assert view.named(view.served(file)) == file
    assert [*view.changes] == [("instar.json", "changed")]


def test_what_steers_is_read_as_it_stands_where_the_person_alone_writes(paths: Paths, tmp_path: Path) -> None:
    for view in (
        Trust(paths, {"INSTAR_TRUST": "all"}).view(tmp_path),
        Trust(paths, {}).view(paths.config_homes[0]),
        Trust(paths, {}).view(tmp_path),
    ):
        assert (view.tree, view.changes) == (None, ())


def test_a_list_of_the_version_before_keeps_its_folders_and_no_version_of_them(
    trust: Trust, paths: Paths, tmp_path: Path
) -> None:
    (tmp_path / "instar.json").write_text('{"evolve": {"unsafe": true}}')
    kept = {
        "added": 1,
        "guards": {"instar.json": {"evolve": {"unsafe": True}}},
        "seen": {},
        "code": {"a.py": "0"},
    }
    paths.trust_file.parent.mkdir(parents=True)
    paths.trust_file.write_text(json.dumps({"version": 1, "folders": {str(tmp_path): kept}}))
    paths.trust_file.chmod(0o600)
    assert trust.is_trusted(tmp_path)
    assert [*trust.view(tmp_path).changes] == [("instar.json", "new")]
    trust.add(tmp_path)
    assert trust.view(tmp_path).changes == ()
    assert json.loads(paths.trust_file.read_text())["folders"] == {str(tmp_path): {"added": 1}}


def test_a_damaged_version_is_not_heard_and_can_be_accepted_again(
    trust: Trust, paths: Paths, tmp_path: Path
) -> None:
    file = tmp_path / "instar.json"
    file.write_text('{"model": "a/b"}')
    trust.add(tmp_path)
    served = trust.view(tmp_path).served(file)
    shutil.rmtree(paths.accepted)
    assert trust.view(tmp_path).served(file).read_text() == '{"model": "a/b"}'
    shutil.rmtree(paths.accepted)
    for name in (paths.data / "accepted.git/objects").rglob("*"):
        if name.is_file():
            name.write_bytes(b"x")
    assert not served.exists()
    assert trust.view(tmp_path).changes == (("instar.json", "new"),)
    trust.add(tmp_path)
    assert trust.view(tmp_path).changes == ()


def test_more_than_a_tree_may_hold_is_said(
    trust: Trust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.settings.steered.MOST", 3)
    for name in "abcde":
        path = tmp_path / ".opencode/node_modules" / name / "index.js"
        path.parent.mkdir(parents=True)
        path.write_text(name)
    with pytest.raises(TrustError, match="more than 3 files"):
        trust.add(tmp_path)
    assert trust.list() == []
