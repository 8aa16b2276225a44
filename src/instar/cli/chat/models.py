"""How to choose a model, for a person who has none: in terms of what is on this machine."""

import asyncio
from collections.abc import Mapping
from typing import Final

from instar.provider.catalogue import keys_in

_SERVERS: Final = {"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080, "vLLM": 8000}
"""Servers of models and the port that each listens on by itself."""
_PATIENCE: Final = 0.2


async def explained(environment: Mapping[str, str]) -> list[str]:
    """Return three lines: what was found, how to use it, and how to try without."""
    keys = list(keys_in(environment))
    found = [name for name, port in _SERVERS.items() if await _listens(port)]
    first = "No model is set up yet"
    if keys:
        name, variable = keys[0]
        return [f"{first}, but ${variable} is set.", f"Use it: /model {name}", _TRY]
    if found:
        url = f"http://127.0.0.1:{_SERVERS[found[0]]}/v1"
        block = f'{{"provider": {{"local": {{"options": {{"baseURL": "{url}"}}}}}}}}'
        return [
            f"{first}, but {found[0]} runs on this machine.",
            f"Use it: write {block} into instar.json.",
            _TRY,
        ]
    return [
        f"{first}: no provider's key, and no server on this machine.",
        "Keep a key: instar auth login openai",
        _TRY,
    ]


_TRY: Final = "Or try without: /model scripted/echo"


async def _listens(port: int) -> bool:
    try:
        async with asyncio.timeout(_PATIENCE):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
