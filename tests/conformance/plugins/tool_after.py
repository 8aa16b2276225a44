from typing import Any

from record import keys, record


async def after(door: Any, options: Any) -> Any:
    async def hook(given: Any, output: Any) -> None:
        told = {"tool": given.tool, "args": given.args, "output": output.output, "title": output.title}
        record(options, hook="tool.execute.after", input=keys(given), **told)
        output.output = output.output.upper()
        output.title = "Loud"
        output.metadata["loud"] = True

    return {"tool.execute.after": hook}
