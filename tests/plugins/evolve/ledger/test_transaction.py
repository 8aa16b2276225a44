"""Changes that are killed on the way, with real git: afterwards the workspace is at one of the two commits."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.evolve.crash import NEW, OPERATIONS, File

from instar.plugins.evolve.history.commits import History
from instar.plugins.evolve.ledger import transaction
from instar.plugins.evolve.ledger.install import Installer
from instar.plugins.evolve.ledger.ledger import Ledger
from instar.plugins.evolve.ledger.repository import WorkspaceRepository

STEPS = [step for step in transaction.STEPS if step != transaction.PLACED]
CHANGES = ("install", "create", "replace two", "delete", "rollback")
CASES = [(operation, step, 1) for operation in CHANGES for step in [*STEPS, "git before", "git after"]]
CASES += [(operation, transaction.PLACED, 1) for operation in CHANGES]
CASES += [(operation, transaction.PLACED, 2) for operation in ("create", "replace two")]
CASES += [("restore", step, 1) for step in [*STEPS, transaction.PLACED, "git before"]]
CASES += [("accept", step, 1) for step in STEPS if step != transaction.BESIDE]
CASES += [("accept", "git before", 1), ("accept", "git after", 1), ("refuse", transaction.BEGUN, 1)]


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
    """A workspace with a person's unfinished work in it, and the changes that are killed."""

    def __init__(self, folder: Path, kit: Any, processes: Any, killer: Any) -> None:
        self.root, self.home = folder / "ws", folder / "data" / "key"
        self._kit, self._processes, self._killer = kit, processes, killer

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

    def kill(self, operation: str, step: str, nth: int = 1) -> None:
        case = {
            "root": str(self.root),
            "home": str(self.home),
            "operation": operation,
            "step": step,
            "nth": nth,
        }
        self._killer.stdin.write(json.dumps(case) + "\n")
        self._killer.stdin.flush()
        assert int(self._killer.stdout.readline()) == -signal.SIGKILL, "the step was not reached"

    def ledger(self) -> Ledger:
        return Ledger(self.home, self.root)

    async def open(self) -> tuple[Ledger, Installer, list[str]]:
        """What the next start of instar finds and does."""
        ledger = self.ledger()
        history = History(self._processes, self.root)
        installer = Installer(ledger, WorkspaceRepository(self._processes, self.root), history.commit)
        return ledger, installer, await installer.open()

    def state(self) -> tuple[Any, str, str]:
        """The files, what git says of them, and what HEAD holds."""
        status = self._kit.git(self.root, "status", "--porcelain", "--untracked-files=all")
        return self._kit.files(self.root), status, self._kit.git(self.root, "ls-tree", "-r", "HEAD")

    async def after(self, operation: str) -> tuple[Any, str, str]:
        """The state when nothing kills the operation."""
        if operation not in AFTER:
            other = Scene(self.root.parent / "other", self._kit, self._processes, self._killer).copy_of(self)
            _, installer, _ = await other.open()
            await OPERATIONS[operation](installer)
            AFTER[operation] = other.state()
        return AFTER[operation]


MADE: list[Scene] = []
AFTER: dict[str, Any] = {}
"""Made once: the scene before any test, and what each operation leaves."""


@pytest.fixture
async def gate_context(tmp_path, tmp_path_factory, kit, processes, killer):
    if not MADE:
        made = Scene(tmp_path_factory.mktemp("made"), kit, processes, killer)
        await made.make()
        MADE.append(made)
    return Scene(tmp_path, kit, processes, killer).copy_of(MADE[0])


def depart(gate_context, operation):
    if operation in ("accept", "restore"):
        (gate_context.root / "hooks" / "bot.sh").write_text("#!/bin/sh\necho by hand\n")


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "step", "nth"), CASES)
async def test_a_change_that_is_killed_leaves_the_version_before_or_after_it(
    gate_context, operation, step, nth
):
    depart(gate_context, operation)
    before, after = (
        gate_context.state(),
        None if operation == "refuse" else await gate_context.after(operation),
    )
    gate_context.kill(operation, step, nth)
    ledger, installer, _ = await gate_context.open()
    assert gate_context.state() in (before, after)
    taken_back = gate_context.state() == before
    assert not (gate_context.home / "journal").exists()
    if operation not in ("accept", "restore") or not taken_back:
        assert ledger.check() == []
    assert (ledger.epoch == 1) == taken_back
    # Nothing is left of it: a second start has nothing to do, and the next change is made.
    assert (await gate_context.open())[2] == []
    departed = [one.path for one in ledger.check()]
    if not departed:
        changed = await installer.install({"hooks/bot.sh": File(b"next", 0o755)}, "next")
        assert changed.commit is not None
        assert changed.epoch == ledger.epoch


