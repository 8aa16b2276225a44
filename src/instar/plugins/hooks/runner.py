"""Runs the rules that match an event, in order or in parallel, records each run, and combines the outcomes.

Claude Code's rules run side by side, ours and OpenHands' one after the other; these stop at the first that refuses
where one refusal decides (the hooks documentation of OpenHands and of Claude Code).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import sha256
from importlib import import_module
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final

import msgspec

from instar.plugin import Children, Client, HookWait, Invalid, PluginInput, event, wire
from instar.plugins.hooks import match
from instar.plugins.hooks.outcome import HookDecision, RuleOutcome, combine, settle, undecided
from instar.plugins.hooks.record import RunRecords
from instar.plugins.hooks.rule import Evaluator, HookEvent, HookRule, ToolUse
from instar.plugins.hooks.session import HookSession
from instar.plugins.hooks.sources import ActiveRules

log = logging.getLogger("instar.hooks")

EVALUATORS: Final[Mapping[Evaluator, tuple[str, str]]] = {
    "command": ("external", "ask"),
    "http": ("external", "ask"),
    "prompt": ("judge", "ask_model"),
    "agent": ("judge", "ask_agent"),
}
"""The module and function of each type of rule. A module is imported when the first rule of its type runs."""
GRACE: Final = 2.0
"""Seconds that an evaluator has, after the rule's timeout, to end what it started."""
ABREAST: Final = 8
"""Rules of one event that run in parallel."""
BEHIND: Final = 16
"""``async`` rules that run at the same time. A further one is not started, which is recorded."""
PATIENCE: Final = 3.0
"""Seconds that ``async`` rules may still run when the instance ends."""


class EvaluationContext(msgspec.Struct, frozen=True):
    """What evaluators work with.

    Children get the environment of `armed` without secrets. `client` is None where there is no session: then a rule
    that needs a model is undecided.
    """

    children: Children
    armed: ActiveRules
    client: Client | None = None


Evaluate = Callable[[HookRule, HookEvent, EvaluationContext], Awaitable[RuleOutcome]]
"""An evaluator. What it raises becomes an undecided outcome."""


async def evaluate(rule: HookRule, event: HookEvent, context: EvaluationContext) -> RuleOutcome:
    """Return what a rule decides for an event, not yet settled (`outcome.settle`), within its time.

    Raises nothing but `CancelledError`; the evaluator and all that it started are cancelled then.
    """
    if rule.broken:
        return undecided(rule.broken)
    try:
        module, name = EVALUATORS[rule.evaluator]
        function: Evaluate = getattr(import_module(f"instar.plugins.hooks.{module}"), name)
        async with asyncio.timeout(rule.timeout + GRACE):
            return await function(rule, event, context)
    except TimeoutError:
        return undecided(f"it took longer than {rule.timeout:g} s")
    except Invalid as error:
        return undecided(str(error))
    except Exception as error:
        log.error("hook failed rule=%s", rule.label, exc_info=error)
        return undecided(f"it failed: {type(error).__name__}: {error}")


async def decide(met: match.RuleMatch, event: HookEvent, context: EvaluationContext) -> RuleOutcome:
    """Return what a rule that matches comes to. An ``async`` one decides nothing, and is not settled."""
    outcome = await evaluate(met.rule, event, context)
    if met.rule.background:
        return outcome
    return settle(outcome, met.rule, context.armed.settings.on_error, doubt=met.doubt)


class Denied(Exception):
    """A rule refused. The model or the person reads the text."""


class Runner:
    """Runs the rules of one instance."""

    def __init__(self, given: PluginInput, armed: ActiveRules) -> None:
        self.armed = armed
        self._means = EvaluationContext(given.children, armed, given.client)
        self.records = RunRecords(given.data)
        self._client = given.client
        self._kv = given.kv
        self._once: set[str] = set()
        self._behind: set[asyncio.Task[RuleOutcome]] = set()

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
            transcript_path=session.transcript,
            fields=fields,
        )
        outcomes: list[RuleOutcome] = []
        met = match.matched(self.armed.of(happened.name), happened, self.armed.home)
        due = [one for one in met if await self._is_due(one.rule, happened)]
        waited = [one for one in due if not await self._is_sent(one, happened)]
        for batch in _batches(waited):
            slots = asyncio.Semaphore(ABREAST)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._waited(one, happened, slots)) for one in batch]
            outcomes += [task.result() for task in tasks]
            if happened.kind.final and any(one.action == "deny" or one.stop for one in outcomes):
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

    async def _waited(
        self, met: match.RuleMatch, happened: HookEvent, slots: asyncio.Semaphore
    ) -> RuleOutcome:
        wait = HookWait(self._publish, happened.session_id, "hooks", met.rule.text, happened.name)
        async with slots, wait:
            return await self._one(met, happened)

    async def _one(self, met: match.RuleMatch, happened: HookEvent) -> RuleOutcome:
        started = time.monotonic()
        outcome = undecided("it was interrupted")
        try:
            outcome = await decide(met, happened, self._means)
        finally:
            await self._note(met.rule, happened, outcome, started)
        return outcome

    async def _is_sent(self, met: match.RuleMatch, happened: HookEvent) -> bool:
        """Start an ``async`` rule in the background. Return whether the rule was one."""
        if met.rule.background and len(self._behind) < BEHIND:
            task = asyncio.create_task(self._one(met, happened))
            self._behind.add(task)
            task.add_done_callback(self._behind.discard)
        elif met.rule.background:
            busy = undecided(f"not started: {BEHIND} async rules run already")
            await self._note(met.rule, happened, busy, time.monotonic())
        return met.rule.background

    async def _is_due(self, rule: HookRule, happened: HookEvent) -> bool:
        """Return whether the rule may run. A ``once`` rule is marked as run before it starts."""
        if not rule.once:
            return True
        # A source without lines has all its rules at one place.
        key = f"once:{happened.session_id}:{rule.place}:{sha256(rule.key).hexdigest()}"
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
            tool=tool.name if tool else "",
            call_id=tool.call_id if tool else "",
            child_id=trace.session,
            **{name: getattr(trace, name) for name in ("code", "output", "tokens", "cost", "model")},
        )
        await self.record(ran)

    async def record(self, happened: event.HooksRan | event.HooksArmed) -> None:
        """Add what happened to the record of its session, and publish it."""
        self.records.add(happened)
        await self._publish(happened)

    async def _publish(self, properties: wire.Wire) -> None:
        await self._client.publish(event.make(properties))


def _batches(met: Iterable[match.RuleMatch]) -> Iterable[list[match.RuleMatch]]:
    """Yield the rules in order; neighbours from Claude Code's files form one batch."""
    for _, group in groupby(
        enumerate(met), key=lambda pair: -1 if pair[1].rule.dialect == "claude" else pair[0]
    ):
        yield [one for _, one in group]
