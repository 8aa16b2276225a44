"""The ``command`` and ``http`` evaluators: a program or an address gets the event as JSON, and its answer decides.

A program runs in the sandbox, without secrets, in the event's directory, and ends with its whole process group. A
request follows no redirect, and its headers get only the variables that the rule names. The time of both is wall-clock
time. What they answer is read by exit code, JSON and text, by dialect.
"""

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from instar.plugin import accepted_environment, process
from instar.plugins.hooks import names, payload
from instar.plugins.hooks.evaluate import EvaluationContext
from instar.plugins.hooks.event import HookEvent
from instar.plugins.hooks.names import DialectCall
from instar.plugins.hooks.outcome import (
    LARGEST,
    SEVERITY,
    Action,
    RuleOutcome,
    Trace,
    objects,
    shortened,
    values,
    word,
)
from instar.plugins.hooks.programs import accepted_command
from instar.plugins.hooks.rule import HookRule, HttpRule

BLOCKS: Final = 2
"""The exit code that refuses."""

_BROKEN: Final = re.compile(r"^[ \t\ufeff]*\{\s*\"", re.MULTILINE)
"""The beginning of an object at the beginning of a line; ``{debug} loading`` is a line of log."""

Failure = Literal["", "time-out", "missing program", "closing"]


class ProgramResult(msgspec.Struct, frozen=True):
    """The end of a program: its exit code (negative: the signal), or why it has none.

    `failure` with `detail` comes from who ran it; `output` may be cut at `instar.plugins.hooks.outcome.LARGEST` bytes.
    """

    code: int | None
    output: bytes = b""
    errors: bytes = b""
    failure: Failure = ""
    detail: str = ""


def read_command(
    ended: ProgramResult, rule: HookRule, event: HookEvent, view: DialectCall | None = None
) -> RuleOutcome:
    """Return what a program decided, before defaults apply. `view` is the call that it got."""
    said = _Answer("output", ended.output, rule, event, view)
    found = said.outcome
    if ended.code == BLOCKS and not ended.failure:
        if found.action != "deny":  # the reason why something may pass is none why it may not
            found.action, found.reason = "deny", ""
        found.reason = (
            found.reason or shortened(_text(ended.errors).strip()) or f"{rule.label} exited with 2."
        )
        return found
    failure = _failure(ended, rule)
    if failure:
        return said.failed(failure)
    if ended.code:
        # Claude Code goes by valid JSON then (its hooks reference, "Exit code output").
        if rule.dialect == "claude" and found.action != "none" and not said.problem:
            return found
        error = shortened(_text(ended.errors).strip()[-1000:])
        return said.failed(f"it exited with {ended.code}{': ' + error if error else ''}", passes=True)
    return said.succeeded()


def read_http(
    status: int | None, body: bytes, rule: HookRule, event: HookEvent, detail: str = ""
) -> RuleOutcome:
    """Return what the answer to an `http` rule decided; not yet settled. `status` None: none came."""
    said = _Answer("answer", body, rule, event)
    if status is None:
        return said.failed(detail or "there was no answer")
    if not 200 <= status < 300:
        return said.failed(f"{getattr(rule.settings, 'url', 'it')} answered {status}")
    return said.succeeded()


def _failure(ended: ProgramResult, rule: HookRule) -> str:
    """Return why a program cannot have decided, "" where its exit code counts."""
    if ended.failure == "time-out":
        return f"it took longer than {rule.timeout:g} s"
    if ended.failure:
        return ended.detail or ended.failure
    if ended.code is None:
        return "it did not end"
    if ended.code < 0 or ended.code > 128:
        return f"it was ended by signal {-ended.code if ended.code < 0 else ended.code - 128}"
    if ended.code in (126, 127):
        why = _text(ended.errors).strip()[-300:]
        return f"its program is missing or may not be run{': ' + why if why else ''}; see {rule.place}"
    return ""


