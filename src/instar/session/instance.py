"""What a turn needs of the system around it, handed over as one value.

An instance belongs to one directory. The runtime builds it; the rooms of a turn only read it.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from instar.approval.permissions import Approvals
from instar.approval.questions import Questions
from instar.definitions.agent import Agents
from instar.definitions.command import Commands
from instar.definitions.instruction import Instructions
from instar.definitions.skill import Skill
from instar.event.bus import Bus
from instar.git.project import Project
from instar.git.snapshot import Snapshot
from instar.limits.budget import Budget, CallLimits
from instar.limits.stop import StopState
from instar.message import Origin
from instar.plugin import Client, Tool, points
from instar.plugin.door import Plugins
from instar.process import Processes
from instar.provider.resolve import Models
from instar.sandbox.model_process import Children
from instar.session.sessions import Sessions
from instar.session.state import SessionState
from instar.settings.config import Config
from instar.settings.paths import Paths
from instar.store.lease import SessionBusy
from instar.store.store import Store


class Instance(msgspec.Struct):
    """The rooms of one directory's instance. `tools` are the built-in ones by name.

    `processes` starts what instar needs for itself, `children` what runs for the model.
    """

    directory: Path
    project: Project
    paths: Paths
    config: Config
    limits: CallLimits
    environment: Mapping[str, str]
    store: Store
    budget: Budget
    bus: Bus
    plugins: Plugins
    stops: StopState
    processes: Processes
    children: Children
    snapshot: Snapshot
    sessions: Sessions
    approvals: Approvals
    questions: Questions
    agents: Agents
    commands: Commands
    skills: Mapping[str, Skill]
    instructions: Instructions
    models: Models
    tools: Mapping[str, Tool]
    client: Client
    closed: bool = False
    """Set once the instance is closed: no turn makes another call."""

    async def refusal(self, live: SessionState | None, origin: Origin) -> str | None:
        """Return why a session (or a call without one, None) may not call models and tools; None when it may.

        As `bars`, and a session may not that another process took over. Asks the store only when the lease was not
        renewed for so long that another process may have it: after a machine slept.
        """
        barred = self.bars(live, origin)
        if barred is None and live is not None and live.has_lapsed:
            try:
                await self.sessions.renew(live)
            except SessionBusy as error:
                return str(error)
        return barred

    def bars(self, live: SessionState | None, origin: Origin) -> str | None:
        """Return why a session may not go on in any process: it was deleted, or archived and no person asks."""
        if self.closed:
            return "instar is closing"
        if live is None:
            return None
        if live.deleted:
            return f"session {live.id} was deleted"
        if live.session.time.archived and not origin.is_person:
            return f"session {live.id} was put away: only a person's prompt goes on with it"
        return None

    async def variables(self, given: points.ShellEnvInput) -> dict[str, str]:
        """Return the environment of a child for the model: the person's without secrets, then what plugins say."""
        output = await self.plugins.trigger(points.SHELL_ENV, given, points.ShellEnvOutput(env={}))
        return {**self.children.environment(self.environment), **output.env}
