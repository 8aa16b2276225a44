"""The outcome of one rule, read from the JSON of programs and models, and the decision that several make. Pure.

`combine` is the only place that weighs one rule against another.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from instar.plugins.hooks.rule import HookRule, PromptRule, on_error

Action = Literal["none", "allow", "ask", "deny"]
SEVERITY: Final[Mapping[str, int]] = {"none": 0, "allow": 1, "ask": 2, "deny": 3}
"""The actions by severity."""

WORDS: Final[Mapping[str, Action]] = {
    "allow": "allow",
    "approve": "allow",
    "deny": "deny",
    "block": "deny",
    "ask": "ask",
    "defer": "ask",
}
"""The words of both dialects for a decision. There is no host to defer to, so the person is asked."""


class Trace(msgspec.Struct, frozen=True):
    """What an evaluation used, for the record: a program's exit code, the start of what it printed, what a model cost.

    `code` is negative for a signal. `tokens` are input and output; `cost` is in dollars, None where no price is known.
    `session` is the one that an agent rule worked in.
    """

    code: int | None = None
    output: str = ""
    tokens: int = 0
    cost: float | None = None
    model: str = ""
    session: str = ""


class Ruling(msgspec.Struct):
    """What one rule, or all rules of an event together, decide.

    `stop`: the turn is to end. `updated_input` and `updated_output` replace the whole input or output of a tool; the
    input stands in our names.
    """

    action: Action = "none"
    updated_input: Mapping[str, Any] | None = None
    updated_output: Any = None
    contexts: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    stop: bool = False
    stop_reason: str = ""


class RuleOutcome(Ruling):
    """What one evaluator answered.

    `error` says why the evaluator did not decide: then `undecided`, and after `settle`
    `action` is what became of it. `passes`: a failure that stands in nobody's way unless a person said so (exit 1).
    `trace` is for the record and decides nothing.
    """

    reason: str = ""
    undecided: bool = False
    passes: bool = False
    error: str = ""
    trace: Trace = Trace()


class HookDecision(Ruling):
    """What all rules of an event decide together. `reasons` are those of the most severe action, in order."""

    reasons: tuple[str, ...] = ()

    @property
    def refuses(self) -> bool:
        """True for deny and ask; for events where no person can be asked, both refuse."""
        return self.action in ("deny", "ask")

    @property
    def text(self) -> str:
        """The reasons, a line each; without any the reason why the turn stops."""
        return "\n".join(self.reasons) or self.stop_reason

    def blocks(self, event: str, before: Sequence[str] = ()) -> list[str]:
        """Return the texts for the model, marked with their event: the reasons of a refusal, `before`, the contexts."""
        reasons = self.reasons if self.refuses else ()
        texts = dict.fromkeys((*reasons, *before, *self.contexts))
        return [f'<hook event="{event}">\n{text}\n</hook>' for text in texts]


def undecided(error: str) -> RuleOutcome:
    """Return the outcome of an evaluator that failed; `error` is a sentence for a person or the model."""
    return RuleOutcome(undecided=True, error=error)


def settle(
    outcome: RuleOutcome, rule: HookRule, default: str = "dialect", *, doubt: bool = False
) -> RuleOutcome:
    """Return the outcome that counts. ``docs/reference/hooks.md`` says what becomes of an undecided one; the record
    keeps it.

    What an evaluator did say before it failed stays, if it is more severe. `default` is ``hook_settings.on_error``.
    With `doubt` (`match.Match`) nothing that loosens counts.
    """
    usual = "allow" if outcome.passes and default == "dialect" else default
    if outcome.undecided and on_error(rule, usual) == "deny" and outcome.action != "deny":
        reason = f"The hook {rule.label} could not decide: {outcome.error or 'it failed'}"
        if rule.broken:
            reason = f"A rule cannot be read, and what it would judge is refused: {rule.place}: {rule.broken}"
        outcome = msgspec.structs.replace(outcome, action="deny", reason=reason)
    elif outcome.undecided and outcome.action == "allow":
        outcome = msgspec.structs.replace(outcome, action="none")
    if outcome.action == "deny" and not outcome.reason:
        outcome = msgspec.structs.replace(outcome, reason=f"Refused by the hook {rule.label}.")
    if doubt and outcome.action in ("allow", "none"):
        outcome = msgspec.structs.replace(outcome, action="none", updated_input=None, updated_output=None)
    return outcome


def combine(outcomes: Iterable[RuleOutcome], given: Mapping[str, Any] | None = None) -> HookDecision:
    """Return the decision of settled outcomes, in the order of their rules. `given` is the tool's input.

    The law: the action is the most severe one (deny > ask > allow > none), whatever the order, so one outcome more
    never loosens. Rewrites apply one after the other, key by key against `given`: a later rule wins a key that both
    changed. Contexts and messages join in order. What is denied is not rewritten. One `stop` stops, and refuses what
    can be refused.
    """
    found = list(outcomes)
    action: Action = max((one.action for one in found), key=SEVERITY.__getitem__, default="none")
    reasons = [one.reason for one in found if one.action == action]
    stops = [one for one in found if one.stop]
    if stops and action != "deny":
        action, reasons = "deny", [one.stop_reason or one.reason for one in stops]
    outputs = [one.updated_output for one in found if one.updated_output is not None]
    return HookDecision(
        action=action,
        reasons=tuple(filter(None, reasons)),
        updated_input=None if action == "deny" else _rewritten(found, given),
        updated_output=outputs[-1] if outputs else None,
        contexts=tuple(text for one in found for text in one.contexts),
        messages=tuple(text for one in found for text in one.messages),
        stop=bool(stops),
        stop_reason=next((one.stop_reason for one in stops if one.stop_reason), ""),
    )


def _rewritten(outcomes: Sequence[RuleOutcome], given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    rewrites = [one.updated_input for one in outcomes if one.updated_input is not None]
    if not rewrites:
        return None
    start = dict(given or {})
    result = dict(start)
    for rewrite in rewrites:
        for key, value in rewrite.items():
            if key not in start or start[key] != value or type(start[key]) is not type(value):
                result[key] = value
        for key in start.keys() - rewrite.keys():
            result.pop(key, None)
    return result


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


def objects(text: str, *, lines: bool) -> tuple[list[dict[str, Any]], str]:
    """Return the JSON objects of a text, outermost only, and the text between them.

    With `lines` only those that begin a line: a program's output. Without, all: a model's. What is no JSON is passed
    over; the first `LARGEST` characters are looked at, until `MOST` places were passed over.
    """
    text = text[:LARGEST]
    found: list[dict[str, Any]] = []
    read = json.JSONDecoder(object_pairs_hook=_paired)
    rest, at, tries = [], 0, 0
    for place in (_LINES if lines else _STARTS).finditer(text):
        start = place.end() - 1
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
        found += [value] if isinstance(value, dict) else list(inside(value)) if not lines else []
    return found, " ".join((*rest, text[at:]))


def read_verdict(text: str, rule: HookRule) -> RuleOutcome:
    """Return what a model's answer to a prompt or agent `rule` decides; not yet settled.

    ``{"decision", "reason"}``, or Claude Code's ``{"ok", "reason", "impossible"}``, anywhere in the text and in one
    another: of several the most severe counts, so a judge that quotes an answer it was shown cannot be led by it.
    Prose, words that are no decision and verdicts that break off are undecided.
    """
    found, rest = objects(text, lines=False)
    outcomes = [outcome for one in found for verdict in verdicts(one) for outcome in _judged(verdict, rule)]
    # A refusal counts, else an undecided one, else the most severe.
    outcome = max(outcomes, key=lambda one: 2.5 if one.undecided else SEVERITY[one.action], default=None)
    if outcome is not None and (outcome.action == "deny" or outcome.undecided):
        return outcome
    if outcome is None or _VERDICT.search(rest) or len(text) > LARGEST:
        shown = " ".join(text.split())
        shown = f"{shown[:80]!r}" if shown else "nothing"
        return undecided(
            f'it was to answer {{"decision": "allow" or "deny", "reason": …}}, and answered {shown}'
        )
    return outcome


def inside(*values: Any, texts: bool = False) -> Iterator[dict[str, Any]]:
    """Yield every object in values, including themselves, without recursion; with `texts` also those in texts."""
    level: list[Any] = [*values]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, str) and texts:
                inner += objects(value, lines=False)[0]
            elif isinstance(value, list):
                inner += value
            elif isinstance(value, dict):
                yield value
                inner += value.values()
        level = inner


def verdicts(*values: Any, texts: bool = False) -> list[dict[str, Any]]:
    """Return those objects in values that are verdicts."""
    return [one for one in inside(*values, texts=texts) if {"decision", "ok"} & one.keys()]


def _judged(verdict: dict[str, Any], rule: HookRule) -> Iterator[RuleOutcome]:
    reason = shortened(str(verdict.get("reason") or ""))
    ok = verdict.get("ok")
    if "decision" in verdict:
        yield _outcome(word(verdict["decision"]), reason, verdict["decision"], rule)
    if rule.event in ("Stop", "SubagentStop") and ok is False and verdict.get("impossible") is True:
        yield RuleOutcome(messages=(f"The hook {rule.label} finds that this cannot be reached: {reason}",))
    elif "ok" in verdict:
        said: Action | None = ("allow" if ok else "deny") if isinstance(ok, bool) else None
        yield _outcome(said, reason, ok, rule)


def _outcome(action: Action | None, reason: str, value: Any, rule: HookRule) -> RuleOutcome:
    if action is None:
        return undecided(f"it was to decide allow or deny, and said {json.dumps(value)[:60]}")
    settings = rule.settings
    ends = rule.dialect == "claude" and rule.event in _ENDING_TURNS and action == "deny"
    stop = ends and isinstance(settings, PromptRule) and not settings.goes_on
    return RuleOutcome(action=action, reason=reason, stop=stop, stop_reason=reason if stop else "")


def shortened(text: str) -> str:
    """Return the first `LONGEST` characters of a text, with a note of how many are left out."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n({len(text) - LONGEST} more characters were left out)"


def word(value: Any) -> Action | None:
    """Return the action for a word of either dialect, in any case; None for other words."""
    return WORDS.get(value.strip().lower()) if isinstance(value, str) else None


def _paired(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; of a key that stands there twice, the value that refuses, if one does."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key not in found or value is False or word(value) in ("ask", "deny"):
            found[key] = value
    return found