class _Answer:
    """Reads one answer: `outcome` is what its JSON says, `problem` the first thing in it that cannot be read."""

    def __init__(
        self, what: str, raw: bytes, rule: HookRule, event: HookEvent, view: DialectCall | None = None
    ) -> None:
        self._rule, self._event, self._view = rule, event, view
        self.outcome = RuleOutcome()
        self.problem = ""
        found, plain = objects(_text(raw), lines=True)
        for one in found:
            self._take(one)
            inner = one.get("hookSpecificOutput")
            if isinstance(inner, dict):
                self._take_specific(inner)
            elif inner is not None:
                self._fail("its hookSpecificOutput is no object")
        if _BROKEN.search(plain):
            self._fail("its JSON is not whole")
        # In bytes, not characters: the part beyond the limit may have refused.
        if len(raw) >= LARGEST:
            self._fail(f"its {what} is longer than can be read")
        self._plain = plain.strip()

    def succeeded(self) -> RuleOutcome:
        """Return the outcome of an evaluator that came to its end."""
        found = self.outcome
        if self.problem:
            return self.failed(self.problem)
        takes_text = self._event.kind.text and self._rule.dialect != "openhands"
        if self._plain and found.action == "none" and takes_text:
            found.contexts += (shortened(self._plain),)
        return found

    def failed(self, error: str, *, passes: bool = False) -> RuleOutcome:
        """Return the outcome of a failure: undecided, except for what the JSON refused or asked."""
        found = self.outcome
        if found.action != "deny":
            found.undecided, found.error, found.passes = True, error, passes
            found.updated_input = found.updated_output = None
        return found

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem

    def _decide(self, action: Action, reason: str) -> None:
        """Take a decision if it is more severe than the last."""
        found = self.outcome
        if SEVERITY[action] > SEVERITY[found.action]:
            found.action, found.reason = action, reason or found.reason

    def _take(self, one: dict[str, Any]) -> None:
        found = self.outcome
        reason = self._string(one, "reason")
        for value in values(one, "decision"):
            if value is not None:
                self._decided(value, reason, "decision")
        for value in values(one, "continue"):
            if value is False:
                why = self._string(one, "stopReason") or reason
                found.stop, found.stop_reason = self._rule.dialect != "openhands", found.stop_reason or why
                self._decide("deny", why)
            elif value is not True and value is not None:
                self._fail(f"its continue is {_shown(value)}, neither true nor false")
        self._gather(one)

    def _take_specific(self, inner: dict[str, Any]) -> None:
        reason = self._string(inner, "permissionDecisionReason")
        for value in values(inner, "permissionDecision"):
            if value is not None:
                # There is no host to defer to, so the person is asked.
                self._decided("ask" if value == "defer" else value, reason, "permissionDecision")
        request = inner.get("decision")
        if isinstance(request, dict):
            self._decided(request.get("behavior"), self._string(request, "message"), "decision.behavior")
            self.outcome.stop = self.outcome.stop or request.get("interrupt") is True
            self._rewrite(request.get("updatedInput"))
        elif request is not None:
            why = reason or self._string(inner, "reason")
            self._decided(request, why, "hookSpecificOutput.decision")
        self._rewrite(inner.get("updatedInput"))
        if inner.get("updatedToolOutput") is not None:
            self.outcome.updated_output = inner["updatedToolOutput"]
        self._gather(inner)

    def _decided(self, value: Any, reason: str, key: str) -> None:
        action = word(value)
        if action is None:
            self._fail(f"its {key} is {_shown(value)}, none of allow, deny, approve, block, ask")
        else:
            self._decide(action, reason)

    def _rewrite(self, updated: Any) -> None:
        rule, tool = self._rule, self._event.tool
        if updated is None:
            return
        if not isinstance(updated, dict) or tool is None:
            no_object = f"rewrote the input to {_shown(updated)}, which is no object for this tool"
            self._decide("deny", f"{rule.label} {no_object}.")
            return
        try:
            told = self._view or names.views(tool, rule.dialect, self._event.directory)[0]
            self.outcome.updated_input = names.rewritten(tool, rule.dialect, told, updated)
        except ValueError as error:
            self._decide("deny", f"{rule.label}: {error}.")

    def _gather(self, one: dict[str, Any]) -> None:
        self.outcome.contexts += tuple(filter(None, [self._string(one, "additionalContext")]))
        self.outcome.messages += tuple(filter(None, [self._string(one, "systemMessage")]))

    def _string(self, one: dict[str, Any], key: str) -> str:
        value = one.get(key)
        if value is None or isinstance(value, str):
            return shortened((value or "").strip())
        self._fail(f"its {key} is {_shown(value)}, no text")
        return ""


def _shown(value: Any) -> str:
    return repr(value)[:60]


def _text(raw: bytes) -> str:
    return raw[:LARGEST].decode("utf-8", "replace")


SHOWN: Final = 2000
"""Characters of an answer, or of one stream of a program, that are recorded."""

_PLACE: Final = re.compile(r"\$\{(\w*_PROJECT_DIR)\}")
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


async def run_command(rule: HookRule, event: HookEvent, context: EvaluationContext) -> RuleOutcome:
    """Run the program of a rule and return what it decided, not yet settled."""

    async def ask(view: DialectCall | None, stdin: bytes) -> RuleOutcome:
        ended = await _run(rule, event, context, view, stdin)
        outcome = read_command(ended, rule, event, view)
        outcome.trace = _trace(ended.code, ended.output, ended.errors)
        return outcome

    return await _each(rule, event, ask)


async def post_http(rule: HookRule, event: HookEvent, context: EvaluationContext) -> RuleOutcome:
    """Post the event of a rule and return what the answer decides, not yet settled."""
    settings = rule.settings
    assert isinstance(settings, HttpRule)

    async def ask(_view: DialectCall | None, body: bytes) -> RuleOutcome:
        status, answer, detail = await _posted(settings, body, rule.timeout, context.environment)
        outcome = read_http(status, answer, rule, event, detail)
        outcome.trace = _trace(status, answer)
        return outcome

    return await _each(rule, event, ask)


