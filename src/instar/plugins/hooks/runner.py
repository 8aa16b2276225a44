"""Runs the rules that match an event, in order or in parallel, records each run, and combines the outcomes.

Claude Code's rules run side by side, ours and OpenHands' one after the other; these stop at the first that refuses
where one refusal decides (the hooks documentation of OpenHands and of Claude Code).
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final

from instar.plugin import PluginInput, event
from instar.plugins.hooks import match
from instar.plugins.hooks.evaluate import EvaluationContext, evaluate
from instar.plugins.hooks.event import HookEvent, ToolUse
from instar.plugins.hooks.outcome import HookDecision, RuleOutcome, combine, settle, undecided
from instar.plugins.hooks.record import RunRecords
from instar.plugins.hooks.rule import HookRule
from instar.plugins.hooks.sessions import HookSession
from instar.plugins.hooks.sources import ActiveRules

log = logging.getLogger("instar.hooks")

ABREAST: Final = 8
"""Rules of one event that run in parallel."""
BEHIND: Final = 16
"""``async`` rules that run at the same time. A further one is not started, which is recorded."""
PATIENCE: Final = 3.0
"""Seconds that ``async`` rules may still run when the instance ends."""

_DECIDING: Final = frozenset(
    ("PreToolUse", "PermissionRequest", "UserPromptSubmit", "Stop", "SubagentStop", "Evolve")
)
"""Events for which a refusal is final, so that further rules need not run."""


class Denied(Exception):
    """A rule refused. The model or the person reads the text."""


class Runner:
    """Runs the rules of one instance."""

    def __init__(self, given: PluginInput, armed: ActiveRules) -> None:
        self.armed = armed
        self._means = EvaluationContext(
            given.children,
            armed.environment,
            armed.project,
            armed.home,
            armed.settings,
            given.client,
            armed.served,
        )
        self.records = RunRecords(given.data)
        self._client = given.client
        self._kv = given.kv
        self._once: set[str] = set()
        self._behind: set[asyncio.Task[None]] = set()

    def hears(self, name: str) -> bool:
        """Return whether there is a rule for the event."""
        return bool(self.armed.of(name))

    async def fire(
        self,
        name: str,
        session: HookSession,
        fields: Mapping[str, Any] = MappingProxyType({}),
        tool: ToolUse | None = None,
    ) -> HookDecision:
        """Run the rules for an event of a session. Return what all of them decide together.

        Cancelling ends the rules that run, except ``async`` rules.
        """
        if not self.hears(name):
            return HookDecision()
        happened = HookEvent(
            name=name,
            session_id=session.id,
            directory=self.armed.directory,
            tool=tool,
            agent=session.agent,
            agent_id=session.agent_id,
            permission_mode="plan" if session.agent == "plan" else "default",
            transcript_path=session.transcript,
            fields=fields,
        )
        outcomes: list[RuleOutcome] = []
        met = match.matched(self.armed.of(happened.name), happened, self._means.home)
        waited = [
            one for one in met if await self._is_due(one.rule, happened) and not self._sent(one, happened)
        ]
        for batch in _batches(waited):
            slots = asyncio.Semaphore(ABREAST)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(one, happened, slots)) for one in batch]
            outcomes += [task.result() for task in tasks]
            if happened.name in _DECIDING and any(one.action == "deny" or one.stop for one in outcomes):
                break
        return combine(outcomes, None if happened.tool is None else happened.tool.input)

    async def gate(
        self, name: str, session: HookSession, fields: Mapping[str, Any], refused: str
    ) -> HookDecision:
        """Run the rules as `fire`. Raises `Denied` where they refuse, with `refused` if they give no reason."""
        decision = await self.fire(name, session, fields)
        if decision.refuses:
            raise Denied(decision.text or refused)
        return decision

    async def close(self) -> None:
        """Wait up to 3 seconds for ``async`` rules, then cancel them with their children."""
        if self._behind:
            await asyncio.wait(self._behind, timeout=PATIENCE)
        for task in self._behind:
            task.cancel()
        await asyncio.gather(*self._behind, return_exceptions=True)

    async def _one(self, met: match.RuleMatch, happened: HookEvent, slots: asyncio.Semaphore) -> RuleOutcome:
        async with slots:
            started = time.monotonic()
            try:
                found = await evaluate(met.rule, happened, self._means)
            except asyncio.CancelledError:
                await self._note(met.rule, happened, undecided("it was interrupted"), started)
                raise
            outcome = settle(found, met.rule, self._means.settings.default, doubt=met.doubt)
            await self._note(met.rule, happened, outcome, started)
            return outcome

    def _sent(self, met: match.RuleMatch, happened: HookEvent) -> bool:
        """Start an ``async`` rule in the background. Return whether the rule was one."""
        if met.rule.background:
            task = asyncio.create_task(self._run_behind(met, happened, len(self._behind) < BEHIND))
            self._behind.add(task)
            task.add_done_callback(self._behind.discard)
        return met.rule.background

    async def _run_behind(self, met: match.RuleMatch, happened: HookEvent, free: bool) -> None:
        started = time.monotonic()
        if free:
            outcome = await evaluate(met.rule, happened, self._means)
        else:
            outcome = undecided(f"not started: {BEHIND} async rules run already")
        await self._note(met.rule, happened, outcome, started)

    async def _is_due(self, rule: HookRule, happened: HookEvent) -> bool:
        """Return whether the rule may run. A ``once`` rule is marked as run before it starts."""
        if not rule.once:
            return True
        # A source without lines has all its rules at one place.
        said = sha256(repr((rule.matcher, rule.condition, rule.settings)).encode()).hexdigest()
        key = f"once:{happened.session_id}:{rule.place}:{rule.event}:{said}"
        # Marked before the first await: two calls at the same time must not both run it.
        if key in self._once:
            return False
        self._once.add(key)
        if await self._kv.get(key):
            return False
        await self._kv.set(key, True)
        return True

    async def _note(self, rule: HookRule, happened: HookEvent, outcome: RuleOutcome, started: float) -> None:
        if outcome.undecided:
            log.warning("hook undecided rule=%s event=%s error=%s", rule.label, happened.name, outcome.error)
        trace, tool = outcome.trace, happened.tool
        ran = event.HooksRan(
            session_id=happened.session_id,
            event=happened.name,
            rule=rule.label,
            place=rule.place,
            evaluator=rule.evaluator,
            dialect=rule.dialect,
            action=outcome.action,
            undecided=outcome.undecided,
            reason=outcome.reason,
            error=outcome.error,
            messages=list(outcome.messages),
            duration=round((time.monotonic() - started) * 1000),
            code=trace.code,
            output=trace.output,
            tool=tool.name if tool else "",
            call_id=tool.call_id if tool else "",
            tokens=trace.tokens,
            cost=trace.cost,
            model=trace.model,
            child_id=trace.session,
        )
        await self.record(ran)

    async def record(self, happened: event.HooksRan | event.HooksArmed) -> None:
        """Add what happened to the record of its session, and publish it."""
        self.records.add(happened)
        await self._client.publish(event.make(happened))


def _batches(met: Iterable[match.RuleMatch]) -> Iterable[list[match.RuleMatch]]:
    """Yield the rules in order; neighbours from Claude Code's files form one batch."""
    for _, group in groupby(
        enumerate(met), key=lambda pair: -1 if pair[1].rule.dialect == "claude" else pair[0]
    ):
        yield [one for _, one in group]
