"""A person's own tools: files in ``tool/`` and ``tools/`` of the configuration folders.

A Python file offers each public `Tool` that it makes: one called ``tool`` (or ``default``) goes by the file's name,
any other by ``<file>_<name>`` (opencode's rule). An async function ``execute`` beside a ``description`` and
``parameters`` is the short form. Files in JavaScript are loaded as plugins are (`instar.plugin.load`), in their child.
"""

import inspect
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import msgspec

from instar.plugin.load import module_from_file
from instar.plugin.locate import LoadError
from instar.plugin.tool import Tool
from instar.settings.trust import CodeVerdict as Judged

log = logging.getLogger("instar.plugin")

FOLDERS = ("tool", "tools")
SCRIPTS = (".ts", ".js")
"""Endings of what is JavaScript: opencode 1.18.33 takes no others from these folders."""
_DEFAULT = ("tool", "default")


class CustomTools(msgspec.Struct, frozen=True):
    """The tools by name, and a sentence for each file left out; `failed` are files that could not be loaded."""

    tools: dict[str, Tool]
    notices: list[str]
    untrusted: list[str]
    failed: list[Path]


def load_tools(
    folders: Iterable[Path], trusted: Callable[[Path], bool], judged: Callable[[Path], Judged]
) -> CustomTools:
    """Load the tools of configuration folders, lowest first; of two with one name the later counts.

    `trusted` says of a configuration folder whether its code may run, and `judged` of each file of those. A file that
    fails is named, and its neighbours still load. What is JavaScript is not loaded here.
    """
    found = CustomTools({}, [], [], [])
    for folder in folders:
        for path in _files(folder):
            if not trusted(folder):
                found.untrusted.append(f"{path} was left out: an untrusted project may not run code")
                continue
            if path.suffix in SCRIPTS:
                continue
            accepted, content = judged(path)
            if not accepted:
                found.failed.append(path)
                continue
            try:
                found.tools.update(_tools(module_from_file(path, content), path.stem))
            except Exception as error:
                reason = str(error) if isinstance(error, LoadError) else f"{type(error).__name__}: {error}"
                log.error("failed to load tool file=%s reason=%s", path, reason, exc_info=error)
                found.notices.append(f"tool {path} is skipped: {reason}")
                found.failed.append(path)
    return found


def tool_files(folders: Iterable[Path]) -> list[Path]:
    """Return the files in which tools may be, in either language; those of a folder in the order of their names."""
    return [path for folder in folders for path in _files(folder)]


def tools_of(path: Path, tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """Return those of `tools` that a file called `path` had made."""
    return {
        name: tool for name, tool in tools.items() if name == path.stem or name.startswith(f"{path.stem}_")
    }


def _files(folder: Path) -> Iterator[Path]:
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
