"""The exchange of an editor with `instar acp`, as the two implementations of the protocol have it."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent.parent / "data" / "acp.txt"
STORY = """
== when "write"
tool: write {"filePath": "a.txt", "content": "one\\ntwo\\n"}
== when "Wrote file"
reasoning: It is written.
text: Done.
== when "sleep"
text: I sleep.
tool: bash {"command": "sleep 60"}
"""
"""What the model says; which prompt it answers is said by its words."""
SETTINGS = {"permission": {"edit": "ask"}, "model": "scripted/test"}
_BESIDE = ("session_info_update", "usage_update", "available_commands_update")
"""Updates that come when they come."""


def steps(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Each message as a line of what it is: who it is for, the method, and what of it is the same each time."""
    methods: dict[tuple[str, object], str] = {}
    found = []
    for one in messages:
        to, message = one["to"], one["message"]
        if method := message.get("method"):
            if "id" in message:
                methods[to, message["id"]] = method
            step = f"{method} {_update(message['params'])}".strip()
        else:
            asked = methods["client" if to == "agent" else "agent", message["id"]]
            step = f"{asked} -> {_result(message)}"
        if not any(beside in step for beside in _BESIDE):
            found.append(f"{to}: {step}")
    return found


def compared(messages: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The exchange, and the one that was recorded, the same for both; with INSTAR_RECORD it is recorded anew."""
    found = steps(messages)
    if os.environ.get("INSTAR_RECORD"):
        RECORDED.write_text("\n".join(found) + "\n")
    return found, RECORDED.read_text().splitlines()


def _update(params: Mapping[str, Any]) -> str:
    update = params.get("update")
    if update is None:
        options = [one["kind"] for one in params.get("options", [])]
        return " ".join(options)
    words = [update["sessionUpdate"], update.get("kind"), update.get("status")]
    content = update.get("content")
    if isinstance(content, dict):
        words.append(json.dumps(content.get("text")))
    elif isinstance(content, list):
        words += [one["type"] for one in content]
    return " ".join(word for word in words if word)


def _result(message: Mapping[str, Any]) -> str:
    if "error" in message:
        return f"error {message['error']['code']}"
    result = message["result"] or {}
    return str(result.get("stopReason") or " ".join(sorted(result)))
