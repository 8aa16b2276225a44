from typing import Any

from record import record


async def order(door: Any, options: Any) -> Any:
    record(options, load="c")

    async def complete(given: Any, output: Any) -> None:
        record(options, hook="text.complete", of="c", text=output.text)
        output.text += " c"

    return {"experimental.text.complete": complete}
