"""Changes that end on the way, with real git: afterwards the workspace is at one of the two commits."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.evolve.crash import NEW, OPERATIONS, Killed, fail, play
from tests.waiting import until

from instar.plugins.evolve.history.commits import History
from instar.plugins.evolve.history.repository import WorkspaceRepository, git_at_work
from instar.plugins.evolve.ledger import install
from instar.plugins.evolve.ledger.install import Installer
from instar.plugins.evolve.ledger.ledger import Ledger
from instar.plugins.evolve.trial import TrialFile

STEPS = [step for step in install.STEPS if step != install.PLACED]
CHANGES = ("install", "create", "replace two", "delete", "rollback")
CASES = [(operation, step, 1) for operation in CHANGES for step in [*STEPS, "git before", "git after"]]
CASES += [(operation, install.PLACED, 1) for operation in CHANGES]
CASES += [(operation, install.PLACED, 2) for operation in ("create", "replace two")]
CASES += [("restore", step, 1) for step in [*STEPS, install.PLACED, "git before"]]
CASES += [("accept", step, 1) for step in STEPS if step != install.BESIDE]
CASES += [("accept", "git before", 1), ("accept", "git after", 1), ("refuse", install.BEGUN, 1)]
KILLED = [
    ("install", install.BESIDE, 1),
    ("install", install.DECIDED, 1),
    ("install", "git before", 1),
    ("create", install.BESIDE, 1),
    ("replace two", install.PLACED, 1),
    ("replace two", install.COMMITTED, 1),
    ("delete", "git after", 1),
    ("rollback", install.DECIDED, 1),
    ("restore", install.DECIDED, 1),
    ("accept", install.DECIDED, 1),
]
"""Cases that are played with a real kill too, as proof that an exception ends a change as a kill does."""


@pytest.fixture(scope="module")
def killer():
    """The program that plays a case in a fork; one start for all cases."""
    home = Path(__file__).parents[4]
    command = [sys.executable, "-m", "tests.plugins.evolve.crash"]
    with subprocess.Popen(
        command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        yield program
        program.stdin.close()


class Scene:
    """A workspace with a person's unfinished work in it, and the changes that end on the way."""

    def __init__(self, folder: Path, kit: Any, processes: Any) -> None:
        self.root, self.home = folder / "ws", folder / "data" / "key"
        self._kit, self._processes = kit, processes

    def copy_of(self, other: "Scene") -> "Scene":
        shutil.copytree(other.root, self.root)
        shutil.copytree(other.home, self.home)
        return self

    async def make(self) -> None:
        for path, text in (
            ("hooks/bot.sh", "#!/bin/sh\necho old\n"),
            ("prompts/chat.md", "old"),
            ("state/log", "1"),
        ):
            self._kit.script(
                (self.root / path).parent, Path(path).name, text, 0o755 if "hooks" in path else 0o644
            )
        await History(self._processes, self.root).prepare()
        await self.open()
        (self.root / "state" / "log").write_text("2")
        (self.root / "staged.md").write_text("the person's")
        self._kit.git(self.root, "add", "staged.md")

    def case(self, operation: str, step: str, nth: int = 1) -> dict[str, Any]:
        return {
            "root": str(self.root),
            "home": str(self.home),
            "operation": operation,
            "step": step,
            "nth": nth,
        }

    async def fail(self, operation: str, step: str, nth: int = 1) -> None:
        with pytest.raises(Killed):
            await play(self.case(operation, step, nth), fail)

    async def open(self) -> tuple[Ledger, Installer, list[str]]:
        """What the next start of instar finds and does."""
        ledger = Ledger(self.home, self.root)
        history = History(self._processes, self.root)
        installer = Installer(ledger, WorkspaceRepository(self._processes, self.root), history.commit)
        return ledger, installer, await installer.open()

    def state(self) -> tuple[Any, str, str]:
        """The files, what git says of them, and what HEAD holds."""
        status = self._kit.git(self.root, "status", "--porcelain", "--untracked-files=all")
        return self._kit.files(self.root), status, self._kit.git(self.root, "ls-tree", "-r", "HEAD")

    async def after(self, operation: str) -> tuple[Any, str, str]:
        """The state when nothing ends the operation."""
        if operation not in AFTER:
            other = Scene(self.root.parent / "other", self._kit, self._processes).copy_of(self)
            _, installer, _ = await other.open()
            await OPERATIONS[operation](installer)
            AFTER[operation] = other.state()
        return AFTER[operation]


MADE: list[Scene] = []
AFTER: dict[str, Any] = {}
"""Made once: the scene before any test, and what each operation leaves."""


@pytest.fixture
async def scene(tmp_path, tmp_path_factory, kit, processes):
    if not MADE:
        made = Scene(tmp_path_factory.mktemp("made"), kit, processes)
        await made.make()
        MADE.append(made)
    return Scene(tmp_path, kit, processes).copy_of(MADE[0])


def loaded(scene: Scene) -> Ledger:
    ledger = Ledger(scene.home, scene.root)
    assert ledger.load()
    return ledger


def depart(scene, operation):
    if operation in ("accept", "restore"):
        (scene.root / "hooks" / "bot.sh").write_text("#!/bin/sh\necho by hand\n")


