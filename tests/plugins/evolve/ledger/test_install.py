"""Install, rollback, accept and restore of guarded files, with real git."""

import asyncio
import os
import shutil

import pytest
from tests.plugins.evolve.crash import NEW
from tests.waiting import SOON

from instar.plugins.evolve.database import Database
from instar.plugins.evolve.history.commits import History
from instar.plugins.evolve.history.repository import WorkspaceRepository
from instar.plugins.evolve.ledger import install
from instar.plugins.evolve.ledger.install import ChangeRefused, Installer
from instar.plugins.evolve.ledger.ledger import Ledger, LedgerError, WorkspaceBusy, held
from instar.plugins.evolve.trial import TrialFile

OLD = "#!/bin/sh\necho old\n"


class Made:
    """A workspace with its ledger and installer."""

    def __init__(self, root, home, processes):
        self.root, self.home = root, home
        self.history, self.repository = History(processes, root), WorkspaceRepository(processes, root)
        self.ledger = Ledger(home, root)
        self.installer = self.another()

    def another(self, ledger=None, **how):
        return Installer(ledger or self.ledger, self.repository, self.history.commit, **how)

    def everything(self):
        """All bytes of the workspace, git's folder included, and of the ledger."""
        return {
            path: path.read_bytes()
            for top in (self.root, self.home)
            for path in top.rglob("*")
            if path.is_file() and not path.is_symlink()
        }


@pytest.fixture
async def made(root, tmp_path, kit, processes):
    kit.script(root / "hooks", "bot.sh", OLD)
    kit.script(root / "prompts", "chat.md", "be good", 0o644)
    made = Made(root, tmp_path / "data" / "key", processes)
    await made.history.prepare()
    await made.installer.open()
    return made


def subjects(kit, made):
    return kit.git(made.root, "log", "--format=%s").split("\n")[:-1]


@pytest.mark.slow
async def test_an_install_is_one_commit_one_epoch_and_accepted(made, kit):
    changed = await made.installer.install({"hooks/bot.sh": NEW, "tests/a/bot.sh": NEW}, "two files")
    assert (made.root / "tests" / "a" / "bot.sh").read_bytes() == NEW.content
    assert os.access(made.root / "tests" / "a" / "bot.sh", os.X_OK)
    assert (changed.epoch, changed.files) == (2, ["hooks/bot.sh", "tests/a/bot.sh"])
    assert subjects(kit, made) == ["two files", "initial"]
    assert kit.git(made.root, "status", "--porcelain") == ""
    assert made.ledger.check() == []
    assert made.ledger.good("hooks/bot.sh") == NEW.content


@pytest.mark.slow
async def test_the_steps_of_an_install_are_named_in_their_order(made):
    steps = []
    await made.another(step=steps.append).install({"hooks/bot.sh": NEW}, "new")
    assert tuple(steps) == install.STEPS


async def test_a_file_is_deleted_like_it_is_installed(made, kit):
    await made.installer.install({"hooks/bot.sh": None}, "away")
    assert kit.git(made.root, "ls-files").split() == ["prompts/chat.md"]
    assert list(made.ledger.files) == ["prompts/chat.md"]
    assert made.ledger.check() == []


BAD = [
    "../x",
    "hooks",
    "hooks/",
    "hooks//x",
    "hooks/./x",
    "hooks/../x",
    "/hooks/x",
    "state/x",
    ".git/hooks/x",
]
BAD += ["hooks/a\0b", "hooks/a\nb", "hooks/__pycache__/x"]


@pytest.mark.slow
@pytest.mark.parametrize("path", BAD)
async def test_a_name_that_means_no_guarded_file_is_refused_and_nothing_is_written(made, path):
    before = made.everything()
    with pytest.raises(ChangeRefused):
        await made.installer.install({"hooks/bot.sh": NEW, path: NEW}, "bad")
    assert made.everything() == before


async def test_the_database_can_be_opened_while_a_change_is_made(made):
    found = []

    async def commit(files, message):
        found.append(await asyncio.to_thread(Database(made.home).doubt))
        return await made.history.commit(files, message)

    changer = Installer(made.ledger, made.repository, commit)
    await asyncio.wait_for(changer.install({"hooks/bot.sh": NEW}, "new"), SOON)
    assert found == [""]


