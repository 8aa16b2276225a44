from typing import Any

from record import keys, record


async def autocontinue(door: Any, options: Any) -> Any:
    async def hook(given: Any, output: Any) -> None:
        named = {"agent": given.agent, "model": given.model["id"], "role": given.message.role}
        named |= {"overflow": given.overflow, "enabled": output.enabled}
        record(options, hook="compaction.autocontinue", input=keys(given), **named)
        output.enabled = False

    return {"experimental.compaction.autocontinue": hook}
