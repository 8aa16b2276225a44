"""The tool calls of one answer: prepared one by one in order, run together, reported in the order asked.

Preparing is: parse → validate → `tool.execute.before` → validate again → permission. Each refusal is an
error in the call's own result, which the model reads; its neighbours still run.
"""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from instar import changes
from instar.context import Turn, rules_for
from instar.event import AskedBy
from instar.instance import Instance
from instar.live import now
from instar.message import Span, ToolCompleted, ToolError, ToolPart, ToolRunning, ToolSpan, WithParts
from instar.plugin import Ask, PermissionDenied, Tool, ToolFailure, ToolResult, points, wire
from instar.plugin.door import Refused
from instar.stream import Call
from instar.tool import invalid
from instar.tool.output import truncate
from instar.tool.repeat import is_loop
from instar.tool.schema import validate, without_nulls

log = logging.getLogger("instar.tool")

ABORTED = "Tool execution aborted"
_PATIENCE = 0.9
"""Seconds that an abort waits for a tool: within one second nothing of a turn may run (design section 4)."""
_UNSOUND = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)


class Running:
    """A call that may run, and the context that its tool gets (`ToolContext`)."""

    def __init__(self, instance: Instance, turn: Turn, holder: WithParts, part: ToolPart) -> None:
        self._instance = instance
        self._turn = turn
        self._holder = holder
        self.part = part
        self.tool: Tool | None = None
        self.args: wire.Plain = {}
        self.started = now()
        self.session_id = turn.live.id
        self.message_id = holder.info.id
        self.call_id = part.call_id
        self.agent = turn.agent.name
        self.abort = turn.live.abort
        self.messages = list(turn.live.history)
        self.directory: Path = instance.directory
        self.worktree: Path = instance.project.worktree
        self.client = instance.client
        self.process = instance.processes
        self._saving: asyncio.Task[None] | None = None

    def metadata(self, *, title: str | None = None, metadata: wire.Plain | None = None) -> None:
        """Merge into the running part; saved and published soon, the newest state only."""
        state = self.part.state
        if not isinstance(state, ToolRunning):
            return
        state.title = title if title is not None else state.title
        # Detached, and refused here where the tool can see it: what is not JSON could not be saved.
        state.metadata = {**(state.metadata or {}), **wire.to_plain(metadata or {})}
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self.save())

    async def ask(self, ask: Ask) -> None:
        """Ask for one more permission. Raises `PermissionDenied`."""
        rules = rules_for(self._turn, self.tool)
        caller = AskedBy(message_id=self.message_id, call_id=self.call_id)
        await self._instance.approvals.require(ask, rules, self.session_id, self.part.tool, caller)

    async def environment(self, cwd: Path) -> dict[str, str]:
        """Return the environment of a child for the model."""
        given = points.ShellEnvInput(cwd=str(cwd), session_id=self.session_id, call_id=self.call_id)
        output = await self._instance.plugins.trigger(points.SHELL_ENV, given, points.ShellEnvOutput(env={}))
        return {**self._instance.environment, **output.env}

    async def save(self) -> None:
        """Save the part as it stands."""
        await self._instance.sessions.save_part(self._holder, self.part)

    async def settle(self) -> None:
        """Wait for a save that `metadata` started, so that it cannot overtake the final state."""
        if self._saving is not None:
            await asyncio.gather(self._saving, return_exceptions=True)


async def run(
    instance: Instance, turn: Turn, holder: WithParts, calls: Sequence[Call], tools: Mapping[str, Tool]
) -> bool:
    """Run an answer's calls; afterwards each part is completed or an error. False: a person wants the turn to end."""
    prepared = [Running(instance, turn, holder, call.part) for call in calls]
    tasks: dict[str, asyncio.Task[ToolResult]] = {}
    refusals: dict[str, Exception] = {}
    stopped = False
    try:
        for running, call in zip(prepared, calls, strict=True):
            refusal = PermissionDenied(ABORTED) if stopped else await _prepare(instance, running, call, tools)
            if refusal is not None:
                refusals[running.part.id] = refusal
                stopped = stopped or _ends_turn(instance, refusal)
        allowed = [running for running in prepared if running.part.id not in refusals]
        await changes.before(instance, holder, [(running.part.tool, running.tool) for running in allowed])
        for running in allowed:
            tasks[running.part.id] = asyncio.create_task(_execute(running))
        for running in prepared:
            if running.part.id in refusals:
                await _report_failure(instance, running, str(refusals[running.part.id]))
            else:
                await _report(instance, running, tasks[running.part.id])
                stopped = stopped or _ends_turn(instance, _error_of(tasks[running.part.id]))
    except BaseException:
        # Also when reporting failed: no call may run on behind a turn that has ended.
        await _abort(prepared, list(tasks.values()))
        raise
    return not stopped


