"""Layers of settings, how they merge, and references to the environment and to files.

defaults < global < project < environment < flags. Maps merge, lists replace; only ``plugin``, ``instructions`` and the
rules of each event in ``hooks`` concatenate: a project's rules do not take the person's away.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from instar.settings.config import Path, dotted
from instar.wire import Plain
from instar.wire.pattern import late_pattern

Scope = Literal["default", "global", "project", "environment", "flag"]

_SCOPES: Final = ("default", "global", "project", "environment", "flag")
_CONCATENATED: Final = ("plugin", "instructions")
_REFERENCE: Final = late_pattern(r"\{(env|file):([^{}]*)\}")


class Layer(msgspec.Struct, frozen=True):
    """One source of settings. `origin` names it for people: a file's path, a variable, ``--model``.

    `trusted` is False for a project's layer whose folder the person has not trusted. `own`: it may say all that the
    person's own files may, as where everything is trusted.
    """

    origin: str
    scope: Scope
    data: Plain
    trusted: bool = True
    own: bool = False


class Merged(msgspec.Struct, frozen=True):
    """The merged settings; `origins` tells for each dotted path of a value which layer it came from."""

    data: Plain
    origins: dict[str, str]


def merge(layers: Iterable[Layer]) -> Merged:
    """Merge `layers` by scope, in the order given within one scope. The layers stay as they are."""
    data: Plain = {}
    origins: dict[str, str] = {}
    lists: dict[str, list[tuple[Any, str]]] = {key: [] for key in _CONCATENATED}
    layers = sorted(layers, key=lambda layer: _SCOPES.index(layer.scope))
    for layer in layers:
        for key in _CONCATENATED:
            lists[key] += [(item, layer.origin) for item in layer.data.get(key) or []]
        rest = {key: value for key, value in layer.data.items() if key not in _CONCATENATED}
        _overlay(data, rest, (), layer.origin, origins)
    for key, items in lists.items():
        kept = _last_of_each(items) if key == "plugin" else _first_of_each(items)
        if kept:
            data[key] = [item for item, _ in kept]
            origins |= {f"{key}.{index}": origin for index, (_, origin) in enumerate(kept)}
    _join_rules(layers, data, origins)
    return Merged(data, origins)


def _join_rules(layers: Iterable[Layer], data: Plain, origins: dict[str, str]) -> None:
    """Put the groups of rules of all `layers` into ``hooks`` of `data`, event by event; all else of it stays."""
    found: dict[str, list[tuple[Any, str]]] = {}
    for layer in layers:
        block = layer.data.get("hooks")
        for event, groups in block.items() if isinstance(block, dict) else ():
            items = groups if isinstance(groups, list) else [groups]
            found.setdefault(event, []).extend((item, layer.origin) for item in items)
    for event, items in found.items():
        if isinstance(data.get("hooks"), dict) and isinstance(data["hooks"].get(event), list):
            data["hooks"][event] = [_detached(item) for item, _ in items]
            origins |= {f"hooks.{event}.{index}": origin for index, (_, origin) in enumerate(items)}


def plugin_name(entry: Any) -> str:
    """Return what a ``plugin`` entry is known by: its spec, without the version of a package."""
    spec = entry if isinstance(entry, str) else str(entry[0])
    at = spec.find("@", 1)
    is_path = spec.startswith((".", "/", "~", "file:"))
    return spec if is_path or at < 0 else spec[:at]


def _overlay(data: Plain, over: Mapping[str, Any], path: Path, origin: str, origins: dict[str, str]) -> None:
    for key, value in over.items():
        place = dotted((*path, key))
        inner = isinstance(data.get(key), dict)
        if isinstance(value, dict):
            if not inner:
                origins.pop(place, None)
                data[key] = {}
            _overlay(data[key], value, (*path, key), origin, origins)
            continue
        if inner:
            for name in [name for name in origins if name.startswith(place + ".")]:
                del origins[name]
        data[key] = _detached(value)
        origins[place] = origin


def _detached(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _detached(item) for key, item in value.items()}
    return [_detached(item) for item in value] if isinstance(value, list) else value


def _last_of_each(items: list[tuple[Any, str]]) -> list[tuple[Any, str]]:
    last = {plugin_name(item): index for index, (item, _) in enumerate(items)}
    return [items[index] for index in sorted(last.values())]


def _first_of_each(items: list[tuple[Any, str]]) -> list[tuple[Any, str]]:
    first: dict[str, tuple[Any, str]] = {}
    for item, origin in items:
        first.setdefault(str(item), (item, origin))
    return list(first.values())


def as_map(value: Any) -> Plain:
    """Return a map, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def substitute(data: Any, environment: Mapping[str, str], read_file: Callable[[str], str]) -> Any:
    """Return `data` with ``{env:NAME}`` and ``{file:path}`` replaced in every string value.

    A variable that is not set is the empty string. `read_file` gets the path as written and returns the
    text, whose outer white space is dropped; what it raises passes through. What was put in is not
    looked at again.
    """
    if isinstance(data, dict):
        return {key: substitute(value, environment, read_file) for key, value in data.items()}
    if isinstance(data, list):
        return [substitute(value, environment, read_file) for value in data]
    if not isinstance(data, str) or "{" not in data:
        return data
    return _REFERENCE.sub(
        lambda found: environment.get(found[2], "") if found[1] == "env" else read_file(found[2]).strip(),
        data,
    )


def references(value: Any) -> Iterator[str]:
    """Yield the paths in ``{file:…}`` anywhere in `value`."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from references(item)
    elif isinstance(value, str):
        yield from (found[2] for found in _REFERENCE.finditer(value) if found[1] == "file")


def has_reference(value: Any) -> bool:
    """Whether a string anywhere in `value` asks for ``{env:…}`` or ``{file:…}``."""
    if isinstance(value, dict):
        return any(has_reference(item) for item in value.values())
    if isinstance(value, list):
        return any(has_reference(item) for item in value)
    return isinstance(value, str) and _REFERENCE.search(value) is not None
