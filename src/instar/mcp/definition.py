"""What a server says a tool is: read with distrust, named, and compared with what was approved before."""

import difflib
import json
import re
from typing import Any, Final

import msgspec

from instar.wire import Plain

LONGEST_NAME: Final = 64
"""Characters of a tool's name that every provider takes."""
LARGEST: Final = 64 * 1024
"""Characters of one definition: it is sent to the model at every step."""


class Definition(msgspec.Struct, frozen=True):
    """A tool as its server describes it; `parameters` is a JSON Schema of an object."""

    tool: str
    description: str
    parameters: Plain

    @property
    def text(self) -> str:
        """All that the model would read of it, in one form: what a person approves."""
        content = {"description": self.description, "parameters": self.parameters}
        return json.dumps(content, sort_keys=True, ensure_ascii=False)


def read(raw: Any) -> Definition:
    """Return the definition in an entry of ``tools/list``. Raises `ValueError` saying what is wrong with it."""
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str) or not raw["name"]:
        raise ValueError("a tool without a name")
    name, description = raw["name"], raw.get("description")
    schema = raw.get("inputSchema")
    if not isinstance(schema, dict):
        raise ValueError(f"{name}: its inputSchema is not an object")
    if schema.get("type", "object") != "object":
        raise ValueError(f"{name}: its inputSchema is of the type {schema['type']!r}, not of an object")
    if not isinstance(schema.get("properties", {}), dict):
        raise ValueError(f"{name}: the properties of its inputSchema are not an object")
    parameters = {**schema, "type": "object", "properties": schema.get("properties", {})}
    # Servers written in some languages list keys in another order at each start; the model's tools keep their bytes.
    parameters = json.loads(json.dumps(parameters, sort_keys=True))
    found = Definition(name, description if isinstance(description, str) else "", parameters)
    if len(found.text) > LARGEST:
        raise ValueError(f"{name}: its description and schema are longer than {LARGEST // 1024} KiB")
    return found


def approved(tool: str, text: str) -> Definition:
    """Return a tool as it was approved: the definition whose `Definition.text` this is."""
    content = json.loads(text)
    return Definition(tool, content["description"], content["parameters"])


def tool_name(server: str, tool: str) -> str:
    """Return the name that the model calls a server's tool by, as opencode makes it: ``server_tool``."""
    return f"{_plain(server)}_{_plain(tool)}"


def prompt_name(server: str, prompt: str) -> str:
    """Return the name of the command that a server's prompt is, as opencode makes it: ``server:prompt``."""
    return f"{_plain(server)}:{_plain(prompt)}"


def difference(before: str, after: str) -> str:
    """Return what changed between two `Definition.text`, line by line, with nothing invisible left so."""
    lines = difflib.unified_diff(_lines(before), _lines(after), "approved", "now", lineterm="", n=2)
    return "\n".join(lines)


def shown(text: str) -> str:
    """Return `text` with every character that a person would not see written out (``\\u200b``)."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)


def _lines(text: str) -> list[str]:
    content = json.loads(text)
    schema = json.dumps(content["parameters"], indent=2, sort_keys=True, ensure_ascii=False)
    return [*shown(content["description"]).split("\n"), "", *shown(schema).split("\n")]
