from typing import Any

from record import record


async def permission(door: Any, options: Any) -> Any:
    async def ask(given: Any, output: Any) -> None:
        record(options, hook="permission.ask", status=output.status)

    return {"permission.ask": ask}
