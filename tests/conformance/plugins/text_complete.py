from typing import Any

from record import keys, record


async def complete(door: Any, options: Any) -> Any:
    async def hook(given: Any, output: Any) -> None:
        record(options, hook="text.complete", input=keys(given), text=output.text)
        output.text = output.text.upper()

    return {"experimental.text.complete": hook}
