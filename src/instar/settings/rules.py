"""Permission rules in settings: flat keys written out, and what the built-in agents may not do.

A flat key, ``bash "git *": ask``, is the same as a map of patterns under ``bash``. It is written out before anything
else looks at a layer, so that the rules which an untrusted folder may add are judged as what they mean.

The denials of a built-in agent hold whatever the configuration says of everybody. Only the person's own
``agent.NAME.permission`` changes them; an untrusted folder's is judged against them.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from instar.message import Rule
from instar.settings.config import ConfigError, Path
from instar.settings.permission import DEFAULTS, matches
from instar.wire import Plain
from instar.wire.pattern import late_pattern

_FLAT: Final = late_pattern(r"""([\w*?-]+)\s+(?:"([^"]*)"|'([^']*)')""")


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
        if name in spread and _stands_before_wild(spread, name):
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


def _stands_before_wild(spread: Plain, name: str) -> bool:
    names = list(spread)
    return any("*" in other or "?" in other for other in names[names.index(name) + 1 :])


_NOTHING: Final = ("*",)

_DENIED: Final[dict[str, tuple[str, ...]]] = {
    "plan": ("edit",),
    "general": ("todowrite", "todoread"),
    "explore": ("edit", "task", "todowrite", "todoread"),
    "title": _NOTHING,
    "summary": _NOTHING,
    "compaction": _NOTHING,
}

DENIALS: Final[Mapping[str, tuple[Rule, ...]]] = MappingProxyType(
    {
        agent: tuple(Rule(permission=name, pattern="*", action="deny") for name in names)
        for agent, names in _DENIED.items()
    }
)
"""The denials of each built-in agent by its name."""

ALLOWED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"explore": ("grep", "glob", "list", "bash", "webfetch", "websearch", "codesearch", "read")}
)
"""The built-in agents that may use these permissions and nothing else."""

AGENTS: Final = frozenset(("build", "plan", "general", "explore", "title", "summary", "compaction"))
"""The names of the built-in agents."""

_GUARDS: Final = tuple(rule.permission for rule in DEFAULTS if rule.permission != "*")


def confined(agent: str, rules: Iterable[Rule], asked: Iterable[tuple[str, str]]) -> Iterator[Rule]:
    """Yield `rules` as they hold for a built-in agent of `ALLOWED`; for another agent as they are.

    `asked` are the permissions and patterns that an untrusted project wants to be asked about. Such a rule comes
    after the denial of everything else, which it must not lift: it holds for what the agent is allowed.
    """
    names = dict.fromkeys((*ALLOWED.get(agent, ()), *_GUARDS))
    places = frozenset(asked)
    for rule in rules:
        if agent not in ALLOWED or rule.action != "ask" or (rule.permission, rule.pattern) not in places:
            yield rule
            continue
        for name in names:
            if matches(name, rule.permission):
                yield Rule(permission=name, pattern=rule.pattern, action="ask")