async def _prepare(
    instance: Instance, running: Running, call: Call, tools: Mapping[str, Tool]
) -> Exception | None:
    """Make a call ready to run; or return why it may not.

    Its part is saved as running before a person is asked, so that they see what it would do (the
    reference's section 3.3, "order in a turn").
    """
    try:
        try:
            name, running.tool = find(tools, call.part.tool)
        except ToolFailure as failure:
            await _note_invalid(running, str(failure))
            return None
        running.args = _parse(call)
        _check(running, name)
        running.args = await _before(instance, running)
        _check(running, name)
        running.started = now()
        running.part.state = ToolRunning(input=running.args, time=Span(start=running.started))
        await running.save()
        for ask in [*_loop(running, name), *_asks(running, name)]:
            await running.ask(ask)
    except Refused as refused:
        return ToolFailure(f"The plugin {refused.plugin} refused this call: {refused}")
    except ToolFailure as failure:
        return failure
    except Exception as error:
        # A gate fails closed: what cannot be decided is refused, and the model sees why.
        log.error("call not prepared tool=%s call=%s", call.part.tool, call.part.call_id, exc_info=error)
        return ToolFailure(f"The call could not be prepared: {type(error).__name__}: {error}")
    return None


async def _note_invalid(running: Running, error: str) -> None:
    """Turn the call of a tool that is not there into one of `invalid` (the reference's section 3.5)."""
    running.args = {"tool": running.part.tool, "error": error}
    running.tool, running.part.tool = invalid.TOOL, invalid.NAME
    running.part.state = ToolRunning(input=running.args, time=Span(start=running.started))
    await running.save()


def _loop(running: Running, name: str) -> Sequence[Ask]:
    """What a call needs that turns in a circle."""
    if running.tool is None or running.tool.repeatable or not is_loop(running.messages, running.part):
        return []
    return [Ask("doom_loop", [name], [name], {"tool": name, "input": running.args})]


def find(tools: Mapping[str, Tool], name: str) -> tuple[str, Tool]:
    """Return a tool by its name or an alias, with its registered name. Raises `ToolFailure`."""
    if name in tools:
        return name, tools[name]
    for registered, tool in tools.items():
        if name in tool.aliases:
            return registered, tool
    raise ToolFailure(f"Model tried to call unavailable tool '{name}'. Available tools: {', '.join(tools)}.")


def _parse(call: Call) -> wire.Plain:
    try:
        args = wire.parse(call.raw) if call.raw.strip() else {}
    except msgspec.DecodeError as error:
        raise ToolFailure(
            f"The arguments of {call.part.tool} are not JSON: {error}. Please rewrite the input."
        ) from None
    if not isinstance(args, dict):
        raise ToolFailure(f"The arguments of {call.part.tool} are not an object. Please rewrite the input.")
    return args


def _check(running: Running, name: str) -> None:
    assert running.tool is not None
    running.part.state = msgspec.structs.replace(running.part.state, input=running.args)
    problem = validate(running.args, running.tool.parameters)
    if problem:
        raise ToolFailure(f"The {name} tool was called with invalid arguments: {problem}")
    running.args = without_nulls(running.args, running.tool.parameters)


async def _before(instance: Instance, running: Running) -> wire.Plain:
    if not instance.plugins.listens(points.TOOL_BEFORE):
        return running.args
    given = points.ToolCallInput(
        tool=running.part.tool, session_id=running.session_id, call_id=running.call_id
    )
    output = points.ArgsOutput(args=json.loads(json.dumps(running.args)))
    await instance.plugins.trigger(points.TOOL_BEFORE, given, output)
    if not isinstance(output.args, dict):
        raise ToolFailure(
            f"A tool.execute.before hook left arguments that are not an object: {output.args!r}"
        )
    args: wire.Plain = wire.to_plain(output.args)
    return args


def _asks(running: Running, name: str) -> Sequence[Ask]:
    assert running.tool is not None
    if running.tool.permissions is not None:
        return running.tool.permissions(running.args, running)
    return [Ask(permission=running.tool.permission or name, aliases=running.tool.aliases)]


