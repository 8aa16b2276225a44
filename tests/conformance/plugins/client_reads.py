from typing import Any

from record import none, record

from instar.plugin import Tool, wire


async def reads(door: Any, options: Any) -> Any:
    async def recall(args: Any, context: Any) -> str:
        session = door.client.session
        titles = sorted(one.title for one in await session.list())
        messages = [wire.to_plain(one) for one in await session.messages(context.session_id)]
        record(options, titles=titles, title=(await session.get(context.session_id)).title)
        told = [" ".join([one["info"]["role"], *(part["type"] for part in one["parts"])]) for one in messages]
        record(options, messages=told)
        return "recalled"

    return {
        "tool": {"recall": Tool("Recalls", {"type": "object", "properties": {}}, recall, permissions=none)}
    }
