"""The `write` tool: creates a file, or replaces all of it."""

import asyncio
from typing import Final

from instar import event
from instar.plugin.tool import Ask, Tool, ToolContext, ToolResult
from instar.tool import description, place, textfile
from instar.wire import Plain

PARAMETERS: Final[Plain] = {
    "type": "object",
    "properties": {
        "content": {"type": "string", "description": "All that the file shall hold"},
        "filePath": {"type": "string", "description": "The file to write"},
    },
    "required": ["content", "filePath"],
}


def permissions(args: Plain, ctx: ToolContext) -> list[Ask]:
    """Return what writing this file needs; a person is shown the change."""
    path = place.locate(args["filePath"], ctx)
    change = textfile.unified(place.shown(path, ctx), textfile.preview(path), args["content"])
    return place.asks("edit", path, ctx, {"filepath": str(path), "diff": change})


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Write. Raises `ToolFailure` when the place cannot hold the file; what was there is then as it was."""
    path, content = place.locate(args["filePath"], ctx), args["content"]
    name, data = place.shown(path, ctx), textfile.encoded(args["content"])
    async with place.locked(path, ctx):
        place.check_unchanged(path, ctx, must=True)
        before = await asyncio.to_thread(textfile.preview, path)
        exists = await asyncio.to_thread(textfile.replace, path, data)
        place.note_seen(path, ctx, place.stamp(path))
    await ctx.client.publish(event.make(event.FileEdited(file=str(path))))
    # Without `diagnostics` opencode's terminal shows a line in place of what was written.
    change = {"diff": textfile.unified(name, before, content), "diagnostics": {}}
    metadata = {"filepath": str(path), "exists": exists, **change}
    return ToolResult("Wrote file successfully.", name, metadata)


TOOL: Final = Tool(description("write"), PARAMETERS, execute, permissions, permission="edit")
