"""The routes of what a person defined: agents, commands, skills and tools, in opencode's shapes."""

import json
import logging
from typing import Any, Final

import msgspec

from instar.api import instance as api
from instar.api.operation import operation
from instar.definitions.agent import Agents, UnknownAgent, to_plain
from instar.definitions.command import Command
from instar.mcp import prompt_name
from instar.plugin import Value
from instar.runtime import Runtime
from instar.session.instance import Instance
from instar.tool.registry import offered
from instar.turn.command import skill_commands
from instar.turn.context import defined
from instar.wire.secret import disclosed

log = logging.getLogger("instar.client")

LONGEST_LINE: Final = 10_000
"""Characters of a client's line in the log."""
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


class DefinitionRoutes:
    """Lists of agents, commands, skills and tools."""

    @operation("GET", "/agent", "app.agents")
    async def agents(self, instance: Instance) -> list[api.Agent]:
        """List the agents: the default one first, since clients begin with the first one that they may use."""
        agents = instance.agents
        default = _default(agents)
        found = sorted(agents.all(), key=lambda agent: (agent.name != default, agent.name))
        return [
            msgspec.convert({**to_plain(agent), "options": disclosed(agent.options)}, api.Agent)
            for agent in found
        ]

    @operation("GET", "/command", "command.list")
    async def commands(self, runtime: Runtime) -> list[api.Command]:
        """List the commands: those of the settings, the prompts of MCP servers, and the skills."""
        found = [shown(command, "command") for command in runtime.instance.commands.all()]
        found += await _prompts(runtime)
        found += [shown(command, "skill") for command in skill_commands(runtime.instance)]
        # Of two with one name the first is the one that runs.
        return list({command.name: command for command in reversed(found)}.values())[::-1]

    @operation("GET", "/skill", "app.skills")
    async def skills(self, instance: Instance) -> list[api.Skill]:
        """List the skills, with their texts."""
        return skills_of(instance)

    @operation("GET", "/experimental/tool/ids", "tool.ids")
    async def tool_ids(self, runtime: Runtime) -> list[str]:
        """List the names of all tools."""
        return list(dict.fromkeys(await runtime.tools()))

    @operation("GET", "/experimental/tool", "tool.list")
    async def tools(self, instance: Instance, query: api.ToolQuery) -> list[api.ToolListItem]:
        """List the tools as the model sees them."""
        named = {**instance.tools, **instance.plugins.tools()}
        found = {
            name: await defined(instance, name, tool) for name, tool in offered(named, query.model).items()
        }
        return [
            api.ToolListItem(id=name, description=tool.description, parameters=tool.parameters)
            for name, tool in found.items()
        ]

    @operation("GET", "/lsp", "lsp.status")
    async def language_servers(self, runtime: Runtime) -> list[api.LSPStatus]:
        """List the language servers that were started."""
        return msgspec.convert(_status(runtime, "lsp"), list[api.LSPStatus])

    @operation("GET", "/formatter", "formatter.status")
    async def formatters(self, runtime: Runtime) -> list[api.FormatterStatus]:
        """List the formatters, and which of them run."""
        return msgspec.convert(_status(runtime, "formatter"), list[api.FormatterStatus])

    @operation("POST", "/log", "app.log")
    async def log(self, body: api.LogBody) -> bool:
        """Write a line into the log."""
        more = json.dumps(body.extra, ensure_ascii=False) if body.extra else ""
        line = f"service={body.service} {body.message} {more}".strip()[:LONGEST_LINE]
        log.log(_LEVELS[body.level], "%s", "".join(mark if mark.isprintable() else " " for mark in line))
        return True


def _status(runtime: Runtime, name: str) -> Any:
    """Return what the plugin of this name shows of its programs; nothing where no setting switches it on."""
    view = runtime.registry.views.get(name)
    status = view.values.get("status") if view else None
    return status.read("") if isinstance(status, Value) else []


def shown(command: Command, source: Any) -> api.Command:
    """Return a command as the API shows it."""
    return api.Command(
        name=command.name,
        description=command.description or None,
        agent=command.agent,
        model=command.model,
        source=source,
        template=command.template,
        subtask=command.subtask,
        hints=command.hints,
    )


def skills_of(instance: Instance) -> list[api.Skill]:
    """Return the skills of an instance, by name."""
    return [
        api.Skill(
            name=skill.name, description=skill.description, location=str(skill.path), content=skill.text
        )
        for skill in instance.skills.values()
        if skill.listed
    ]


async def _prompts(runtime: Runtime) -> list[api.Command]:
    """The prompts of MCP servers, once those are connected that can be; without texts, which need arguments."""
    if runtime.mcp is None:
        return []
    await runtime.mcp.ready()
    found = await runtime.mcp.prompts()
    return [
        api.Command(
            name=prompt_name(server, str(one["name"])),
            description=str(one.get("description") or "") or None,
            source="mcp",
            template="",
            hints=[f"${number}" for number, _ in enumerate(_list(one.get("arguments")), 1)],
        )
        for server, prompts in found.items()
        for one in prompts
    ]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _default(agents: Agents) -> str | None:
    try:
        return agents.get(None).name
    except UnknownAgent:  # each prompt that names no agent says so
        return None
