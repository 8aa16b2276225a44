from typing import Any

from record import keys, record


async def before(door: Any, options: Any) -> Any:
    async def hook(given: Any, output: Any) -> None:
        record(options, hook="tool.execute.before", input=keys(given), tool=given.tool, args=output.args)
        output.args["command"] = "echo changed"

    return {"tool.execute.before": hook}
