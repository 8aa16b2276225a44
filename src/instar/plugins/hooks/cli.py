"""``instar hooks``: which rules are armed, what they decide for an event, and what they have cost.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, or rules that do not hold as they are written.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from instar.plugin import Children, Client, Means, SessionBody
from instar.plugins.hooks.match import RuleMatch, matched
from instar.plugins.hooks.outcome import HookDecision, RuleOutcome, combine
from instar.plugins.hooks.payload import ours, tools
from instar.plugins.hooks.record import HookStats, counted, near, one_line, since, summed
from instar.plugins.hooks.routes import RulesInForce, in_force
from instar.plugins.hooks.rule import EVENTS, SPELLINGS, HookEvent, ToolUse, no_event
from instar.plugins.hooks.runner import EvaluationContext, decide
from instar.plugins.hooks.sources import ActiveRules, arm

_USUAL: Final[dict[str, dict[str, Any]]] = {
    "SessionStart": {"source": "startup"},
    "SessionEnd": {"reason": "other"},
    "PreCompact": {"trigger": "manual"},
    "PostCompact": {"trigger": "manual"},
    "Stop": {"last_assistant_message": ""},
    "SubagentStop": {"last_assistant_message": ""},
    "Notification": {"notification_type": "idle_prompt", "message": ""},
    "Heartbeat": {"title": "heartbeat"},
    "Evolve": {"files": []},
}
"""Fields that an event has where the command line does not set them."""


class EventOptions(msgspec.Struct, frozen=True):
    """The options of ``instar hooks test``. `answer` is the tool's output; `fields` are ``NAME=VALUE``."""

    event: str
    tool: str = ""
    arguments: str = ""
    answer: str | None = None
    prompt: str | None = None
    fields: tuple[str, ...] = ()
    agent: str = ""
    session: str = ""


class TestedRule(msgspec.Struct, frozen=True):
    """One rule that matched. `ms` is its duration; a `background` one decides nothing."""

    rule: str
    place: str
    dialect: str
    evaluator: str
    doubt: bool
    background: bool
    ms: int
    outcome: RuleOutcome

    def text(self, directory: Path) -> str:
        """Return it for a terminal, in lines."""
        one, trace = self.outcome, self.outcome.trace
        # An undecided rule without an action lets the event pass.
        stands = "allow" if one.action == "none" else one.action
        word = f"undecided, {stands}" if one.undecided else one.action
        code = "exit" if self.evaluator == "command" else "status"
        took = [f"{code} {trace.code}"] if trace.code is not None else []
        took += [f"{trace.model}"] if trace.model else []
        took += [counted(trace.tokens, "token")] if trace.tokens else []
        took += [f"${trace.cost:.4f}"] if trace.cost else []
        took += [f"{self.ms:,} ms"]
        took += ["async, decides nothing"] if self.background else []
        took += ["in doubt whether it was meant"] if self.doubt else []
        where = near(self.place, directory)
        what = one_line(f"{self.evaluator} {self.rule}", 80)
        lines = [f"  {word}: {what} ({one_line(where)}, {', '.join(took)})"]
        said = one.error if one.undecided else one.reason
        lines += [f"    {one_line(said)}"] if said else []
        return "\n".join(lines)


class TestReport(msgspec.Struct, frozen=True):
    """What `test` prints. `armed` counts all rules of the event, also those that do not match."""

    event: str
    tool: str
    directory: str
    armed: int
    rules: list[TestedRule]
    decision: HookDecision

    def text(self) -> str:
        """Return it for a terminal."""
        what = f"{self.event} of {self.tool}" if self.tool else self.event
        of = counted(self.armed, "rule")
        lines = [one_line(f"{what} meets {len(self.rules)} of {of}")]
        lines += [one.text(Path(self.directory)) for one in self.rules]
        found = self.decision
        lines.append(f"decision: {found.action}{', and the turn ends' if found.stop else ''}")
        said: list[tuple[str, Any]] = [("reason", reason) for reason in found.reasons]
        said += [("context", text) for text in found.contexts]
        said += [("message", text) for text in found.messages]
        for name, value in (("input", found.updated_input), ("output", found.updated_output)):
            said += [] if value is None else [(f"{name} becomes", msgspec.json.encode(value).decode())]
        return "\n".join([*lines, *(f"  {name}: {one_line(str(text))}" for name, text in said)])