@pytest.mark.parametrize(
    ("step", "goes"),
    [
        (transaction.JOURNALED, "back"),
        (transaction.BESIDE, "back"),
        (transaction.PLACED, "forward"),
        ("git before", "forward"),
        ("git after", "forward"),
        (transaction.RECORDED, "forward"),
    ],
)
async def test_a_killed_install_goes_forward_once_its_files_are_in_place(gate_context, step, goes):
    gate_context.kill("install", step)
    ledger, _, said = await gate_context.open()
    forward = goes == "forward"
    assert ((gate_context.root / "hooks" / "bot.sh").read_bytes() == NEW.content) == forward
    assert ledger.epoch == (2 if forward else 1)
    done = "finished" if forward else "taken back"
    assert said == [f"the install of hooks/bot.sh that was cut short has been {done}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "first", "then"),
    [
        ("create", (transaction.PLACED, 1), transaction.BACK),
        ("install", ("git before", 1), transaction.SETTLED),
        ("install", (transaction.PLACED, 1), transaction.RECORDED),
        ("delete", ("git after", 1), transaction.RECORDED),
        ("create", (transaction.PLACED, 2), transaction.ENDED),
        ("restore", (transaction.BESIDE, 1), transaction.PLACED),
        ("restore", (transaction.JOURNALED, 1), transaction.BESIDE),
        ("accept", (transaction.JOURNALED, 1), transaction.SETTLED),
    ],
)
async def test_a_recovery_that_is_killed_is_recovered(gate_context, operation, first, then):
    depart(gate_context, operation)
    before, after = gate_context.state(), await gate_context.after(operation)
    gate_context.kill(operation, *first)
    gate_context.kill("open", then)
    ledger, _, _ = await gate_context.open()
    assert gate_context.state() in (before, after)
    assert ledger.check() == []
    assert (await gate_context.open())[2] == []


async def test_a_file_that_a_person_changed_after_the_crash_is_left_as_it_stands(gate_context):
    gate_context.kill("replace two", transaction.PLACED, 2)
    (gate_context.root / "hooks" / "bot.sh").write_text("by hand")
    ledger, _, _ = await gate_context.open()
    assert (gate_context.root / "hooks" / "bot.sh").read_text() == "by hand"
    assert (gate_context.root / "prompts" / "chat.md").read_text() == "old"
    assert [(one.path, one.kind) for one in ledger.check()] == [("hooks/bot.sh", "changed")]


async def test_the_old_bytes_come_back_though_the_vault_was_lost_with_the_crash(gate_context):
    gate_context.kill("replace two", transaction.PLACED, 1)
    shutil.rmtree(gate_context.home / "objects")
    ledger, _, _ = await gate_context.open()
    assert (gate_context.root / "hooks" / "bot.sh").read_text() == "#!/bin/sh\necho old\n"
    assert ledger.check() == []


async def test_while_a_change_is_on_its_way_its_file_is_no_persons_departure(gate_context):
    gate_context.kill("install", transaction.BESIDE)
    (one,) = _loaded(gate_context).check()
    assert (one.path, one.kind) == ("hooks/.bot.sh.instar", "installing")
    await gate_context.open()
    gate_context.kill("install", transaction.PLACED)
    (one,) = _loaded(gate_context).check()
    assert (one.path, one.kind) == ("hooks/bot.sh", "installing")
    (gate_context.root / "hooks" / "bot.sh").write_text("by hand")
    (one,) = _loaded(gate_context).check()
    assert (one.path, one.kind) == ("hooks/bot.sh", "changed")


def _loaded(gate_context: Scene) -> Ledger:
    ledger = gate_context.ledger()
    assert ledger.load()
    return ledger


async def test_a_damaged_journal_is_put_aside_and_what_it_was_about_has_departed(gate_context):
    gate_context.kill("install", transaction.PLACED)
    journal = gate_context.home / "journal"
    journal.write_bytes(journal.read_bytes()[:-1])
    ledger, installer, said = await gate_context.open()
    assert "journal.broken-1" in said[-1]
    assert [(one.path, one.kind) for one in ledger.check()] == [("hooks/bot.sh", "changed")]
    await installer.restore("put it back")
    assert (gate_context.root / "hooks" / "bot.sh").read_text() == "#!/bin/sh\necho old\n"


@pytest.mark.slow
async def test_a_lock_that_is_older_than_the_change_stays_while_a_git_is_at_work(gate_context):
    gate_context.kill("install", "git before")
    lock = gate_context.root / ".git" / "index.lock"
    os.utime(lock, (1, 1))
    with subprocess.Popen(
        ["git", "cat-file", "--batch"], cwd=gate_context.root, stdin=subprocess.PIPE
    ) as living:
        _, _, said = await gate_context.open()
        living.stdin.close()
    assert lock.exists()
    assert said[-1].endswith("taken back")
    assert (gate_context.root / "hooks" / "bot.sh").read_text() == "#!/bin/sh\necho old\n"
