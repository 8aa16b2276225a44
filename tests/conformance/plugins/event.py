from typing import Any

from record import record

TYPES = ("session.created", "session.status", "session.idle", "message.updated", "message.part.updated")


async def events(door: Any, options: Any) -> Any:
    over: list[str] = []

    async def event(event: Any) -> None:
        told = event.to_plain()
        if over or told["type"] not in TYPES:
            return
        if told["type"] == "session.idle":
            over.append(told["type"])
        info, part, status = (told["properties"].get(name) or {} for name in ("info", "part", "status"))
        words = [
            info.get("role"),
            part.get("type"),
            (part.get("state") or {}).get("status"),
            status.get("type"),
        ]
        record(options, event=told["type"], detail=" ".join(filter(None, words)))

    return {"event": event}
