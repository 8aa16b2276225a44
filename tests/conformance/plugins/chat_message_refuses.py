from typing import Any

from record import record


async def refuses(door: Any, options: Any) -> Any:
    async def message(given: Any, output: Any) -> None:
        record(options, hook="chat.message")
        raise RuntimeError("no prompts today")

    return {"chat.message": message}
