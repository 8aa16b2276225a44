"""``instar hooks test``: the rules for one made-up event, run as a session would, and what they come to."""

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from instar.plugin import Client, SessionBody
from instar.plugins.hooks import evaluate
from instar.plugins.hooks.armed import home_of
from instar.plugins.hooks.cli import output, place
from instar.plugins.hooks.cli.happening import Given, event_of, named
from instar.plugins.hooks.event import Event
from instar.plugins.hooks.line import counted, near, one_line
from instar.plugins.hooks.match import Match, matched
from instar.plugins.hooks.outcome import Decision, Outcome, combine, settle
from instar.plugins.hooks.report import text_of

_ASKING = ("prompt", "agent")


class Tried(msgspec.Struct, frozen=True):
    """One rule that the event met. `ms` is what it took; a `background` one decides nothing."""

    rule: str
    place: str
    dialect: str
    evaluator: str
    doubt: bool
    background: bool
    ms: int
    outcome: Outcome

    def text(self, directory: Path) -> str:
        """Return it for a terminal, in lines."""
        one, trace = self.outcome, self.outcome.trace
        # What an undecided rule comes to where no word is said: it stands in nobody's way.
        stands = "allow" if one.action == "none" else one.action
        word = f"undecided, {stands}" if one.undecided else one.action
        took = [f"exit {trace.code}"] if self.evaluator == "command" and trace.code is not None else []
        took += [f"status {trace.code}"] if self.evaluator == "http" and trace.code is not None else []
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


class Report(msgspec.Struct, frozen=True):
    """What `test` prints. `armed` counts the rules of the event, those that it does not meet among them."""

    event: str
    tool: str
    directory: str
    armed: int
    rules: list[Tried]
    decision: Decision

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


@click.command(short_help="Run the rules for a made-up event; exit code 1: they refuse it.")
@click.argument("event", shell_complete=lambda _ctx, _argument, begun: named(begun))
@click.option("--tool", default="", metavar="NAME", help="The tool that is called: bash, edit, Bash, …")
@click.option("--input", "arguments", default="", metavar="JSON", help="The call's arguments.")
@click.option("--output", "answer", metavar="TEXT", help="What the tool answered, or why it failed.")
@click.option("--prompt", metavar="TEXT", help="What a person wrote.")
@click.option(
    "--set", "fields", multiple=True, metavar="NAME=VALUE", help="A field of the event; repeatable."
)
@click.option("--agent", default="", metavar="NAME", help="The agent whose turn it is.")
@click.option("--session", default="", metavar="ID", help="A session, for rules that read its history.")
@output.as_json
@click.pass_context
def test(ctx: click.Context, /, as_json: bool, fields: Sequence[str], **given: Any) -> None:
    """Run the rules that are armed for EVENT (PreToolUse, stop, …) for a made-up one, and show what each decides.

    Programs run and models are called as in a session; nothing else is done. Exit code 1: the event is refused.
    """
    happened = Given(fields=tuple(fields), **given)
    report = output.play(_report(ctx, happened))
    output.emit(report, report.text(), json=as_json)
    if report.decision.action == "deny":
        raise click.exceptions.Exit(1)


async def _report(ctx: click.Context, given: Given) -> Report:
    async with place.opened(ctx) as (here, own):
        event = event_of(given, here.directory)
        armed = here.armed.of(event.name)
        met = matched(armed, event, home_of(here.environment))
        asks = any(one.rule.evaluator in _ASKING for one in met)
        async with _spoken_for(ctx, event) if asks else _alone(event) as (client, event):
            means = evaluate.Means(
                own.children,
                here.environment,
                here.project,
                home_of(here.environment),
                here.armed.settings,
                client,
            )
            tried = [await _tried(one, event, means) for one in met]
    deciding = [one.outcome for one in tried if not one.background]
    decision = combine(deciding, event.tool.input if event.tool else None)
    tool = event.tool.name if event.tool else ""
    return Report(event.name, tool, str(here.directory), len(armed), tried, decision)


async def _tried(one: Match, event: Event, means: evaluate.Means) -> Tried:
    began = time.monotonic()
    outcome = await evaluate.evaluate(one.rule, event, means)
    took = round((time.monotonic() - began) * 1000)
    if not one.rule.background:
        strict = means.settings.on_error == "deny"
        outcome = settle(outcome, one.rule, "deny" if strict else "", doubt=one.doubt)
    rule = one.rule
    return Tried(
        *(text_of(rule), rule.place, rule.dialect, rule.evaluator, one.doubt, rule.background),
        *(took, outcome),
    )


@contextlib.asynccontextmanager
async def _spoken_for(ctx: click.Context, event: Event) -> AsyncIterator[tuple[Client | None, Event]]:
    """A client that calls models, and the event in a session: the one that was named, else one for the moment."""
    async with ctx.obj.instance({}) as client:
        if event.session_id:
            await client.session.get(event.session_id)
            yield client, event
            return
        session = await client.session.create(SessionBody(title="instar hooks test"))
        try:
            yield client, msgspec.structs.replace(event, session_id=session.id)
        finally:
            await client.session.delete(session.id)


@contextlib.asynccontextmanager
async def _alone(event: Event) -> AsyncIterator[tuple[Client | None, Event]]:
    yield None, msgspec.structs.replace(event, session_id=event.session_id or "ses_test")
