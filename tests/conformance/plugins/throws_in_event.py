from typing import Any

from record import record


async def throws(door: Any, options: Any) -> Any:
    async def event(event: Any) -> None:
        if event.type == "session.idle":
            record(options, event=event.type)
            raise RuntimeError("there is no wind")

    return {"event": event}
