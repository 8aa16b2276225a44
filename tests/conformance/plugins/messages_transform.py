from typing import Any

from record import keys, record

from instar.plugin import wire


async def messages(door: Any, options: Any) -> Any:
    async def transform(given: Any, output: Any) -> None:
        plain = [wire.to_plain(message) for message in output.messages]
        told = [" ".join([one["info"]["role"], *(part["type"] for part in one["parts"])]) for one in plain]
        record(options, hook="messages.transform", input=keys(given), messages=told)
        first = plain[0]
        text = next(part for part in first["parts"] if part["type"] == "text")
        text["text"] += " And bread."
        again = {**first, "parts": [{**text, "id": text["id"] + "x", "text": "Then again."}]}
        output.messages = [first, *output.messages[1:], again]

    return {"experimental.chat.messages.transform": transform}
