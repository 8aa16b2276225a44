"""The report on the active rules: ``instar hooks check`` prints it, the HTTP interface returns it."""

from pathlib import Path
from typing import Any

import msgspec

from instar.plugins.hooks.config import HookSettings
from instar.plugins.hooks.event import EVENTS
from instar.plugins.hooks.judge import tools
from instar.plugins.hooks.names import CLAUDE
from instar.plugins.hooks.programs import missing
from instar.plugins.hooks.record import counted, near, one_line
from instar.plugins.hooks.rule import AgentRule, CommandRule, HookRule, HttpRule, PromptRule, on_error
from instar.plugins.hooks.sources import ActiveRules

_NEVER = ("task", "question", "background")
"""Tools that no judge gets: they start a session, ask a person, or leave a process running."""


class ArmedRule(msgspec.Struct, frozen=True):
    """A rule that is armed. `condition` is its ``if``, `undecided` what becomes of it then.

    `problem` says why it cannot work all the same; empty: nothing is known against it.
    """

    event: str
    evaluator: str
    text: str
    matcher: str
    condition: str
    dialect: str
    place: str
    timeout: float
    undecided: str
    options: list[str]
    problem: str

    def line(self, directory: Path) -> str:
        """Return it for a terminal."""
        said = [f"on {self.matcher}"] if self.matcher not in ("", "*") else []
        said += [f"if {self.condition}"] if self.condition else []
        said += [f"{self.timeout:g} s", f"undecided: {self.undecided}", *self.options]
        what = one_line(f"{self.evaluator} {self.text}", 80)
        where = f"{near(self.place, directory)} ({self.dialect})"
        return f"  {one_line(where)}  {what}  {one_line('; '.join(said))}"


class RulesInForce(msgspec.Struct, frozen=True):
    """The rules of a directory. `problems` are sentences on what is not armed, or not as it is written."""

    directory: str
    settings: HookSettings
    rules: list[ArmedRule]
    problems: list[str]

    def text(self) -> str:
        """Return it for a terminal."""
        here = Path(self.directory)
        lines: list[str] = []
        for event in EVENTS:
            rules = [rule.line(here) for rule in self.rules if rule.event == event]
            lines += [event, *rules] if rules else []
        if not self.settings.enabled:
            lines.append("no rule is armed: hook_settings.enabled is false")
        else:
            lines.append(self._count())
        return "\n".join(lines)

    def _count(self) -> str:
        files = len({rule.place.partition(":")[0] for rule in self.rules})
        if not self.rules:
            return "no rule is armed"
        armed = "is" if len(self.rules) == 1 else "are"
        return f"{counted(len(self.rules), 'rule')} of {counted(files, 'source')} {armed} armed"


def in_force(armed: ActiveRules) -> RulesInForce:
    """Return the report on the active rules. No rule is run."""
    rules = [_armed(rule, armed) for event in EVENTS for rule in armed.of(event)]
    broken = [f"{rule.place}: {rule.problem}" for rule in rules if rule.problem]
    return RulesInForce(str(armed.directory), armed.settings, rules, [*armed.problems, *broken])


def _armed(rule: HookRule, armed: ActiveRules) -> ArmedRule:
    return ArmedRule(
        event=rule.event,
        evaluator=rule.evaluator,
        text=text_of(rule),
        matcher=rule.matcher,
        condition=rule.condition,
        dialect=rule.dialect,
        place=rule.place,
        timeout=rule.timeout,
        undecided=on_error(rule, armed.settings.default),
        options=list(_options(rule)),
        problem=missing(rule, armed.directory, armed.project, armed.environment) or _unknown(rule),
    )


def _unknown(rule: HookRule) -> str:
    """Return why an agent rule cannot have its tools, "" where nothing is known against them."""
    settings = rule.settings
    if not isinstance(settings, AgentRule):
        return ""
    # A plugin's tool may have any name, and only a rule with both gets one.
    free = settings.write and settings.network
    wrong = [name for name in tools(settings.tools) if name in _NEVER or (name not in CLAUDE and not free)]
    return f"a judge cannot have the tool {', '.join(wrong)}: the rule will be undecided" if wrong else ""


def text_of(rule: HookRule) -> str:
    """Return a rule's name, else what it runs or asks."""
    settings: Any = rule.settings
    match settings:
        case CommandRule():
            said = " ".join((settings.command, *(settings.args or ())))
        case HttpRule():
            said = settings.url
        case _:
            said = settings.prompt or getattr(settings, "system_prompt", "")
    return rule.name or said


def _options(rule: HookRule) -> list[str]:
    settings = rule.settings
    said = [f"for the agent {rule.agent}"] if rule.agent else []
    said += ["once a session"] if rule.once else []
    said += ["async"] if rule.background else []
    if isinstance(settings, PromptRule | AgentRule) and settings.model:
        said.append(f"model {settings.model}")
    if isinstance(settings, AgentRule):
        said.append(f"tools {', '.join(settings.tools) or 'none'}" if settings.tools is not None else "reads")
        said += ["writes"] if settings.write else []
        said += ["network"] if settings.network else []
    return said
