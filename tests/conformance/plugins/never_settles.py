import asyncio
from typing import Any

from record import record


async def never(door: Any, options: Any) -> Any:
    async def transform(given: Any, output: Any) -> None:
        record(options, hook="system.transform")
        await asyncio.get_running_loop().create_future()

    return {"experimental.chat.system.transform": transform, "timeout": 0.3}