async def test_a_departed_file_is_neither_changed_nor_committed(made, kit):
    (made.root / "hooks" / "bot.sh").write_text("by hand")
    before = made.everything()
    with pytest.raises(ChangeRefused, match="was changed, behind the gate"):
        await made.installer.install({"hooks/bot.sh": NEW}, "over it")
    assert made.everything() == before
    await made.installer.install({"prompts/chat.md": TrialFile(b"be better")}, "beside it")
    assert kit.git(made.root, "status", "--porcelain").split() == ["M", "hooks/bot.sh"]


async def test_a_link_on_the_way_is_not_followed(made, tmp_path):
    (tmp_path / "outside").mkdir()
    (made.root / "tests").symlink_to(tmp_path / "outside")
    with pytest.raises(ChangeRefused, match="no folder"):
        await made.installer.install({"prompts/chat.md": TrialFile(b"new"), "tests/x.sh": NEW}, "through it")
    assert os.listdir(tmp_path / "outside") == []
    assert (made.root / "prompts" / "chat.md").read_text() == "be good"


async def test_a_file_that_cannot_be_placed_takes_the_others_back(made, kit):
    (made.root / "hooks" / "new.sh" / "kept").mkdir(parents=True)
    with pytest.raises(ChangeRefused, match="all is as it was"):
        await made.installer.install({"hooks/bot.sh": NEW, "hooks/new.sh": NEW}, "one is a folder")
    assert (made.root / "hooks" / "bot.sh").read_text() == OLD
    assert subjects(kit, made) == ["initial"]
    assert sorted(os.listdir(made.root / "hooks")) == ["bot.sh", "new.sh"]
    assert made.ledger.check() == []


@pytest.mark.slow
async def test_a_person_accepts_by_hand_what_they_changed(made, kit):
    (made.root / "hooks" / "bot.sh").write_text("by hand")
    (made.root / "prompts" / "chat.md").unlink()
    (made.root / "hooks" / "new.sh").touch()
    await made.installer.accept("one of them", ["hooks/bot.sh"])
    assert [one.path for one in made.ledger.check()] == ["hooks/new.sh", "prompts/chat.md"]
    changed = await made.installer.accept("the rest")
    assert made.ledger.check() == []
    assert changed.epoch == 3
    assert subjects(kit, made) == ["the rest", "one of them", "initial"]
    assert kit.git(made.root, "status", "--porcelain") == ""
    with pytest.raises(ChangeRefused, match="nothing to change"):
        await made.installer.accept("again")


async def test_what_cannot_be_accepted_is_named(made):
    (made.root / "hooks" / "bot.sh").unlink()
    os.mkfifo(made.root / "hooks" / "bot.sh")
    with pytest.raises(ChangeRefused, match="a pipe"):
        await made.installer.accept("a pipe")
    with pytest.raises(ChangeRefused, match="has not departed"):
        await made.installer.accept("nothing", ["prompts/chat.md"])


@pytest.mark.slow
@pytest.mark.parametrize("what", ["changed", "gone", "pipe", "link", "empty folder"])
async def test_restore_puts_the_accepted_version_back_whatever_stands_there(made, kit, what):
    path = made.root / "hooks" / "bot.sh"
    path.unlink()
    makers = {"changed": lambda: path.write_text("x"), "pipe": lambda: os.mkfifo(path)}
    makers |= {
        "link": lambda: path.symlink_to("/etc/passwd"),
        "empty folder": path.mkdir,
        "gone": lambda: None,
    }
    makers[what]()
    (made.root / "hooks" / "new.sh").touch()
    await made.installer.restore("back")
    assert path.read_text() == OLD
    assert [(one.path, one.kind) for one in made.ledger.check()] == [("hooks/new.sh", "new")]
    with pytest.raises(ChangeRefused, match="delete it by hand"):
        await made.installer.restore("the new one", ["hooks/new.sh"])


