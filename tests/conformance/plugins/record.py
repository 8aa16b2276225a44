"""What the plugins of this folder write down of what they are called with: one line of JSON each."""

import json
from pathlib import Path
from typing import Any

from instar.plugin import wire


def record(options: dict[str, Any], /, **entry: Any) -> None:
    """Append an entry to the file that the option ``trace`` names; what is None is left out."""
    with Path(options["trace"]).open("a") as file:
        file.write(json.dumps({name: one for name, one in entry.items() if one is not None}) + "\n")


def keys(value: Any) -> list[str]:
    """The names, as on the wire, of what is there, in the order of the alphabet."""
    return sorted(wire.to_plain(value))


def none(args: Any, context: Any) -> list[Any]:
    """What a tool asks for before it runs: nothing by itself, as in opencode."""
    return []
