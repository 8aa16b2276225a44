"""A plugin that is an installed module."""

from typing import Any


async def offered(_input: Any, _options: Any) -> Any:
    async def complete(_given: Any, output: Any) -> None:
        output.text += " x"

    return {"text.complete": complete}
