from typing import Any

from record import record


async def order(door: Any, options: Any) -> Any:
    record(options, load="a")

    async def complete(given: Any, output: Any) -> None:
        record(options, hook="text.complete", of="a", text=output.text)
        output.text += " a"

    return {"experimental.text.complete": complete}
