from typing import Any

from record import record


async def alpha(door: Any, options: Any) -> Any:
    async def message(given: Any, output: Any) -> None:
        record(options, hook="chat.message", of="alpha")

    return {"chat.message": message}


async def beta(door: Any, options: Any) -> Any:
    async def message(given: Any, output: Any) -> None:
        record(options, hook="chat.message", of="beta")

    return {"chat.message": message}


gamma = beta