async def ends_before_or_after(scene, operation, end):
    depart(scene, operation)
    before, after = scene.state(), None if operation == "refuse" else await scene.after(operation)
    await end()
    ledger, installer, _ = await scene.open()
    assert scene.state() in (before, after)
    is_before = scene.state() == before
    if operation not in ("accept", "restore") or not is_before:
        assert ledger.check() == []
    assert (ledger.epoch == 1) == is_before
    # Nothing is left of it: a second start has nothing to do, and the next change is made.
    assert (await scene.open())[2] == []
    if not ledger.check():
        changed = await installer.install({"hooks/bot.sh": TrialFile(b"next", 0o755)}, "next")
        assert changed.commit is not None
        assert changed.epoch == ledger.epoch


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "step", "nth"), CASES)
async def test_a_change_that_ends_on_the_way_leaves_the_version_before_or_after_it(
    scene, operation, step, nth
):
    await ends_before_or_after(scene, operation, lambda: scene.fail(operation, step, nth))


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "step", "nth"), KILLED)
async def test_a_change_that_is_killed_leaves_the_version_before_or_after_it(
    scene, killer, operation, step, nth
):
    async def end() -> None:
        killer.stdin.write(json.dumps(scene.case(operation, step, nth)) + "\n")
        killer.stdin.flush()
        assert int(killer.stdout.readline()) == -signal.SIGKILL, "the step was not reached"

    await ends_before_or_after(scene, operation, end)


@pytest.mark.parametrize(
    ("step", "is_decided"),
    [
        (install.BEGUN, False),
        (install.BESIDE, False),
        (install.DECIDED, True),
        (install.PLACED, True),
        ("git before", True),
        ("git after", True),
    ],
)
async def test_an_install_goes_forward_once_the_ledger_has_accepted_it(scene, step, is_decided):
    await scene.fail("install", step)
    ledger, _, said = await scene.open()
    assert ((scene.root / "hooks" / "bot.sh").read_bytes() == NEW.content) == is_decided
    assert ledger.epoch == (2 if is_decided else 1)
    assert said == (["the change of hooks/bot.sh that was cut short has been finished"] if is_decided else [])
    assert sorted(os.listdir(scene.root / "hooks")) == ["bot.sh"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "first", "then"),
    [
        ("create", (install.DECIDED, 1), install.PLACED),
        ("create", (install.PLACED, 1), "git before"),
        ("replace two", (install.DECIDED, 1), install.PLACED),
        ("install", ("git before", 1), "git after"),
        ("delete", (install.DECIDED, 1), install.PLACED),
        ("restore", (install.DECIDED, 1), install.PLACED),
        ("accept", (install.DECIDED, 1), "git before"),
    ],
)
async def test_a_recovery_that_ends_on_the_way_is_recovered(scene, operation, first, then):
    depart(scene, operation)
    after = await scene.after(operation)
    await scene.fail(operation, *first)
    await scene.fail("open", then)
    ledger, _, _ = await scene.open()
    assert scene.state() == after
    assert ledger.check() == []
    assert (await scene.open())[2] == []


async def test_a_file_that_a_person_changed_after_the_crash_is_left_as_it_stands(scene):
    await scene.fail("replace two", install.PLACED, 1)
    (scene.root / "hooks" / "bot.sh").write_text("by hand")
    ledger, _, _ = await scene.open()
    assert (scene.root / "hooks" / "bot.sh").read_text() == "by hand"
    assert (scene.root / "prompts" / "chat.md").read_text() == "new"
    assert [(one.path, one.kind) for one in ledger.check()] == [("hooks/bot.sh", "changed")]


async def test_while_a_change_is_on_its_way_its_file_is_no_persons_departure(scene):
    await scene.fail("install", install.BESIDE)
    (one,) = loaded(scene).check()
    assert (one.path, one.kind) == ("hooks/.bot.sh.instar", "installing")
    await scene.open()
    await scene.fail("install", install.DECIDED)
    found = [(one.path, one.kind) for one in loaded(scene).check()]
    assert found == [("hooks/.bot.sh.instar", "installing"), ("hooks/bot.sh", "installing")]
    (scene.root / "hooks" / "bot.sh").write_text("by hand")
    assert ("hooks/bot.sh", "changed") in [(one.path, one.kind) for one in loaded(scene).check()]


async def test_a_branch_that_cannot_be_read_leaves_what_was_cut_short_as_a_departure(scene):
    await scene.fail("install", install.DECIDED)
    (scene.home / "accepted.git" / "refs" / "heads" / "placed").write_text("garbage")
    ledger, installer, (said,) = await scene.open()
    assert "names no commit" in said
    assert [(one.path, one.kind) for one in ledger.check()] == [("hooks/bot.sh", "changed")]
    await installer.restore("put it there")
    assert (scene.root / "hooks" / "bot.sh").read_bytes() == NEW.content


@pytest.mark.slow
async def test_a_lock_that_is_older_than_the_change_stays_while_a_git_is_at_work(scene):
    await scene.fail("install", "git before")
    lock = scene.root / ".git" / "index.lock"
    os.utime(lock, (1, 1))
    # One of ours that ends late on a busy machine would be waited for, and no longer than ten seconds.
    await until(lambda: True not in git_at_work(scene.root))
    with subprocess.Popen(["git", "cat-file", "--batch"], cwd=scene.root, stdin=subprocess.PIPE) as living:
        ledger, _, said = await scene.open()
        living.stdin.close()
    assert lock.exists()
    assert said[-1].endswith("finished")
    assert (scene.root / "hooks" / "bot.sh").read_bytes() == NEW.content
    assert ledger.check() == []
