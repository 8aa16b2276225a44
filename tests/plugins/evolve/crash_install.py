"""A whole engine that is killed on the way: `python -m tests.plugins.evolve.crash_install`.

A line of JSON on standard input is one case (`folder`, `operation`, `step`), played in a fork that ends itself by
SIGKILL when the step is named. The line in answer is how the fork ended.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.plugins.evolve.crash import serve

from instar.plugin import Means, Project
from instar.plugins.evolve import settings
from instar.plugins.evolve.candidate import CandidateRefused
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.evolution import Waits
from instar.plugins.evolve.gate.pending import Pending
from instar.plugins.evolve.grants import ScriptGrants
from instar.plugins.evolve.history.audit_log import AuditEntry, AuditLog
from instar.plugins.evolve.install import ChangeCause
from instar.plugins.evolve.ledger.install import Installer
from instar.plugins.evolve.ledger.own import Unkept
from instar.process import Processes
from instar.sandbox.model_process import Children
from instar.settings.paths import Paths

FILE = "bot.sh"
AGENT = ChangeCause(tool="evolve_hook_write", session="ses_1", call="call_1", agent="build")
PERSON = ChangeCause(by="person")
Step = Callable[[str], None]


def text(word: str, sandbox: str = "", crashes: bool = False) -> str:
    """Return a script that answers idle with `word`, and asks for this manifest."""
    asked = f', "sandbox": {sandbox}' if sandbox else ""
    # A copy has no git folder: it crashes only where it is live.
    crash = "[ -e .git/HEAD ] && exit 7; " if crashes else ""
    idle = f"""{crash}echo '{{"continue": "{word}"}}'"""
    return (
        "#!/bin/sh\ncase $1 in\n"
        f"""discover) echo '{{"tools": [{{"name": "t"}}]{asked}}}';;\n"""
        f"""idle) {idle};;\n*) echo '{{"error": "unknown hook: '$1'"}}'; exit 1;;\nesac\n"""
    )


LOW = '{"write": ["state"]}'
HIGH = '{"write": ["state", "notes"], "network": true}'


class _Chronicle(AuditLog):
    """A chronicle that names its steps."""

    step: Step

    def add(self, entry: AuditEntry) -> AuditEntry:
        self.step("chronicle begun")
        added = super().add(entry)
        self.step("chronicle ended")
        return added


class _Grants(ScriptGrants):
    """Grants that name their steps."""

    step: Step

    def expect(self, *args: Any) -> None:
        self.step("expect begun")
        super().expect(*args)
        self.step("expect ended")

    def settle(self, *args: Any) -> None:
        self.step("settle begun")
        super().settle(*args)
        self.step("settle ended")


class _Pending(Pending):
    """What waits, with the steps named."""

    step: Step

    def put(self, *args: Any) -> Any:
        self.step("pending begun")
        entry = super().put(*args)
        self.step("pending ended")
        return entry

    def remove(self, *args: Any) -> Any:
        self.step("remove begun")
        done = super().remove(*args)
        self.step("remove ended")
        return done


async def opened(folder: Path, processes: Processes, step: Step | None = None) -> EvolveEngine:
    """Open an engine on ``ws`` in `folder`, as a start of instar does; `step` is told each step of a change."""
    environment = {**os.environ, "HOME": str(folder / "home"), "XDG_DATA_HOME": str(folder / "share")}
    os.environ["HOME"] = environment["HOME"]
    paths = Paths.from_environment(environment)
    means = Means(
        children=Children(processes, paths, environment),
        processes=processes,
        kv=Unkept(),
        data=paths.of_plugin("evolve"),
        config={"evolve": {"probation_calls": 3, "probation_failures": 0}},
        environment=environment,
        messages=_no_messages,
        halted=lambda: 0,
        resume=lambda: None,
        project=Project("global", Path("/"), folder / "ws"),
        directory=folder / "ws",
        trusted=lambda _folder: True,
        origins={},
    )

    async def refresh() -> None:
        await engine.scripts.refresh()

    engine = EvolveEngine(means, folder / "ws", processes, _publish, refresh)
    if step is not None:
        _name_steps(engine, step)
    engine.policy.begin()
    await engine.open()
    engine.policy.take(settings.EvolveSettings(spawn="plain"))
    await refresh()
    return engine


def _name_steps(engine: EvolveEngine, step: Step) -> None:
    storage = engine.storage
    storage.installer = Installer(storage.ledger, storage.repository, engine.history.commit, step=step)
    keep = storage.keep

    def kept(name: str, value: Any, *, durable: bool = True) -> None:
        step(f"keep {name} begun")
        keep(name, value, durable=durable)
        step(f"keep {name} ended")

    storage.keep = kept  # type: ignore[method-assign]
    for name, kind in (("audit_log", _Chronicle), ("grants", _Grants), ("pending", _Pending)):
        found = getattr(storage, name)
        found.__class__ = kind
        found.step = step


async def change(engine: EvolveEngine, content: str) -> Any:
    """Let the agent propose a whole new text."""
    return await engine.evolution.change(f"hooks/{FILE}", lambda before: content, AGENT)


async def _refused(engine: EvolveEngine) -> None:
    try:
        await change(engine, "#!/bin/sh\nexit 9\n")
    except CandidateRefused:
        return
    raise AssertionError("it was installed")


async def _waits(engine: EvolveEngine) -> None:
    try:
        await change(engine, text("high", HIGH))
    except Waits:
        return
    raise AssertionError("it does not wait")


async def _approve(engine: EvolveEngine) -> None:
    (entry,) = engine.storage.pending.list().entries
    await engine.evolution.approve(entry.id, "ada")


async def _taken_back(engine: EvolveEngine) -> None:
    await engine.scripts.call_all("idle", {"answer": ""})
    assert await engine.rollback.settle()


async def _passes(engine: EvolveEngine) -> None:
    """Let what is live pass its probation."""
    for _ in range(3):
        await engine.scripts.call_all("idle", {"answer": ""})
    assert engine.observer.describe(f"hooks/{FILE}") is None


async def _nothing(engine: EvolveEngine) -> None:
    """Only a start."""


OPERATIONS: dict[str, Callable[[EvolveEngine], Any]] = {
    "open": _nothing,
    "pass": _passes,
    "crash": lambda it: change(it, text("crash", LOW, crashes=True)),
    "first install": lambda it: change(it, text("first")),
    "lower": lambda it: change(it, text("low", LOW)),
    "refuse": _refused,
    "wait": _waits,
    "approve": _approve,
    "roll back": lambda it: it.rollback.roll_back("", PERSON),
    "take back": _taken_back,
}


async def play(case: dict[str, Any]) -> None:
    """Play one case to its end; the steps of the start do not count."""
    processes, begun = Processes(), [False]

    def step(name: str) -> None:
        if begun[0] and name == case["step"]:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        engine = await opened(Path(case["folder"]), processes, step)
        begun[0] = True
        await OPERATIONS[case["operation"]](engine)
        await engine.close()
    finally:
        await processes.close()


async def _publish(properties: Any) -> None:
    """Nobody listens."""


async def _no_messages(session_id: str) -> Any:
    return []


if __name__ == "__main__":
    serve(play)
