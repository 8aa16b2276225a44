"""The `write` tool: creates a file, or replaces all of it."""

import asyncio
from pathlib import Path
from typing import Final

from instar import event
from instar.plugin.tool import Ask, Tool, ToolContext, ToolResult
from instar.tool import diff, place, seen, textfile
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
    change = diff.unified(place.shown(path, ctx), textfile.preview(path), args["content"])
    return place.asks("edit", path, ctx, {"filepath": str(path), "diff": change})


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Write. Raises `ToolFailure` when the place cannot hold the file; what was there is then as it was."""
    path, content = place.locate(args["filePath"], ctx), args["content"]
    name, data = place.shown(path, ctx), textfile.encoded(args["content"])
    async with place.alone(path, ctx):
        seen.check(path, ctx, must=True)
        before = await asyncio.to_thread(textfile.preview, path)
        exists = await asyncio.to_thread(textfile.replace, path, data)
        seen.note(path, ctx, seen.stamp(path))
    await ctx.client.publish(event.make(event.FileEdited(file=str(path))))
    # Without `diagnostics` opencode's terminal shows a line in place of what was written.
    change = {"diff": diff.unified(name, before, content), "diagnostics": {}}
    metadata = {"filepath": str(path), "exists": exists, **change}
    return ToolResult("Wrote file successfully.", name, metadata)


TOOL: Final = Tool(
    description=Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip(),
    parameters=PARAMETERS,
    execute=execute,
    permissions=permissions,
    permission="edit",
)
