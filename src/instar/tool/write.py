"""The `write` tool: creates a file, or replaces all of it."""

import asyncio
from typing import Final

from instar.plugin.tool import Ask, Tool, ToolContext, ToolResult
from instar.tool import description, files, parameters
from instar.wire import Plain

PARAMETERS: Final[Plain] = parameters(
    {"content": "All that the file shall hold", "filePath": "The file to write"}
)


def permissions(args: Plain, ctx: ToolContext) -> list[Ask]:
    """Return what writing this file needs; a person is shown the change."""
    path = files.locate(args["filePath"], ctx)
    change = files.unified(files.shown(path, ctx), files.preview(path), args["content"])
    return files.asks("edit", path, ctx, {"filepath": str(path), "diff": change})


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Write. Raises `ToolFailure` when the file cannot be written; an existing file is then unchanged."""
    path = files.locate(args["filePath"], ctx)
    name, data = files.shown(path, ctx), files.encoded(args["content"])
    async with files.locked(path, ctx):
        files.check_unchanged(path, ctx, must=True)
        before = await asyncio.to_thread(files.preview, path)
        exists = await asyncio.to_thread(files.replace, path, data)
        settled = await files.settle({path: data}, ctx)
    diff = files.unified(name, before, settled.now[path].decode(errors="replace"))
    # Without `diagnostics` opencode's terminal shows a line in place of what was written.
    metadata = {"filepath": str(path), "exists": exists, "diff": diff, "diagnostics": {}}
    return ToolResult(f"Wrote file successfully.{settled.note}", name, metadata | settled.metadata)


TOOL: Final = Tool(description("write"), PARAMETERS, execute, permissions, permission="edit")
