"""What settings name and is not there: MCP servers, plugins, tools, permissions. Reads only; nothing is run.

A mistake is what cannot work. A note is what most likely is not meant: a rule for a tool that nobody has could be
for one of a plugin or a server, which is known only when it runs.
"""

import difflib
import importlib.util
import shutil
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from instar.config import Config
from instar.flagship import flagship_name
from instar.mcp.protocol import config_fault
from instar.permission import DEFAULTS
from instar.plugin.locate import is_npm
from instar.settings import PluginEntry
from instar.tool.registry import builtin

Place = tuple[str | int, ...]

TOOLS: Final = ("task", "skill", "question")
"""Tools that are there only when there is something to choose from, or somebody to ask."""
PERMISSIONS: Final = ("patch", "websearch", "codesearch", "lsp", "mcp", "plan_enter", "plan_exit")
"""Names for permissions of which no built-in tool has that name; those of opencode's tools are taken."""
_NEAR: Final = 0.75
_LONGEST: Final = 60


def mistakes(config: Config, plugins: list[PluginEntry]) -> Iterator[tuple[Place, str]]:
    """Yield what cannot work: a server without a command or an address, a plugin whose file is not there."""
    for name, block in config.mcp.items():
        fault = config_fault(name, block) if block.enabled else None
        if fault is not None:
            yield ("mcp", name), fault
    for entry in plugins:
        path = Path(entry.target.removeprefix("file://"))
        if path.is_absolute() and not path.exists():
            yield ("plugin",), f"plugin: there is no file {path}"


def notes(
    config: Config, plugins: list[PluginEntry], environment: Mapping[str, str]
) -> Iterator[tuple[Place, str]]:
    """Yield what has no effect, or most likely not the one that was meant."""
    yield from _instructions(config)
    yield from _programs(config, environment)
    yield from _plugins(plugins)
    known = known_names()
    for place, names in _named(config):
        for name in names:
            near = _near(name, known, config)
            if near is not None:
                yield (*place, name), f"no tool is called {name[:_LONGEST]}; did you mean {near}?"


def known_names() -> list[str]:
    """Return every name that a permission or a ``tools`` entry can have without plugins and servers, sorted."""
    tools = builtin()
    permissions = (tool.permission or name for name, tool in tools.items())
    return sorted(
        {*tools, *permissions, *TOOLS, *PERMISSIONS, *(rule.permission for rule in DEFAULTS)}
        - {"*", "invalid"}
    )


def _instructions(config: Config) -> Iterator[tuple[Place, str]]:
    for entry in config.instructions:
        if "://" in entry:
            yield ("instructions",), f"instructions: {entry} is not fetched: only files are read"


def _programs(config: Config, environment: Mapping[str, str]) -> Iterator[tuple[Place, str]]:
    for name, block in config.mcp.items():
        if not (block.enabled and block.command) or "PATH" in block.environment:
            continue
        # A path is meant from the folder in which the server is started.
        program = block.command[0]
        if "/" not in program and shutil.which(program, path=environment.get("PATH")) is None:
            yield ("mcp", name, "command"), f"mcp.{name}.command: there is no program {program} on PATH"


def _plugins(plugins: list[PluginEntry]) -> Iterator[tuple[Place, str]]:
    offered = {one.name for one in entry_points(group="instar.plugins")}
    for entry in plugins:
        target = entry.target
        if flagship_name(target) or target in offered or Path(target.removeprefix("file://")).is_absolute():
            continue
        if target.startswith(("npm:", "@")) or _is_installed(target):
            continue
        todo = "it is taken from npm" if is_npm(target) else "install it, or name a file by its path"
        yield ("plugin",), f"plugin: there is no Python module {target!r}; {todo}"


def _is_installed(target: str) -> bool:
    """Whether the first package of a module's name can be imported; it is not."""
    top = target.partition(".")[0]
    return top.isidentifier() and importlib.util.find_spec(top) is not None


def _named(config: Config) -> Iterator[tuple[Place, list[str]]]:
    """The places where tools are named, with the names."""
    blocks: dict[Place, Any] = {("permission",): config.permission, ("tools",): config.tools}
    for name, agent in config.agent.items():
        blocks |= {
            ("agent", name, "permission"): agent.permission,
            ("agent", name, "tools"): agent.tools,
        }
    for place, block in blocks.items():
        if isinstance(block, dict):
            yield place, list(block)


def _near(name: str, known: list[str], config: Config) -> str | None:
    """The known name that an unknown one looks like; None for a wildcard and for what a server may offer."""
    is_server = any(name.startswith(f"{server}_") for server in config.mcp)
    if name in known or is_server or len(name) > _LONGEST or "*" in name or "?" in name:
        return None
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)), None)
