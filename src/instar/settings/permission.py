"""Permission rules: may this be done to that? Pure functions over an ordered list of rules.

The law, as in opencode: of all rules whose permission and pattern both match, the last one decides;
where none matches, the answer is `ask`. One exception: in the map of a tool that a hook script defined,
an exact pattern beats a wildcard whichever stands first, since people write ``"*"`` last there;
`exact_over_wildcards` brings such a map into the order of the law (``docs/reference/permissions.md``).
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
MAY_RUN: Final = "(may run) "
"""Stands in front of what a command may run and a rule denies or asks about, where a person is shown it."""
HOLE: Final = "…"
"""Stands in a possible text for what is known only when the call runs."""
WORD_HOLE: Final = "⋯"
"""The same, for what holds no blank: what a pattern of file names stands for."""
_LONGEST: Final = 512
"""Characters up to which a possible text with holes is compared; what follows may be anything."""
_WINDOW: Final = 16
"""Words behind a program's name that are compared where a text names it."""


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


def restricted(
    permissions: Sequence[str], possible: Sequence[str], texts: Sequence[str], *rulesets: Iterable[Rule]
) -> dict[str, Action]:
    """Return what a call may come to and a rule denies or asks about, each with `ask` or `deny`.

    `possible` are texts that the call stands for or may turn out to be, with a `HOLE` for each part that is not
    known: where a rule denies what such a text could be, the answer is `ask`. `texts` are handed to programs that may
    run them: where they name what a rule restricts, the answer is `ask`. A rule for everything (``*``) does not
    count: the call's own patterns are decided by it.
    """
    narrow = [
        rule for rules in rulesets for rule in rules if rule.pattern.strip("*") and _is_on(rule, permissions)
    ][::-1]
    if all(rule.action == "allow" for rule in narrow):
        return {}
    found: dict[str, Action] = {}
    for text in possible:
        action: Action = next((rule.action for rule in narrow if _fits(rule, text)), "allow")
        if action != "allow":
            found[text] = "ask" if has_hole(text) else action
    for text in texts:
        named = _named(text.split(), narrow)
        if named:
            found.setdefault(named, "ask")
    return found


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


def has_hole(text: str) -> bool:
    """Whether a possible text has a part that is known only when the call runs."""
    return HOLE in text or WORD_HOLE in text


def may_match(text: str, pattern: str) -> bool:
    """Whether a text with holes could fit a wildcard `pattern` if they were filled."""
    if not has_hole(text):
        return matches(text, pattern)
    text = text.replace("\\", "/")
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + HOLE
    pattern = pattern.replace("\\", "/")
    forms = [pattern, pattern[:-2]] if pattern.endswith(" *") else [pattern]
    return any(_meets(text, form) for form in forms)


def _meets(text: str, pattern: str) -> bool:
    """Whether a text with holes and a pattern have a text in common: where in `text` each part of the pattern ends."""
    at = _over_holes(text, {0})
    for char in pattern:
        if char == "*":
            at = set(range(min(at), len(text) + 1)) if at else at
            continue
        moved = {one for one in at if text[one : one + 1] == HOLE}
        moved |= {one for one in at if text[one : one + 1] == WORD_HOLE and not char.isspace()}
        moved |= {one + 1 for one in at if one < len(text) and char in ("?", text[one])}
        at = _over_holes(text, moved)
    return len(text) in at


def _over_holes(text: str, at: set[int]) -> set[int]:
    """Add the places behind holes: one may be filled with nothing."""
    found = set(at)
    for one in at:
        while text[one : one + 1] in (HOLE, WORD_HOLE):
            one += 1
            found.add(one)
    return found


def _fits(rule: Rule, text: str) -> bool:
    """Whether a rule counts for a possible text: one that restricts if it may match, one that allows if it must."""
    return matches(text, rule.pattern) if rule.action == "allow" else may_match(text, rule.pattern)


def _named(words: Sequence[str], narrow: Sequence[Rule]) -> str:
    """Return the words of a text that a rule denies or asks about, if it names such; `narrow`: the last rule first."""
    heads = {rule.pattern.split(" ")[0] for rule in narrow if rule.action != "allow"}
    known: dict[str, bool] = {}
    for at, word in enumerate(words):
        if word not in known:
            names = {word, *word.split("/")} - {""}
            known[word] = word[0] not in (HOLE, WORD_HOLE) and any(
                may_match(name, head) for name in names for head in heads
            )
        if not known[word]:
            continue
        for name in (word, *word.split("/")):
            # The text may end behind any word of it: blanks make the star at a pattern's end optional.
            text = " ".join([name, *words[at + 1 : at + _WINDOW]]) + "  "
            for rule in narrow:
                if _fits(Rule(permission="*", pattern=f"{rule.pattern} *", action=rule.action), text):
                    if rule.action != "allow":
                        return " ".join([name, *words[at + 1 : at + 3]])
                    break
    return ""


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
