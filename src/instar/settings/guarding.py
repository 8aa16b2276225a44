"""What a project's files may say on guards, limits and prices: never less strict than the person's own settings.

Nothing that the model can write loosens a guard. Its commands can write a project's files, also those of a folder that
the person trusts. So the trust list keeps the blocks that guard (`SECTIONS`) and the prices of models as the person saw
them (`Vouched`), and they hold in that form, whatever the file says by now or whether it is still there. Beyond that:

- a block that guards is heard where it guards more than everything else that holds. A field says by
  ``extra={"tighter": …}`` of its `msgspec.Meta` which way that is: a list names its values from loose to tight;
  ``less`` and ``more`` compare numbers; ``fewer`` is for lists of what is let through, ``added`` for lists of what is
  kept. A field that says nothing is not heard at all;
- a limit is heard where it is lower than the person's own;
- a price that nobody saw is not heard: limits on cost count with prices.

Where everything is trusted (``INSTAR_TRUST=all``), files hold as they stand. An untrusted project's limits and prices
are not heard at all (`instar.settings.untrusted`).
"""

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from instar.settings.config import SECTIONS, ModelConfig, dotted, kind_of
from instar.settings.layer import Layer, Vouched, as_map, merge
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

    What comes back says in `Layer.vouched` what was heard, so that it comes back the same another time. The data
    must have passed `Config.from_data`.
    """
    # First each as the person vouches for it: nothing that one layer still has to prove may excuse another.
    asked = [_asked(layer) for layer in layers]
    found = [layer if layer.vouched is None else _with(layer, layer.vouched.sections) for layer in asked]
    dropped: list[str] = []
    for index, layer in enumerate(asked):
        for name in SECTIONS if layer.vouched else ():
            said, seen = layer.data.get(name, {}), found[index].data.get(name, {})
            if said != seen:
                kept = tightened(name, merge(found).data.get(name, {}), said)
                if kept:
                    found[index] = _with(layer, {**_sections(found[index]), name: {**seen, **kept}})
                dropped += _sentences(layer, name, merge(found).data.get(name, {}))
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


def _asked(layer: Layer) -> Layer:
    """Return the layer; for an untrusted project's layer nothing counts as approved."""
    if layer.vouched is None and layer.scope == "project" and not layer.trusted:
        return msgspec.structs.replace(layer, vouched=Vouched(layer.origin))
    return layer


def _sections(layer: Layer) -> Plain:
    return {name: layer.data[name] for name in SECTIONS if name in layer.data}


def _with(layer: Layer, sections: Plain) -> Layer:
    """Return the layer with these blocks in place of its own."""
    rest = {key: value for key, value in layer.data.items() if key not in SECTIONS}
    vouched = msgspec.structs.replace(layer.vouched or Vouched(""), sections=sections)
    return msgspec.structs.replace(layer, data={**rest, **sections}, vouched=vouched)


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


def _sentences(layer: Layer, name: str, holds: Plain) -> list[str]:
    """Return the notice about a block of `layer` that changed since the person saw it; `holds` is in effect."""
    vouched = layer.vouched or Vouched("")
    said, seen, values = layer.data.get(name, {}), vouched.sections.get(name), _filled(name, holds)
    differs = [key for key in said if _missing(said[key], values[key])]
    if not layer.trusted:
        why = "was left out: an untrusted project may only guard more than holds without it"
        return [f"{layer.origin}: {name}.{key} {why}" for key in differs]
    differs += [key for key, value in (seen or {}).items() if _stays(value, said.get(key), values[key])]
    if not differs:
        return []
    what = (
        "was left out: it is not what was trusted" if seen is None else "is not what was trusted, which holds"
    )
    return [f"{layer.origin}: {name} {what}; read it, then: instar trust {shlex.quote(vouched.folder)}"]


def _stays(seen: Any, said: Any, holds: Any) -> bool:
    """Whether something that the person saw, and that the file no longer has, stays in effect."""
    if isinstance(seen, list):
        return not (set(seen) & set(holds)) <= set(said or ())
    return said is None


def _missing(one: Any, other: Any) -> bool:
    """Whether `one` holds something that `other` lacks."""
    if isinstance(one, list) and isinstance(other, list):
        return not set(one) <= set(other)
    return bool(one != other)


_LIMITS = ("limits", "max_iterations")

PRICES: Final = "prices"
"""Under which name the trust list keeps the prices of a file beside its blocks that guard."""


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
    named = {name for layer in layers for name in as_map(layer.data.get("provider"))}
    heard = [_lowered(layer, held, dropped) if _is_judged(layer) else layer for layer in layers]
    return [_priced(layer, named, dropped) if _is_judged(layer) else layer for layer in heard], dropped


def prices_in(data: Any) -> Plain:
    """Return what the settings of a file say on prices, as the trust list keeps it: nothing, or `PRICES`."""
    found = {f"{provider}/{model}": cost for provider, model, cost in _costs(data) if _is_price(cost)}
    return {PRICES: found} if found else {}


def _is_judged(layer: Layer) -> bool:
    return layer.scope == "project" and layer.trusted and layer.vouched is not None


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


def _priced(layer: Layer, named: Collection[str], dropped: list[str]) -> Layer:
    """Return the layer with the approved prices of the providers `named`, in place of its own."""
    vouched = layer.vouched or Vouched("")
    held = {key: cost for key, cost in vouched.prices.items() if key.partition("/")[0] in named}
    said = {f"{provider}/{model}": cost for provider, model, cost in _costs(layer.data)}
    if said == held:
        return layer
    for key in dict.fromkeys([*said, *held]):
        if said.get(key) != held.get(key):
            what = (
                "is not what was trusted, which holds" if key in held else "was left out: nobody trusted it"
            )
            place = _price_path(key)
            dropped.append(
                f"{layer.origin}: {dotted(place)} {what}; read it, then: instar trust {shlex.quote(vouched.folder)}"
            )
    return msgspec.structs.replace(layer, data=_with_prices(layer.data, held))


def _with_prices(data: Plain, prices: Plain) -> Plain:
    """The settings with these prices and no others."""
    providers = {name: _without_prices(block) for name, block in as_map(data.get("provider")).items()}
    for key, cost in prices.items():
        _, provider, _, model, _ = _price_path(key)
        block = as_map(providers.get(provider))
        models = as_map(block.get("models"))
        entry = {**as_map(models.get(model)), "cost": cost}
        providers[provider] = {**block, "models": {**models, model: entry}}
    return {**data, "provider": providers}


def _without_prices(block: Any) -> Any:
    if not isinstance(block, dict) or not isinstance(block.get("models"), dict):
        return block
    models = {
        name: {key: value for key, value in entry.items() if key != "cost"}
        if isinstance(entry, dict)
        else entry
        for name, entry in block["models"].items()
    }
    return {**block, "models": models}


def _costs(data: Any) -> Iterator[tuple[str, str, Any]]:
    """Each price: provider, model and ``cost``."""
    for provider, block in as_map(as_map(data).get("provider")).items():
        for model, entry in as_map(as_map(block).get("models")).items():
            if "cost" in as_map(entry):
                yield provider, model, entry["cost"]


def _is_price(cost: Any) -> bool:
    try:
        return isinstance(cost, dict) and ModelConfig(cost=cost) is not None
    except ValueError:
        return False


def _price_path(key: str) -> tuple[str, str, str, str, str]:
    provider, _, model = key.partition("/")
    return "provider", provider, "models", model, "cost"
