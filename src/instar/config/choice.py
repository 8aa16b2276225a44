"""Which providers an untrusted project brought, and that it may not choose one of them for the person.

Whoever answers the conversation reads it and makes the tool calls. A server that a stranger's folder named
would run what it likes, without any code of the folder's own. So such a provider may be named (design
section 5), but only the person chooses it: with ``--model``, or in settings of their own.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from instar.config.fault import dotted
from instar.config.layer import Layer
from instar.wire import Plain

_CHOOSERS: Final = ("model", "small_model")


def foreign(layers: Iterable[Layer]) -> frozenset[str]:
    """Return the ids of the providers to which an untrusted project among `layers` gives an address."""
    return frozenset(
        name
        for layer in layers
        if not layer.trusted and layer.scope == "project"
        for name, block in _map(layer.data.get("provider")).items()
        if _has_address(_map(block))
    )


def without_choice(layer: Layer, providers: Iterable[str]) -> tuple[Layer, list[str]]:
    """Return an untrusted project's `layer` without its choices of models of `providers`, and a sentence for each.

    A trusted layer, and one that is no project's, comes back as it is.
    """
    if layer.trusted or layer.scope != "project":
        return layer, []
    names, dropped = frozenset(providers), list[str]()

    def kept(block: Plain, path: tuple[str, ...], keys: Iterable[str]) -> Plain:
        found = {key: block[key] for key in keys if _provider(block.get(key)) in names}
        for key, model in found.items():
            dropped.append(
                f"{layer.origin}: {dotted((*path, key))} was left out: an untrusted project may not send the "
                f"conversation to a server of its own (you may: --model {model})"
            )
        return {key: value for key, value in block.items() if key not in found}

    data = kept(layer.data, (), _CHOOSERS)
    if "agent" in data:
        agents = _map(data["agent"])
        data["agent"] = {name: kept(block, ("agent", name), ("model",)) for name, block in agents.items()}
    return msgspec.structs.replace(layer, data=data), dropped


def _has_address(block: Plain) -> bool:
    if block.get("api") or _map(block.get("options")).get("baseURL"):
        return True
    return any(_map(model).get("provider") for model in _map(block.get("models")).values())


def _provider(model: Any) -> str | None:
    return model.partition("/")[0] if isinstance(model, str) else None


def _map(value: Any) -> Plain:
    return value if isinstance(value, dict) else {}
