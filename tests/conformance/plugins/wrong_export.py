from typing import Any

from record import record


class Plugin:
    """A V1 plugin whose `server` is no function."""

    id = "wrong"
    server = 5


plugin = Plugin()


async def right(door: Any, options: Any) -> Any:
    async def message(given: Any, output: Any) -> None:
        record(options, hook="chat.message")

    return {"chat.message": message}
