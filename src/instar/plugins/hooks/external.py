"""The ``command`` and ``http`` evaluators: a program or an address gets the event as JSON, and its answer decides.

A program runs in the sandbox, without secrets, in the event's directory, and ends with its whole process group. A
request follows no redirect, and its headers get only the variables that the rule names. The time of both is wall-clock
time. What they answer is read by exit code, JSON and text, by dialect.
"""

import asyncio
import re
import shutil
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from instar.plugin import accepted_environment, process
from instar.plugins.hooks import payload
from instar.plugins.hooks.outcome import (
    LARGEST,
    SEVERITY,
    WORDS,
    Action,
    RuleOutcome,
    Ruling,
    Trace,
    combine,
    objects,
    shortened,
    word,
)
from instar.plugins.hooks.payload import DialectCall
from instar.plugins.hooks.programs import accepted_command
from instar.plugins.hooks.rule import HookEvent, HookRule, HttpRule
from instar.plugins.hooks.runner import EvaluationContext

BLOCKS: Final = 2
"""The exit code that refuses."""

_BROKEN: Final = re.compile(r"^[ \t\ufeff]*\{\s*\"", re.MULTILINE)
"""The beginning of an object at the beginning of a line; ``{debug} loading`` is a line of log."""


class Answered(msgspec.Struct, frozen=True):
    """What came of a program or a request: its exit code (negative: the signal) or status, and what it printed.

    `failure` says why there is no code. `output` may be cut at `instar.plugins.hooks.outcome.LARGEST` bytes.
    """

    code: int | None
    output: bytes = b""
    errors: bytes = b""
    failure: str = ""


def read_answer(
    given: Answered, rule: HookRule, event: HookEvent, view: DialectCall | None = None
) -> RuleOutcome:
    """Return what a program or the answer to a request decided, before defaults apply. `view` is the call it got."""
    said = _Reading(given.output, rule, event, view)
    found = said.outcome
    failure = _failure(given, rule)
    if failure or not given.code or isinstance(rule.settings, HttpRule):
        return said.result(failure)
    errors = _text(given.errors).strip()
    if given.code == BLOCKS:
        if found.action != "deny":  # the reason why something may pass is none why it may not
            found.action, found.reason = "deny", ""
        found.reason = found.reason or shortened(errors) or f"{rule.label} exited with 2."
        return found
    # Claude Code goes by valid JSON then (its hooks reference, "Exit code output").
    if rule.dialect == "claude" and found.action != "none" and not said.problem:
        return found
    found.passes = True
    return said.result(f"it exited with {given.code}{': ' if errors else ''}{errors[-1000:]}")


def _failure(given: Answered, rule: HookRule) -> str:
    """Return why there can be no decision, "" where the code counts."""
    if given.failure or given.code is None:
        return given.failure
    code = given.code
    if isinstance(rule.settings, HttpRule):
        return "" if 200 <= code < 300 else f"{rule.settings.url} answered {code}"
    if code < 0 or code > 128:
        return f"it was ended by signal {-code if code < 0 else code - 128}"
    if code in (126, 127):
        why = _text(given.errors).strip()[-300:]
        return f"its program is missing or may not be run{': ' if why else ''}{why}; see {rule.place}"
    return ""


