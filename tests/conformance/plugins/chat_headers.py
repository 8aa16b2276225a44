from typing import Any

from record import keys, record


async def headers(door: Any, options: Any) -> Any:
    async def hook(given: Any, output: Any) -> None:
        record(options, hook="chat.headers", input=keys(given), headers=output.headers)
        output.headers["x-of"] = f"Ada, {given.agent}"

    return {"chat.headers": hook}
