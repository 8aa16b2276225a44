"""How an instance lets its MCP servers in: their tools by the plugins' door, their prompts as commands.

What of it must be asked goes by the session whose step found it.
"""

from functools import partial

from instar.approval import Person, always_once
from instar.command import Command
from instar.event import AskedBy, PluginError, make
from instar.instance import Instance
from instar.mcp import LinkError, Place, Servers
from instar.plugin import Ask, Invalid, PermissionDenied
from instar.store.values import Values


def let_in(instance: Instance, person: Person | None) -> Servers | None:
    """Register the config's servers, None where there are none; nothing is started before it is needed."""
    if not instance.config.mcp:
        return None
    servers = Servers(
        instance.config.mcp,
        Place(instance.processes, instance.directory, instance.environment),
        Values(instance.store, f"mcp:{instance.project.id}"),
        partial(_approve, instance, person),
        partial(_say, instance),
        instance.tools,
    )
    instance.plugins.add("mcp", servers.hooks())
    instance.commands.late = partial(_prompt, servers)
    return servers


async def _approve(instance: Instance, person: Person | None, session_id: str, agent: str, ask: Ask) -> None:
    if person is always_once:
        # --auto allows calls; that a stranger's text is sound is for somebody who has read it.
        raise PermissionDenied("nobody has seen what changed")
    live = await instance.sessions.open(session_id)
    rules = [*instance.agents.get(agent).permission, *(live.session.permission or [])]
    caller = AskedBy(message_id=live.history[-1].info.id, call_id=f"mcp_{ask.patterns[0]}")
    await instance.approvals.require(ask, rules, session_id, ask.permission, caller)


def _say(instance: Instance, text: str) -> None:
    instance.bus.publish(make(PluginError(plugin="mcp", hook="step.before", message=text)))


async def _prompt(servers: Servers, name: str) -> Command | None:
    """Find a server's prompt as a command: a stranger's text, so that no shell command of it runs."""
    if ":" not in name:
        return None
    try:
        found = await servers.template(name)
    except LinkError as error:
        raise Invalid(f"the command {name} cannot be had: {error}") from error
    return Command(name, found[1], found[0], trusted=False) if found else None