class _Reading:
    """Reads one answer: `outcome` is what its JSON says, `problem` the first thing in it that cannot be read."""

    def __init__(self, raw: bytes, rule: HookRule, event: HookEvent, view: DialectCall | None) -> None:
        self._rule, self._event, self._view = rule, event, view
        self.outcome = RuleOutcome()
        self.problem = ""
        found, plain = objects(_text(raw), lines=True)
        for one in found:
            self._take(one)
        if _BROKEN.search(plain):
            self._fail("its JSON is not whole")
        # In bytes, not characters: the part beyond the limit may have refused.
        if len(raw) >= LARGEST:
            self._fail("its answer is longer than can be read")
            if _text(raw).lstrip("\ufeff \t\r\n").startswith("{"):
                self._decide("deny", f"The answer of {rule.label} is longer than can be read; it may refuse.")
        self._plain = plain.strip()
        self._takes_text = event.kind.text and rule.dialect != "openhands"

    def result(self, failure: str) -> RuleOutcome:
        """Return the outcome; with a failure or a problem it is undecided, except for what the JSON refused."""
        found = self.outcome
        error = failure or self.problem
        if error and found.action != "deny":
            found.undecided, found.error = True, error
            found.updated_input = found.updated_output = None
        elif self._plain and found.action == "none" and self._takes_text:
            found.contexts += (shortened(self._plain),)
        return found

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem

    def _decide(self, action: Action, reason: str) -> None:
        """Take a decision if it is more severe than the last."""
        found = self.outcome
        if SEVERITY[action] > SEVERITY[found.action]:
            found.action, found.reason = action, reason or found.reason
        elif action == found.action:
            found.reason = found.reason or reason

    def _take(self, one: dict[str, Any]) -> None:
        found = self.outcome
        inner = one.get("hookSpecificOutput")
        if inner is None:
            inner = {}
        elif not isinstance(inner, dict):
            self._fail("its hookSpecificOutput is no object")
            inner = {}
        request = inner.get("decision")
        if isinstance(request, dict):  # the form of PermissionRequest
            found.stop = found.stop or request.get("interrupt") is True
            inner = {
                **inner,
                **request,
                "decision": request.get("behavior") or "",
                "reason": request.get("message"),
            }
        for part, key in ((one, "decision"), (inner, "permissionDecision"), (inner, "decision")):
            action = word(part.get(key))
            reason = self._string(part, "permissionDecisionReason") or self._string(part, "reason")
            if action is not None:
                self._decide(action, reason)
            elif part.get(key) is not None:
                self._fail(f"its {key} is {part[key]!r:.60}, none of {', '.join(WORDS)}")
        self._continue(one)
        self._rewrite(inner.get("updatedInput"))
        if inner.get("updatedToolOutput") is not None:
            found.updated_output = inner["updatedToolOutput"]
        for part in (one, inner):
            found.contexts += tuple(filter(None, [self._string(part, "additionalContext")]))
            found.messages += tuple(filter(None, [self._string(part, "systemMessage")]))

    def _continue(self, one: dict[str, Any]) -> None:
        goes_on, found = one.get("continue"), self.outcome
        if goes_on is False:
            why = self._string(one, "stopReason") or self._string(one, "reason")
            found.stop = found.stop or self._rule.dialect != "openhands"
            found.stop_reason = found.stop_reason or why
            self._decide("deny", why)
        elif goes_on is not None and goes_on is not True:
            self._fail(f"its continue is {goes_on!r:.60}, neither true nor false")

    def _rewrite(self, updated: Any) -> None:
        tool, view, rule = self._event.tool, self._view, self._rule
        if updated is None:
            return
        if not isinstance(updated, dict) or tool is None or view is None:
            no_object = f"rewrote the input to {updated!r:.60}, which is no object for this tool"
            self._decide("deny", f"{rule.label} {no_object}.")
            return
        try:
            self.outcome.updated_input = payload.rewritten(tool, rule.dialect, view, updated)
        except ValueError as error:
            self._decide("deny", f"{rule.label}: {error}.")

    def _string(self, one: dict[str, Any], key: str) -> str:
        value = one.get(key)
        if value is None or isinstance(value, str):
            return shortened((value or "").strip())
        self._fail(f"its {key} is {value!r:.60}, no text")
        return ""


def _text(raw: bytes) -> str:
    return raw[:LARGEST].decode("utf-8", "replace")


SHOWN: Final = 2000
"""Characters of an answer, or of one stream of a program, that are recorded."""

_PLACE: Final = re.compile(r"\$\{(\w*_PROJECT_DIR|(?:CLAUDE_)?PLUGIN_(?:ROOT|DATA))\}")
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


