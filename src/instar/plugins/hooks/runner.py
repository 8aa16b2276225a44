"""Putting an event to the rules that it meets: in order or side by side, recorded, and weighed together.

Claude Code's rules run side by side, ours and OpenHands' one after the other; these stop at the first that refuses
where one refusal decides (the reference's section 1.7 and section 2, "Execution of several hooks").
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from itertools import groupby
from typing import Final

from instar.plugin import KV, event
from instar.plugins.hooks import match
from instar.plugins.hooks.armed import Armed
from instar.plugins.hooks.evaluate import Means, evaluate
from instar.plugins.hooks.event import Event
from instar.plugins.hooks.outcome import Decision, Outcome, Trace, combine, settle, undecided
from instar.plugins.hooks.record import Record
from instar.plugins.hooks.rule import OnError, Rule

log = logging.getLogger("instar.hooks")

ABREAST: Final = 8
"""Rules of one event that run side by side."""
BEHIND: Final = 16
"""``async`` rules that run at the same time; one more is not started, and that is recorded."""
PATIENCE: Final = 3.0
"""Seconds that ``async`` rules have to end by themselves when the instance ends."""

_DECIDING: Final = frozenset(
    ("PreToolUse", "PermissionRequest", "UserPromptSubmit", "Stop", "SubagentStop", "Evolve")
)
"""Events at which nothing that comes after a refusal changes anything."""

Publish = Callable[[event.HooksRan], Awaitable[None]]


class Runner:
    """The rules of one instance at work."""

    def __init__(self, armed: Armed, means: Means, record: Record, kv: KV, publish: Publish) -> None:
        self.armed = armed
        self._means = means
        self._record = record
        self._kv = kv
        self._publish = publish
        self._once: set[str] = set()
        self._behind: set[asyncio.Task[None]] = set()
        strict = means.settings.on_error == "deny"
        self._default: OnError = "deny" if strict else ""

    def hears(self, name: str) -> bool:
        """Whether any rule speaks of the event."""
        return bool(self.armed.of(name))

    async def fire(self, happened: Event) -> Decision:
        """Return what all rules that the event meets come to. Cancelling ends what runs, but for ``async`` rules."""
        outcomes: list[Outcome] = []
        met = match.matched(self.armed.of(happened.name), happened, self._means.home)
        waited = [
            one for one in met if await self._is_due(one.rule, happened) and not self._sent(one, happened)
        ]
        for batch in _batches(waited):
            slots = asyncio.Semaphore(ABREAST)
            outcomes += await _together([self._one(one, happened, slots) for one in batch])
            if happened.name in _DECIDING and any(one.action == "deny" or one.stop for one in outcomes):
                break
        return combine(outcomes, None if happened.tool is None else happened.tool.input)

    async def close(self) -> None:
        """Wait a little for ``async`` rules, then end them with their children."""
        if self._behind:
            await asyncio.wait(self._behind, timeout=PATIENCE)
        for task in self._behind:
            task.cancel()
        await asyncio.gather(*self._behind, return_exceptions=True)

    async def _one(self, met: match.Match, happened: Event, slots: asyncio.Semaphore) -> Outcome:
        async with slots:
            started = time.monotonic()
            try:
                found = await evaluate(met.rule, happened, self._means)
            except asyncio.CancelledError:
                await self._note(met.rule, happened, undecided("it was interrupted"), started)
                raise
            outcome = settle(found, met.rule, self._default, doubt=met.doubt)
            await self._note(met.rule, happened, outcome, started)
            return outcome

    def _sent(self, met: match.Match, happened: Event) -> bool:
        """Whether the rule is ``async``: it runs behind, and nobody waits for it."""
        if met.rule.background:
            task = asyncio.create_task(self._run_behind(met, happened, len(self._behind) < BEHIND))
            self._behind.add(task)
            task.add_done_callback(self._behind.discard)
        return met.rule.background

    async def _run_behind(self, met: match.Match, happened: Event, free: bool) -> None:
        started = time.monotonic()
        if free:
            outcome = await evaluate(met.rule, happened, self._means)
        else:
            outcome = Outcome(undecided=True, error=f"not started: {BEHIND} async rules run already")
        await self._note(met.rule, happened, outcome, started)

    async def _is_due(self, rule: Rule, happened: Event) -> bool:
        """Whether the rule may still run; one that runs once in a session is taken note of before it does."""
        if not rule.once:
            return True
        key = f"once:{happened.session_id}:{rule.place}:{rule.event}:{hash_of(rule)}"
        # Noted here before anything is waited for: two calls at the same time are one too many.
        if key in self._once:
            return False
        self._once.add(key)
        if await self._kv.get(key):
            return False
        await self._kv.set(key, True)
        return True

    async def _note(self, rule: Rule, happened: Event, outcome: Outcome, started: float) -> None:
        ran = _ran(rule, happened, outcome, round((time.monotonic() - started) * 1000))
        if outcome.undecided:
            log.warning("hook undecided rule=%s event=%s error=%s", rule.label, happened.name, outcome.error)
        self._record.add(ran)
        await self._publish(ran)


def hash_of(rule: Rule) -> str:
    """Return what tells one rule of a place without lines from another."""
    text = repr((rule.matcher, rule.condition, rule.settings))
    return text if len(text) <= 200 else f"{text[:200]}{len(text)}"


def _batches(met: Iterable[match.Match]) -> Iterable[list[match.Match]]:
    """The rules in order, those of Claude Code's files that stand together in one batch."""
    for _, group in groupby(
        enumerate(met), key=lambda pair: -1 if pair[1].rule.dialect == "claude" else pair[0]
    ):
        yield [one for _, one in group]


async def _together(work: list[Awaitable[Outcome]]) -> list[Outcome]:
    if len(work) == 1:
        return [await work[0]]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_whole(one)) for one in work]
    return [task.result() for task in tasks]


async def _whole(work: Awaitable[Outcome]) -> Outcome:
    return await work


def _ran(rule: Rule, happened: Event, outcome: Outcome, duration: int) -> event.HooksRan:
    trace: Trace = outcome.trace
    tool = happened.tool
    return event.HooksRan(
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
        duration=duration,
        code=trace.code,
        output=trace.output,
        tool=tool.name if tool else "",
        call_id=tool.call_id if tool else "",
        tokens=trace.tokens,
        cost=trace.cost,
        model=trace.model,
        child_id=trace.session,
    )
