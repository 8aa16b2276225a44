"""evolve's operations of the HTTP interface, under ``/instar/evolve`` and ``/instar/heartbeat``.

They answer what ``instar evolve`` and ``instar heartbeat`` print with ``--json``, and what the page shows besides. An
order is a person's, and does what the command does: it is refused as there.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, ParamSpec, TypeVar

import msgspec

from instar.plugin import Invalid, NotFound, operation, wire
from instar.plugins.evolve import person, status
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.gate.pending import Listing, NotPending, PendingEntry
from instar.plugins.evolve.gate.report import GateReport
from instar.plugins.evolve.heartbeat import report
from instar.plugins.evolve.heartbeat.report import HeartbeatStatus, Paused
from instar.plugins.evolve.heartbeat.schedule import BeatEntry
from instar.plugins.evolve.history import blame, timeline
from instar.plugins.evolve.history.blame import BlamedFile, Fetch, Why
from instar.plugins.evolve.history.commits import is_repository
from instar.plugins.evolve.history.pins import Pin
from instar.plugins.evolve.history.repository import NoSuchChange
from instar.plugins.evolve.history.timeline import Compared, Shown, Timeline, TimelinePage
from instar.plugins.evolve.person import Made, Rejected
from instar.plugins.evolve.status import EvolveStatus, HookCalls

P = ParamSpec("P")
T = TypeVar("T")

_SHOWN: Final = 20
_MOST: Final = 1000
"""Changes of one answer."""
_LONGEST: Final = 4000
"""Characters of a file's name, and of a reason."""
_CANDIDATE: Final = "/instar/evolve/candidate/{candidateID}"
_STOPPED: Final = (
    "an instar stop keeps heartbeats from beginning: resume that first (POST /instar/stop/resume)"
)


class LogQuery(wire.Wire):
    """Which changes: `limit` after the newest `offset`, those of a `file` of the workspace, those of a `session`."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST)] = _SHOWN
    offset: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    session: str = ""
    file: str = ""


class CompareQuery(wire.Wire):
    """The older and the newer version, each named as a change is; `file` narrows it to a file or a folder."""

    old: str
    new: str = "HEAD"
    file: str = ""


class WhyQuery(wire.Wire):
    """A line, from 1, of a file by its path in the workspace."""

    file: str
    line: Annotated[int, msgspec.Meta(ge=1, le=999_999_999)]


class RollbackBody(wire.Wire):
    """The change to take back: the start of a commit's id, HEAD, HEAD~2, or an epoch such as @12; "" is the newest."""

    ref: Annotated[str, msgspec.Meta(max_length=200)] = ""


class PinBody(wire.Wire):
    """A file or folder by its path in the workspace."""

    file: Annotated[str, msgspec.Meta(max_length=_LONGEST)]


class FileQuery(wire.Wire):
    """A file, or the folder of a pin, by its path in the workspace."""

    file: str


class CandidateQuery(wire.Wire):
    """`all`: also what was rejected."""

    all: bool = False


class ReasonBody(wire.Wire):
    """Why; it stands in the log."""

    reason: Annotated[str, msgspec.Meta(max_length=_LONGEST)] = ""