async def ask(rule: HookRule, event: HookEvent, context: EvaluationContext) -> RuleOutcome:
    """Run the program of a rule, or post the event to its address. Return what it decided, not yet settled.

    It is asked once; for a patch of several files in a foreign dialect once for each file, until one is refused. Of
    several the outcome is the most severe, undecided if one is, with all contexts.
    """
    outcomes: list[RuleOutcome] = []
    trace = Trace()
    for view, data in payload.payloads(event, rule.dialect):
        told = payload.encode(data)
        if isinstance(rule.settings, HttpRule):
            given = await _posted(rule.settings, told, rule.timeout, context.armed.environment)
        else:
            given = await _ran(rule, told, event, view, context)
        trace = _trace(given)
        outcomes.append(read_answer(given, rule, event, view))
        if outcomes[-1].action == "deny":
            break
    found = combine(outcomes)
    failed = [one for one in outcomes if one.undecided and found.action != "deny"]
    return RuleOutcome(
        **{name: getattr(found, name) for name in Ruling.__struct_fields__},
        reason=found.text,
        undecided=bool(failed),
        passes=bool(failed) and all(one.passes for one in failed),
        error=failed[0].error if failed else "",
        trace=trace,
    )


async def _ran(
    rule: HookRule, stdin: bytes, event: HookEvent, view: DialectCall | None, context: EvaluationContext
) -> Answered:
    armed = context.armed
    environment = context.children.environment(armed.environment)
    # What the model may write is not found by name: neither a program nor a module of Python.
    environment = accepted_environment(environment, armed.project, armed.served)
    environment |= {"PYTHONSAFEPATH": "1", **payload.environment(event, view, armed.project)}
    environment |= rule.environment
    argv = _argv(rule, event, context, environment)
    try:
        done = await context.children.run(
            argv, cwd=event.directory, env=environment, stdin=stdin, timeout=rule.timeout, limit=LARGEST
        )
    except process.ProcessError as error:
        return Answered(None, failure=f"its program cannot be run: {error}; see {rule.place}")
    late = f"it took longer than {rule.timeout:g} s" if done.timed_out else ""
    return Answered(-done.signal if done.signal else done.code, done.stdout, done.stderr, late)


def _argv(
    rule: HookRule, event: HookEvent, context: EvaluationContext, environment: Mapping[str, str]
) -> list[str]:
    command = accepted_command(rule, event.directory, context.armed.project, context.armed.served)
    if command.args is not None:
        # As in Claude Code without a shell: words may name the project's folder.
        words = (command.command, *command.args)
        return [_PLACE.sub(lambda found: environment.get(found[1], found[0]), word) for word in words]
    # Claude Code's commands are written for bash, OpenHands' for sh.
    wanted = command.shell or ("bash" if rule.dialect == "claude" else "sh")
    return [wanted if shutil.which(wanted, path=environment.get("PATH")) else "sh", "-c", command.command]


def _trace(given: Answered) -> Trace:
    texts = [raw[: 4 * SHOWN].decode("utf-8", "replace").strip() for raw in (given.output, given.errors)]
    shown = [text if len(text) <= SHOWN else f"{text[:SHOWN]}…" for text in texts if text]
    return Trace(code=given.code, output="\n".join(shown))


async def _posted(http: HttpRule, body: bytes, seconds: float, environment: Mapping[str, str]) -> Answered:
    # Imported here: it takes 0.1 s, which only a session with such a rule spends.
    import httpx2

    headers = {"content-type": "application/json", **headers_of(http, environment)}
    answer = b""
    try:
        async with (
            asyncio.timeout(seconds),
            httpx2.AsyncClient(timeout=None) as client,
            client.stream("POST", http.url, content=body, headers=headers) as response,
        ):
            async for chunk in response.aiter_bytes():
                answer += chunk
                if len(answer) >= LARGEST:
                    break
            return Answered(response.status_code, answer[:LARGEST])
    except TimeoutError:
        failure = f"{http.url} did not answer within {seconds:g} s"
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        failure = f"{http.url} cannot be asked: {str(error) or type(error).__name__}"
    return Answered(None, answer, failure=failure)


def headers_of(http: HttpRule, environment: Mapping[str, str]) -> dict[str, str]:
    """Return a rule's headers; a variable that it does not name in ``allowedEnvVars`` is empty."""
    known = {name: environment.get(name, "") for name in http.variables}
    return {
        name: _VARIABLE.sub(lambda found: known.get(found[1] or found[2], ""), text)
        for name, text in http.headers.items()
    }
