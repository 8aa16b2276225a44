from typing import Any

from record import keys, record


async def command(door: Any, options: Any) -> Any:
    async def before(given: Any, output: Any) -> None:
        part = output.parts[0]
        text = part["text"] if isinstance(part, dict) else part.text
        named = {"command": given.command, "words": given.arguments, "text": text}
        record(options, hook="command.execute.before", input=keys(given), **named)
        if isinstance(part, dict):
            part["text"] += " Be kind."
        else:
            part.text += " Be kind."

    return {"command.execute.before": before}
