"""How to choose a model, for a person who has none: in terms of what is on this machine."""

import asyncio
from collections.abc import Mapping
from typing import Final

from instar.provider.catalogue import keys_in

_SERVERS: Final = {"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080, "vLLM": 8000}
"""Servers of models and the port that each listens on by itself."""
_PATIENCE: Final = 0.2


async def explained(environment: Mapping[str, str], use: str) -> list[str]:
    """Return three lines: what was found, how to use it, and how to try without. `use` takes a model's name."""
    first, trial = "no model is set up yet", f"or try without: {use.format('scripted/echo')}"
    if keys := list(keys_in(environment)):
        name, variable = keys[0]
        return [f"{first}, but ${variable} is set", f"use it: {use.format(name + '/NAME')}", trial]
    found = [name for name, port in _SERVERS.items() if await _listens(port)]
    if found:
        url = f"http://127.0.0.1:{_SERVERS[found[0]]}/v1"
        block = f'{{"provider": {{"local": {{"options": {{"baseURL": "{url}"}}}}}}}}'
        how = f"use it: write {block} into instar.json, then {use.format('local/NAME')}"
        return [f"{first}, but {found[0]} runs on this machine", how, trial]
    known = "instar auth login openai, or set OPENAI_API_KEY (instar models --all has others)"
    return [f"{first}: no provider's key, and no server on this machine", f"keep a key: {known}", trial]


async def _listens(port: int) -> bool:
    try:
        async with asyncio.timeout(_PATIENCE):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