async def _execute(running: Running) -> ToolResult:
    assert running.tool is not None
    result = await running.tool.execute(running.args, running)
    if isinstance(result, str):
        return ToolResult(output=result)
    if isinstance(result, ToolResult) and isinstance(result.output, str):
        return result
    raise ToolFailure(f"The tool returned a {type(result).__name__}, not a text or a ToolResult with one.")


async def _report(instance: Instance, running: Running, task: asyncio.Task[ToolResult]) -> None:
    # Not `await task`: an abort must reach this turn also when the tool swallows its own cancelling.
    await asyncio.wait([task])
    await running.settle()
    error = asyncio.CancelledError("it was cancelled from within") if task.cancelled() else task.exception()
    if error is None:
        await _report_success(instance, running, task.result())
    elif isinstance(error, ToolFailure):
        await _report_failure(instance, running, str(error))
    else:
        log.error("tool failed tool=%s call=%s", running.part.tool, running.call_id, exc_info=error)
        await _report_failure(instance, running, f"The tool failed: {type(error).__name__}: {error}")


def _error_of(task: asyncio.Task[ToolResult]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


def _ends_turn(instance: Instance, error: BaseException | None) -> bool:
    """Whether a person refused what a call asked for, before or while it ran, and wants the turn to end."""
    return isinstance(error, PermissionDenied) and error.stop and instance.approvals.stops


async def _report_success(instance: Instance, running: Running, result: ToolResult) -> None:
    output = result.output
    cut: wire.Plain = {}
    if result.truncate:
        output, cut = truncate(result.output, instance.paths.tool_output, running.call_id)
    try:
        after = points.ToolAfterOutput(
            title=result.title,
            output=output,
            metadata={**result.metadata, **cut},
            attachments=list(result.attachments) or None,
        )
        sound = _completed(running, after)
    except _UNSOUND as error:
        await _report_failure(instance, running, f"What the tool returned cannot be kept: {error}")
        return
    await instance.plugins.trigger(points.TOOL_AFTER, _after_input(running), after)
    try:
        running.part.state = _completed(running, after)
    except _UNSOUND as error:
        # An observer's half-made change is discarded (design section 4).
        log.error("tool.execute.after left what cannot be kept call=%s error=%s", running.call_id, error)
        running.part.state = sound
    await running.save()


def _completed(running: Running, after: points.ToolAfterOutput) -> ToolCompleted:
    """Return a call's end, detached. Raises one of `_UNSOUND` where a plugin gave no text, or what is not JSON."""
    state = ToolCompleted(
        input=running.args,
        output=after.output,
        title=after.title,
        metadata=after.metadata,
        time=ToolSpan(start=running.started, end=now()),
        attachments=after.attachments,
    )
    return wire.as_stored(state)


async def _report_failure(instance: Instance, running: Running, error: str) -> None:
    after = points.ToolFailureOutput(error=error)
    await instance.plugins.trigger(points.TOOL_FAILURE, _after_input(running), after)
    state = running.part.state
    failed = ToolError(
        input=running.args,
        error=after.error if isinstance(after.error, str) else error,
        metadata=getattr(state, "metadata", None),
        time=ToolSpan(start=running.started, end=now()),
    )
    running.part.state = wire.as_stored(failed)
    await running.save()


def _after_input(running: Running) -> points.ToolAfterInput:
    return points.ToolAfterInput(
        tool=running.part.tool, session_id=running.session_id, call_id=running.call_id, args=running.args
    )


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
            running.part.state = _aborted(running)
            await running.save()


def _aborted(running: Running) -> ToolCompleted | ToolError:
    """A call that showed its output while it ran keeps it (the reference's section 3.2); others are errors."""
    metadata = getattr(running.part.state, "metadata", None) or {}
    span = ToolSpan(start=running.started, end=now())
    shown = metadata.get("output")
    if isinstance(shown, str):
        note = f"{shown}\n\n<shell_metadata>\nUser aborted the command\n</shell_metadata>"
        marked = {**metadata, "interrupted": True}
        title = getattr(running.part.state, "title", None) or ""
        return ToolCompleted(input=running.args, output=note, title=title, metadata=marked, time=span)
    return ToolError(input=running.args, error=ABORTED, metadata={**metadata, "interrupted": True}, time=span)
