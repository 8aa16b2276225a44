from typing import Any

from record import keys, record

from instar.plugin import wire


async def chat_message(door: Any, options: Any) -> Any:
    async def message(given: Any, output: Any) -> None:
        part = output.parts[0]
        told = wire.to_plain(output.message)
        named = {name: told[name] for name in ("agent", "model", "role")}
        record(options, hook="chat.message", input=keys(given), **named, part=keys(part), text=part.text)
        part.text += " (asked by Ada)"
        more = {**wire.to_plain(part), "id": part.id + "x", "text": "It is late.", "synthetic": True}
        output.parts.append(more)

    return {"chat.message": message}
