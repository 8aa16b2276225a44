"""The ``command`` evaluator: a program gets the event on stdin and decides by its exit code and JSON (issue 8, item 4).

It runs behind the shield, without secrets, in the event's directory. Its time is wall-clock, and takes the whole
process group with it. What it said is read by `instar.plugins.hooks.command`.
"""

import logging
import re
import shutil
from collections.abc import Mapping
from typing import Final

import msgspec

from instar.plugin import process
from instar.plugins.hooks import payload
from instar.plugins.hooks.command import Ended, read_command
from instar.plugins.hooks.evaluate import Means
from instar.plugins.hooks.event import Event
from instar.plugins.hooks.outcome import SEVERITY, Outcome, Trace, undecided
from instar.plugins.hooks.rule import Command, Rule
from instar.plugins.hooks.verdict import LARGEST

log = logging.getLogger("instar.hooks")

SHOWN: Final = 2000
"""Characters of what a program printed that are recorded, of each stream."""

_PLACE: Final = re.compile(r"\$\{(\w+)\}")


async def evaluate(rule: Rule, event: Event, means: Means) -> Outcome:
    """Run the program of a `command` rule and return what it decided, not yet settled.

    Once, but for a patch of several files in a foreign dialect: there once for each, and the most severe counts.
    """
    assert isinstance(rule.settings, Command)
    outcomes = []
    for view, told in payload.payloads(event, rule.dialect):
        variables = payload.environment(event, view, means.project)
        ended = await _run(rule, rule.settings, event, means, payload.encode(told), variables)
        if ended is None:
            return undecided("instar is closing")
        outcome = read_command(ended, rule, event, view)
        outcomes.append(msgspec.structs.replace(outcome, trace=_trace(ended)))
        if outcome.action == "deny":
            break
    return joined(outcomes)


def joined(outcomes: list[Outcome]) -> Outcome:
    """Return what a rule said of the parts of one call: the most severe, undecided if one was, with all contexts."""
    if len(outcomes) == 1:
        return outcomes[0]
    severe = max(outcomes, key=lambda one: SEVERITY[one.action])
    # Of an undecided part the error is what `settle` goes by; what was said of the others stays, if it is more severe.
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
    rule: Rule, command: Command, event: Event, means: Means, stdin: bytes, variables: Mapping[str, str]
) -> Ended | None:
    """Run the program to its end; None: instar is closing and starts none any more."""
    environment = {**means.children.environment(means.environment), **variables}
    argv = _argv(rule, command, environment)
    try:
        done = await means.children.run(
            argv, cwd=event.directory, env=environment, stdin=stdin, timeout=rule.timeout, limit=LARGEST
        )
    except process.ProcessError as error:
        if error.closing:
            return None
        return Ended(
            None, failure="missing program", detail=f"its program cannot be run: {error}; see {rule.place}"
        )
    if done.timed_out:
        return Ended(None, done.stdout, done.stderr, "time-out")
    return Ended(-done.signal if done.signal else done.code, done.stdout, done.stderr)


def _argv(rule: Rule, command: Command, environment: Mapping[str, str]) -> list[str]:
    if command.args is not None:
        # As Claude Code does without a shell: places of the project may be named in the words.
        return [_filled(word, environment) for word in (command.command, *command.args)]
    # Claude Code's commands are written for bash, OpenHands' for sh.
    wanted = command.shell or ("bash" if rule.dialect == "claude" else "sh")
    return [wanted if shutil.which(wanted, path=environment.get("PATH")) else "sh", "-c", command.command]


def _filled(word: str, environment: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found[1]
        return environment.get(name, found[0]) if name.endswith("_PROJECT_DIR") else found[0]

    return _PLACE.sub(value, word)


def _trace(ended: Ended) -> Trace:
    texts = [raw[: 4 * SHOWN].decode("utf-8", "replace").strip() for raw in (ended.output, ended.errors)]
    shown = [text if len(text) <= SHOWN else f"{text[:SHOWN]}…" for text in texts if text]
    return Trace(code=ended.code, output="\n".join(shown))
