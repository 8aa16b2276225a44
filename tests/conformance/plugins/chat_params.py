from typing import Any

from record import keys, record


async def params(door: Any, options: Any) -> Any:
    async def hook(given: Any, output: Any) -> None:
        named = {
            "model": given.model["id"],
            "of": given.model["providerID"],
            "provider": given.provider["id"],
        }
        named |= {"agent": given.agent, "role": given.message.role}
        record(options, hook="chat.params", input=keys(given), output=keys(output), **named)
        output.temperature = 0.25
        output.top_p = 0.5
        output.max_output_tokens = 321
        output.options["user"] = "ada"

    return {"chat.params": hook}
