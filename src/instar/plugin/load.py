"""Finding and loading plugins: from the config's ``plugin`` list and from plugin folders.

A plugin is an async function ``(PluginInput, options) -> Hooks``. A module offers it as V1, an object (or
the module itself) with ``id`` and ``server``, or as V0, public async functions (`docs/guides/plugins.md`). A file
without an ``id`` goes by its own name.

Plugins in another language run in a host, which is opened when the first of them is met. Each load opens hosts of its
own: a plugin that changed runs in a fresh child, in which nothing of its old code is left.
"""

import hashlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

import msgspec

from instar.plugin.door import ENDINGS, PATIENCE, Exited, LoadedPlugin, Plugins, in_time, unsound
from instar.plugin.interface import Hooks, PluginFunction, PluginInput
from instar.plugin.locate import JAVASCRIPT, TOOLS, LoadError, PluginLocation, locate
from instar.process import guard_own
from instar.settings.builtin_plugins import FLAGSHIPS, flagship_name
from instar.wire import Plain, document

log = logging.getLogger("instar.plugin")

_MOST: Final = 2_000
"""Files of a folder that are looked at."""


class Spec(msgspec.Struct, frozen=True):
    """One plugin to load: a package's, module's or flagship's name or a file's absolute path, with its options.

    `tools`: it is a JavaScript file of a person's own tools (`instar.plugin.custom`). `code` is what is read in
    the place of its file: the version that a person accepted. `required`: nothing may run where it is skipped.
    """

    target: str
    options: Plain = msgspec.field(default_factory=dict)
    tools: bool = False
    code: Path | None = None
    required: bool = False

    @property
    def identity(self) -> str:
        """Return the identity of a spec, by its text alone."""
        return self.place().identity if self.tools else flagship_name(self.target) or self.target

    def place(self) -> PluginLocation:
        """Return where its code is. Raises `LoadError`."""
        if self.tools:
            named = Path(self.target)
            return PluginLocation(TOOLS, path=self.code or named, host=JAVASCRIPT, tools=True, named=named)
        return locate(self.target, self.code)


class Mark(msgspec.Struct, frozen=True):
    """Which plugin was loaded: its `identity` (`Located.identity`), its options, and the digest of what it is made of.

    The code of an installed Python package has none: it does not change while a process runs.
    """

    identity: str
    options: Plain
    digest: str = ""


def distinct(specs: Sequence[Spec]) -> list[Spec]:
    """Return each plugin once, in order; of several specs for one plugin the last counts."""
    last = {spec.identity: spec for spec in specs}
    return [spec for spec in specs if last[spec.identity] is spec]


async def load(
    specs: Sequence[Spec],
    plugins: Plugins,
    make_input: Callable[[str], PluginInput],
    patience: float = PATIENCE,
    before: Sequence[LoadedPlugin] = (),
    digest_of: Callable[[PluginLocation], str] | None = None,
) -> list[str]:
    """Load `specs` into `plugins` in order and return a sentence for each that failed. Raises `LoadError` if required.

    `make_input` builds the input for a plugin's name. A plugin that fails, or that takes longer than `patience`
    seconds, is logged and skipped; its neighbours still load. One that is named in two ways loads once.

    Of those that were loaded `before`, one with the same mark is not loaded again, and one whose successor fails stays.
    `digest_of` gives the digest of a mark (`digest` unless given).
    """
    failures: list[str] = []
    steps = list[_Step]()
    for spec in distinct(specs):
        try:
            place = spec.place()
            identity = place.identity
            mark = Mark(identity, spec.options, (digest_of or digest)(place))
        except Exception as error:
            failures.append(_said(spec, error))
            continue
        old = [one for one in before if isinstance(one.mark, Mark) and one.mark.identity == identity]
        steps = [one for one in steps if one.mark.identity != identity]
        steps.append(_Step(spec, place, mark, old))
    loading = _Loading(plugins, make_input, patience)
    try:
        loading.begin([step.place for step in steps if not step.is_loaded])
        # The children of other plugins start with what a flagship guards; one whose name is in another's may have to
        # stand aside for that, and waits.
        for step in sorted(steps, key=lambda step: step.turn(steps)):
            failures += await loading.take_in(step)
        order = [step.mark.identity for step in steps]
        plugins.replace(sorted(plugins.loaded, key=lambda one: _rank(one, order)))
    finally:
        await loading.close_unused()
    plugins.warn()
    return failures


