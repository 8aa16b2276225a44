"""The routes of what a person defined: agents and commands, in opencode's shapes."""

from starlette.requests import Request
from starlette.responses import Response

from instar.agent import Agents, UnknownAgent, to_plain
from instar.command import Command
from instar.server.errors import reply
from instar.server.request import Finder
from instar.wire import Plain


class DefinitionRoutes:
    """Lists of agents and commands."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    async def agents(self, request: Request) -> Response:
        """GET /agent: the default one first, since clients begin with the first one that they may use."""
        agents = (await self._finder.runtime(request)).instance.agents
        default = _default(agents)
        found = sorted(agents.all(), key=lambda agent: (agent.name != default, agent.name))
        return reply([to_plain(agent) for agent in found])

    async def commands(self, request: Request) -> Response:
        """GET /command. Prompts of MCP servers are not listed: asking for them would start the servers."""
        commands = (await self._finder.runtime(request)).instance.commands
        return reply([command_plain(command) for command in commands.all()])


def command_plain(command: Command) -> Plain:
    """Return a command in opencode's shape."""
    return {
        "name": command.name,
        "template": command.template,
        "hints": command.hints,
        "source": "command",
        **_given(
            description=command.description or None,
            agent=command.agent,
            model=command.model,
            subtask=command.subtask,
        ),
    }


def _default(agents: Agents) -> str | None:
    try:
        return agents.get(None).name
    except UnknownAgent:  # each prompt that names no agent says so
        return None


def _given(**fields: object) -> Plain:
    return {name: value for name, value in fields.items() if value is not None}
