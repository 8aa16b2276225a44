"""The settings as one view: the layers merged, with what is known of who wrote what."""

from collections.abc import Iterable

import msgspec

from instar.config.builtin import ALLOWED
from instar.config.choice import foreign
from instar.config.layer import Layer, merge
from instar.config.view import Config
from instar.permission import from_config
from instar.wire import Plain


def viewed(layers: Iterable[Layer]) -> tuple[Config, dict[str, str]]:
    """Return the view of merged `layers`, and of each dotted path the layer that its value came from.

    An untrusted project's layer must have gone through `restrict`. Raises `ConfigError`.
    """
    known = list(layers)
    merged = merge(known)
    config = Config.from_data(merged.data)
    config = msgspec.structs.replace(config, foreign=foreign(known), asked=_asked(known, merged.data))
    return config, merged.origins


def _asked(layers: list[Layer], data: Plain) -> frozenset[tuple[str, str, str]]:
    """The rules that ask and that the person did not write: agent (or nothing), permission, pattern."""
    mine = [layer for layer in layers if layer.trusted or layer.scope != "project"]
    if len(mine) == len(layers):
        return frozenset()
    return _asks(data) - _asks(merge(mine).data)


def _asks(data: Plain) -> frozenset[tuple[str, str, str]]:
    agents = data.get("agent", {})
    blocks = {"": data.get("permission")} | {
        name: agents[name].get("permission") for name in ALLOWED if name in agents
    }
    return frozenset(
        (name, rule.permission, rule.pattern)
        for name, block in blocks.items()
        for rule in from_config(block or {})
        if rule.action == "ask"
    )
