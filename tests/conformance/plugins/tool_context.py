import asyncio
import contextlib
from typing import Any

from record import none, record

from instar.plugin import Tool, ToolResult

NAMES = {
    "sessionID": "session_id",
    "messageID": "message_id",
    "callID": "call_id",
    "agent": "agent",
    "abort": "abort",
    "messages": "messages",
    "metadata": "metadata",
    "ask": "ask",
    "directory": "directory",
    "worktree": "worktree",
}


async def context(door: Any, options: Any) -> Any:
    seen = asyncio.Event()

    async def look(args: Any, context: Any) -> ToolResult:
        has = [name for name, own in NAMES.items() if getattr(context, own, None) is not None]
        same = context.directory == door.directory and context.worktree == door.worktree
        told = {"has": has, "same": same, "agent": context.agent, "messages": len(context.messages)}
        record(options, tool="look", **told)
        context.metadata(title="half way", metadata={"seen": 1})
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(seen.wait(), 2)
        return ToolResult("a boat", "all of it", {"seen": 2})

    async def event(event: Any) -> None:
        part = event.to_plain()["properties"].get("part") or {}
        if part.get("tool") == "look" and part["state"].get("title") == "half way":
            record(options, shown=part["state"].get("metadata"))
            seen.set()

    tool = Tool("Looks around", {"type": "object", "properties": {}}, look, permissions=none)
    return {"tool": {"look": tool}, "event": event}
