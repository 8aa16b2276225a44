from typing import Any

from record import record

id = "v1"  # noqa: A001 - the form says so


async def server(door: Any, options: Any) -> Any:
    async def message(given: Any, output: Any) -> None:
        record(options, hook="chat.message", of="v1")

    return {"chat.message": message}


async def other(door: Any, options: Any) -> Any:
    record(options, load="other")
    return {}
