"""Whether one list of permission rules is at least as strict as another, told from the rules alone."""

from collections.abc import Iterable
from typing import Final

from instar.message import Rule
from instar.permission import from_config

_SEVERITY: Final = {"allow": 0, "ask": 1, "deny": 2}
_LONGEST: Final = 300
"""Characters of two patterns together up to which they are compared: a project must not slow us down."""

Placed = dict[tuple[str, str], str]
"""The rules of a block in order: permission and pattern to action."""


def deny(key: tuple[str, str]) -> Rule:
    """Return the denial of a permission and pattern; ``write`` and ``patch`` mean ``edit``."""
    name = "edit" if key[0] in ("write", "patch") else key[0]
    (rule,) = from_config({name: {key[1]: "deny"}})
    return rule


def only_tightens(before: Placed, after: Placed, denials: Iterable[Rule]) -> bool:
    """Whether no decision by `after` is milder than the one by `before`, told from the rules alone.

    The last matching rule decides. So: the rules of `before` all stand in `after`, in their order and none
    milder; a new rule denies, or asks where no denial (of `before`, or of `denials`) stands earlier that
    covers some of the same. May say no where the truth is yes.
    """
    if [key for key in after if key in before] != list(before):
        return False
    earlier = list(denials)
    for key, action in after.items():
        if key in before and _SEVERITY[action] < _SEVERITY[before[key]]:
            return False
        if key not in before and action == "ask" and any(_meet_rules(rule, deny(key)) for rule in earlier):
            return False
        if key not in before and action == "allow":
            return False
        if before.get(key) == "deny":
            earlier.append(deny(key))
    return True


def _meet_rules(one: Rule, other: Rule) -> bool:
    return _same_tool(one.permission, other.permission) and patterns_meet(one.pattern, other.pattern)


def _same_tool(one: str, other: str) -> bool:
    """Whether two permission names can mean one tool: ``persona_hook_write`` is ``evolve_hook_write``."""
    tails = [name.split("_", 1)[1] for name in (one, other) if "_" in name]
    alias = any(one.endswith(f"_{tail}") and other.endswith(f"_{tail}") for tail in tails)
    return alias or patterns_meet(one, other)


def patterns_meet(one: str, other: str) -> bool:
    """Return whether some text fits both wildcard patterns; True for patterns too long to tell."""
    if len(one) + len(other) > _LONGEST:
        return True
    one, other = _plain_stars(one), _plain_stars(other)
    todo, seen = [(0, 0)], set()
    while todo:
        at = todo.pop()
        if at == (len(one), len(other)):
            return True
        if at not in seen:
            seen.add(at)
            todo += _moves(one[at[0] : at[0] + 1], other[at[1] : at[1] + 1], at)
    return False


def _moves(one: str, other: str, at: tuple[int, int]) -> list[tuple[int, int]]:
    """Where two patterns can stand after the next character of a common text, or with a star left behind."""
    left, right = at
    moves = [(left + 1, right)] if one == "*" or (one and other == "*") else []
    if other == "*" or (other and one == "*"):
        moves.append((left, right + 1))
    if one and other and "*" not in (one, other) and (one == other or "?" in (one, other)):
        moves.append((left + 1, right + 1))
    return moves


def _plain_stars(pattern: str) -> str:
    pattern = pattern.replace("\\", "/")
    return f"{pattern[:-2]}*" if pattern.endswith(" *") else pattern
