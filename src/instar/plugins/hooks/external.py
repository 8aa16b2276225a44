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

from instar.plugin import process
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
    undecided,
    values,
    word,
)
from instar.plugins.hooks.rule import CommandRule, HookRule, HttpRule

BLOCKS: Final = 2
"""The exit code that refuses."""

_BROKEN: Final = re.compile(r"^[ \t\ufeff]*\{\s*\"", re.MULTILINE)
"""The beginning of an object at the beginning of a line; ``{debug} loading`` is a line of log."""

Failure = Literal["", "time-out", "missing program", "signal", "no answer"]


class ProgramResult(msgspec.Struct, frozen=True):
    """The end of a program: its exit code (negative: the signal), or why it has none.

    `failure` with `detail` comes from who ran it; `output` may be cut at `instar.plugins.hooks.outcome.LARGEST` bytes.
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
    contexts: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
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
    """Return what a program decided, before defaults apply. `view` is the call that it got."""
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
        return _failed(said, f"{getattr(rule.settings, 'url', 'it')} answered {status}", passes=False)
    return _succeeded(said, plain, rule, event)


def _succeeded(said: Said, plain: str, rule: HookRule, event: HookEvent) -> RuleOutcome:
    if said.problem:
        return _failed(said, said.problem, passes=False)
    if plain and not said.decides and event.kind.text and rule.dialect != "openhands":
        said.contexts += (shortened(plain),)
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
    fields = msgspec.structs.asdict(said)
    return RuleOutcome(**{name: fields[name] for name in fields if name not in ("problem", "decides")})


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
    said.contexts += tuple(filter(None, [_string(said, one, "additionalContext")]))
    said.messages += tuple(filter(None, [_string(said, one, "systemMessage")]))


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


SHOWN: Final = 2000
"""Characters of an answer, or of one stream of a program, that are recorded."""

_PLACE: Final = re.compile(r"\$\{(\w+)\}")
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


async def run_command(rule: HookRule, event: HookEvent, context: EvaluationContext) -> RuleOutcome:
    """Run the program of a rule and return what it decided, not yet settled."""
    settings = rule.settings
    assert isinstance(settings, CommandRule)

    async def ask(view: DialectCall | None, stdin: bytes) -> RuleOutcome:
        variables = payload.environment(event, view, context.project)
        ended = await _run(rule, settings, event, context, stdin, variables)
        if ended is None:
            return undecided("instar is closing")
        outcome = read_command(ended, rule, event, view)
        return msgspec.structs.replace(outcome, trace=_trace(ended.code, ended.output, ended.errors))

    return await _each(rule, event, ask)


async def post_http(rule: HookRule, event: HookEvent, context: EvaluationContext) -> RuleOutcome:
    """Post the event of a rule and return what the answer decides, not yet settled."""
    settings = rule.settings
    assert isinstance(settings, HttpRule)

    async def ask(_view: DialectCall | None, body: bytes) -> RuleOutcome:
        status, answer, detail = await _posted(settings, body, rule.timeout, context.environment)
        outcome = read_http(status, answer, rule, event, detail)
        return msgspec.structs.replace(outcome, trace=_trace(status, answer))

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
    rule: HookRule,
    command: CommandRule,
    event: HookEvent,
    context: EvaluationContext,
    stdin: bytes,
    variables: Mapping[str, str],
) -> ProgramResult | None:
    """Run the program to its end. None: instar is closing and starts no more programs."""
    environment = {**context.children.environment(context.environment), **variables}
    argv = _argv(rule, command, environment)
    try:
        done = await context.children.run(
            argv, cwd=event.directory, env=environment, stdin=stdin, timeout=rule.timeout, limit=LARGEST
        )
    except process.ProcessError as error:
        if error.closing:
            return None
        return ProgramResult(
            None, failure="missing program", detail=f"its program cannot be run: {error}; see {rule.place}"
        )
    if done.timed_out:
        return ProgramResult(None, done.stdout, done.stderr, "time-out")
    return ProgramResult(-done.signal if done.signal else done.code, done.stdout, done.stderr)


def _argv(rule: HookRule, command: CommandRule, environment: Mapping[str, str]) -> list[str]:
    if command.args is not None:
        # As in Claude Code without a shell: words may name the project's folder.
        return [_filled(word, environment) for word in (command.command, *command.args)]
    # Claude Code's commands are written for bash, OpenHands' for sh.
    wanted = command.shell or ("bash" if rule.dialect == "claude" else "sh")
    return [wanted if shutil.which(wanted, path=environment.get("PATH")) else "sh", "-c", command.command]


def _filled(word: str, environment: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found[1]
        return environment.get(name, found[0]) if name.endswith("_PROJECT_DIR") else found[0]

    return _PLACE.sub(value, word)


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

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return environment.get(name, "") if name in http.variables else ""

    return {name: _VARIABLE.sub(value, text) for name, text in http.headers}
