from typing import Any

from record import record


async def order(door: Any, options: Any) -> Any:
    record(options, load="b")

    async def complete(given: Any, output: Any) -> None:
        record(options, hook="text.complete", of="b", text=output.text)
        output.text += " b"

    return {"experimental.text.complete": complete}
