"""What the calls of scripts tell: records for the replay, probation, and pauses for scripts that keep failing.

The states are pure; this keeps them.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from instar.plugins.evolve import script
from instar.plugins.evolve.config import EvolveConfig
from instar.plugins.evolve.gate.record import Failure, HookCallRecord
from instar.plugins.evolve.history.audit_log import AuditEntry
from instar.plugins.evolve.probation import state as probation
from instar.plugins.evolve.probation import supervisor
from instar.plugins.evolve.probation.prediction import CallEnd, Prediction
from instar.plugins.evolve.storage import Storage

log = logging.getLogger("instar.evolve")
T = TypeVar("T")

_PROBATION: Final = "probation"
_ATTEMPTS: Final = "attempts"
_PAUSES: Final = "pauses"
_READERS: Final = {
    "mutate_request": ("preamble", "chat"),
    "heartbeat": ("heartbeat",),
    "compacting": ("compaction",),
    "recover": ("recover",),
}
"""Which prompts a hook is given for: a call of it counts as one of theirs."""
_FAILURES: Final[dict[str, Failure]] = {
    "timeout": "timeout",
    "malformed": "malformed",
    "unknown": "unknown",
}


class Observer:
    """Keeps what calls tell of one workspace. `version` gives the accepted hash of a path, None without one."""

    def __init__(self, storage: Storage, config: EvolveConfig, version: Callable[[str], str | None]) -> None:
        self._storage = storage
        self._version = version
        self._limits = probation.ProbationLimits(config.probation_failures, config.probation_calls)
        self._probation = _read(storage, _PROBATION, probation.Probation)
        self._attempts = supervisor.settled(_read(storage, _ATTEMPTS, supervisor.Attempts), _now())
        self._pauses = _read(storage, _PAUSES, supervisor.Pauses)
        self._dirty = False

    # -- calls -----------------------------------------------------------------------------------------

    def told(self, file: str, version: str, commit: str | None, called: script.ScriptCall) -> None:
        """Take in one call of ``hooks/FILE``. It waits for nothing."""
        failure: Failure | None = None if called.kind is None else _FAILURES.get(called.kind, "crash")
        record = HookCallRecord(
            script=file,
            hook=called.hook,
            at=called.at,
            stdin=called.stdin,
            duration=round(called.ms),
            commit=commit,
            answer=called.answer if failure is None else None,
            failure=failure,
        )
        self._storage.records.add(record)
        self._rest(file, version, called)
        silent = called.kind is None and not called.answer
        ended = CallEnd(
            called.hook, "silent" if silent else called.kind, called.ms, called.answer, called.why
        )
        if called.hook == "discover" and called.kind is None:
            return  # each start asks for it: fifty starts are no fifty calls
        self._storage.uses.called(f"hooks/{file}", called)
        self._count(f"hooks/{file}", version, ended)
        if called.kind == "unknown":
            return  # that a script does not know a hook is nothing that a prompt brings about
        for stage in _READERS.get(called.hook, ()):
            prompt = self._version(f"prompts/{stage}.md")
            if prompt is not None:
                self._storage.uses.called(f"prompts/{stage}.md", called)
                self._count(f"prompts/{stage}.md", prompt, ended)

    def resting(self, file: str, hook: str, version: str) -> bool:
        """Whether the script is given a pause from this hook, since it failed too often in a row."""
        return hook != "discover" and supervisor.resting(self._pauses, file, hook, version, _now()) > 0

    def _rest(self, file: str, version: str, called: script.ScriptCall) -> None:
        if called.kind in (None, "unknown"):
            self._pauses = supervisor.answered(self._pauses, file, called.hook, version)
            return
        if called.hook == "discover":
            return
        self._pauses, said = supervisor.faltered(self._pauses, file, called.hook, version, _now())
        self._dirty = True
        if said:
            log.warning("script=%s resting=%s", file, script.show(said))

    def _count(self, path: str, version: str, ended: CallEnd) -> None:
        before = self._probation
        self._probation, verdict = probation.called(before, path, version, ended, _now(), self._limits)
        self._dirty = self._dirty or self._probation is not before
        if verdict is not None:
            log.info("probation=%s verdict=%s", path, script.show(getattr(verdict, "why", "") or "kept"))
            self.save()
            self._kept([verdict])

    def _kept(self, verdicts: Sequence[probation.Verdict]) -> None:
        """Add to the audit log what passed its probation; what did not is added as it is rolled back."""
        for one in verdicts:
            if isinstance(one, probation.ProbationPassed):
                try:
                    self._storage.audit_log.add(AuditEntry(kind="kept", files=[one.file], text=one.text))
                except OSError as error:
                    log.warning("evolve=chronicle problem=%s", script.show(str(error)))

    # -- changes ---------------------------------------------------------------------------------------

    def installed(self, path: str, before: str, version: str, expect: Prediction | None) -> None:
        """Put a version on trial."""
        self._probation = probation.installed(self._probation, path, before, version, _now(), expect)
        self.save()

    @contextlib.contextmanager
    def trying(self, path: str, before: str, version: str, expect: Prediction | None) -> Iterator[None]:
        """Put a version on trial before the block makes it live, so that no crash leaves it on none.

        Where the block raises, the file's trial is again what it was.
        """
        known = self._probation.files.get(path)
        self.installed(path, before, version, expect)
        try:
            yield
        except Exception:
            others = {name: one for name, one in self._probation.files.items() if name != path}
            mine = {} if known is None else {path: known}
            self._probation = probation.Probation({**others, **mine})
            self.save()
            raise

    def placed(self, path: str, version: str | None) -> None:
        """Take what a person put there as kept; None: it is gone."""
        self._probation = (
            probation.removed(self._probation, path)
            if version is None
            else probation.placed(self._probation, path, version)
        )
        self.save()

    def owed(self) -> list[probation.RollBack]:
        """Return the rollbacks that were decided and not done. Ask under the lock of changes."""
        before = self._probation
        self._probation, verdicts = probation.passed(before, _now(), self._limits)
        if self._probation is not before:
            self.save()
        self._kept(verdicts)
        return probation.owed(self._probation)

    def condemned(self, one: probation.RollBack) -> None:
        """Take note that a version has to go, whether it is on trial still or was kept."""
        self._probation = probation.condemned(self._probation, one, _now())
        self.save()

    def rolled_back(self, one: probation.RollBack) -> None:
        """Take note of a rollback; too many in a short time freeze the workspace."""
        self._probation = probation.rolled_back(self._probation, one.file, one.version)
        self._attempts = supervisor.failed(self._attempts, _now(), one.why)
        self.save()

    def frozen(self) -> str | None:
        """Return why nothing is changed for a while; None when it may be."""
        return supervisor.frozen(self._attempts, _now())

    def thaw(self) -> None:
        """Let evolve try again: no attempt that was counts any more."""
        self._attempts = supervisor.Attempts()
        self.save()

    def describe(self, path: str) -> str | None:
        """Return how the trial of a file stands; None when it is not on trial."""
        return probation.describe(self._probation, path, _now(), self._limits)

    def save(self, *, durable: bool = True) -> None:
        """Keep the states. A disk that refuses costs them, never the call."""
        self._dirty = False
        states = {_PROBATION: self._probation, _ATTEMPTS: self._attempts, _PAUSES: self._pauses}
        try:
            for name, state in states.items():
                self._storage.keep(name, msgspec.to_builtins(state), durable=durable)
        except OSError as error:
            log.warning("evolve=books problem=%s", script.show(str(error)))

    def flush(self) -> None:
        """Keep the states if a call has changed them, and what was counted."""
        self._storage.uses.flush()
        if self._dirty:
            # Each step waits for this: the end of the power costs counts of calls, as the end of the process did.
            self.save(durable=False)


def _read(storage: Storage, name: str, kind: type[T]) -> T:
    """Return the state that was kept under `name`; a new one where there is none, or it is damaged."""
    kept = storage.note(name)
    try:
        return kind() if kept is None else msgspec.convert(kept, kind)
    except ValueError as error:
        log.warning("evolve=books problem=%s", script.show(str(error)))
        return kind()


def _now() -> int:
    return int(time.time() * 1000)
