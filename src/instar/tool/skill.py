"""The `skill` tool: loads instructions for a kind of work when they are needed."""

from collections.abc import Sequence
from typing import Final, Protocol

from instar.plugin.tool import Ask, Execute, Tool, ToolContext, ToolFailure, ToolResult
from instar.tool import description
from instar.wire import Plain

PARAMETERS: Final[Plain] = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": "The skill's name, as the list has it"}},
    "required": ["name"],
}


class SkillSource(Protocol):
    """The skills that there are."""

    def all(self) -> Sequence[tuple[str, str]]:
        """Return each skill's name and description."""
        ...

    def get(self, name: str) -> str:
        """Return a skill's text. Raises `KeyError` when there is none of that name."""
        ...


def tool(skills: SkillSource) -> Tool:
    """Return the tool for the skills that there are now; their list is part of its description."""
    described = description("skill")
    listed = "\n".join(f"- {name}: {' '.join(about.split())}" for name, about in skills.all())
    return Tool(f"{described}\n\nThe skills:\n{listed}", PARAMETERS, _execute(skills), permissions)


def permissions(args: Plain, ctx: ToolContext) -> Sequence[Ask]:
    """Return what loading this skill needs."""
    return [Ask("skill", [args["name"]], [args["name"]])]


def _execute(skills: SkillSource) -> Execute:
    async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
        name = args["name"]
        try:
            text = skills.get(name)
        except KeyError:
            names = ", ".join(known for known, _ in skills.all())
            raise ToolFailure(f"There is no skill {name!r}; there are: {names or 'none'}.") from None
        return ToolResult(f'<skill name="{name}">\n{text.strip()}\n</skill>', f"Skill {name}", {"name": name})

    return execute