def _route(
    method: Any, path: str, name: str, *, order: bool = False
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
    """Declare an operation in which what evolve refuses becomes an error answer that says why."""

    def declared(work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @operation(method, path, name, errors=(404,), order=order)
        @functools.wraps(work)
        async def answered(*given: P.args, **named: P.kwargs) -> T:
            try:
                return await work(*given, **named)
            except NoSuchChange as error:
                raise NotFound(str(error)) from None
            except person.FAILURES as error:
                raise Invalid(str(error)) from None

        return answered

    return declared


@dataclass
class EvolveRoutes:
    """What is asked of evolve. `problems` are those of its settings, `source` names what chose the workspace.

    `ready`: whether the settings can be used; without that evolve is off. `halted` is that of `PluginInput`,
    `messages` gives those of a session.
    """

    engine: EvolveEngine
    source: str
    environment: Mapping[str, str]
    ready: Callable[[], bool]
    problems: Callable[[], list[str]]
    halted: Callable[[], int]
    messages: Fetch

    # -- looking ---------------------------------------------------------------------------------------

    @_route("GET", "/instar/evolve", "instar.evolve.status")
    async def status(self) -> EvolveStatus:
        """Tell how the workspace stands: scripts, history, what is on probation or waits, what is wrong."""
        engine = self.engine
        if not self.ready():
            problems = [*self.problems(), *status.departed(engine)]
            return status.unread(engine.real, self.source, list(dict.fromkeys(problems)))
        return await status.read(engine, engine.scripts, self.source, self.problems())

    @_route("GET", "/instar/evolve/log", "instar.evolve.log")
    async def log(self, query: LogQuery) -> Timeline:
        """List changes, refusals and orders, newest first."""
        self._demand_history()
        storage = self.engine.storage
        wanted = TimelinePage(query.limit, query.offset, query.file, query.session)
        return await timeline.page(storage.revisions, storage.audit_log, wanted)

    @_route("GET", "/instar/evolve/log/{ref}", "instar.evolve.show")
    async def show(self, ref: str) -> Shown:
        """Show one change: its cause, what the gate said, and its diff.

        It is named by the start of its commit's id, as HEAD or HEAD~2, by its epoch such as @12, or as initial.
        """
        self._demand_history()
        return await timeline.show(self.engine.storage.revisions, self.engine.storage.audit_log, ref)

    @_route("GET", "/instar/evolve/report/{reportID}", "instar.evolve.report")
    async def report(self, report_id: str) -> GateReport:
        """Show what the gate found on a candidate, installed or not: diff, test, replay, scores, what it reaches.

        Entries of the log name their report; the oldest reports are dropped.
        """
        found = self.engine.storage.reports.get(report_id)
        if found is None:
            raise NotFound(
                f"there is no report {report_id!r}, or it was dropped: the log's entries name them"
            )
        return found

    @_route("GET", "/instar/evolve/compare", "instar.evolve.compare")
    async def compare(self, query: CompareQuery) -> Compared:
        """Compare two versions of the workspace, each named as in the log."""
        self._demand_history()
        return await timeline.compare(self.engine.storage.revisions, query.old, query.new, query.file)

    @_route("GET", "/instar/evolve/blame", "instar.evolve.blame")
    async def blame(self, query: FileQuery) -> BlamedFile:
        """Show a file of the workspace line by line, with the change that wrote each."""
        self._demand_history()
        return await blame.blame(self.engine.storage.revisions, query.file, self.engine.real.root)

    @_route("GET", "/instar/evolve/why", "instar.evolve.why")
    async def why(self, query: WhyQuery) -> Why:
        """Tell why a line of a file is as it is: the change that wrote it, and the message that led to it."""
        self._demand_history()
        storage = self.engine.storage
        place = blame.parse_place(f"{query.file}:{query.line}", self.engine.real.root)
        return await blame.why(storage.revisions, storage.audit_log, self.messages, place)

    @_route("GET", "/instar/evolve/call", "instar.evolve.calls")
    async def calls(self) -> list[HookCalls]:
        """Tell how the newest calls of each script's hooks went: how many, how long, how many failed."""
        return await status.calls(self.engine)

    @_route("GET", "/instar/evolve/pin", "instar.evolve.pins")
    async def pins(self) -> list[Pin]:
        """List the files that the agent may not change."""
        return self.engine.storage.pins.all()

    @_route("GET", "/instar/evolve/candidate", "instar.evolve.candidates")
    async def candidates(self, query: CandidateQuery) -> Listing:
        """List the changes that wait for a person, since they would reach more, with their diffs and reasons."""
        return person.pending(self.engine, rejected=query.all)

    @_route("GET", _CANDIDATE, "instar.evolve.candidate")
    async def candidate(self, candidate_id: str) -> PendingEntry:
        """Show a change that waits: its diff, what it would reach, its test's output, its replay."""
        return self._pending(candidate_id)

    # -- orders ----------------------------------------------------------------------------------------

    @_route("POST", "/instar/evolve/rollback", "instar.evolve.rollback", order=True)
    async def rollback(self, body: RollbackBody | None = None) -> Made:
        """Take a change back, by a new commit."""
        return await person.roll_back(self.engine, (body or RollbackBody()).ref)

    @_route("POST", "/instar/evolve/pin", "instar.evolve.pin", order=True)
    async def pin(self, body: PinBody) -> Pin:
        """Keep the agent from changing a file, or what is in it if it is a folder."""
        return person.pin(self.engine, body.file)

    @_route("DELETE", "/instar/evolve/pin", "instar.evolve.unpin", order=True)
    async def unpin(self, query: FileQuery) -> Pin:
        """Let the agent change a file again."""
        return person.unpin(self.engine, query.file)

    @_route("POST", f"{_CANDIDATE}/approve", "instar.evolve.approve", order=True)
    async def approve(self, candidate_id: str) -> Made:
        """Let a change reach what it asks for, and install it; it is tried once more before."""
        self._pending(candidate_id)
        if not self.ready():
            raise Invalid(next(iter(self.problems()), "evolve's settings cannot be used"))
        return await person.approve(self.engine, candidate_id)

    @_route("POST", f"{_CANDIDATE}/reject", "instar.evolve.reject", order=True)
    async def reject(self, candidate_id: str, body: ReasonBody | None = None) -> Rejected:
        """Refuse a change for good: just this one is not asked about again."""
        self._pending(candidate_id)
        entry = await person.reject(self.engine, candidate_id, (body or ReasonBody()).reason)
        return Rejected(entry.id, entry.proposal.file)

    # -- the heartbeat ---------------------------------------------------------------------------------

    @_route("GET", "/instar/heartbeat", "instar.heartbeat.status")
    async def heartbeat(self) -> HeartbeatStatus:
        """Tell of the next and the last heartbeats, their session, what was skipped and why."""
        chosen, problems = report.chosen(self.engine, self._config, self.environment)
        return report.status(self.engine, chosen, problems, self.halted())

    @_route("POST", "/instar/heartbeat/now", "instar.heartbeat.now", order=True)
    async def beat(self) -> BeatEntry:
        """Let the heart beat now; answers when the beat is over."""
        person.demand_live(self.engine)
        chosen, problems = report.chosen(self.engine, self._config, self.environment)
        report.demand_on(chosen, problems, self._config)
        return await report.ask(self.engine.storage.heartbeat)

    @_route("POST", "/instar/heartbeat/pause", "instar.heartbeat.pause", order=True)
    async def pause(self, body: ReasonBody | None = None) -> Paused:
        """Let no heartbeat begin until they are resumed; one that runs goes on."""
        return report.pause(self.engine.storage.heartbeat, (body or ReasonBody()).reason)

    @_route("POST", "/instar/heartbeat/resume", "instar.heartbeat.resume", order=True)
    async def resume(self) -> Paused:
        """Let heartbeats go on; what came due meanwhile is skipped. A stop must have been resumed before."""
        if self.halted():
            raise Invalid(_STOPPED)
        return report.resume(self.engine.storage.heartbeat, 0, lambda: None)

    @property
    def _config(self) -> Path:
        return self.engine.real.config

    def _pending(self, candidate_id: str) -> PendingEntry:
        try:
            return self.engine.storage.pending.get(candidate_id)
        except NotPending as error:
            raise NotFound(str(error)) from None

    def _demand_history(self) -> None:
        if not is_repository(self.engine.real.root):
            raise NotFound(person.NO_REPOSITORY.format(self.engine.real.root))
