from typing import Any

from record import record

HOOKS = (
    "chat.message",
    "chat.params",
    "chat.headers",
    "tool.execute.before",
    "tool.execute.after",
    "shell.env",
    "experimental.chat.messages.transform",
    "experimental.chat.system.transform",
    "experimental.text.complete",
)


async def turn(door: Any, options: Any) -> Any:
    """Every hook of a turn, in the order in which they are called."""

    def handler(hook: str) -> Any:
        async def called(given: Any, output: Any) -> None:
            record(options, hook=hook)

        return called

    return {hook: handler(hook) for hook in HOOKS}
