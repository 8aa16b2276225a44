from typing import Any

from record import keys, record


async def small(door: Any, options: Any) -> Any:
    async def model(given: Any, output: Any) -> None:
        named = {"provider": given.provider["id"], "models": sorted(given.provider["models"])}
        record(options, hook="small_model", input=keys(given), **named)
        output.model = given.provider["models"]["n"]

    return {"experimental.provider.small_model": model}
