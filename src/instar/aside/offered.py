"""Which tools a session apart has, and what its calls may do: what is named is allowed, nobody is asked."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from instar.agent import tool_rules
from instar.instance import Instance
from instar.live import Live
from instar.message import Rule
from instar.permission import DEFAULTS, Action, from_config, matches
from instar.plugin import Aside, Invalid, OwnTool, Tool, ToolContext, ToolFailure, ToolResult
from instar.plugin.tool import Execute
from instar.wire import Plain

STARTING: Final = frozenset(("bash", "glob", "grep"))
"""Tools that start children."""
_WRITING: Final = frozenset(("edit", "write", "apply_patch"))
_NEVER: Final = frozenset(("task", "question", "background", "invalid"))
_READ: Final = "This session may only read: {name} changes nothing here. Decide by what you can see."
_OFFLINE: Final = "This session has no network: {name} cannot be used here. Decide by what you can see."


def offer(instance: Instance, aside: Aside) -> dict[str, Tool]:
    """Return the tools by name, the caller's own last. Raises `Invalid` for a name that cannot be had."""
    names = dict.fromkeys(aside.tools)
    if _WRITING & names.keys():
        names |= dict.fromkeys(
            ("edit", "write", "apply_patch") if "write" in names else ("edit", "apply_patch")
        )
    found = {name: _tool(instance, aside, name) for name in names if name not in aside.own}
    return found | {name: _own(one) for name, one in aside.own.items()}


def rules(
    instance: Instance, caller: Live | None, aside: Aside, tools: Mapping[str, Tool]
) -> tuple[Rule, ...]:
    """Return the rules for its calls: `tools` and nothing else, and of those nothing that a person denies.

    Where a person wants to be asked, it is allowed: the sandbox holds it, or the rule's author let it out. What the
    defaults would ask about (``.env``) is denied, since reading it needs no sandbox to break out of.
    """
    names = {tool.permission or name for name, tool in tools.items() if name not in aside.own}
    names |= {"read"} if "grep" in names else set()
    return (
        Rule(permission="*", pattern="*", action="deny"),
        *(Rule(permission=name, pattern="*", action="allow") for name in (*sorted(names), *aside.own)),
        *_held(sorted(names), (rule for rule in DEFAULTS if rule.permission == "read"), "deny"),
        *_held(sorted(names), _persons(instance, caller), "allow"),
    )


def _tool(instance: Instance, aside: Aside, name: str) -> Tool:
    builtin = instance.tools.get(name)
    if name in _NEVER:
        raise Invalid(
            f"a session apart has no tool {name}: it begins no other session, asks nobody and leaves nothing running"
        )
    if builtin is None:
        found = instance.plugins.tools().get(name)
        if found is None:
            raise Invalid(f"there is no tool {name!r}; there are: {', '.join(sorted(_known(instance)))}")
        if not (aside.write and aside.network):
            raise Invalid(
                f"the tool {name} is a plugin's, which no sandbox holds: it is had with both write and network"
            )
        return found
    if name in _WRITING and not aside.write:
        return msgspec.structs.replace(builtin, execute=_refusing(_READ, name), permissions=None)
    if name == "webfetch" and not aside.network:
        return msgspec.structs.replace(builtin, execute=_refusing(_OFFLINE, name), permissions=None)
    return builtin


def _own(given: OwnTool) -> Tool:
    async def execute(args: Plain, ctx: ToolContext) -> str:
        return await given.take(args)

    return Tool(given.description, given.parameters, execute)


def _known(instance: Instance) -> Iterable[str]:
    return (instance.tools.keys() | instance.plugins.tools().keys()) - _NEVER


def _refusing(why: str, name: str) -> Execute:
    async def refuse(args: Plain, ctx: ToolContext) -> ToolResult:
        raise ToolFailure(why.format(name=name))

    return refuse


def _persons(instance: Instance, caller: Live | None) -> Iterator[Rule]:
    """What the person says of everybody, of the caller's agent and of its session, in the order in which it counts."""
    config = instance.config
    yield from from_config(config.permission or {})
    yield from tool_rules(config.tools)
    if caller is not None:
        block = config.agent.get(caller.session.agent or config.default_agent or "build")
        if block is not None:
            yield from tool_rules(block.tools)
            yield from from_config(block.permission or {})
        yield from caller.session.permission or ()


def _held(names: Iterable[str], given: Iterable[Rule], asked: Action) -> Iterator[Rule]:
    """The rules as they concern `names` alone: a rule for everything must not let in what is not named."""
    for rule in given:
        for name in names:
            if matches(name, rule.permission):
                action = asked if rule.action == "ask" else rule.action
                yield Rule(permission=name, pattern=rule.pattern, action=action)
