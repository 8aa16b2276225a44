from typing import Any

from record import record


async def guard(door: Any, options: Any) -> Any:
    async def before(given: Any, output: Any) -> None:
        record(options, hook="tool.execute.before", tool=given.tool)
        raise RuntimeError("this machine stays on")

    async def after(given: Any, output: Any) -> None:
        record(options, hook="tool.execute.after", tool=given.tool)

    return {"tool.execute.before": before, "tool.execute.after": after}
