"""Reads the decision of a program or a request: exit code, JSON and text, by dialect. Pure.

The exit code stands above the text: what is printed can refuse, and never takes back what the code refused.
"""

import re
from typing import Any, Final, Literal

import msgspec

from instar.plugins.hooks import names
from instar.plugins.hooks.event import HookEvent
from instar.plugins.hooks.outcome import SEVERITY, Action, RuleOutcome
from instar.plugins.hooks.rule import CommandRule, HookRule
from instar.plugins.hooks.verdict import LARGEST, objects, shortened, values, word

BLOCKS: Final = 2
"""The exit code that refuses."""

_BROKEN: Final = re.compile(r"^[ \t\ufeff]*\{\s*\"", re.MULTILINE)
"""The beginning of an object at the beginning of a line; ``{debug} loading`` is a line of log."""

Failure = Literal["", "time-out", "missing program", "signal", "no answer"]


class ProgramResult(msgspec.Struct, frozen=True):
    """The end of a program: its exit code (negative: the signal), or why it has none.

    `failure` with `detail` comes from who ran it; `output` may be cut at `instar.plugins.hooks.verdict.LARGEST` bytes.
    """

    code: int | None
    output: bytes = b""
    errors: bytes = b""
    failure: Failure = ""
    detail: str = ""


class Said(msgspec.Struct):
    """What the JSON of one answer says, and the first problem in it."""

    action: Action = "none"
    reason: str = ""
    updated_input: dict[str, Any] | None = None
    updated_output: Any = None
    contexts: list[str] = []
    messages: list[str] = []
    stop: bool = False
    stop_reason: str = ""
    problem: str = ""
    decides: bool = False

    def decide(self, action: Action, reason: str) -> None:
        """Take a decision if it is more severe than the last."""
        self.decides = True
        if SEVERITY[action] > SEVERITY[self.action]:
            self.action, self.reason = action, reason or self.reason

    def fail(self, problem: str) -> None:
        """Keep the first problem."""
        self.problem = self.problem or problem


def read_command(
    ended: ProgramResult, rule: HookRule, event: HookEvent, view: names.DialectCall | None = None
) -> RuleOutcome:
    """Return what a program decided, not yet settled. `view` is the call that it got."""
    text = _text(ended.output)
    said, plain = _said(text, rule, event, view)
    # In bytes, not characters: the part beyond the limit may have refused.
    if len(ended.output) >= LARGEST:
        said.fail("its output is longer than can be read")
    failure = _failure(ended, rule)
    if ended.code == BLOCKS and not ended.failure:
        if said.action != "deny":  # the reason why something may pass is none why it may not
            said.decide("deny", "")
            said.reason = ""
        said.reason = said.reason or shortened(_text(ended.errors).strip()) or f"{rule.label} exited with 2."
        return _outcome(said)
    if failure:
        return _failed(said, failure, passes=False)
    if ended.code:
        error = shortened(_text(ended.errors).strip()[-1000:])
        problem = f"it exited with {ended.code}{': ' + error if error else ''}"
        # Claude Code goes by valid JSON then (its hooks reference, "Exit code output").
        if rule.dialect == "claude" and said.decides and not said.problem:
            return _outcome(said)
        return _failed(said, problem, passes=True)
    return _succeeded(said, plain, rule, event)


def read_http(
    status: int | None, body: bytes, rule: HookRule, event: HookEvent, detail: str = ""
) -> RuleOutcome:
    """Return what the answer to an `http` rule decided; not yet settled. `status` None: none came."""
    said, plain = _said(_text(body), rule, event, None)
    if len(body) >= LARGEST:
        said.fail("its answer is longer than can be read")
    if status is None:
        return _failed(said, detail or "there was no answer", passes=False)
    if not 200 <= status < 300:
        return _failed(
            said,
            f"{rule.settings.url if hasattr(rule.settings, 'url') else 'it'} answered {status}",
            passes=False,
        )
    return _succeeded(said, plain, rule, event)


def _succeeded(said: Said, plain: str, rule: HookRule, event: HookEvent) -> RuleOutcome:
    if said.problem:
        return _failed(said, said.problem, passes=False)
    if plain and not said.decides and event.kind.text and rule.dialect != "openhands":
        said.contexts.append(shortened(plain))
    return _outcome(said)


def _failure(ended: ProgramResult, rule: HookRule) -> str:
    """Return why a program cannot have decided, "" where its exit code counts."""
    if ended.failure:
        return ended.detail or {"time-out": f"it took longer than {rule.timeout:g} s"}.get(
            ended.failure, ended.failure
        )
    if ended.code is None:
        return "it did not end"
    if ended.code < 0 or ended.code > 128:
        return f"it was ended by signal {-ended.code if ended.code < 0 else ended.code - 128}"
    if ended.code in (126, 127) and isinstance(rule.settings, CommandRule):
        why = _text(ended.errors).strip()[-300:]
        return f"its program is missing or may not be run{': ' + why if why else ''}; see {rule.place}"
    return ""


