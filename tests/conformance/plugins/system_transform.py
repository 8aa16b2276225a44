from typing import Any

from record import keys, record


async def system(door: Any, options: Any) -> Any:
    async def transform(given: Any, output: Any) -> None:
        named = {"model": given.model["id"], "blocks": len(output.system)}
        record(options, hook="system.transform", input=keys(given), **named)
        output.system.append("You live on a boat.")
        output.system.append("It rains.")

    return {"experimental.chat.system.transform": transform}
