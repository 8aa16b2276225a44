from typing import Any

from record import none, record

from instar.plugin import Tool


async def abort(door: Any, options: Any) -> Any:
    async def wait(args: Any, context: Any) -> str:
        record(options, tool="wait", aborted=context.abort.is_set())
        try:
            await context.abort.wait()
        finally:
            record(options, tool="wait", aborted=context.abort.is_set())
        return "never read"

    return {"tool": {"wait": Tool("Waits", {"type": "object", "properties": {}}, wait, permissions=none)}}
