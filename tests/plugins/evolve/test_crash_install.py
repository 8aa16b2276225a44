"""An engine that is killed on the way of an install, a refusal and a rollback: what the next start finds and does."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.plugins.evolve import crash_install
from tests.plugins.evolve.crash_install import FILE, HIGH, LOW, opened, text

from instar.plugins.evolve.gate.authority import HOLDS, Authority
from instar.plugins.evolve.install import NotChanged
from instar.plugins.evolve.ledger import install
from instar.plugins.evolve.ledger.standing import LARGEST
from instar.process import Processes

STEPS = list(install.STEPS)
LATE = [install.DECIDED, install.PLACED, install.COMMITTED]
KEPT = ["keep probation begun", "keep probation ended"]
GRANTED = ["expect begun", "expect ended", "settle begun", "settle ended"]
TOLD = ["chronicle begun", "chronicle ended"]
CASES = [("first install", step) for step in (*STEPS, *GRANTED, *KEPT, *TOLD)]
CASES += [("take back", step) for step in (*STEPS, "settle begun", "settle ended", *KEPT, *TOLD)]
CASES += [("lower", step) for step in (*LATE, "expect ended", "settle begun")]
CASES += [("approve", step) for step in (*LATE, "expect ended", "settle begun", "remove begun")]
CASES += [("roll back", step) for step in (*LATE, "settle begun")]
CASES += [("wait", step) for step in ("pending begun", "pending ended", "chronicle begun")]
CASES += [("refuse", step) for step in TOLD]
BEFORE = {
    "first install": (),
    "refuse": (),
    "lower": ("first install",),
    "wait": ("first install", "lower"),
    "approve": ("first install", "lower", "wait"),
    "roll back": ("first install", "lower"),
    "take back": ("first install", "lower", "pass", "crash"),
}
"""What was done before the operation that is killed."""
AGENTS = {text("first"), text("low", LOW), text("high", HIGH), text("crash", LOW, crashes=True)}


@pytest.fixture(scope="module")
def killer():
    """The program that plays a case in a fork; one start for all cases."""
    command = [sys.executable, "-m", "tests.plugins.evolve.crash_install"]
    home = Path(__file__).parents[3]
    with subprocess.Popen(
        command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as found:
        yield found
        found.stdin.close()


class Scene:
    """One workspace with its data, always at the same path: where its data is kept goes by it."""

    def __init__(self, folder: Path, killer: Any) -> None:
        self.folder, self.root = folder / "case", folder / "case" / "ws"
        self._kept = folder / "kept"
        self._killer = killer
        self._after: dict[str, Any] = {}

    def before(self, operation: str) -> None:
        """Be as before this operation; made once."""
        self._be(("start", *BEFORE[operation]))

    def after(self, operation: str) -> Any:
        """Return what there is when nothing kills the operation."""
        if operation not in self._after:
            self._play(operation)
            self._after[operation] = self.state()
            self.before(operation)
        return self._after[operation]

    def state(self) -> Any:
        """Return the files, what git says of them, and what HEAD holds."""
        found = {path.name: path.read_bytes() for path in (self.root / "hooks").iterdir()}
        return (
            found,
            self.git("status", "--porcelain", "--untracked-files=all"),
            self.git("ls-tree", "-r", "HEAD"),
        )

    def git(self, *args: str) -> str:
        return subprocess.run(
            ["git", *args], cwd=self.root, capture_output=True, text=True, check=True
        ).stdout

    def kill(self, operation: str, step: str) -> None:
        assert self._played(operation, step) == -signal.SIGKILL, "the step was not reached"

    def _be(self, steps: tuple[str, ...]) -> None:
        kept = self._kept / "-".join(steps).replace(" ", "_")
        if not kept.exists():
            if len(steps) == 1:
                self._make()
            else:
                self._be(steps[:-1])
                self._play(steps[-1])
            shutil.copytree(self.folder, kept, symlinks=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(kept, self.folder, symlinks=True)

    def _make(self) -> None:
        for name in ("ws/hooks", "ws/state", "home", "share"):
            (self.folder / name).mkdir(parents=True)
        script = self.root / "hooks" / FILE
        script.write_text(text("own"))
        script.chmod(0o755)
        (self.folder / "home" / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n")
        self._play("open")

    def _play(self, operation: str) -> None:
        assert self._played(operation, "") == 0

    def _played(self, operation: str, step: str) -> int:
        case = {"folder": str(self.folder), "operation": operation, "step": step}
        self._killer.stdin.write(json.dumps(case) + "\n")
        self._killer.stdin.flush()
        return int(self._killer.stdout.readline())


@pytest.fixture(scope="module")
def made(tmp_path_factory, killer):
    return Scene(tmp_path_factory.mktemp("made"), killer)


@pytest.fixture
async def engine_on():
    """Starts instar anew on a scene."""
    processes = Processes()
    opening = []

    async def start(gate_context: Scene) -> Any:
        opening.append(await opened(gate_context.folder, processes))
        return opening[-1]

    yield start
    for engine in opening:
        await engine.close()
    await processes.close()


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "step"), CASES)
async def test_an_engine_that_is_killed_is_at_one_of_the_two_versions_and_grants_no_more_than_was_granted(
    made, engine_on, operation, step
):
    made.before(operation)
    before = made.state()
    after = made.after(operation)
    granted = most(await engine_on(made), operation)
    made.kill(operation, step)

    engine = await engine_on(made)
    assert made.state() in (before, after)
    assert engine.problems == engine.storage.ledger.notices  # nothing but what was ended
    live = (made.root / "hooks" / FILE).read_text()
    known = engine.storage.grants.of(FILE)
    assert known is None or known.grant <= granted
    # What the agent made is held, whatever was not written any more.
    held = engine.policy.held(FILE, engine.version(f"hooks/{FILE}"))
    place = await engine.place(FILE, made.root, {})
    assert (place.confine is not None) == (held is not None)
    assert held is not None or live not in AGENTS
    if live in (text("low", LOW), text("high", HIGH)):
        assert held.manifest is not None
        assert held.authority <= granted
    if live != before[0][FILE].decode() and operation in ("first install", "lower", "approve"):
        assert engine.observer.describe(f"hooks/{FILE}") is not None, "it is not on probation"
    # It answers, and the next change is made.
    outcome = await engine.scripts.call_all("idle", {"answer": ""})
    if live != text("crash", LOW, crashes=True):
        assert not outcome.failures
        assert f'"{outcome.answer["continue"]}"' in live
    manifest = "{}" if known is not None and known.grant.hold == "sandbox" else ""
    installed = await crash_install.change(engine, text("next", manifest))
    assert installed.commit is not None


@pytest.mark.slow
async def test_a_change_that_could_not_be_made_leaves_the_version_before_it_on_probation(made, engine_on):
    made.before("lower")
    engine = await engine_on(made)
    await engine.scripts.call_all("idle", {"answer": ""})
    before = engine.observer.describe(f"hooks/{FILE}")
    assert before is not None
    with pytest.raises(NotChanged, match="would be larger than"):
        await crash_install.change(engine, f"{text('second')}exit 0\n#{'x' * LARGEST}")
    assert engine.observer.describe(f"hooks/{FILE}") == before


def most(engine: Any, operation: str) -> Any:
    """Return the most that the script may have been granted: what it was, or what a person approves."""
    if operation in ("first install",):
        return Authority("unbounded", actions=None)
    known = engine.storage.grants.of(FILE)
    (*_, entry) = engine.storage.pending.list().entries or (None,)
    if operation != "approve" or entry is None:
        highest = [one.authority for one in known.versions.values()] if known is not None else []
        return (
            max([known.grant, *highest], key=_rank)
            if known is not None
            else Authority("unbounded", actions=None)
        )
    return msgspec.structs.replace(
        known.grant, network=True, write=frozenset({"state", "notes"}), limits=known.grant.limits
    )


def _rank(authority: Any) -> tuple[int, bool, int]:
    return HOLDS.index(authority.hold), authority.network, len(authority.write or ())
