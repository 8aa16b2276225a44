"""What of a workspace is accepted: departures, and what serves when the ledger itself is broken."""

import os
import shutil
import sys

import pytest

from instar.plugins.evolve.history.commits import History
from instar.plugins.evolve.history.repository import WorkspaceRepository
from instar.plugins.evolve.ledger.install import ChangeRefused, Installer
from instar.plugins.evolve.ledger.ledger import Ledger
from instar.plugins.evolve.trial import TrialFile

BOT = "#!/bin/sh\necho good\n"


class Kept:
    """A workspace with a ledger, of which instar can be started again and again."""

    def __init__(self, root, home, processes):
        self.root, self.home, self.git = root, home, home / "accepted.git"
        self.history, self.repository = History(processes, root), WorkspaceRepository(processes, root)

    async def start(self):
        ledger = Ledger(self.home, self.root)
        installer = Installer(ledger, self.repository, self.history.commit)
        return ledger, installer, await installer.open()


@pytest.fixture
async def kept(root, tmp_path, kit, processes):
    kit.script(root / "hooks", "bot.sh", BOT)
    kit.script(root / "prompts", "chat.md", "be good", 0o644)
    kept = Kept(root, tmp_path / "data" / "key", processes)
    await kept.history.prepare()
    return kept


def kinds(ledger):
    return {one.path: one.kind for one in ledger.check()}


async def test_the_first_sight_accepts_what_stands(kept):
    ledger, _, said = await kept.start()
    assert said == []
    assert ledger.epoch == 1
    assert sorted(ledger.files) == ["hooks/bot.sh", "prompts/chat.md"]
    assert ledger.check() == []
    assert ledger.good("hooks/bot.sh") == BOT.encode()
    assert ledger.good("hooks/other.sh") is None


def change(root):
    (root / "hooks" / "bot.sh").write_text(BOT.replace("good", "evil"))


def behind_the_old_time(root):
    path = root / "hooks" / "bot.sh"
    info = path.stat()
    change(root)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def as_a(make):
    def do(root):
        (root / "hooks" / "bot.sh").unlink()
        make(root / "hooks" / "bot.sh")

    return do