def named(begun: str) -> list[str]:
    """Return the events whose name begins with a text, for shell completion."""
    return [name for name in SPELLINGS if name.startswith(begun) and (begun or name in EVENTS)]


def _sessions(ctx: click.Context, option: click.Parameter, begun: str) -> Any:
    return ctx.obj.complete.sessions(ctx, option, begun)


def event_of(given: EventOptions, directory: Path) -> HookEvent:
    """Return the event that the options describe. Raises `click.UsageError` where they describe none."""
    name = SPELLINGS.get(given.event)
    if name is None:
        raise click.UsageError(f"{given.event}: {no_event(given.event)}")
    kind = EVENTS[name]
    if kind.tool and not given.tool:
        raise click.UsageError(f"{name} is about a tool: name one, as in --tool bash --input '{{…}}'")
    if not kind.tool and (given.tool or given.arguments or given.answer is not None):
        raise click.UsageError(f"{name} is about no tool: leave out --tool, --input and --output")
    fields = dict(_USUAL.get(name, {}))
    if given.agent and kind.subject == "agent_type":
        fields["agent_type"] = given.agent
    if given.prompt is not None or name == "UserPromptSubmit":
        fields["prompt"] = given.prompt or ""
    fields |= dict(_field(text) for text in given.fields)
    tool = _tool(given, name) if kind.tool else None
    return HookEvent(name, given.session, directory, tool, agent=given.agent, fields=fields)


def _tool(given: EventOptions, event: str) -> ToolUse:
    said = given.answer or ""
    ends: dict[str, dict[str, Any]] = {
        "PostToolUse": {"response": {"output": said}, "duration": 0},
        "PostToolUseFailure": {"error": said or "it failed", "duration": 0},
    }
    return ToolUse(_ours(given.tool), _arguments(given.arguments), "call_test", **ends.get(event, {}))


