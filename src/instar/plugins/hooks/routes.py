"""What people and clients are shown: the rules in force, for ``instar hooks check`` too, and the HTTP operations.

The operations, under ``/instar/hooks``, only look. They answer what the commands print with ``--json``.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec

from instar.plugin import Client, ids, operation, wire
from instar.plugins.hooks import record
from instar.plugins.hooks.config import HookSettings
from instar.plugins.hooks.judge import tools
from instar.plugins.hooks.payload import NAMES
from instar.plugins.hooks.programs import missing
from instar.plugins.hooks.record import HookStats, RuleRun, counted, near, one_line
from instar.plugins.hooks.rule import EVENTS, AgentRule, HookRule, PromptRule, on_error
from instar.plugins.hooks.sources import ActiveRules

_MOST: Final = 1000
"""Lines of a record in one answer."""


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
    undecided: str = ""
    options: list[str] = []
    problem: str = ""

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
    rules = [_armed(rule, armed) for event in EVENTS for rule in armed.of(event) if not rule.broken]
    broken = [f"{rule.place}: {rule.problem}" for rule in rules if rule.problem]
    return RulesInForce(str(armed.directory), armed.settings, rules, [*armed.problems, *broken])


def _armed(rule: HookRule, armed: ActiveRules) -> ArmedRule:
    return msgspec.structs.replace(
        msgspec.convert(rule, ArmedRule, from_attributes=True),
        undecided=on_error(rule, armed.settings.on_error),
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
    wrong = [name for name in tools(settings.tools) if name in _NEVER or (name not in NAMES and not free)]
    return f"a judge cannot have the tool {', '.join(wrong)}: the rule will be undecided" if wrong else ""


def _options(rule: HookRule) -> list[str]:
    settings = rule.settings
    said = [f"for the agent {rule.agent}"] if rule.agent else []
    said += ["once a session"] if rule.once else []
    never = "async: it can never deny" if EVENTS[rule.event].final else "async"
    said += [never] if rule.background else []
    if isinstance(settings, PromptRule | AgentRule) and settings.model:
        said.append(f"model {settings.model}")
    if isinstance(settings, AgentRule):
        said.append(f"tools {', '.join(settings.tools) or 'none'}" if settings.tools is not None else "reads")
        said += ["writes"] if settings.write else []
        said += ["network"] if settings.network else []
    return said


class HookStatsQuery(wire.Wire):
    """Which runs count: those of the last `days` days (0 is today), those of one `session`."""

    days: Annotated[int, msgspec.Meta(ge=0, le=100_000)] | None = None
    session: str = ""


class RecordQuery(wire.Wire):
    """How many lines, the newest ones."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST)] = 100


class HooksRoutes:
    """What is asked of hooks. `data` is the plugin's own folder."""

    def __init__(self, armed: ActiveRules, data: Path, client: Client) -> None:
        self._armed = armed
        self._data = data
        self._client = client

    @operation("GET", "/instar/hooks", "instar.hooks.rules", errors=(404,))
    async def rules(self) -> RulesInForce:
        """Name every rule that is armed, with its file and dialect, and what is not, and why."""
        return await asyncio.to_thread(in_force, self._armed)

    @operation("GET", "/instar/hooks/stats", "instar.hooks.stats", errors=(404,))
    async def stats(self, query: HookStatsQuery) -> HookStats:
        """Tell of each rule how often it ran, what it decided, how long it took, and what its model cost.

        Of all folders' sessions, as far as they still exist: a record goes with its session.
        """
        since = record.since(query.days)
        return await asyncio.to_thread(record.summed, self._data, query.session, since)

    @operation("GET", "/instar/hooks/session/{sessionID}", "instar.hooks.record", errors=(404,))
    async def record(self, session_id: ids.SessionID, query: RecordQuery) -> Sequence[RuleRun]:
        """List what rules did in a session, oldest first: its newest lines."""
        await self._client.session.get(session_id)
        return await asyncio.to_thread(self._newest, session_id, query.limit)

    def _newest(self, session_id: str, limit: int) -> list[RuleRun]:
        return list(deque(record.read(self._data, session_id), limit))
