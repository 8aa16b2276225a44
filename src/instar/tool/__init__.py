"""The built-in tools: one file and one ``.md`` each. The ``.md`` is the description that the model reads.

May import `plugin`, `process` and what stands before them. Begin with `registry.py`, then `bash.py`. `call.py` checks
a call's arguments and cuts its output, `command.py` says what permission rules see of a shell command.
"""

from pathlib import Path


def description(tool: str) -> str:
    """Return the description of the tool that is called `tool` in this folder."""
    return Path(__file__).with_name(f"{tool}.md").read_text(encoding="utf-8").strip()
