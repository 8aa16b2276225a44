"""A person's own tools: files in ``tool/`` and ``tools/`` of the configuration folders.

A Python file offers each public `Tool` that it makes: one called ``tool`` (or ``default``) goes by the file's name,
any other by ``<file>_<name>`` (opencode's rule). An async function ``execute`` beside a ``description`` and
``parameters`` is the short form. Files in JavaScript are loaded as plugins are (`instar.plugin.load`), in their child.
"""

import inspect
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import msgspec

from instar.plugin.load import module_from_file
from instar.plugin.locate import LoadError
from instar.plugin.tool import Tool

log = logging.getLogger("instar.plugin")

FOLDERS = ("tool", "tools")
SCRIPTS = (".ts", ".js")
"""Endings of what is JavaScript: opencode 1.18.33 takes no others from these folders."""
_DEFAULT = ("tool", "default")


class ToolFile(msgspec.Struct, frozen=True):
    """A file of tools: its `path` for people, the `code` that is read for it, and whether that may run."""

    path: Path
    code: Path
    trusted: bool


class CustomTools(msgspec.Struct, frozen=True):
    """The tools by name, and a sentence for each file left out; `failed` are files that could not be loaded."""

    tools: dict[str, Tool]
    notices: list[str]
    untrusted: list[str]
    failed: list[Path]


def load_tools(files: Iterable[ToolFile]) -> CustomTools:
    """Load the tools of files, lowest first; of two with one name the later counts.

    A file that fails is named, and its neighbours still load. What is JavaScript is not loaded here.
    """
    found = CustomTools({}, [], [], [])
    for file in files:
        if not file.trusted:
            found.untrusted.append(f"{file.path} was left out: an untrusted project may not run code")
        elif file.path.suffix not in SCRIPTS:
            try:
                found.tools.update(_tools(module_from_file(file.code), file.path.stem))
            except Exception as error:
                reason = str(error) if isinstance(error, LoadError) else f"{type(error).__name__}: {error}"
                log.error("failed to load tool file=%s reason=%s", file.path, reason, exc_info=error)
                found.notices.append(f"tool {file.path} is skipped: {reason}")
                found.failed.append(file.path)
    return found


def tools_of(path: Path, tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """Return those of `tools` that a file called `path` had made."""
    return {
        name: tool for name, tool in tools.items() if name == path.stem or name.startswith(f"{path.stem}_")
    }


def tool_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a configuration folder in which tools may be, in either language, by their names."""
    for name in FOLDERS:
        for path in sorted((folder / name).glob("[!.]*")):
            # Python's own convention; opencode takes every name.
            private = path.suffix == ".py" and path.name.startswith("_")
            if path.suffix in (".py", *SCRIPTS) and path.is_file() and not private:
                yield path


def _tools(module: ModuleType, stem: str) -> dict[str, Tool]:
    """A module's tools by name. Raises `LoadError`."""
    found = {
        stem if name in _DEFAULT else f"{stem}_{name}": value
        for name, value in vars(module).items()
        if isinstance(value, Tool) and not name.startswith("_")
    }
    if not found:
        found = {stem: _short(module)}
    for name, tool in found.items():
        _check(name, tool)
    return found


def _short(module: ModuleType) -> Tool:
    execute = getattr(module, "execute", None)
    if not inspect.iscoroutinefunction(execute):
        raise LoadError("it makes no Tool, and has no async function `execute`")
    description = getattr(module, "description", None) or inspect.cleandoc(module.__doc__ or "")
    parameters = getattr(module, "parameters", {"type": "object", "properties": {}})
    return Tool(description or "", parameters, execute)


def check_name(name: str) -> None:
    """Raise `LoadError` for what no model would take as a tool's name."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise LoadError(f"{name!r} cannot be a tool's name: letters, digits, _ and - are allowed, 64 at most")


def _check(name: str, tool: Tool) -> None:
    check_name(name)
    if not isinstance(tool.description, str) or not tool.description.strip():
        raise LoadError(f"the tool {name} has no description, and the model needs one")
    if not isinstance(tool.parameters, dict) or tool.parameters.get("type") != "object":
        raise LoadError(f"the parameters of {name} are no JSON Schema of an object")
