"""The `invalid` tool: what a call of a tool that is not there becomes. The model is never offered it."""

from typing import Final

from instar.plugin.tool import Tool, ToolContext, ToolResult
from instar.tool import description, parameters
from instar.wire import Plain

NAME: Final = "invalid"

PARAMETERS: Final[Plain] = parameters(
    {"tool": "The name that was called", "error": "What was wrong with the call"}
)


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Tell the model what was wrong."""
    return ToolResult(args["error"], "Invalid tool", {"tool": args["tool"]})


TOOL: Final = Tool(description("invalid"), PARAMETERS, execute, lambda args, ctx: [], repeatable=True)
