"""What a project's files may say on guards and limits: never less strict than the person's own settings.

- Of a project that is not trusted a block that guards (`SECTIONS`) is heard where it guards more than everything else
  that holds. A field says by ``extra={"tighter": …}`` of its `msgspec.Meta` which way that is: a list names its values
  from loose to tight; ``less`` and ``more`` compare numbers; ``fewer`` is for lists of what is let through, ``added``
  for lists of what is kept. A field that says nothing is not heard at all. Its limits and prices are not heard
  (`instar.settings.untrusted`);
- of a trusted project a limit is heard where it is lower than the person's own. All else of it holds as a person
  accepted it (`instar.settings.steering`).

Where everything is trusted (``INSTAR_TRUST=all``), files hold as they stand.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from instar.settings.config import SECTIONS, dotted, kind_of
from instar.settings.layer import Layer, merge
from instar.wire import Plain

_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "less": lambda said, held: said < held,
        "more": lambda said, held: said > held,
        "fewer": lambda said, held: set(said) < set(held),
        "added": lambda said, held: not set(said) <= set(held),
    }
)


def guarded(layers: Sequence[Layer]) -> tuple[list[Layer], list[str]]:
    """Return the layers, lowest first, with what each may say on guards, and a sentence where one may not say all.

    What comes back comes back the same another time. The data must have passed `Config.from_data`.
    """
    # First without any of it: nothing that one layer still has to prove may excuse another.
    found = [_without_sections(layer) for layer in layers]
    dropped: list[str] = []
    for index, layer in enumerate(layers):
        for name in SECTIONS if found[index] is not layer else ():
            said = layer.data.get(name, {})
            kept = tightened(name, merge(found).data.get(name, {}), said)
            if kept:
                found[index] = msgspec.structs.replace(layer, data={**found[index].data, name: kept})
            holds = _filled(name, merge(found).data.get(name, {}))
            dropped += [
                f"{layer.origin}: {name}.{key} was left out: an untrusted project may only guard more than holds "
                "without it"
                for key in said
                if key not in kept and _missing(said[key], holds[key])
            ]
    return found, dropped


def tightened(name: str, held: Plain, said: Plain) -> Plain:
    """Return the entries of `said`, of the block `name`, that guard more than `held`, the block as it is without."""
    values = _filled(name, held)
    kept: Plain = {}
    for field in msgspec.structs.fields(kind_of(name)):
        if field.name in said and _is_tighter(_rule(field.type), said[field.name], values[field.name]):
            kept[field.name] = said[field.name]
            if _rule(field.type) == "added":
                kept[field.name] = list(dict.fromkeys([*values[field.name], *said[field.name]]))
    return kept


def _without_sections(layer: Layer) -> Layer:
    """Return an untrusted project's layer without the blocks that guard, and any other as it is."""
    if layer.trusted or layer.scope != "project":
        return layer
    data = {key: value for key, value in layer.data.items() if key not in SECTIONS}
    return msgspec.structs.replace(layer, data=data)


def _filled(name: str, block: Plain) -> Plain:
    return {**msgspec.structs.asdict(kind_of(name)()), **block}


def _rule(kind: Any) -> Any:
    """Return which direction of a field guards more, from its type; None without one."""
    marks = [mark.extra for mark in getattr(kind, "__metadata__", ()) if isinstance(mark, msgspec.Meta)]
    return next((extra["tighter"] for extra in marks if extra and "tighter" in extra), None)


def _is_tighter(rule: Any, said: Any, held: Any) -> bool:
    if rule is None:
        return False
    if isinstance(rule, str):
        return _COMPARED[rule](said, held)
    return bool(rule.index(said) > rule.index(held))


def _missing(one: Any, other: Any) -> bool:
    """Whether `one` holds something that `other` lacks."""
    if isinstance(one, list) and isinstance(other, list):
        return not set(one) <= set(other)
    return bool(one != other)


_LIMITS = ("limits", "max_iterations")


def lowered(layers: Sequence[Layer]) -> tuple[list[Layer], list[str]]:
    """Return the layers without what loosens a limit, and a sentence for each value that was left out."""
    mine = merge(layer for layer in layers if layer.scope != "project").data
    held = {key: mine[key] for key in _LIMITS if key in mine}
    if isinstance(held.get("limits"), dict) and "max_iterations" in held:
        # The one stands in where the other says nothing.
        held["limits"] = {"steps": held["max_iterations"], **held["limits"]}
    elif "max_iterations" in held:
        held["limits"] = {"steps": held["max_iterations"]}
    dropped: list[str] = []
    return [_lowered(layer, held, dropped) if _is_judged(layer) else layer for layer in layers], dropped


def _is_judged(layer: Layer) -> bool:
    return layer.scope == "project" and layer.trusted and not layer.own


def _lowered(layer: Layer, held: Plain, dropped: list[str]) -> Layer:
    data = dict(layer.data)
    for key in _LIMITS:
        if key in data and key in held:
            found: list[str] = []
            kept = _under(data.pop(key), held[key], (key,), found)
            data |= {} if kept is None else {key: kept}
            why = "was left out: a project's file may only lower what your own settings allow"
            dropped += [f"{layer.origin}: {place} {why}" for place in found]
    return msgspec.structs.replace(layer, data=data)


def _under(said: Any, held: Any, path: tuple[str, ...], found: list[str]) -> Any:
    """Return `said` without what is not in `held`, None if nothing is left; `found` collects what was removed."""
    if isinstance(held, dict) and isinstance(said, dict):
        entries = {
            name: _under(value, held[name], (*path, name), found) if name in held else value
            for name, value in said.items()
        }
        return {name: value for name, value in entries.items() if value is not None}
    if isinstance(said, int | float) and isinstance(held, int | float) and said <= held:
        return said
    if held is None:
        return said
    found.append(dotted(path))
    return None
