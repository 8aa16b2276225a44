"""instar's own operations."""

from collections.abc import Callable
from typing import Any

from instar.api.config import TrustBody, TrustState
from instar.api.operation import flagship_operations
from instar.api.session import ToolCallBody, WaitingReport
from instar.api.stats import (
    ContextReport,
    DoctorReport,
    LimitsReport,
    Resumed,
    ShieldState,
    Stats,
    StopBody,
    StopReport,
    StopsReport,
)
from instar.client.endpoint import C, Calls, carried_out_by, endpoint, stream
from instar.event import Event
from instar.message import WithParts


class InstarStopCalls(Calls[C]):
    """``instar.stop``."""

    @endpoint("POST", "/instar/stop/resume")
    def resume(self, body: StopBody | None = None) -> Resumed:
        """Let what is automatic go on in the directory's project, whatever stopped it."""

    @endpoint("GET", "/instar/stop")
    def list(self) -> StopsReport:
        """List the stops that a person made, and whether one keeps what is automatic from beginning here."""

    @endpoint("POST", "/instar/stop")
    def all(self, body: StopBody | None = None) -> StopReport:
        """End every turn in the directory's project, in whichever process it runs, as ``instar stop``."""


class InstarTrustCalls(Calls[C]):
    """``instar.trust``."""

    @endpoint("GET", "/instar/trust")
    def get(self) -> TrustState:
        """Tell what steers in the directory and is not heard, with diffs, as ``instar trust diff``."""

    @endpoint("POST", "/instar/trust")
    def accept(self, body: TrustBody) -> TrustState:
        """Trust the directory, and accept what steers in it as it was shown: `version` says which that was."""


class FlagshipCalls(Calls[C]):
    """``instar.evolve`` and others that flagships carry out: as they declare them, with their types."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        wanted = f"instar.{self._name}.{name}"
        for bounds in flagship_operations().values():
            for bound in bounds:
                if bound.operation.id == wanted:
                    return carried_out_by(bound).over(self.connection)
        raise AttributeError(f"there is no operation {wanted}")


class InstarCalls(Calls[C]):
    """``instar``."""

    stop: InstarStopCalls[C]
    trust: InstarTrustCalls[C]
    evolve: FlagshipCalls[C]
    heartbeat: FlagshipCalls[C]
    hooks: FlagshipCalls[C]
    self: FlagshipCalls[C]

    @stream("/instar/event")
    def event(self, *, last_event_id: str | None = None, directory: str | None = None) -> Event:
        """Follow all events, those of instar's own types too; of one directory, if it is named."""

    @endpoint("GET", "/instar/stats")
    def stats(
        self,
        *,
        by: str = "",
        days: int | None = None,
        since: str | None = None,
        until: str | None = None,
        session: str = "",
        project: str | None = None,
        tools: bool = False,
    ) -> Stats:
        """Tell what model calls used and cost, as ``instar stats``: all projects', or those that the query chooses."""

    @endpoint("GET", "/instar/waiting")
    def waiting(self) -> WaitingReport:
        """Tell what waits for a person and which sessions work, in all directories that are open."""

    @endpoint("GET", "/instar/limits")
    def limits(self, *, session: str | None = None) -> LimitsReport:
        """Tell which limits are set, what was used of them, and what is left."""

    @endpoint("GET", "/instar/session/{sessionID}/context")
    def context(self, session_id: str, *, model: str = "") -> ContextReport:
        """Tell what fills the window of a session's model: system prompt, tools and messages, each with its parts."""

    @endpoint("POST", "/instar/session/{sessionID}/tool")
    def tool(self, session_id: str, body: ToolCallBody) -> WithParts:
        """Call a tool as the agent would, without a model; answers with the message that holds its outcome."""

    @endpoint("GET", "/instar/doctor")
    def doctor(self) -> DoctorReport:
        """Check everything that instar needs in the directory, as ``instar doctor``, and say what to do."""

    @endpoint("GET", "/instar/shield")
    def shield(self) -> ShieldState:
        """Tell how far the model's commands are confined in the directory."""

    @endpoint("GET", "/instar/metrics")
    def metrics(self) -> str:
        """Get the server's figures in Prometheus' text format."""
