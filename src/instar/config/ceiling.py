"""What a trusted project's files may say on ``limits`` and prices: lower than the person's own settings, never higher.

Limits on cost count with prices. So a price holds as it was when the person trusted the folder (`Vouched.prices`), one
that nobody saw is not heard, and the person's own or the catalogue's holds.

The model's commands can write a project's files, also those of a folder that the person trusts, and limits are held by
the runtime, not by the model (issue 7, item 8). Where everything is trusted (``INSTAR_TRUST=all``), they hold as they
stand; an untrusted project's are not heard at all (`instar.config.restriction`).
"""

import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import msgspec

from instar.config.fault import dotted
from instar.config.layer import Layer, Vouched, merge
from instar.config.view import ModelConfig
from instar.wire import Plain

_KEYS = ("limits", "max_iterations")

PRICES: Final = "prices"
"""Under which name the trust list keeps the prices of a file beside its blocks that guard."""


def lowered(layers: Sequence[Layer]) -> tuple[list[Layer], list[str]]:
    """Return the layers without what loosens a limit, and a sentence for each value that was left out."""
    mine = merge(layer for layer in layers if layer.scope != "project").data
    held = {key: mine[key] for key in _KEYS if key in mine}
    if isinstance(held.get("limits"), dict) and "max_iterations" in held:
        # The one stands in where the other says nothing.
        held["limits"] = {"steps": held["max_iterations"], **held["limits"]}
    elif "max_iterations" in held:
        held["limits"] = {"steps": held["max_iterations"]}
    dropped: list[str] = []
    named = {name for layer in layers for name in _map(layer.data.get("provider"))}
    heard = [_lowered(layer, held, dropped) if _is_asked(layer) else layer for layer in layers]
    return [_priced(layer, named, dropped) if _is_asked(layer) else layer for layer in heard], dropped


def prices_in(data: Any) -> Plain:
    """Return what the settings of a file say on prices, as the trust list keeps it: nothing, or `PRICES`."""
    found = {f"{provider}/{model}": cost for provider, model, cost in _costs(data) if _is_price(cost)}
    return {PRICES: found} if found else {}


def _is_asked(layer: Layer) -> bool:
    return layer.scope == "project" and layer.trusted and layer.vouched is not None


def _lowered(layer: Layer, held: Plain, dropped: list[str]) -> Layer:
    data = dict(layer.data)
    for key in _KEYS:
        if key in data and key in held:
            found: list[str] = []
            kept = _under(data.pop(key), held[key], (key,), found)
            data |= {} if kept is None else {key: kept}
            why = "was left out: a project's file may only lower what your own settings allow"
            dropped += [f"{layer.origin}: {place} {why}" for place in found]
    return msgspec.structs.replace(layer, data=data)


def _under(said: Any, held: Any, path: tuple[str, ...], found: list[str]) -> Any:
    """`said` without what is not under `held`, None when that is all of it; `found` is given what is left out."""
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
    """The layer with the prices that were vouched for, of the providers that are `named`, in the place of its own."""
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
            place = _place(key)
            dropped.append(
                f"{layer.origin}: {dotted(place)} {what}; read it, then: instar trust {shlex.quote(vouched.folder)}"
            )
    return msgspec.structs.replace(layer, data=_with_prices(layer.data, held))


def _with_prices(data: Plain, prices: Plain) -> Plain:
    """The settings with these prices and no others."""
    providers = {name: _without_prices(block) for name, block in _map(data.get("provider")).items()}
    for key, cost in prices.items():
        _, provider, _, model, _ = _place(key)
        block = _map(providers.get(provider))
        models = _map(block.get("models"))
        entry = {**_map(models.get(model)), "cost": cost}
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
    for provider, block in _map(_map(data).get("provider")).items():
        for model, entry in _map(_map(block).get("models")).items():
            if "cost" in _map(entry):
                yield provider, model, entry["cost"]


def _is_price(cost: Any) -> bool:
    try:
        return isinstance(cost, dict) and ModelConfig(cost=cost) is not None
    except ValueError:
        return False


def _place(key: str) -> tuple[str, str, str, str, str]:
    provider, _, model = key.partition("/")
    return "provider", provider, "models", model, "cost"


def _map(value: Any) -> Plain:
    return value if isinstance(value, dict) else {}
