"""The built-in tools: one file and one ``.md`` each. The ``.md`` is the description that the model reads.

May import `plugin`, `process` and what stands before them. Begin with `registry.py`, then `bash.py`. `call.py` checks
a call's arguments and cuts its output, `command.py` says what permission rules see of a shell command.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from instar.wire import Plain


def description(tool: str) -> str:
    """Return the description of the tool that is called `tool` in this folder."""
    return Path(__file__).with_name(f"{tool}.md").read_text(encoding="utf-8").strip()


def parameters(
    required: Mapping[str, str | Plain], optional: Mapping[str, str | Plain] = MappingProxyType({})
) -> Plain:
    """Return the JSON Schema of an object with these properties; a text alone describes one that is a string."""
    described = {
        name: {"type": "string", "description": one} if isinstance(one, str) else one
        for name, one in {**required, **optional}.items()
    }
    found: Plain = {"type": "object", "properties": described}
    return {**found, "required": list(required)} if required else found
