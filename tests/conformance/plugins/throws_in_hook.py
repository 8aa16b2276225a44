from typing import Any

from record import record


async def throws(door: Any, options: Any) -> Any:
    async def transform(given: Any, output: Any) -> None:
        record(options, hook="system.transform")
        output.system.append("Half a thought")
        raise RuntimeError("there is no wind")

    return {"experimental.chat.system.transform": transform}