def _failed(said: Said, error: str, *, passes: bool) -> RuleOutcome:
    """Return the outcome of a failure: undecided, except for what the JSON refused or asked."""
    if said.action == "deny":
        return _outcome(said)
    outcome = msgspec.structs.replace(_outcome(said), undecided=True, error=error, passes=passes)
    return msgspec.structs.replace(outcome, updated_input=None, updated_output=None)


def _outcome(said: Said) -> RuleOutcome:
    return RuleOutcome(
        action=said.action,
        reason=said.reason,
        updated_input=said.updated_input,
        updated_output=said.updated_output,
        contexts=tuple(said.contexts),
        messages=tuple(said.messages),
        stop=said.stop,
        stop_reason=said.stop_reason,
    )


def _said(text: str, rule: HookRule, event: HookEvent, view: names.DialectCall | None) -> tuple[Said, str]:
    """Return what a text's JSON says, and the rest of the text."""
    found, plain = objects(text, lines=True)
    said = Said()
    for one in found:
        _take(said, one, rule)
        inner = one.get("hookSpecificOutput")
        if isinstance(inner, dict):
            _take_specific(said, inner, event, rule, view)
        elif inner is not None:
            said.fail("its hookSpecificOutput is no object")
    if _BROKEN.search(plain):
        said.fail("its JSON is not whole")
    return said, plain.strip()


def _take(said: Said, one: dict[str, Any], rule: HookRule) -> None:
    reason = _string(said, one, "reason")
    for value in values(one, "decision"):
        if value is not None:
            _decided(said, value, reason, "decision")
    for value in values(one, "continue"):
        if value is False:
            why = _string(said, one, "stopReason") or reason
            said.stop, said.stop_reason = rule.dialect != "openhands", said.stop_reason or why
            said.decide("deny", why)
        elif value is not True and value is not None:
            said.fail(f"its continue is {_shown(value)}, neither true nor false")
    _gather(said, one)


def _take_specific(
    said: Said, inner: dict[str, Any], event: HookEvent, rule: HookRule, view: names.DialectCall | None
) -> None:
    reason = _string(said, inner, "permissionDecisionReason")
    for value in values(inner, "permissionDecision"):
        if value is not None:
            # There is no host to defer to, so the person is asked.
            _decided(said, "ask" if value == "defer" else value, reason, "permissionDecision")
    request = inner.get("decision")
    if isinstance(request, dict):
        _decided(said, request.get("behavior"), _string(said, request, "message"), "decision.behavior")
        said.stop = said.stop or request.get("interrupt") is True
        _rewrite(said, request.get("updatedInput"), event, rule, view)
    elif request is not None:
        _decided(said, request, reason or _string(said, inner, "reason"), "hookSpecificOutput.decision")
    _rewrite(said, inner.get("updatedInput"), event, rule, view)
    if inner.get("updatedToolOutput") is not None:
        said.updated_output = inner["updatedToolOutput"]
    _gather(said, inner)


def _decided(said: Said, value: Any, reason: str, key: str) -> None:
    action = word(value)
    if action is None:
        said.fail(f"its {key} is {_shown(value)}, none of allow, deny, approve, block, ask")
    else:
        said.decide(action, reason)


def _rewrite(
    said: Said, updated: Any, event: HookEvent, rule: HookRule, view: names.DialectCall | None
) -> None:
    if updated is None:
        return
    if not isinstance(updated, dict) or event.tool is None:
        said.decide(
            "deny", f"{rule.label} rewrote the input to {_shown(updated)}, which is no object for this tool."
        )
        return
    try:
        told = view or names.views(event.tool, rule.dialect, event.directory)[0]
        said.updated_input = names.rewritten(event.tool, rule.dialect, told, updated)
    except ValueError as error:
        said.decide("deny", f"{rule.label}: {error}.")


def _gather(said: Said, one: dict[str, Any]) -> None:
    for key, place in (("additionalContext", said.contexts), ("systemMessage", said.messages)):
        text = _string(said, one, key)
        if text:
            place.append(text)


def _string(said: Said, one: dict[str, Any], key: str) -> str:
    value = one.get(key)
    if value is None or isinstance(value, str):
        return shortened((value or "").strip())
    said.fail(f"its {key} is {_shown(value)}, no text")
    return ""


def _shown(value: Any) -> str:
    return repr(value)[:60]


def _text(raw: bytes) -> str:
    return raw[:LARGEST].decode("utf-8", "replace")