async def _each(
    rule: HookRule, event: HookEvent, ask: Callable[[DialectCall | None, bytes], Awaitable[RuleOutcome]]
) -> RuleOutcome:
    """Ask once; for a patch of several files in a foreign dialect once for each file, until one is refused."""
    outcomes: list[RuleOutcome] = []
    for view, data in payload.payloads(event, rule.dialect):
        outcomes.append(await ask(view, payload.encode(data)))
        if outcomes[-1].action == "deny":
            break
    return _joined(outcomes)


def _joined(outcomes: list[RuleOutcome]) -> RuleOutcome:
    """Return the outcome for a call in several parts: the most severe, undecided if one is, with all contexts."""
    if len(outcomes) == 1:
        return outcomes[0]
    severe = max(outcomes, key=lambda one: SEVERITY[one.action])
    # `settle` needs the error of an undecided part; a refusal of another part still counts.
    first = severe if severe.action == "deny" else next((one for one in outcomes if one.undecided), severe)
    rewrites = [one.updated_input for one in outcomes if one.updated_input is not None]
    outputs = [one.updated_output for one in outcomes if one.updated_output is not None]
    return msgspec.structs.replace(
        first,
        action=severe.action,
        reason=severe.reason,
        updated_input=rewrites[-1] if rewrites else None,
        updated_output=outputs[-1] if outputs else None,
        contexts=tuple(dict.fromkeys(text for one in outcomes for text in one.contexts)),
        messages=tuple(dict.fromkeys(text for one in outcomes for text in one.messages)),
        stop=any(one.stop for one in outcomes),
        stop_reason=next((one.stop_reason for one in outcomes if one.stop_reason), ""),
    )


async def _run(
    rule: HookRule, event: HookEvent, context: EvaluationContext, view: DialectCall | None, stdin: bytes
) -> ProgramResult:
    environment = context.children.environment(context.environment)
    # What the model may write is not found by name: neither a program nor a module of Python.
    environment = accepted_environment(environment, context.project, context.served)
    environment |= {"PYTHONSAFEPATH": "1", **payload.environment(event, view, context.project)}
    argv = _argv(rule, event, context, environment)
    try:
        done = await context.children.run(
            argv, cwd=event.directory, env=environment, stdin=stdin, timeout=rule.timeout, limit=LARGEST
        )
    except process.ProcessError as error:
        if error.closing:
            return ProgramResult(None, failure="closing", detail="instar is closing")
        detail = f"its program cannot be run: {error}; see {rule.place}"
        return ProgramResult(None, failure="missing program", detail=detail)
    if done.timed_out:
        return ProgramResult(None, done.stdout, done.stderr, "time-out")
    return ProgramResult(-done.signal if done.signal else done.code, done.stdout, done.stderr)


def _argv(
    rule: HookRule, event: HookEvent, context: EvaluationContext, environment: Mapping[str, str]
) -> list[str]:
    command = accepted_command(rule, event.directory, context.project, context.served)
    if command.args is not None:
        # As in Claude Code without a shell: words may name the project's folder.
        words = (command.command, *command.args)
        return [_PLACE.sub(lambda found: environment.get(found[1], found[0]), word) for word in words]
    # Claude Code's commands are written for bash, OpenHands' for sh.
    wanted = command.shell or ("bash" if rule.dialect == "claude" else "sh")
    return [wanted if shutil.which(wanted, path=environment.get("PATH")) else "sh", "-c", command.command]


def _trace(code: int | None, *streams: bytes) -> Trace:
    texts = [raw[: 4 * SHOWN].decode("utf-8", "replace").strip() for raw in streams]
    shown = [text if len(text) <= SHOWN else f"{text[:SHOWN]}…" for text in texts if text]
    return Trace(code=code, output="\n".join(shown))


async def _posted(
    http: HttpRule, body: bytes, seconds: float, environment: Mapping[str, str]
) -> tuple[int | None, bytes, str]:
    """Return the status (None: no answer came), what came of the answer, and why not all of it."""
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
            return response.status_code, answer[:LARGEST], ""
    except TimeoutError:
        return None, answer, f"{http.url} did not answer within {seconds:g} s"
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, UnicodeError) as error:
        return None, answer, f"{http.url} cannot be asked: {str(error) or type(error).__name__}"


def headers_of(http: HttpRule, environment: Mapping[str, str]) -> dict[str, str]:
    """Return a rule's headers; a variable that it does not name in ``allowedEnvVars`` is empty."""
    known = {name: environment.get(name, "") for name in http.variables}
    return {
        name: _VARIABLE.sub(lambda found: known.get(found[1] or found[2], ""), text)
        for name, text in http.headers
    }
