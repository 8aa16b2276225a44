"""The ``command`` and ``http`` evaluators: a program or an address gets the event as JSON, and its answer decides.

A program runs in the sandbox, without secrets, in the event's directory, and ends with its whole process group. A
request follows no redirect, and its headers get only the variables that the rule names. The time of both is wall-clock
time. `instar.plugins.hooks.command` reads their answers.
"""

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from instar.plugin import process
from instar.plugins.hooks import payload
from instar.plugins.hooks.command import ProgramResult, read_command, read_http
from instar.plugins.hooks.evaluate import EvaluationContext
from instar.plugins.hooks.event import HookEvent
from instar.plugins.hooks.names import DialectCall
from instar.plugins.hooks.outcome import SEVERITY, RuleOutcome, Trace, undecided
from instar.plugins.hooks.rule import CommandRule, HookRule, HttpRule
from instar.plugins.hooks.verdict import LARGEST

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
