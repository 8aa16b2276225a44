from typing import Any

from record import record


async def compacting(door: Any, options: Any) -> Any:
    async def hook(given: Any, output: Any) -> None:
        record(options, hook="session.compacting")
        output.prompt = "Say it in three words."

    return {"experimental.session.compacting": hook}
