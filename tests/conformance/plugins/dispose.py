from typing import Any

from record import record


async def ends(door: Any, options: Any) -> Any:
    async def dispose() -> None:
        record(options, hook="dispose")

    return {"dispose": dispose}
