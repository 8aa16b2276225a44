"""How an instance lets its MCP servers in: their tools by the plugins' door, their prompts as commands.

What of it must be asked goes by the session whose step found it.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from instar.approval.permissions import Person, always_once
from instar.definitions.command import Command
from instar.event import AskedBy, PluginError, make
from instar.message import Rule
from instar.plugin import Ask, Invalid, PermissionDenied
from instar.session.instance import Instance
from instar.settings.config import McpConfig
from instar.settings.steered import accepted_environment
from instar.store.values import Values

if TYPE_CHECKING:
    from instar.mcp import Servers

NAME: Final = "mcp"
"""Under which name the servers stand among the plugins."""
ASK: Final = Rule(permission="mcp", pattern="*", action="ask")
"""A changed description is asked about, unless the person's own rules say otherwise."""


def let_in(instance: Instance, person: Person | None) -> "Servers | None":
    """Register the config's servers; None without any. A server starts when it is first needed."""
    return registered(instance, person) if instance.config.mcp else None


def registered(instance: Instance, person: Person | None) -> "Servers":
    """Register the config's servers, also an empty list."""
    # Start-up time: many have no server.
    from instar.mcp import LOGINS, LaunchContext, Servers

    environment = instance.children.environment(instance.environment)
    root = instance.project.worktree if instance.project.vcs else instance.directory
    environment = accepted_environment(environment, root, lambda path: path)
    servers = Servers(
        instance.config.mcp,
        LaunchContext(instance.children, instance.directory, environment, instance.paths.data / LOGINS),
        Values(instance.store, f"mcp:{instance.project.id}"),
        partial(_approve, instance, person),
        partial(_say, instance),
        instance.tools,
    )
    instance.plugins.add(NAME, servers.hooks())
    instance.commands.late = partial(_prompt, servers)
    return servers


async def take_up(
    instance: Instance, servers: "Servers | None", before: Mapping[str, McpConfig], person: Person | None
) -> "Servers | None":
    """Return the servers, with new ones for entries of the config that differ from `before`."""
    # What another layer only switches off, or on, has nothing to connect to.
    wanted = {name: one for name, one in instance.config.mcp.items() if one.type or one.command or one.url}
    if servers is None and wanted:
        servers = registered(instance, person)
        *others, new = instance.plugins.loaded
        # Before those that judge: they see what a server's resources brought.
        instance.plugins.replace([new, *others])
    elif servers is not None:
        for name in sorted({*before, *wanted}):
            if before.get(name) != instance.config.mcp.get(name):
                await servers.renew(name, wanted.get(name))
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


async def _prompt(servers: "Servers", name: str) -> Command | None:
    """Return a server's prompt as a command. It is untrusted text: shell commands in it do not run."""
    if ":" not in name:
        return None
    from instar.mcp import LinkError

    try:
        found = await servers.template(name)
    except LinkError as error:
        raise Invalid(f"the command {name} cannot be had: {error}") from error
    return Command(name, found[1], found[0], trusted=False) if found else None