def _ours(name: str) -> str:
    """Return our name of a tool that may have another dialect's name. An unknown name is an MCP server's tool."""
    found = [tool for tool in ours(name) if name == tool or tool != "apply_patch"]
    if len(found) > 1:
        raise click.UsageError(f"{name} is {', '.join(found[:-1])} or {found[-1]} here: name one of them")
    return found[0]


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise click.UsageError(f"--input is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.UsageError(f'--input is to be an object, as in \'{{"command": "ls"}}\', not {text[:40]}')
    return found


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f"--set {text[:40]}: expected NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


async def tried(opened: Any, options: EventOptions, armed: ActiveRules, children: Children) -> TestReport:
    """Run the rules of a folder for an event. `opened` returns an instance, for rules that call a model."""
    event = event_of(options, armed.directory)
    met = matched(armed.of(event.name), event, armed.home)
    asks = any(one.rule.evaluator in ("prompt", "agent") for one in met)
    async with _session(opened if asks else None, event) as (client, event):
        context = EvaluationContext(children, armed, client)
        rules = [await _tried(one, event, context) for one in met]
    deciding = [one.outcome for one in rules if not one.background]
    decision = combine(deciding, event.tool.input if event.tool else None)
    tool = event.tool.name if event.tool else ""
    return TestReport(event.name, tool, str(armed.directory), len(armed.of(event.name)), rules, decision)


async def _tried(one: RuleMatch, event: HookEvent, context: EvaluationContext) -> TestedRule:
    began = time.monotonic()
    outcome = await decide(one, event, context)
    took = round((time.monotonic() - began) * 1000)
    rule = one.rule
    return TestedRule(
        *(rule.text, rule.place, rule.dialect, rule.evaluator, one.doubt, rule.background),
        *(took, outcome),
    )


@contextlib.asynccontextmanager
async def _session(opened: Any, event: HookEvent) -> AsyncIterator[tuple[Client | None, HookEvent]]:
    """Yield a client that calls models, and the event in a session: the named one, else a temporary one.

    Without `opened` there is no client.
    """
    if opened is None:
        yield None, msgspec.structs.replace(event, session_id=event.session_id or "ses_test")
        return
    async with opened({}) as client:
        if event.session_id:
            await client.session.get(event.session_id)
            yield client, event
            return
        session = await client.session.create(SessionBody(title="instar hooks test"))
        try:
            yield client, msgspec.structs.replace(event, session_id=session.id)
        finally:
            await client.session.delete(session.id)


T = TypeVar("T")

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("hooks")
def command() -> None:
    """Look at the rules that decide before and after things happen, and try them."""


@command.command(short_help="Name every rule that is armed, and what is not, and why.")
@_as_json
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Name every rule that is armed with its file, line and dialect, and what is not armed, and why.

    No rule is run. Exit code 2: something does not hold as it is written.
    """
    report = _run(ctx, lambda means: asyncio.to_thread(in_force, arm(means)))
    _emit(report, as_json)
    for problem in [] if as_json else report.problems:
        click.echo(f"instar: {one_line(problem)}", err=True)
    if report.problems:
        raise click.exceptions.Exit(2)


@command.command(short_help="Run the rules for a made-up event; exit code 1: they refuse it.")
@click.argument("event", shell_complete=lambda _ctx, _argument, begun: named(begun))
@click.option(
    "--tool",
    default="",
    metavar="NAME",
    shell_complete=lambda _ctx, _option, begun: [name for name in tools() if name.startswith(begun)],
    help="The tool that is called: bash, edit, Bash, …",
)
@click.option("--input", "arguments", default="", metavar="JSON", help="The call's arguments.")
@click.option("--output", "answer", metavar="TEXT", help="What the tool answered, or why it failed.")
@click.option("--prompt", metavar="TEXT", help="What a person wrote.")
@click.option(
    "--set", "fields", multiple=True, metavar="NAME=VALUE", help="A field of the event; repeatable."
)
@click.option(
    "--agent",
    default="",
    metavar="NAME",
    shell_complete=lambda ctx, option, begun: ctx.obj.complete.agents(ctx, option, begun),
    help="The agent whose turn it is.",
)
@click.option(
    "--session",
    default="",
    metavar="ID",
    shell_complete=_sessions,
    help="A session, for rules that read its history.",
)
@_as_json
@click.pass_context
def test(ctx: click.Context, /, as_json: bool, fields: Sequence[str], **given: Any) -> None:
    """Run the rules that are armed for EVENT (PreToolUse, stop, …) for a made-up one, and show what each decides.

    Programs run and models are called as in a session; nothing else is done. Exit code 1: the event is refused.
    """
    options = EventOptions(fields=tuple(fields), **given)
    opened = ctx.obj.instance
    report = _run(ctx, lambda means: tried(opened, options, arm(means), means.children))
    _emit(report, as_json)
    if report.decision.action == "deny":
        raise click.exceptions.Exit(1)


@command.command(short_help="Tell what each rule has decided, took and cost.")
@click.option("--days", type=click.IntRange(0, 100_000), metavar="N", help="The last N days; 0 is today.")
@click.option("--session", default="", metavar="ID", shell_complete=_sessions, help="One session.")
@_as_json
@click.pass_context
def stats(ctx: click.Context, days: int | None, session: str, as_json: bool) -> None:
    """Tell of each rule how often it ran, what it decided, how long it took, and the tokens and cost of its model.

    Of all folders' sessions, as far as they still exist: a record goes with its session.
    """
    report = _run(ctx, lambda means: asyncio.to_thread(summed, means.data, session, since(days)))
    _emit(report, as_json)


def _emit(report: RulesInForce | TestReport | HookStats, as_json: bool) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(report)) if as_json else report.text())


def _run(ctx: click.Context, work: Callable[[Means], Coroutine[Any, Any, T]]) -> T:
    """Run a command's work to its end."""

    async def run() -> T:
        async with ctx.obj.means("hooks") as means:
            return await work(means)

    return asyncio.run(run())
