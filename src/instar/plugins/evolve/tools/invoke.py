"""Finding and calling tools by name: those that came up in the middle of a session too.

A model whose tool list is frozen reaches them by `evolve_tool_invoke`. The core makes the call as if the model had: the
target's schema, hooks, loops and permissions count under the target's own name (`ToolContext.invoke`).
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from instar.plugin import Tool, ToolContext, ToolResult, wire
from instar.plugins.evolve import parameters
from instar.plugins.evolve.discovery import OWN, PREFIX
from instar.plugins.evolve.tools.definition import ToolDefinition, tool

LONGEST: Final = 40_000
"""Characters of tools that are shown whole; of the others the names are."""
_MOST_NAMES: Final = 500
_INVOKE: Final = f"{PREFIX}_tool_invoke"


def tools(scripts: Collection[str]) -> dict[str, ToolDefinition]:
    """Return the tools by name; `scripts` are the full names of the scripts' tools, which are listed first."""

    async def listing(args: wire.Plain, context: ToolContext) -> ToolResult:
        words = str(args.get("filter", "")).casefold().split()
        known = {name: one for name, one in (await context.tools()).items() if name != _INVOKE}
        found = {name: one for name, one in known.items() if _fits(name, one, words)}
        if not found:
            return ToolResult(f"(none of your {len(known)} tools fits {args.get('filter', '')!r})", "0 tools")
        ordered = sorted(found, key=lambda name: (name not in scripts, name in OWN, name))
        text = shown({name: found[name] for name in ordered})
        return ToolResult(text, f"{len(found)} tool{'' if len(found) == 1 else 's'}", {"tools": ordered})

    return {
        "tool_list": tool(
            "List your tools with descriptions and JSON schemas, also those that were added since this session began. "
            f"Call one that you are not offered with {_INVOKE}.",
            {"filter": _FILTER},
            listing,
            optional=["filter"],
        ),
        "tool_invoke": ToolDefinition(
            "Call any of your tools by its name, also one that was added since this session began.",
            parameters.schema(_INVOKE, {"name": _NAME, "args": _ARGS}),
            _invoke,
            about="name",
            # The core counts the calls of the target.
            repeatable=True,
        ),
    }


async def _invoke(args: wire.Plain, context: ToolContext) -> ToolResult:
    name = str(args["name"])
    result = await context.invoke(name, args.get("args") or {})
    return msgspec.structs.replace(result, title=f"{name}: {result.title}" if result.title else name)


def shown(found: Mapping[str, Tool]) -> str:
    """Return the tools one after another, whole as long as `LONGEST` allows, then by name."""
    texts: list[str] = []
    left: list[str] = []
    room = LONGEST
    for name, one in found.items():
        text = f"## {name}\n{one.description}\nparameters: {wire.encode(one.parameters).decode()}"
        if len(text) > room:
            left.append(name)
        else:
            texts.append(text)
            room -= len(text)
    if left:
        more = f", … and {len(left) - _MOST_NAMES} more" if len(left) > _MOST_NAMES else ""
        texts.append(
            f"({len(left)} more, which filter shows whole: {', '.join(left[:_MOST_NAMES])}{more})"
            if texts or len(left) > 1
            else f"{left[0]} is described by more than {LONGEST} characters and cannot be shown"
        )
    return "\n\n".join(texts)


def _fits(name: str, one: Tool, words: list[str]) -> bool:
    text = f"{name}\n{' '.join(one.aliases)}\n{one.description}".casefold()
    return all(word in text for word in words)


_FILTER: Final = {
    "type": "string",
    "description": "Words that the name or the description must hold, in any case (default: every tool).",
}
_NAME: Final = "The tool's full name, as evolve_tool_list has it."
_ARGS: Final = {
    "type": "object",
    "optional": True,
    "description": "Its arguments, as its own schema says (default none).",
}
