from typing import Any

from record import none, record

from instar.plugin import Tool


async def long(door: Any, options: Any) -> Any:
    async def lines(args: Any, context: Any) -> str:
        record(options, tool="list")
        return "\n".join(f"line {number}" for number in range(3000))

    async def after(given: Any, output: Any) -> None:
        few = len(output.output.split("\n")) < 2100
        record(options, hook="tool.execute.after", truncated=output.metadata.get("truncated"), lines=few)

    tool = Tool("Lists", {"type": "object", "properties": {}}, lines, permissions=none)
    return {"tool": {"list": tool}, "tool.execute.after": after}