async def test_a_version_that_only_gits_history_has_is_found_there(made):
    (made.root / "hooks" / "bot.sh").unlink()
    shutil.rmtree(made.home / "accepted.git" / "objects")
    await made.another(ledger := Ledger(made.home, made.root)).open()
    assert "is missing" in ledger.notices[0]
    assert "accepted.git.broken-1" in ledger.notices[1]
    await made.another(ledger).restore("back")
    assert (made.root / "hooks" / "bot.sh").read_text() == OLD


async def test_a_content_that_was_lost_while_instar_runs_is_found_in_gits_history(made):
    shutil.rmtree(made.home / "accepted.git" / "objects" / made.ledger.files["hooks/bot.sh"].blob[:2])
    (made.root / "hooks" / "bot.sh").unlink()
    await made.installer.restore("back")
    assert (made.root / "hooks" / "bot.sh").read_text() == OLD


async def test_without_git_the_change_stays_and_is_accepted(made):
    (made.root / ".git" / "HEAD").write_text("garbage")
    changed = await made.installer.install({"hooks/bot.sh": NEW}, "new")
    assert changed.commit is None
    assert made.ledger.check() == []


@pytest.mark.slow
async def test_two_instars_change_one_workspace_one_after_the_other(made, kit):
    others = [made.another(Ledger(made.home, made.root)) for _ in range(3)]
    for other in others:
        await other.open()
    changes = [
        other.install({f"hooks/{number}.sh": NEW}, f"change-{number}")
        for number, other in enumerate([made.installer, *others])
    ]
    epochs = [changed.epoch for changed in await asyncio.gather(*changes)]
    assert sorted(epochs) == [2, 3, 4, 5]
    assert made.ledger.check() == []
    assert len(made.ledger.files) == 6
    assert len(subjects(kit, made)) == 5


async def test_who_waits_too_long_for_another_instar_is_told_so(made):
    async with held(made.ledger.lock, 1):
        with pytest.raises(WorkspaceBusy, match="another instar"):
            await made.another(wait=0.05).install({"hooks/bot.sh": NEW}, "new")
    assert (made.root / "hooks" / "bot.sh").read_text() == OLD


@pytest.mark.slow
async def test_a_change_that_has_begun_is_carried_to_its_end_when_its_caller_is_cancelled(made, kit):
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def step(name):
        if name == install.PLACED:
            loop.call_soon_threadsafe(begun.set)

    task = asyncio.ensure_future(made.another(step=step).install({"hooks/bot.sh": NEW}, "new"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert subjects(kit, made) == ["new", "initial"]
    assert made.ledger.check() == []


async def test_a_ledger_that_cannot_be_written_refuses_and_still_answers(made, tmp_path):
    ledger = Ledger(tmp_path / ("x" * 300) / "key", made.root)
    installer = made.another(ledger)
    assert "File name too long" in (await installer.open())[0]
    with pytest.raises(LedgerError, match="cannot be used"):
        await installer.install({"hooks/bot.sh": NEW}, "new")
    assert {one.kind for one in ledger.check()} == {"new"}


async def test_a_file_keeps_its_permission_bits_where_they_say_the_same(made):
    (made.root / "hooks" / "bot.sh").chmod(0o700)
    (made.root / "prompts" / "chat.md").chmod(0o600)
    changes = {"hooks/bot.sh": NEW, "prompts/chat.md": TrialFile(b"be better")}
    await made.installer.install(changes, "new")
    modes = [(made.root / path).stat().st_mode & 0o777 for path in changes]
    assert modes == [0o700, 0o600]


async def test_what_stood_before_a_change_and_after_it_is_told(made):
    ledger, path = made.ledger, "hooks/bot.sh"
    await made.installer.install({path: NEW}, "new")
    await made.installer.install({path: None}, "away")
    for epoch, texts in ((2, (OLD.encode(), NEW.content)), (3, (NEW.content, None))):
        sides = [files.get(path) for files, _ in ledger.around(epoch)]
        assert tuple(one and ledger.kept.content(one.blob) for one in sides) == texts
        assert [left[path] for _, left in ledger.around(epoch)] == [ledger.left[path]] * 2
    assert [ledger.around(epoch) for epoch in (1, 4)] == [None, None]
