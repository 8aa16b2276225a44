"""Finding and loading plugins: from the config's ``plugin`` list and from plugin folders.

A plugin is an async function ``(PluginInput, options) -> Hooks``. A module offers it as V1, an object (or
the module itself) with ``id`` and ``server``, or as V0, public async functions (seed 004 section 5).
"""

import importlib
import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from instar.flagship import FLAGSHIPS, flagship_name
from instar.plugin.door import Plugins
from instar.plugin.interface import PluginFunction, PluginInput
from instar.wire import Plain

log = logging.getLogger("instar.plugin")

_JAVASCRIPT = (".js", ".ts", ".mjs", ".cjs", ".mts")


class Spec(msgspec.Struct, frozen=True):
    """One plugin to load: a module name, a flagship's name or a file's absolute path, with its options."""

    target: str
    options: Plain = msgspec.field(default_factory=dict)

    @property
    def identity(self) -> str:
        """What makes two specs the same plugin."""
        return flagship_name(self.target) or self.target


class LoadError(Exception):
    """A plugin cannot be loaded; the text names it and says why."""


def distinct(specs: Sequence[Spec]) -> list[Spec]:
    """Return each plugin once, in order; of several specs for one plugin the last counts."""
    last = {spec.identity: spec for spec in specs}
    return [spec for spec in specs if last[spec.identity] is spec]


async def load(
    specs: Sequence[Spec], plugins: Plugins, make_input: Callable[[str], PluginInput]
) -> list[str]:
    """Load `specs` into `plugins` in order and return a sentence for each that failed.

    `make_input` builds the input for a plugin's name. A plugin that fails is logged and skipped; its
    neighbours still load.
    """
    failures = []
    for spec in distinct(specs):
        try:
            await _load_one(spec, plugins, make_input)
        except Exception as error:
            reason = str(error) if isinstance(error, LoadError) else f"{type(error).__name__}: {error}"
            log.error("failed to load plugin=%s reason=%s", spec.target, reason, exc_info=error)
            failures.append(f"plugin {spec.target} is skipped: {reason}")
    return failures


async def _load_one(spec: Spec, plugins: Plugins, make_input: Callable[[str], PluginInput]) -> None:
    module = _module(spec.target)
    name, functions = _functions(module, flagship_name(spec.target) or spec.target)
    ready = [await function(make_input(name), spec.options) for function in functions]
    for hooks in ready:
        plugins.add(name, hooks or {})


def _module(target: str) -> ModuleType:
    flagship = flagship_name(target)
    if flagship is not None:
        return importlib.import_module(FLAGSHIPS[flagship].module)
    path = Path(target.removeprefix("file://"))
    if path.suffix in _JAVASCRIPT:
        raise LoadError("it is JavaScript, which this version of instar does not run")
    if path.is_absolute():
        return module_from_file(path)
    try:
        return importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name and target.startswith(error.name):
            raise LoadError(
                f"there is no Python module {target!r}; install it, or name a file by its path"
            ) from None
        raise


def module_from_file(path: Path) -> ModuleType:
    """Run a Python file, or a folder's ``__init__.py``, as a module. Raises `LoadError` and what it raises."""
    if path.is_dir():
        path = path / "__init__.py"
    if not path.is_file():
        raise LoadError(f"there is no file {path}")
    name = f"instar_plugin_{path.stem}_{abs(hash(str(path)))}"
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise LoadError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _functions(module: ModuleType, fallback: str) -> tuple[str, list[PluginFunction]]:
    """Return a module's plugin name and functions: V1 if it has a ``server``, else every V0 export."""
    candidate = getattr(module, "plugin", None)
    offered = module if candidate is None or inspect.ismodule(candidate) else candidate
    server = _field(offered, "server")
    if server is not None:
        if not callable(server):
            raise LoadError("its `server` is not a function")
        return str(_field(offered, "id") or Path(fallback).stem), [server]
    exported = [
        value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and inspect.iscoroutinefunction(value)
        and value.__module__ == module.__name__
    ]
    if not exported:
        raise LoadError("it has neither a `server` (V1) nor a public async function (V0)")
    return Path(fallback).stem, list(dict.fromkeys(exported))


def _field(offered: Any, name: str) -> Any:
    return offered.get(name) if isinstance(offered, dict) else getattr(offered, name, None)
