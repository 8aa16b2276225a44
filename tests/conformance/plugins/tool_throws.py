from typing import Any

from record import none, record

from instar.plugin import Tool, ToolFailure


async def throws(door: Any, options: Any) -> Any:
    async def bake(args: Any, context: Any) -> str:
        record(options, tool="bake")
        raise ToolFailure("the oven is cold")

    async def after(given: Any, output: Any) -> None:
        record(options, hook="tool.execute.after", tool=given.tool)

    tool = Tool("Bakes", {"type": "object", "properties": {}}, bake, permissions=none)
    return {"tool": {"bake": tool}, "tool.execute.after": after}
