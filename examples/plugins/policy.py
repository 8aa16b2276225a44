"""A permission policy: no push to the main branch, no call that names a private key. Guard rails, not walls.

Options: ``branches`` (default main and master), ``secrets`` (file patterns, default ``*.pem`` and ``*.key``).
"""

import re
from fnmatch import fnmatchcase
from typing import Any

from instar.plugin import Hooks, PluginInput, points

WORD = re.compile(r"[^\s'\"=:;|&<>()`]+")


async def policy(input: PluginInput, options: dict[str, Any]) -> Hooks:
    """Refuse at two gates: before a call's permission is asked, and when the rules would allow or ask."""
    branches = options.get("branches", ["main", "master"])
    secrets = options.get("secrets", ["*.pem", "*.key"])

    async def before(given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        for word in words(output.args):
            if any(fnmatchcase(word.lower(), pattern) for pattern in secrets):
                raise PermissionError(
                    f"{word} is a private key: leave it alone, and ask the person for what you need"
                )

    async def ask(given: points.PermissionInput, output: points.PermissionOutput) -> None:
        if given.permission == "bash" and any(pushes(command, branches) for command in given.patterns):
            output.status = "deny"

    return {"tool.execute.before": before, "permission.ask": ask}


def pushes(command: str, branches: list[str]) -> bool:
    """Whether a command pushes to one of `branches`, or to the branch that it does not name."""
    said = WORD.findall(command)
    if "git" not in said or "push" not in said:
        return False
    named = [word for word in said[said.index("push") + 1 :] if not word.startswith("-")][1:]
    return not named or any(word.lstrip("+").removeprefix("refs/heads/") in branches for word in named)


def words(value: Any) -> list[str]:
    """All words of all texts in a call's arguments."""
    if isinstance(value, dict | list):
        return [
            word for inner in (value.values() if isinstance(value, dict) else value) for word in words(inner)
        ]
    return WORD.findall(value) if isinstance(value, str) else []
