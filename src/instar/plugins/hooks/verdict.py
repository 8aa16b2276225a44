"""Reads JSON in the answers of programs and models. Of several decisions the most severe counts."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from instar.plugins.hooks.outcome import SEVERITY, WORDS, Action, RuleOutcome, undecided
from instar.plugins.hooks.rule import HookRule, PromptRule

LARGEST: Final = 1 << 20
"""Characters of an answer that are read."""
LONGEST: Final = 10_000
"""Characters of a reason, a context or a message."""
MOST: Final = 200
"""Places in an answer where no object could be read, after which reading ends."""
DEEPEST: Final = 20
"""Levels of nested objects and lists."""

_VERDICT: Final = re.compile(r"""["'](?:decision|ok)["']\s*:""", re.IGNORECASE)
_STARTS: Final = re.compile(r"[\[{]")
_LINES: Final = re.compile(r"^[ \t\ufeff]*\{", re.MULTILINE)
"""Programs of some systems print a byte order mark first."""
_ENDING_TURNS: Final = ("PreToolUse", "PostToolUse", "UserPromptSubmit")


class Repeated(dict[str, Any]):
    """An object with repeated keys. `all` are the values of each key, in order."""

    all: dict[str, list[Any]]


def decoder() -> json.JSONDecoder:
    """Return a decoder that keeps all values of a repeated key."""
    return json.JSONDecoder(object_pairs_hook=_paired)


def objects(text: str, *, lines: bool) -> tuple[list[dict[str, Any]], str]:
    """Return the JSON objects of a text, outermost only, and the text between them.

    With `lines` only those that begin a line: a program's output. Without, all: a model's. What is no JSON is passed
    over; the first `LARGEST` characters are looked at, until `MOST` places were passed over.
    """
    text = text[:LARGEST]
    found: list[dict[str, Any]] = []
    read, rest, at = decoder(), [], 0
    tries = 0
    for start in _begins(text, lines):
        if start < at:
            continue
        if tries >= MOST:
            break
        try:
            value, end = read.raw_decode(text, start)
        except (ValueError, RecursionError):
            tries += 1
            continue
        rest.append(text[at:start])
        at = end
        found += [value] if isinstance(value, dict) else list(_inside(value)) if not lines else []
    return found, " ".join((*rest, text[at:]))


def read_verdict(text: str, rule: HookRule) -> RuleOutcome:
    """Return what a model's answer to a prompt or agent `rule` decides; not yet settled.

    ``{"decision", "reason"}``, or Claude Code's ``{"ok", "reason", "impossible"}``, anywhere in the text and in one
    another: of several the most severe counts, so a judge that quotes an answer it was shown cannot be led by it.
    Prose, words that are no decision and verdicts that break off are undecided.
    """
    found, rest = objects(text, lines=False)
    verdicts = [verdict for one in found for verdict in _inside(one) if {"decision", "ok"} & verdict.keys()]
    outcomes = [outcome for verdict in verdicts for outcome in _judged(verdict, rule)]
    denial = next((one for one in outcomes if one.action == "deny"), None)
    if denial is not None:
        return denial
    problem = next((one for one in outcomes if one.undecided), None)
    if problem is not None:
        return problem
    if not outcomes or _VERDICT.search(rest) or len(text) > LARGEST:
        shown = " ".join(text.split())
        shown = f"{shown[:80]!r}" if shown else "nothing"
        return undecided(
            f'it was to answer {{"decision": "allow" or "deny", "reason": …}}, and answered {shown}'
        )
    return max(outcomes, key=lambda one: SEVERITY[one.action])


def _begins(text: str, lines: bool) -> Iterator[int]:
    for place in (_LINES if lines else _STARTS).finditer(text):
        yield place.end() - 1


def _inside(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a value, including itself, without recursion."""
    level = [value]
    for _ in range(DEEPEST):
        level = [item for item in level if isinstance(item, dict | list)]
        yield from (item for item in level if isinstance(item, dict))
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
        if not level:
            return


def _judged(verdict: dict[str, Any], rule: HookRule) -> Iterator[RuleOutcome]:
    reason = shortened(str(verdict.get("reason") or ""))
    for value in values(verdict, "decision"):
        yield _outcome(word(value), reason, value, rule)
    for value in values(verdict, "ok"):
        if rule.event in ("Stop", "SubagentStop") and value is False and verdict.get("impossible") is True:
            yield RuleOutcome(
                messages=(f"The hook {rule.label} finds that this cannot be reached: {reason}",)
            )
        else:
            said: Action | None = None
            if isinstance(value, bool):
                said = "allow" if value else "deny"
            yield _outcome(said, reason, value, rule)


def _outcome(action: Action | None, reason: str, value: Any, rule: HookRule) -> RuleOutcome:
    if action is None:
        return undecided(f"it was to decide allow or deny, and said {json.dumps(value)[:60]}")
    settings = rule.settings
    ends = rule.dialect == "claude" and rule.event in _ENDING_TURNS and isinstance(settings, PromptRule)
    stop = action == "deny" and ends and isinstance(settings, PromptRule) and not settings.goes_on
    return RuleOutcome(action=action, reason=reason, stop=stop, stop_reason=reason if stop else "")


def shortened(text: str) -> str:
    """Return the first `LONGEST` characters of a text, with a note of how many are left out."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n({len(text) - LONGEST} more characters were left out)"


def word(value: Any) -> Action | None:
    """Return the action for a word of either dialect, in any case; None for other words."""
    return WORDS.get(value.strip().lower()) if isinstance(value, str) else None


def values(found: dict[str, Any], key: str) -> Sequence[Any]:
    """Return all values that a key has in an object; one at most, unless it stands there twice."""
    if isinstance(found, Repeated) and key in found.all:
        return found.all[key]
    return [found[key]] if key in found else []


def _paired(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    repeated = Repeated(plain)
    repeated.all = {}
    for key, value in pairs:
        repeated.all.setdefault(key, []).append(value)
    return repeated
