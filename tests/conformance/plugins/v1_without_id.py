from typing import Any

from record import record


async def server(door: Any, options: Any) -> Any:
    async def message(given: Any, output: Any) -> None:
        record(options, hook="chat.message")

    return {"chat.message": message}
