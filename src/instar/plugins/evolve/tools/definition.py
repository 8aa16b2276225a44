"""How evolve's own tools are put together: schema, names and what is asked before a call."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from instar.plugin import Ask, Tool, ToolContext, ToolResult, wire
from instar.plugins.evolve.discovery import PREFIX, asked_about, remembered
from instar.plugins.evolve.install import ChangeCause

Execute = Callable[[wire.Plain, ToolContext], Awaitable[ToolResult]]
Permissions = Callable[[wire.Plain, ToolContext], Sequence[Ask]]
_CHANGES: Final = frozenset(
    (*(f"{kind}_{verb}" for kind in ("hook", "prompt") for verb in ("write", "edit", "propose")), "rollback")
)
"""The tools that change what later calls see."""


class ToolDefinition(Tool):
    """A tool without its name. `about` is the argument whose value is asked about; "" for the tool as a whole.

    `way` is the tool whose permission it asks for in the place of its own: it is another way to do the same.
    """

    about: str = ""
    way: str = ""


def tool(
    description: str,
    properties: wire.Plain,
    execute: Execute,
    *,
    optional: Sequence[str] = (),
    **more: Any,
) -> ToolDefinition:
    """Return a tool with these properties, all of them required but the `optional` ones; `more` as in the class."""
    schema: wire.Plain = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }
    return ToolDefinition(description, schema, execute, **more)


def named(name: str, made: ToolDefinition, others: Callable[[str], tuple[str, ...]]) -> Tool:
    """Return the tool under its full name and its other ones, which `others` gives."""
    aliases, asked = others(name), made.way or name
    also = f" It is also called {', '.join(aliases)}." if aliases else ""
    return msgspec.structs.replace(
        made,
        description=f"{made.description}{also}",
        permissions=_permissions(f"{PREFIX}_{asked}", made.about, others(asked)),
        aliases=aliases,
        exact_first=True,
        ordered=name in _CHANGES,
    )


def cause_of(name: str, context: ToolContext) -> ChangeCause:
    """Return what a change is put down to that a call of the tool `name`, without its prefix, makes."""
    return ChangeCause(
        tool=f"{PREFIX}_{name}",
        session=context.session_id,
        call=context.call_id,
        agent=context.agent,
        message=context.message_id,
    )


def _permissions(full: str, about: str, aliases: tuple[str, ...]) -> Permissions:
    def ask(args: wire.Plain, context: ToolContext) -> list[Ask]:
        names = [about] if about else []
        patterns = asked_about(names, args)
        return [Ask(full, patterns, remembered(names, patterns), metadata=dict(args), aliases=aliases)]

    return ask
