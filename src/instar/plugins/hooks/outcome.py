"""The outcome of one rule, and the decision that several outcomes make. Pure.

`combine` is the only place that weighs one rule against another.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from instar.plugins.hooks.rule import HookRule, OnError, on_error

Action = Literal["none", "allow", "ask", "deny"]
SEVERITY: Final[Mapping[str, int]] = {"none": 0, "allow": 1, "ask": 2, "deny": 3}
"""The actions by severity."""

WORDS: Final[Mapping[str, Action]] = {
    "allow": "allow",
    "approve": "allow",
    "deny": "deny",
    "block": "deny",
    "ask": "ask",
}
"""The words of both dialects for a decision."""


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


class RuleOutcome(msgspec.Struct, frozen=True):
    """What one evaluator answered.

    `stop`: the turn is to end. `updated_input` and `updated_output` replace the whole input or output of a tool; the
    input stands in our names. `error` says why the evaluator did not decide: then `undecided`, and after `settle`
    `action` is what became of it. `passes`: a failure that stands in nobody's way unless a person said so (exit 1).
    `trace` is for the record and decides nothing.
    """

    action: Action = "none"
    reason: str = ""
    updated_input: Mapping[str, Any] | None = None
    updated_output: Any = None
    contexts: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    stop: bool = False
    stop_reason: str = ""
    undecided: bool = False
    passes: bool = False
    error: str = ""
    trace: Trace = Trace()


class HookDecision(msgspec.Struct, frozen=True):
    """What all rules of an event decide together. `reasons` are those of the most severe action, in order."""

    action: Action = "none"
    reasons: tuple[str, ...] = ()
    updated_input: Mapping[str, Any] | None = None
    updated_output: Any = None
    contexts: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    stop: bool = False
    stop_reason: str = ""

    @property
    def refuses(self) -> bool:
        """True for deny and ask; for events where no person can be asked, both refuse."""
        return self.action in ("deny", "ask")

    @property
    def text(self) -> str:
        """The reasons, a line each; without any the reason why the turn stops."""
        return "\n".join(self.reasons) or self.stop_reason


def undecided(error: str) -> RuleOutcome:
    """Return the outcome of an evaluator that failed; `error` is a sentence for a person or the model."""
    return RuleOutcome(undecided=True, error=error)


def settle(
    outcome: RuleOutcome, rule: HookRule, default: OnError = "", *, doubt: bool = False
) -> RuleOutcome:
    """Return the outcome that counts. ``docs/hooks.md`` says what becomes of an undecided one; the record keeps it.

    What an evaluator did say before it failed stays, if it is more severe. `default` is ``hook_settings.on_error``.
    With `doubt` (`match.Match`) nothing that loosens counts.
    """
    usual: OnError = default or "allow" if outcome.passes else default
    if outcome.undecided and on_error(rule, usual) == "deny" and outcome.action != "deny":
        reason = f"The hook {rule.label} could not decide: {outcome.error or 'it failed'}"
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
    reasons = tuple(one.reason for one in found if one.action == action and one.reason)
    stops = [one for one in found if one.stop]
    if stops and action != "deny":
        action, reasons = (
            "deny",
            tuple(one.stop_reason or one.reason for one in stops if one.stop_reason or one.reason),
        )
    outputs = [one.updated_output for one in found if one.updated_output is not None]
    return HookDecision(
        action=action,
        reasons=reasons,
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
