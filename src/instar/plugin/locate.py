"""Where a plugin's code is: a flagship, a file or folder, an entry point of a package, or a module.

A Python package offers its plugins as entry points of the group ``instar.plugins``. Nothing is installed
here: what is missing is named, with the line that says what to do.
"""

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from instar.settings.builtin_plugins import FLAGSHIPS, flagship_name
from instar.settings.steered import path_of
from instar.wire.pattern import late_pattern

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "instar.plugins"
JAVASCRIPT: Final = "instar.jshost"
"""The module that runs plugins which are JavaScript; imported when there is one."""
TOOLS: Final = "tools"
"""Under which name the tools of the configuration folders stand among the plugins."""
_JAVASCRIPT: Final = (".js", ".ts", ".mjs", ".cjs", ".mts", ".cts", ".tsx", ".jsx")
_INDEX: Final = ("package.json", *(f"index{ending}" for ending in (".ts", ".tsx", ".js", ".mjs", ".cjs")))
_NPM: Final = late_pattern(
    r"(?P<name>(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*)(?:@(?P<version>[^@\s:/]+))?"
)
_PIN: Final = late_pattern(r"(?P<name>.+?)(?:==|(?<=.)@)(?P<version>[^@=]+)")


class LoadError(Exception):
    """A plugin cannot be loaded; the text says why, and what to do."""


class PluginLocation(msgspec.Struct, frozen=True):
    """A plugin's code: a `path`, or a `module` and what of it is the plugin. `name` is what the plugin goes by.

    `host` is the module that runs it where that is not Python; `module` is then an npm package with its version.
    `tools`: it is a file of tools, no plugin. `named` is the file that people know, where `path` is its accepted copy.
    """

    name: str
    path: Path | None = None
    module: str = ""
    attribute: str = ""
    host: str = ""
    tools: bool = False
    named: Path | None = None

    @property
    def identity(self) -> str:
        """What makes two places the same plugin: the file that holds the code."""
        if self.tools:
            return f"{TOOLS}:{self.named or self.path}"
        if self.path is not None:
            known = self.named or self.path
            file = known / "__init__.py" if self.path.is_dir() and not self.host else known
            return str(file.resolve())
        if self.host:
            return f"npm:{self.name}"
        found = importlib.util.find_spec(self.module)
        where = found.origin if found is not None and found.origin else self.module
        return f"{Path(where).resolve() if found and found.has_location else where}" + (
            f":{self.attribute}" if self.attribute not in ("", "plugin") else ""
        )


def locate(target: str, code: Path | None = None) -> PluginLocation:
    """Return where the code of a plugin is that a ``plugin`` list names. Raises `LoadError`.

    `code` is what to read in the place of the file that is named.
    """
    flagship = flagship_name(target)
    if flagship is not None:
        return PluginLocation(flagship, module=FLAGSHIPS[flagship].module)
    named = path_of(target)
    path = named if code is None else code
    if path is not None and _is_javascript(path):
        if not path.exists():
            raise LoadError(f"there is no file {named}")
        return PluginLocation(path.stem, path=path, host=JAVASCRIPT, named=named)
    if path is not None:
        file = path / "__init__.py" if path.is_dir() else path
        if not file.is_file():
            raise LoadError(f"there is no file {named if path is not file else file}")
        return PluginLocation(path.stem, path=path, named=named)
    return _package(target)


def npm_name(spec: str) -> str:
    """Return the name of an npm package without its version. Raises `LoadError` for what cannot be one."""
    found = _NPM.fullmatch(spec)
    if found is None:
        raise LoadError(f"{spec!r} is no name of an npm package, as in npm:name@1.2")
    return found["name"]


def is_npm(target: str) -> bool:
    """Whether a name without a Python package is an npm package's: only if it has npm's spelling."""
    return target.startswith(("npm:", "@")) or ("_" not in target and _NPM.fullmatch(target) is not None)


def _is_javascript(path: Path) -> bool:
    if path.suffix in _JAVASCRIPT:
        return True
    return (
        path.is_dir()
        and not (path / "__init__.py").exists()
        and any((path / name).is_file() for name in _INDEX)
    )


def _npm(spec: str) -> PluginLocation:
    name = npm_name(spec)
    return PluginLocation(name, module=spec if spec != name else f"{name}@latest", host=JAVASCRIPT)


def _package(target: str) -> PluginLocation:
    if target.startswith(("npm:", "@")):
        return _npm(target.removeprefix("npm:"))
    pinned = _PIN.fullmatch(target)
    bare, version = (pinned["name"], pinned["version"]) if pinned else (target, None)
    point = _entry_point(bare)
    if point is not None:
        _check_version(target, point.dist.name if point.dist else bare, version)
        return PluginLocation(point.name, module=point.module, attribute=point.attr)
    if not _is_module(bare):
        if is_npm(target):
            return _npm(target)
        raise LoadError(
            f"there is no Python package or module {bare!r} here; instar installs nothing by itself: "
            f"pip install {bare}, or name a file by its path"
        )
    _check_version(target, bare, version)
    return PluginLocation(bare, module=bare)


def _entry_point(name: str) -> "EntryPoint | None":
    """The entry point called `name`, or ``package:name``; a package with only one is known by its own name."""
    # Start-up time: reading what is installed takes longer than starting without a package.
    from importlib.metadata import entry_points

    package, _, own = name.rpartition(":")
    points = [point for point in entry_points(group=GROUP) if not package or _is_of(point, package)]
    exact = [point for point in points if point.name == own]
    found = exact or ([point for point in points if _is_of(point, name)] if not package else [])
    if len(found) > 1:
        names = ", ".join(sorted(f"{point.dist.name if point.dist else '?'}:{point.name}" for point in found))
        raise LoadError(f"several packages offer it; write which: {names}")
    return found[0] if found else None


def _is_of(point: "EntryPoint", package: str) -> bool:
    return point.dist is not None and _plain(point.dist.name) == _plain(package)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_module(name: str) -> bool:
    try:
        return all(part.isidentifier() for part in name.split(".")) and (
            importlib.util.find_spec(name) is not None
        )
    except (ImportError, ValueError):
        return False


def _check_version(target: str, package: str, wanted: str | None) -> None:
    """Raise `LoadError` when another version than the one that is pinned is installed."""
    if wanted is None or wanted == "latest":
        return
    # Start-up time, as above.
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version(package.partition(".")[0])
    except PackageNotFoundError:
        raise LoadError(
            f"{target} pins a version, and {package} is no installed package that has one"
        ) from None
    if installed != wanted:
        raise LoadError(
            f"version {wanted} is asked for and {installed} is installed: pip install {package}=={wanted}"
        )
