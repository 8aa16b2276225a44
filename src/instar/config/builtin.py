"""What the built-in agents may not do, whatever the configuration says of everybody.

Only the person's own ``agent.NAME.permission`` changes it; an untrusted folder's is judged against it.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from instar.message import Rule
from instar.permission import DEFAULTS, matches

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
