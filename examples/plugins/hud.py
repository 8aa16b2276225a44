"""A head-up display: shows the model where it stands, in one message that is always the newest.

Options: ``model`` (an argv) starts a local model's server that ends with the plugin, and ``url`` is where it
answers; ``model_server.py`` beside this file stands in for one.
"""

import asyncio
import json
import urllib.request
from typing import Any

from instar.plugin import Hooks, PluginInput, ids, message, points, wire

MARK = {"hud": True}


async def hud(input: PluginInput, options: dict[str, Any]) -> Hooks:
    """Take the last display away and push a fresh one before each step: no trail is left in the history."""
    server = input.shell.background(options["model"]) if options.get("model") else None

    async def transform(given: points.Empty, output: points.MessagesOutput) -> None:
        output.messages[:] = [one for one in output.messages if not is_hud(one)]
        asked = [one.info for one in output.messages if isinstance(one.info, message.User)][-1:]
        text = state(output.messages)
        if server is not None and server.running:
            text += await asyncio.to_thread(hint, options["url"], text)
        output.messages += [display(info, text) for info in asked]

    return {"experimental.chat.messages.transform": transform}


def is_hud(one: message.WithParts) -> bool:
    return any(isinstance(part, message.TextPart) and part.metadata == MARK for part in one.parts)


def state(messages: list[message.WithParts]) -> str:
    steps = [one.info.tokens for one in messages if isinstance(one.info, message.Assistant)]
    tools = [part.tool for one in messages for part in one.parts if isinstance(part, message.ToolPart)]
    tokens = sum(step.input + step.output for step in steps)
    return f"[HUD] steps: {len(steps)}, tools: {', '.join(tools) or 'none'}, tokens: {tokens}"


def hint(url: str, text: str) -> str:
    """What the local model says; nothing while it starts or when it fails, since a display is no gate."""
    request = urllib.request.Request(url, json.dumps({"prompt": text}).encode())
    try:
        with urllib.request.urlopen(request, timeout=2) as reply:
            return f"\nhint: {json.load(reply)['text']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def display(asked: message.User, text: str) -> message.WithParts:
    info = wire.replace(asked, id=ids.new("msg"))
    part = message.TextPart(id=ids.new("prt"), session_id=info.session_id, message_id=info.id, text=text)
    part.synthetic, part.metadata = True, MARK
    return message.WithParts(info=info, parts=[part])
