"""The `skill` tool: loads instructions for a kind of work when they are needed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from instar.plugin.tool import Ask, Tool, ToolContext, ToolFailure, ToolResult
from instar.tool import description, parameters
from instar.wire import Plain

PARAMETERS: Final[Plain] = parameters({"name": "The skill's name, as the list has it"})


def tool(skills: Mapping[str, tuple[str, Callable[[str], str]]]) -> Tool:
    """Return the tool for these skills (description, and what gives a session the text, by name).

    Their list is part of its description.
    """
    described = description("skill")
    listed = "\n".join(f"- {name}: {' '.join(about.split())}" for name, (about, _) in skills.items())

    async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
        name = args["name"]
        if name not in skills:
            raise ToolFailure(f"There is no skill {name!r}; there are: {', '.join(skills) or 'none'}.")
        text = skills[name][1](ctx.session_id).strip()
        return ToolResult(f'<skill name="{name}">\n{text}\n</skill>', f"Skill {name}", {"name": name})

    return Tool(f"{described}\n\nThe skills:\n{listed}", PARAMETERS, execute, permissions, idempotent=True)


def permissions(args: Plain, ctx: ToolContext) -> Sequence[Ask]:
    """Return what loading this skill needs."""
    return [Ask("skill", [args["name"]], [args["name"]])]
