"""Seed 002's flat permission keys, ``bash "git *": ask``, written out as maps of patterns.

Done before anything else looks at a layer, so that the rules which an untrusted folder may add are judged as
what they mean.
"""

import re
from typing import Any, Final

from instar.config.fault import ConfigError, Path
from instar.wire import Plain

_FLAT: Final = re.compile(r"""([\w*?-]+)\s+(?:"([^"]*)"|'([^']*)')""")


def spread_flat(data: Plain, origin: str) -> Plain:
    """Return settings whose permission blocks, also those of agents, have no flat keys any more.

    Raises `ConfigError` where a map cannot keep the order in which the rules were written.
    """
    changed = dict(data)
    if isinstance(data.get("permission"), dict):
        changed["permission"] = spread_block(data["permission"], ("permission",), origin)
    if isinstance(data.get("agent"), dict):
        changed["agent"] = {name: _agent(name, block, origin) for name, block in data["agent"].items()}
    return changed


def spread_block(block: Plain, place: Path, origin: str) -> Plain:
    """Return a permission block without flat keys, in the order written: the last rule that matches decides."""
    if not any(_FLAT.fullmatch(key) for key in block):
        return block
    spread: Plain = {}
    for key, value in block.items():
        flat = _FLAT.fullmatch(key)
        name = flat[1] if flat else key
        if name in spread and any(_is_wild(other) for other in _after(spread, name)):
            text = f"expected this next to the other rules of {name}: a rule for several tools stands between"
            raise ConfigError(origin, (*place, key), text)
        found = {flat[2] if flat[2] is not None else flat[3]: value} if flat else value
        spread[name] = _joined(spread[name], found) if name in spread else found
    return spread


def _agent(name: str, block: Any, origin: str) -> Any:
    if not isinstance(block, dict) or not isinstance(block.get("permission"), dict):
        return block
    place = ("agent", name, "permission")
    return {**block, "permission": spread_block(block["permission"], place, origin)}


def _joined(first: Any, second: Any) -> Plain:
    """Both forms as one map; a pattern that stands in both comes last, where it was last written."""
    one, other = _map(first), _map(second)
    return {**{key: value for key, value in one.items() if key not in other}, **other}


def _map(value: Any) -> Plain:
    return value if isinstance(value, dict) else {"*": value}


def _after(spread: Plain, name: str) -> list[str]:
    names = list(spread)
    return names[names.index(name) + 1 :]


def _is_wild(name: str) -> bool:
    return "*" in name or "?" in name
