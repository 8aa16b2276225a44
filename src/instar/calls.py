"""The tool calls of one answer: prepared one by one in order, run together, reported in the order asked.

What happens to each of them stands in `call`. A refused one is an error in its own result; its neighbours still run.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from instar import changes
from instar.call.caller import Caller
from instar.call.prepare import prepare
from instar.call.report import ABORTED, aborted, execute, report, report_failure
from instar.call.running import Running
from instar.context import Turn
from instar.instance import Instance
from instar.message import ToolCompleted, ToolError, WithParts
from instar.plugin import PermissionDenied, Tool, ToolResult
from instar.stream import Call

__all__ = ["ABORTED", "run"]

_PATIENCE = 0.9
"""Seconds that an abort waits for a tool: within one second nothing of a turn may run (design section 4)."""


async def run(
    instance: Instance, turn: Turn, holder: WithParts, calls: Sequence[Call], tools: Mapping[str, Tool]
) -> bool:
    """Run an answer's calls; afterwards each part is completed or an error. False: a person wants the turn to end."""
    prepared = [Caller(instance, turn, holder, call.part) for call in calls]
    tasks: dict[str, asyncio.Task[ToolResult]] = {}
    refusals: dict[str, Exception] = {}
    stopped = False
    try:
        for running, call in zip(prepared, calls, strict=True):
            instance.halt.check(turn.live.id)
            refusal = PermissionDenied(ABORTED) if stopped else await prepare(instance, running, call, tools)
            if refusal is not None:
                refusals[running.part.id] = refusal
                stopped = stopped or _ends_turn(instance, refusal)
        allowed = [running for running in prepared if running.part.id not in refusals]
        await changes.before(instance, holder, [(running.name, running.tool) for running in allowed])
        instance.halt.check(turn.live.id)
        for running in allowed:
            tasks[running.part.id] = asyncio.create_task(execute(running))
        for running in prepared:
            if running.part.id in refusals:
                await report_failure(instance, running, str(refusals[running.part.id]))
            else:
                outcome = await _outcome(tasks[running.part.id])
                await report(instance, running, outcome)
                stopped = stopped or _ends_turn(instance, outcome)
    except BaseException:
        # Also when reporting failed: no call may run on behind a turn that has ended.
        await _abort(prepared, list(tasks.values()))
        raise
    return not stopped


async def _outcome(task: asyncio.Task[ToolResult]) -> ToolResult | BaseException:
    """Wait for a call to end, and return what became of it."""
    # Not `await task`: an abort must reach this turn also when the tool swallows its own cancelling.
    await asyncio.wait([task])
    if task.cancelled():
        return asyncio.CancelledError("it was cancelled from within")
    return task.exception() or task.result()


def _ends_turn(instance: Instance, error: object) -> bool:
    """Whether a person refused what a call asked for, before or while it ran, and wants the turn to end."""
    return isinstance(error, PermissionDenied) and error.stop and instance.approvals.stops


async def _abort(prepared: Sequence[Running], tasks: Sequence[asyncio.Task[Any]]) -> None:
    """End what runs, then save each unfinished part as what the person will find: aborted."""
    for task in tasks:
        task.cancel()
    if tasks:
        # A tool that does not end when it is cancelled must not hold the abort up.
        await asyncio.wait(tasks, timeout=_PATIENCE)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()
    for running in prepared:
        await running.settle()
        if not isinstance(running.part.state, ToolCompleted | ToolError):
            running.part.state = aborted(running)
            await running.save()