def _rank(plugin: LoadedPlugin, order: Sequence[str]) -> int:
    """Where a plugin stands among those of `order`; what was there already comes first."""
    known = isinstance(plugin.mark, Mark) and plugin.mark.identity in order
    return order.index(plugin.mark.identity) if known else -1


class PluginHost(Protocol):
    """Runs plugins of one language; a module that is named by `Located.host` opens one with ``open_host``."""

    def begin(self, places: Iterable[PluginLocation]) -> None:
        """Start what `places` need, without waiting for it."""

    async def load(
        self, place: PluginLocation, options: Plain, make_input: Callable[[str], PluginInput], patience: float
    ) -> list[tuple[str, Hooks]]:
        """Return the name and hooks of each plugin that a module offers. Raises `LoadError`."""

    async def ready(self) -> Any:
        """Wait until it runs; one that has ended is started again."""

    def release(self, hooks: Hooks) -> bool:
        """Forget a plugin that was loaded here; return True if none is left."""

    async def close(self) -> None:
        """End it, and all that is under way. May be called twice."""


class _Step(msgspec.Struct, frozen=True):
    """One plugin to load, and what was loaded of it before."""

    spec: Spec
    place: PluginLocation
    mark: Mark
    old: list[LoadedPlugin]

    @property
    def is_loaded(self) -> bool:
        """True if it is loaded already, from the same code with the same options."""
        return bool(self.old) and self.old[0].mark == self.mark

    @property
    def tool(self) -> str:
        """The tool for which a flagship stands aside, "" for none."""
        shipped = FLAGSHIPS.get(self.spec.identity)
        return shipped.tool if shipped is not None else ""

    def turn(self, steps: "Sequence[_Step]") -> int:
        """When it is loaded: a flagship first (0), or behind the others (2) where one of these has its name."""
        if not self.tool:
            return 1
        return 2 if any(self.place.name in step.spec.identity for step in steps if not step.tool) else 0


class _Loading:
    """One load: it takes plugins in, and opens the hosts that they need, by their modules."""

    def __init__(self, plugins: Plugins, make_input: Callable[[str], PluginInput], patience: float) -> None:
        self._plugins, self._make_input, self._patience = plugins, make_input, patience
        self._hosts: dict[str, PluginHost] = {}

    def begin(self, places: Iterable[PluginLocation]) -> None:
        """Start the hosts that `places` need while the plugins before them load."""
        foreign = [place for place in places if place.host]
        for first in {place.host: place for place in reversed(foreign)}.values():
            self._host(first).begin([place for place in foreign if place.host == first.host])

    async def take_in(self, step: _Step) -> list[str]:
        """Load one plugin, or keep it as it is loaded; return a sentence where it is not loaded."""
        if step.tool and (other := self._plugins.owners().get(step.tool)) is not None:
            said = f"plugin {step.place.name} stands aside: the plugin {other} offers its tool {step.tool}"
            log.warning(said)
            return [said]
        failed = []
        if not step.is_loaded:
            try:
                await (self._load_in_host if step.place.host else self._load)(step.place, step.mark)
                return []
            except Exception as error:
                failed = [_said(step.spec, error, stays=bool(step.old))]
        self._plugins.replace([*self._plugins.loaded, *step.old])
        return failed

    async def close_unused(self) -> None:
        """Close the hosts that run none of the plugins."""
        used = {id(one.host) for one in self._plugins.loaded}
        for host in self._hosts.values():
            if id(host) not in used:
                await host.close()

    def _host(self, place: PluginLocation) -> PluginHost:
        if place.host not in self._hosts:
            opened = importlib.import_module(place.host).open_host(self._make_input(place.name))
            self._hosts[place.host] = opened
        return self._hosts[place.host]

    async def _load_in_host(self, place: PluginLocation, mark: Mark) -> None:
        host = self._host(place)
        for name, hooks in await host.load(place, mark.options, self._make_input, self._patience):
            self._plugins.add(name, hooks, mark, host)

    async def _load(self, place: PluginLocation, mark: Mark) -> None:
        name, functions = _functions(_offered(place), place.name)
        ready: list[Hooks] = []
        for function in functions:
            given = self._make_input(name)
            try:
                hooks = await in_time(self._patience, function, given, mark.options)
                problem = None if hooks is None else unsound(hooks)
                if problem is not None:
                    raise LoadError(problem)
            except BaseException:
                await given.shell.close()
                raise
            ready.append(hooks or {})
        for hooks in ready:
            self._plugins.add(name, hooks, mark)


