from typing import Any

from record import record


async def nonsense(door: Any, options: Any) -> Any:
    async def after(given: Any, output: Any) -> None:
        record(options, hook="tool.execute.after")
        output.output = {"of": 42}

    return {"tool.execute.after": after}
