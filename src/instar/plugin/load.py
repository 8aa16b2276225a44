"""Finding and loading plugins: from the config's ``plugin`` list and from plugin folders.

A plugin is an async function ``(PluginInput, options) -> Hooks``. A module offers it as V1, an object (or
the module itself) with ``id`` and ``server``, or as V0, public async functions (seed 004 section 5). A file
without an ``id`` goes by its own name.
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

from instar.flagship import flagship_name
from instar.plugin.door import Plugins, unsound
from instar.plugin.interface import Hooks, PluginFunction, PluginInput
from instar.plugin.locate import LoadError, Located, locate
from instar.plugin.patience import PATIENCE, in_time
from instar.wire import Plain

__all__ = ["LoadError", "Spec", "distinct", "load", "module_from_file"]

log = logging.getLogger("instar.plugin")


class Spec(msgspec.Struct, frozen=True):
    """One plugin to load: a package's, module's or flagship's name or a file's absolute path, with its options."""

    target: str
    options: Plain = msgspec.field(default_factory=dict)

    @property
    def identity(self) -> str:
        """What makes two specs the same plugin, as far as their text tells."""
        return flagship_name(self.target) or self.target


def distinct(specs: Sequence[Spec]) -> list[Spec]:
    """Return each plugin once, in order; of several specs for one plugin the last counts."""
    last = {spec.identity: spec for spec in specs}
    return [spec for spec in specs if last[spec.identity] is spec]


async def load(
    specs: Sequence[Spec],
    plugins: Plugins,
    make_input: Callable[[str], PluginInput],
    patience: float = PATIENCE,
) -> list[str]:
    """Load `specs` into `plugins` in order and return a sentence for each that failed.

    `make_input` builds the input for a plugin's name. A plugin that fails, or that takes longer than `patience`
    seconds, is logged and skipped; its neighbours still load. One that is named in two ways loads once.
    """
    failures: list[str] = []
    places: dict[str, tuple[Spec, Located]] = {}
    for spec in distinct(specs):
        try:
            place = locate(spec.target)
            identity = place.identity
        except Exception as error:
            failures.append(_said(spec, error))
            continue
        places.pop(identity, None)
        places[identity] = (spec, place)
    for spec, place in places.values():
        try:
            await _load_one(place, spec.options, plugins, make_input, patience)
        except Exception as error:
            failures.append(_said(spec, error))
    return failures


def _said(spec: Spec, error: Exception) -> str:
    reason = str(error) if isinstance(error, LoadError) else f"{type(error).__name__}: {error}"
    log.error("failed to load plugin=%s reason=%s", spec.target, reason, exc_info=error)
    return f"plugin {spec.target} is skipped: {reason}"


async def _load_one(
    place: Located,
    options: Plain,
    plugins: Plugins,
    make_input: Callable[[str], PluginInput],
    patience: float,
) -> None:
    name, functions = _functions(_offered(place), place.name)
    ready: list[Hooks] = []
    for function in functions:
        given = make_input(name)
        try:
            hooks = await in_time(function(given, options), patience)
            problem = None if hooks is None else unsound(hooks)
            if problem is not None:
                raise LoadError(problem)
        except BaseException:
            await given.shell.close()
            raise
        ready.append(hooks or {})
    for hooks in ready:
        plugins.add(name, hooks)


def _offered(place: Located) -> Any:
    """The module, or what an entry point names in it."""
    if place.path is not None:
        return module_from_file(place.path)
    offered: Any = importlib.import_module(place.module)
    for part in filter(None, place.attribute.split(".")):
        if not hasattr(offered, part):
            raise LoadError(f"{place.module} has no {place.attribute!r}, which its entry point names")
        offered = getattr(offered, part)
    return offered


def module_from_file(path: Path) -> ModuleType:
    """Run a Python file, or a folder's ``__init__.py``, as a module. Raises `LoadError` and what it raises."""
    if path.is_dir():
        path = path / "__init__.py"
    if not path.is_file():
        raise LoadError(f"there is no file {path}")
    name = f"instar_plugin_{path.stem}_{abs(hash(str(path)))}"
    folder = [str(path.parent)] if path.name == "__init__.py" else None
    found = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folder)
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


def _functions(offered: Any, fallback: str) -> tuple[str, list[PluginFunction]]:
    """Return a plugin's name and functions: V1 if it has a ``server``, else the function, or every V0 export."""
    if inspect.iscoroutinefunction(offered):
        return fallback, [offered]
    candidate = getattr(offered, "plugin", None)
    holder = offered if candidate is None or inspect.ismodule(candidate) else candidate
    server = _field(holder, "server")
    if server is not None:
        if not callable(server):
            raise LoadError("its `server` is not a function")
        return str(_field(holder, "id") or fallback), [server]
    if not inspect.ismodule(offered):
        raise LoadError(f"it is a {type(offered).__name__}, neither a `server` nor an async function")
    exported = [
        value
        for name, value in vars(offered).items()
        if not name.startswith("_")
        and inspect.iscoroutinefunction(value)
        and value.__module__ == offered.__name__
    ]
    if not exported:
        raise LoadError("it has neither a `server` (V1) nor a public async function (V0)")
    return fallback, list(dict.fromkeys(exported))


def _field(offered: Any, name: str) -> Any:
    return offered.get(name) if isinstance(offered, dict) else getattr(offered, name, None)
