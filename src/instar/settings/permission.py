"""Permission rules: may this be done to that? Pure functions over an ordered list of rules.

The law, as in opencode: of all rules whose permission and pattern both match, the last one decides;
where none matches, the answer is `ask`. One exception: in the map of a tool that a hook script defined,
an exact pattern beats a wildcard whichever stands first, since people write ``"*"`` last there;
`exact_over_wildcards` brings such a map into the order of the law (``docs/permissions.md``).
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal

from instar.message import Rule

Action = Literal["allow", "ask", "deny"]

DEFAULTS: tuple[Rule, ...] = (
    Rule(permission="*", pattern="*", action="allow"),
    Rule(permission="doom_loop", pattern="*", action="ask"),
    Rule(permission="external_directory", pattern="*", action="ask"),
    Rule(permission="webfetch_private", pattern="*", action="ask"),
    Rule(permission="read", pattern="*", action="allow"),
    Rule(permission="read", pattern="*.env", action="ask"),
    Rule(permission="read", pattern="*.env.*", action="ask"),
    Rule(permission="read", pattern="*.env.example", action="allow"),
)
"""What holds before anybody says otherwise."""

DOUBT: Final = "(not understood) "
"""Stands in front of the text of a command that could not be read with certainty."""


def evaluate(permission: str, pattern: str, *rulesets: Iterable[Rule]) -> Rule:
    """Return the rule that decides: the last one that matches both, else an `ask` of its own."""
    found = Rule(permission=permission, pattern="*", action="ask")
    for rules in rulesets:
        for rule in rules:
            if matches(permission, rule.permission) and matches(pattern, rule.pattern):
                found = rule
    return found


def decide(permissions: Sequence[str], patterns: Sequence[str], *rulesets: Iterable[Rule]) -> Rule:
    """Return the most severe decision for a call that goes by several names or touches several things.

    `permissions` are names of one and the same tool (its own and its aliases): a rule on any of them
    counts as a rule on the tool, so the last match among all names decides each pattern. Between
    patterns deny beats ask beats allow.

    A text in doubt (`DOUBT`) is decided by the last rule for everything (``*``). Where that allows, and a rule
    behind it asks about or denies some texts, this may be one of them: it is asked about.
    """
    flat = [rule for rules in rulesets for rule in rules]
    decisions = [_last(permissions, pattern, flat) for pattern in patterns or ["*"]]
    return max(decisions, key=lambda rule: _SEVERITY[rule.action])


def denied_outright(permissions: Sequence[str], rules: Sequence[Rule]) -> bool:
    """Whether a tool need not be offered: the last rule on its name denies everything (`*`)."""
    # Asked of each tool at each step: only a rule that denies everything is worth comparing names with.
    for place in range(len(rules) - 1, -1, -1):
        rule = rules[place]
        if rule.action == "deny" and rule.pattern == "*" and _is_on(rule, permissions):
            return not any(_is_on(later, permissions) for later in rules[place + 1 :])
    return False


def from_config(block: Any, *, exact_first: Callable[[str], bool] | None = None) -> list[Rule]:
    """Turn a config's ``permission`` block into rules, in the order written.

    `block` is an action for everything, or a map of permission to an action or to a map of pattern to
    action. ``~/`` and ``$HOME`` at the start of a pattern stand for the home folder. `exact_first` says
    of a permission whether it names tools whose maps follow `exact_over_wildcards`. Raises `ValueError`
    naming the key that is wrong.
    """
    if isinstance(block, str):
        block = {"*": block}
    if not isinstance(block, dict):
        raise ValueError(f"permission: expected a map or one of allow, ask, deny, not {block!r}")
    rules = []
    for name, value in block.items():
        entries = value if isinstance(value, dict) else {"*": value}
        found = [_rule(name, pattern, action) for pattern, action in entries.items()]
        rules += exact_over_wildcards(found) if exact_first and exact_first(name) else found
    return rules


def exact_over_wildcards(rules: Iterable[Rule]) -> list[Rule]:
    """Return `rules` with each map's wildcard patterns before its exact ones, order kept otherwise.

    A map is a run of neighbouring rules of one permission. Since the last match decides, an exact
    pattern then beats a wildcard of its own map, but never a later map.
    """
    return [
        rule for _, run in groupby(rules, key=attrgetter("permission")) for rule in sorted(run, key=_is_exact)
    ]


def matches(text: str, pattern: str) -> bool:
    """Whether `text` fits a wildcard `pattern`: ``*`` any run of characters, ``?`` one, both crossing ``/``.

    A trailing space and star is optional: ``ls *`` also fits ``ls``. A backslash counts as ``/`` on both
    sides. Every other character stands for itself.
    """
    if pattern in ("*", text):
        return True
    return _compiled(pattern).fullmatch(text.replace("\\", "/")) is not None


_SEVERITY = {"allow": 0, "ask": 1, "deny": 2}


def _last(permissions: Sequence[str], pattern: str, rules: Sequence[Rule]) -> Rule:
    doubt, narrowed = pattern.startswith(DOUBT), False
    otherwise = Rule(permission=permissions[0], pattern="*", action="ask")
    for rule in reversed(rules):
        fits = not rule.pattern.strip("*") if doubt else matches(pattern, rule.pattern)
        if (fits or doubt) and _is_on(rule, permissions):
            if fits:
                return otherwise if narrowed and rule.action == "allow" else rule
            narrowed = narrowed or rule.action != "allow"
    return otherwise


def _is_on(rule: Rule, permissions: Sequence[str]) -> bool:
    """Whether a rule is on one of a tool's names."""
    return any(matches(name, rule.permission) for name in permissions)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    pattern = pattern.replace("\\", "/")
    forms = [pattern, pattern[:-2]] if pattern.endswith(" *") else [pattern]
    return re.compile("|".join(map(_expression, forms)), re.DOTALL)


def _expression(pattern: str) -> str:
    """A regular expression whose time is linear in the text for each star.

    Rules may come from a stranger's project, and texts from the model: each piece between two stars is
    therefore found at its first place and never again (an atomic group), which for these wildcards
    misses nothing.
    """
    head, *pieces = [
        "".join("." if char == "?" else re.escape(char) for char in piece) for piece in pattern.split("*")
    ]
    if not pieces:
        return head
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[:-1] if piece)
    return f"{head}{middle}.*{pieces[-1]}"


def _is_exact(rule: Rule) -> bool:
    return "*" not in rule.pattern and "?" not in rule.pattern


def _rule(name: object, pattern: object, action: object) -> Rule:
    if not isinstance(name, str) or not isinstance(pattern, str):
        wrong = pattern if isinstance(name, str) else name
        raise ValueError(f"permission.{name}: expected names and patterns to be text, not {wrong!r}")
    return Rule(permission=name, pattern=_expand(pattern), action=_action(name, pattern, action))


def _expand(pattern: str) -> str:
    home = str(Path.home())
    for prefix in ("~/", "$HOME/"):
        if pattern.startswith(prefix):
            return f"{home}/{pattern.removeprefix(prefix)}"
    return home if pattern in ("~", "$HOME") else pattern


def _action(name: str, pattern: str, action: object) -> Action:
    if action in ("allow", "ask", "deny"):
        return action
    raise ValueError(f"permission.{name}.{pattern}: expected allow, ask or deny, not {action!r}")
