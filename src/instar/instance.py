"""What a turn needs of the system around it, handed over as one value.

An instance belongs to one directory. The runtime builds it; the rooms of a turn only read it.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from instar.agent import Agents
from instar.approval import Approvals
from instar.budget import Budget
from instar.bus import Bus
from instar.children import Children
from instar.command import Commands
from instar.config import Config
from instar.halt import Halt
from instar.instruction import Instructions
from instar.paths import Paths
from instar.plugin import Client, Tool, points
from instar.plugin.door import Plugins
from instar.process import Processes
from instar.project import Project
from instar.provider.resolve import Models
from instar.question import Questions
from instar.session import Sessions
from instar.skill import Skills
from instar.snapshot import Snapshot
from instar.store import Store
from instar.usage import Limits


class Instance(msgspec.Struct):
    """The rooms of one directory's instance. `tools` are the built-in ones by name.

    `processes` starts what instar needs for itself, `children` what runs for the model.
    """

    directory: Path
    project: Project
    paths: Paths
    config: Config
    limits: Limits
    environment: Mapping[str, str]
    store: Store
    budget: Budget
    bus: Bus
    plugins: Plugins
    halt: Halt
    processes: Processes
    children: Children
    snapshot: Snapshot
    sessions: Sessions
    approvals: Approvals
    questions: Questions
    agents: Agents
    commands: Commands
    skills: Skills
    instructions: Instructions
    models: Models
    tools: Mapping[str, Tool]
    client: Client
    closed: bool = False
    """Set once the instance is closed: no turn makes another call."""

    async def variables(self, given: points.ShellEnvInput) -> dict[str, str]:
        """Return the environment of a child for the model: the person's without secrets, then what plugins say."""
        output = await self.plugins.trigger(points.SHELL_ENV, given, points.ShellEnvOutput(env={}))
        return {**self.children.environment(self.environment), **output.env}
