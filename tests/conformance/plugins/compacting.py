from typing import Any

from record import keys, record


async def compacting(door: Any, options: Any) -> Any:
    async def hook(given: Any, output: Any) -> None:
        named = {"context": output.context, "prompt": output.prompt}
        record(options, hook="session.compacting", input=keys(given), **named)
        output.context.append("Keep every file name.")

    return {"experimental.session.compacting": hook}
