from typing import Any

from record import none, record

from instar.plugin import Tool, ToolResult, ids, message

URL = "data:image/png;base64," + (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def attachments(door: Any, options: Any) -> Any:
    async def draw(args: Any, context: Any) -> ToolResult:
        record(options, tool="draw")
        own = {"id": ids.new("prt"), "session_id": context.session_id, "message_id": context.message_id}
        part = message.FilePart(**own, mime="image/png", filename="boat.png", url=URL)
        return ToolResult("drawn", attachments=[part])

    return {"tool": {"draw": Tool("Draws", {"type": "object", "properties": {}}, draw, permissions=none)}}