DEPARTURES = {
    "changed": (change, {"hooks/bot.sh": "changed"}),
    "changed, with the old size and time": (behind_the_old_time, {"hooks/bot.sh": "changed"}),
    "no longer run": (lambda root: (root / "hooks" / "bot.sh").chmod(0o644), {"hooks/bot.sh": "mode"}),
    "set-id": (lambda root: (root / "hooks" / "bot.sh").chmod(0o4755), {"hooks/bot.sh": "mode"}),
    "gone": (lambda root: (root / "hooks" / "bot.sh").unlink(), {"hooks/bot.sh": "missing"}),
    "new": (lambda root: (root / "hooks" / "json.py").touch(), {"hooks/json.py": "new"}),
    "new and hidden": (lambda root: (root / "config" / ".x").touch(), {"config/.x": "new"}),
    "a pipe": (as_a(os.mkfifo), {"hooks/bot.sh": "special"}),
    "a link": (as_a(lambda path: path.symlink_to("/etc/passwd")), {"hooks/bot.sh": "link"}),
    "a folder with a file": (
        as_a(lambda path: (path.mkdir(), (path / "x").touch())),
        {"hooks/bot.sh": "missing", "hooks/bot.sh/x": "new"},
    ),
    "its folder a link": (
        lambda root: ((root / "hooks").rename(root / "else"), (root / "hooks").symlink_to("else")),
        {"hooks": "special", "hooks/bot.sh": "missing"},
    ),
    "a name that is not UTF-8": (
        lambda root: open(os.fsencode(root / "hooks") + b"/\xff", "w").close(),
        {"hooks/\udcff": "special"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", DEPARTURES)
async def test_what_is_not_as_accepted_has_departed_for_a_running_and_a_new_instar(kept, what):
    do, expected = DEPARTURES[what]
    (kept.root / "config").mkdir()
    running, _, _ = await kept.start()
    assert running.check() == []
    do(kept.root)
    fresh, _, _ = await kept.start()
    assert kinds(running) == kinds(fresh) == expected
    assert all(one.path in one.text for one in fresh.check())


async def test_a_mode_that_lets_the_same_be_run_and_pythons_cache_are_no_departure(kept):
    ledger, _, _ = await kept.start()
    (kept.root / "hooks" / "bot.sh").chmod(0o775)
    (kept.root / "prompts" / "chat.md").chmod(0o600)
    (kept.root / "hooks" / "__pycache__").mkdir()
    (kept.root / "hooks" / "__pycache__" / "x.pyc").touch()
    assert ledger.check() == []


async def test_a_link_is_accepted_with_the_content_that_it_leads_to(kept, tmp_path):
    (tmp_path / "elsewhere.sh").write_text("one")
    (kept.root / "hooks" / "linked.sh").symlink_to(tmp_path / "elsewhere.sh")
    ledger, _, _ = await kept.start()
    assert ledger.check() == []
    assert ledger.good("hooks/linked.sh") == b"one"
    (tmp_path / "elsewhere.sh").write_text("two")
    assert kinds(ledger) == {"hooks/linked.sh": "changed"}
    assert ledger.good("hooks/linked.sh") == b"one"


@pytest.mark.slow
async def test_two_thousand_files_are_checked_without_reading_them(kept):
    for number in range(2000):
        folder = kept.root / "tests" / str(number % 40)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(number)).write_text(str(number))
    ledger, _, _ = await kept.start()
    assert ledger.check() == []
    opened: list[object] = []
    counting = [True]
    sys.addaudithook(lambda event, given: opened.append(given[0]) if counting and event == "open" else None)
    assert ledger.check() == []
    counting.clear()
    assert len(opened) < 100, opened[:100]


async def test_a_set_id_bit_is_never_accepted(kept):
    ledger, installer, _ = await kept.start()
    (kept.root / "hooks" / "bot.sh").chmod(0o4755)
    with pytest.raises(ChangeRefused, match="take the set-id bits away"):
        await installer.accept("with its bits")
    assert kinds(ledger) == {"hooks/bot.sh": "mode"}


def lost(path):
    path.unlink()


def garbage(path):
    path.write_bytes(b"garbage")


def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def commit_of(kept):
    tip = (kept.git / "refs" / "heads" / "accepted").read_text().strip()
    return kept.git / "objects" / tip[:2] / tip[2:]


@pytest.mark.slow
@pytest.mark.parametrize("damage", [lost, garbage, flipped, pipe])
@pytest.mark.parametrize("what", ["branch", "commit"])
async def test_a_ledger_that_cannot_be_read_is_set_aside_and_made_again_from_gits_head(kept, what, damage):
    _, installer, _ = await kept.start()
    await installer.install({"prompts/chat.md": TrialFile(b"be better")}, "new")
    path = kept.git / "refs" / "heads" / "accepted" if what == "branch" else commit_of(kept)
    damage(path)
    change(kept.root)
    ledger, _, said = await kept.start()
    if (what, damage) != ("branch", lost):
        assert "accepted.git.broken-1" in said[1]
    assert "git's HEAD are the accepted ones now" in said[-1]
    assert kinds(ledger) == {"hooks/bot.sh": "changed"}
    assert ledger.good("hooks/bot.sh") == BOT.encode()
    assert ledger.good("prompts/chat.md") == b"be better"
    assert ledger.epoch == 3
    assert (await kept.start())[2] == []


async def test_a_file_in_the_place_of_the_ledger_is_set_aside(kept):
    await kept.start()
    shutil.rmtree(kept.git)
    kept.git.write_text("a file")
    ledger, _, said = await kept.start()
    assert "accepted.git.broken-1" in said[1]
    assert ledger.check() == []


async def test_a_ledger_that_is_a_link_is_put_aside_and_made_again(kept, tmp_path):
    await kept.start()
    kept.git.rename(tmp_path / "elsewhere")
    kept.git.symlink_to(tmp_path / "nowhere")
    _, _, (said,) = await kept.start()
    assert "was lost" in said
    assert (kept.git.is_symlink(), (kept.git / "HEAD").is_file()) == (False, True)
    assert kept.git.with_name("accepted.git.broken-1").is_symlink()


async def test_a_lost_ledger_is_made_again_from_gits_head_not_from_what_stands(kept):
    _, installer, _ = await kept.start()
    await installer.install({"prompts/chat.md": TrialFile(b"be better")}, "new")
    shutil.rmtree(kept.home)
    change(kept.root)
    ledger, _, (said,) = await kept.start()
    assert "was lost" in said
    assert "git's HEAD" in said
    assert kinds(ledger) == {"hooks/bot.sh": "changed"}
    assert ledger.good("hooks/bot.sh") == BOT.encode()
    assert ledger.epoch == 3


@pytest.mark.parametrize("left", ["the mark", "the contents"])
async def test_with_ledger_and_head_both_lost_nothing_is_accepted_until_a_person_does(kept, left):
    await kept.start()
    if left == "the mark":
        shutil.rmtree(kept.home)
        (kept.root / ".git" / "HEAD").write_text("ref: refs/heads/none\n")
    else:
        (kept.git / "refs" / "heads" / "accepted").unlink()
        (kept.root / ".git" / "HEAD").write_text("garbage")
    ledger, installer, (said,) = await kept.start()
    assert "no script is run until `instar evolve accept`" in said
    assert kinds(ledger) == {"hooks/bot.sh": "new", "prompts/chat.md": "new"}
    other, _, _ = await kept.start()
    changed = await installer.accept("as it stands")
    assert ledger.check() == other.check() == []
    assert changed.epoch > 1


async def test_a_ledger_that_is_lost_while_instar_runs_is_remembered_and_made_again_by_the_next_change(kept):
    ledger, installer, _ = await kept.start()
    shutil.rmtree(kept.home)
    change(kept.root)
    assert kinds(ledger) == {"hooks/bot.sh": "changed"}
    assert "is remembered until instar starts again" in ledger.notices[0]
    await installer.restore("back")
    assert (kept.root / "hooks" / "bot.sh").read_text() == BOT
    assert (kept.git / "refs" / "heads" / "accepted").exists()
    assert (await kept.start())[0].check() == []


async def test_contents_that_the_ledger_lost_are_kept_again_at_the_next_start(kept):
    ledger, _, _ = await kept.start()
    for version in ledger.files.values():
        (kept.git / "objects" / version.blob[:2] / version.blob[2:]).unlink()
    await kept.start()
    change(kept.root)
    assert (await kept.start())[0].good("hooks/bot.sh") == BOT.encode()


async def test_a_flipped_byte_is_no_accepted_content(kept):
    ledger, _, _ = await kept.start()
    for version in ledger.files.values():
        flipped(kept.git / "objects" / version.blob[:2] / version.blob[2:])
    assert ledger.good("hooks/bot.sh") == BOT.encode()  # from the workspace, which still has it
    change(kept.root)
    assert ledger.good("hooks/bot.sh") is None


async def test_git_reads_the_ledger(kept, kit):
    _, installer, _ = await kept.start()
    await installer.install({"hooks/bot.sh": TrialFile(b"#!/bin/sh\n", 0o755)}, "new")
    assert kit.git(kept.git, "fsck", "--strict") == ""
    assert kit.git(kept.git, "log", "--format=%s", "accepted").split("\n") == ["@2 new", "@1 first sight", ""]
    assert kit.git(kept.git, "diff", "--name-only", "accepted^", "accepted").split() == [
        "accepted/hooks/bot.sh"
    ]
    assert kit.git(kept.git, "show", "accepted:left/hooks/bot.sh") == BOT