def digest(place: PluginLocation) -> str:
    """Return what the code of a plugin is known by: of an npm package its name and version, of a folder all its files.

    It is empty for a Python module. Of accepted JavaScript it is where that stands, with all that it may import.
    """
    if place.host and place.path is not None and place.named not in (None, place.path):
        return str(place.path)
    if place.path is None:
        return place.module if place.host else ""
    if place.host and place.path.is_dir():
        return digest_of_files(islice(_files(place.path), _MOST))
    folder = place.path if place.path.is_dir() else place.path.parent
    whole = place.path.is_dir() or place.path.name == "__init__.py"
    files = sorted(folder.rglob("*.py")) if whole else [place.path]
    return digest_of_files(files, folder)


def _files(folder: Path) -> Iterator[Path]:
    """The files of a JavaScript plugin's folder, without the packages that it counts on."""
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in ("node_modules", ".git"))
        yield from (Path(at, name) for name in sorted(names))


def digest_of_files(files: Iterable[Path], folder: Path = Path("/")) -> str:
    """Return what files are known by: their names from a `folder` around them, and what they hold."""
    found = hashlib.sha256()
    for file in files:
        found.update(str(file.relative_to(folder)).encode("utf-8", "surrogateescape") + b"\0")
        try:
            found.update(hashlib.sha256(document.read_bytes(file)).digest())
        except OSError as error:
            found.update(type(error).__name__.encode())
        except document.DocumentError:
            # A repository's pipe, device or very large file is not read: it would hold the start up.
            status = file.stat()
            found.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    return found.hexdigest()


def _said(spec: Spec, error: Exception, *, stays: bool = False) -> str:
    reason = str(error) if isinstance(error, LoadError) else f"{type(error).__name__}: {error}"
    what = "tool" if spec.tools else "plugin"
    log.error("failed to load %s=%s reason=%s", what, spec.target, reason, exc_info=error)
    if spec.required and not stays:
        raise LoadError(f'{what} {spec.target} is "required", so nothing may run here without it: {reason}')
    skipped = "is not loaded again, and stays as it was" if stays else "is skipped"
    return f"{what} {spec.target} {skipped}: {reason}"


def _offered(place: PluginLocation) -> Any:
    """Return the module, or the object that an entry point names in it."""
    if place.path is not None:
        return module_from_file(place.path)
    if not place.module.startswith("instar.plugins."):
        guard_own()
    try:
        offered: Any = importlib.import_module(place.module)
    except ENDINGS as error:
        raise Exited(error) from error
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
    guard_own()
    name = f"instar_plugin_{path.stem}_{abs(hash(str(path)))}"
    folder = [str(path.parent)] if path.name == "__init__.py" else None
    old = {key: sys.modules.pop(key) for key in [*sys.modules] if f"{key}.".startswith(f"{name}.")}
    loader = _FromSource(name, str(path))
    found = importlib.util.spec_from_file_location(
        name, path, loader=loader, submodule_search_locations=folder
    )
    if found is None or found.loader is None:
        raise LoadError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(found)
    importlib.invalidate_caches()
    if _Parts not in sys.meta_path:
        sys.meta_path.insert(0, _Parts)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except BaseException as error:
        # What was loaded before goes on, and finds its own parts.
        for key in [one for one in sys.modules if f"{one}.".startswith(f"{name}.")]:
            del sys.modules[key]
        sys.modules.update(old)
        if isinstance(error, ENDINGS):
            raise Exited(error) from error
        raise
    return module


class _FromSource(importlib.machinery.SourceFileLoader):
    """Compiles the source.

    Bytecode on disk is told apart by size and second alone, and whoever may write the folder may write it.
    """

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _Parts(importlib.machinery.PathFinder):
    """Finds what a plugin that is a folder imports from it, then or later, as its first file was found."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        first = getattr(sys.modules.get(fullname.partition(".")[0]), "__spec__", None)
        if not isinstance(getattr(first, "loader", None), _FromSource):
            return None
        found = super().find_spec(fullname, path, target)
        if found is None or found.origin is None or not found.has_location:
            return found
        if isinstance(found.loader, importlib.machinery.SourceFileLoader):
            found.loader = _FromSource(fullname, found.origin)
        return found


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
