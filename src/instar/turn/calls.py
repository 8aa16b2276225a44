"""The tool calls of one answer: put to hooks together, permitted in order, run together, reported in the order asked.

A call is parsed, validated, put to `tool.execute.before`, validated again and put to the permission rules; then it is
run, cut, told to plugins and saved in its part. A refused one is an error in its own result, which the model reads; its
neighbours still run. What follows a call of an `ordered` tool runs behind it. A tool may call other tools, as the model
would.
"""

import asyncio
import difflib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.event import AskedBy
from instar.message import (
    Span,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolSpan,
    WithParts,
)
from instar.plugin import Ask, PermissionDenied, Refused, Tool, ToolFailure, ToolResult, points, wire
from instar.plugin.door import kept
from instar.session import changes
from instar.session.instance import Instance
from instar.session.state import now
from instar.tool import invalid
from instar.tool.call import truncate, validate, without_nulls
from instar.turn import structured
from instar.turn.context import Turn, available, defined, rules_for
from instar.turn.repeat import INVOKED, REPEATED, is_loop, registered
from instar.wire import ids

log = logging.getLogger("instar.tool")
TASK_TOOL: Final = "task"
_PATIENCE = 0.9
"""Seconds that an abort waits for a tool: within one second nothing of a turn may run."""
ABORTED = "Tool execution aborted"
UNSOUND = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)
"""What is raised where something is not JSON, or of another type than it must be."""


class ToolRun:
    """A call that may run, and the context that its tool gets (`ToolContext`).

    `within` is the call whose tool invoked this one: that one's part is what is saved and people see; this one's own
    is never saved. Its id is that call's with a number behind it.
    """

    def __init__(
        self,
        instance: Instance,
        turn: Turn,
        holder: WithParts,
        part: ToolPart,
        within: "ToolRun | None" = None,
    ) -> None:
        self._instance = instance
        self._turn = turn
        self._holder = holder
        self.part = part
        # As the tool is registered, whatever alias the model used: what guards it goes by that.
        self.name = part.tool
        self.within = within
        self.invoked: dict[str, wire.Plain] = {}
        self.tool = invalid.TOOL
        self.args: wire.Plain = {}
        self.reason: str | None = None
        self.started = now()
        self.session_id = turn.live.id
        self.message_id = holder.info.id
        self.call_id = part.call_id
        self.agent = turn.agent.name
        self.abort = turn.live.abort
        self.messages = list(turn.live.history)
        self.directory, self.worktree = instance.directory, instance.project.worktree
        self.client = instance.client
        self.process = instance.children
        self.trigger = instance.plugins.trigger
        self._saving: asyncio.Task[None] | None = None

    def metadata(self, *, title: str | None = None, metadata: wire.Plain | None = None) -> None:
        """Merge into the running part; saved and published soon, the newest state only."""
        if self.within is not None:
            self.within.metadata(title=title, metadata=metadata)
            return
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
        # A client shows the question with the part that it knows.
        caller = AskedBy(message_id=self.message_id, call_id=(self.within or self).call_id)
        await self._instance.approvals.require(ask, rules, self.session_id, self.name, caller)

    async def environment(self, cwd: Path) -> dict[str, str]:
        """Return the environment of a child for the model."""
        given = points.ShellEnvInput(cwd=str(cwd), session_id=self.session_id, call_id=self.call_id)
        return await self._instance.variables(given)

    async def tools(self) -> dict[str, Tool]:
        """Return no tool: an invoked tool cannot invoke others."""
        return {}

    async def invoke(self, name: str, args: wire.Plain) -> ToolResult:
        """Raise `ToolFailure`: an invoked tool cannot invoke others."""
        raise ToolFailure(f"{self.part.tool} was invoked by another tool, and so can invoke none itself.")

    async def require_standing(self) -> None:
        """Raise `ToolFailure` when the session was deleted, or another process runs it."""
        live = self._turn.live
        why = await self._instance.refusal(live, live.origin_of(self._turn.user.id))
        if why is not None:
            raise ToolFailure(f"The call was not made: {why}.")

    def watched(self) -> AbstractContextManager[None]:
        """Notice what the call changes of guarded places. A sub-agent's calls are watched for themselves."""
        writes = self.name != TASK_TOOL and changes.may_write(self._instance, self.name, self.tool)
        return self._instance.children.watched(writes)

    async def put_aside(self) -> str:
        """Decide about what the call changed of guarded places; return what the model reads of it."""
        places = self._instance.children.steering
        if places is None or not places.due:
            return ""
        # Start-up time: in most turns nothing of the kind changed.
        from instar.turn.steering import settle

        caller = AskedBy(message_id=self.message_id, call_id=(self.within or self).call_id)
        return await settle(self._instance, self.session_id, caller)

    async def save(self) -> None:
        """Save the part as it stands."""
        if self.within is not None:
            self.within.note(self.part)
            return
        await self._instance.sessions.save_part(self._holder, self.part)

    def note(self, part: ToolPart) -> None:
        """Note the outcome of a call that this one's tool made."""
        self.invoked[part.call_id] = {"tool": part.tool, "callID": part.call_id, "input": part.state.input}
        self.metadata(metadata={INVOKED: list(self.invoked.values())})

    async def settle(self) -> None:
        """Wait for a save that `metadata` started, so that it cannot overtake the final state."""
        if self._saving is not None:
            await asyncio.gather(self._saving, return_exceptions=True)


class InvokingToolRun(ToolRun):
    """A call whose tool may make others. Each is prepared, run and reported as a call of the model's is."""

    _count = 0

    async def tools(self) -> dict[str, Tool]:
        """Return the tools that `invoke` takes, as the model would see them."""
        found = self._others()
        return {name: await defined(self._instance, name, tool) for name, tool in found.items()}

    async def invoke(self, name: str, args: wire.Plain) -> ToolResult:
        """Call another tool as the model would. Raises `ToolFailure`, and `PermissionDenied` as `ask` does."""
        self._may_invoke(name)
        self._count += 1
        call = _invocation(self, name, args, f"{self.call_id}.{self._count}")
        inner = ToolRun(self._instance, self._turn, self._holder, call, self)
        self._instance.stops.check(self.session_id)
        tools = self._others()
        refusal = await _refusal(inner, _weigh, self._instance, inner, tools)
        refusal = refusal or await _refusal(inner, _permit, inner, tools)
        self._instance.stops.check(self.session_id)
        error = refusal or await _finished(self._instance, inner)
        if refusal is not None:
            await report_failure(self._instance, inner, str(refusal))
        state = inner.part.state
        if isinstance(state, ToolCompleted):
            files = list(state.attachments or [])
            return ToolResult(state.output, state.title, state.metadata, files, truncate=False)
        text = state.error if isinstance(state, ToolError) else ABORTED
        if isinstance(error, PermissionDenied):
            raise PermissionDenied(text, stop=error.stop)
        raise ToolFailure(text)

    def _others(self) -> dict[str, Tool]:
        """Return the tools that may be invoked: all of this agent's, without itself and structured output's."""
        found = available(self._instance, self._turn)
        left_out = {structured.NAME, *(n for n, one in found.items() if self.part.tool in (n, *one.aliases))}
        return {name: tool for name, tool in found.items() if name not in left_out}

    def _may_invoke(self, name: str) -> None:
        if self.abort.is_set() or not isinstance(self.part.state, ToolRunning):
            raise ToolFailure(f"{self.part.tool} cannot invoke {name!r}: its own call has ended.")
        tools = self._others()
        names = [*tools, *(alias for tool in tools.values() for alias in tool.aliases)]
        if name not in names:
            near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise ToolFailure(f"{self.part.tool} cannot invoke {name!r}: you have no such tool.{hint}")


async def run(
    instance: Instance, turn: Turn, holder: WithParts, calls: Sequence[ToolPart], tools: Mapping[str, Tool]
) -> bool:
    """Run an answer's calls; afterwards each part is completed or an error. Returns false if a person ends the turn."""
    prepared = [InvokingToolRun(instance, turn, holder, call) for call in calls]
    tasks: dict[str, asyncio.Task[ToolResult]] = {}
    refusals: dict[str, Exception] = {}
    stopped = False
    instance.stops.check(turn.live.id)
    weighed = [
        asyncio.create_task(_refusal(running, _weigh, instance, running, tools)) for running in prepared
    ]
    try:
        for running, weighing in zip(prepared, weighed, strict=True):
            refusal = await weighing
            instance.stops.check(turn.live.id)
            if stopped:
                refusal = PermissionDenied(ABORTED)
            refusal = refusal or await _refusal(running, _permit, running, tools)
            if refusal is not None:
                refusals[running.part.id] = refusal
                stopped = stopped or _ends_turn(instance, refusal)
        allowed = [running for running in prepared if running.part.id not in refusals]
        await changes.before(instance, holder, [(running.name, running.tool) for running in allowed])
        instance.stops.check(turn.live.id)
        ahead: asyncio.Task[ToolResult] | None = None
        for running in allowed:
            tasks[running.part.id] = task = asyncio.create_task(execute(running, ahead))
            ahead = task if running.tool.ordered else ahead
        for running in prepared:
            if running.part.id in refusals:
                await report_failure(instance, running, str(refusals[running.part.id]))
            else:
                outcome = await _outcome(tasks[running.part.id])
                await report(instance, running, outcome)
                stopped = stopped or _ends_turn(instance, outcome)
    except BaseException:
        # Also when reporting failed: no call may run on behind a turn that has ended.
        await _abort(prepared, [*weighed, *tasks.values()])
        raise
    return not stopped


async def _outcome(task: asyncio.Task[ToolResult]) -> ToolResult | BaseException:
    """Wait for a call to end, and return its outcome."""
    # Not `await task`: an abort must reach this turn also when the tool swallows its own cancelling.
    await asyncio.wait([task])
    if task.cancelled():
        return asyncio.CancelledError("it was cancelled from within")
    return task.exception() or task.result()


def _ends_turn(instance: Instance, error: object) -> bool:
    """Whether a person refused what a call asked for, before or while it ran, and wants the turn to end."""
    return isinstance(error, PermissionDenied) and error.stop and instance.approvals.stops


async def _abort(prepared: Sequence[ToolRun], tasks: Sequence[asyncio.Task[Any]]) -> None:
    """End what runs, then save each unfinished part as aborted."""
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


async def _finished(instance: Instance, inner: ToolRun) -> BaseException | None:
    """Run a call that a tool made, in that tool's task, and report it; return its failure."""
    outcome: ToolResult | BaseException
    try:
        outcome = await execute(inner)
    except Exception as error:
        outcome = error
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        outcome = asyncio.CancelledError("it was cancelled from within")
    await report(instance, inner, outcome)
    return None if isinstance(outcome, ToolResult) else outcome


def _invocation(running: ToolRun, name: str, args: wire.Plain, call_id: str) -> ToolPart:
    """Return the part of a call that a tool makes. It is never saved."""
    try:
        raw = wire.encode(args).decode()
    except UNSOUND as error:
        raise ToolFailure(f"The arguments of {name} are not JSON: {error}.") from None
    return ToolPart(
        id=ids.new("prt"),
        session_id=running.session_id,
        message_id=running.message_id,
        call_id=call_id,
        tool=name,
        state=ToolPending(input={}, raw=raw),
    )


async def _weigh(instance: Instance, running: ToolRun, tools: Mapping[str, Tool]) -> None:
    """Find a call's tool, and put its arguments to the hooks. Raises what refuses the call."""
    try:
        running.name, running.tool = find(tools, running.part.tool)
    except ToolFailure as failure:
        # The call of an unknown tool becomes one of `invalid`, as in opencode.
        running.args = {"tool": running.part.tool, "error": str(failure)}
        running.part.tool = running.name = invalid.NAME
    else:
        running.args = _parse(running.part)
        for former, current in running.tool.former.items():
            if former in running.args and current not in running.args:
                running.args[current] = running.args.pop(former)
    _check(running)
    if instance.plugins.listens(points.TOOL_BEFORE):
        await _before(instance, running)
        _check(running)


async def _permit(running: ToolRun, tools: Mapping[str, Tool]) -> None:
    """Ask for what a call needs. Raises what refuses it.

    Its part is saved as running before a person is asked, so that they see what it would do.
    """
    running.started = now()
    running.part.state = ToolRunning(input=running.args, time=Span(start=running.started))
    await running.save()
    try:
        for ask in _loop(running, tools):
            await running.ask(ask)
    except PermissionDenied as denied:
        raise denied if denied.stop else PermissionDenied(f"{REPEATED} {denied}") from None
    for ask in _asks(running):
        await running.ask(ask)


async def _refusal(running: ToolRun, decide: Callable[..., Awaitable[None]], *args: Any) -> Exception | None:
    """Return why a call may not run, as `decide` raises it."""
    try:
        await decide(*args)
    except Refused as refused:
        return ToolFailure(f"The plugin {refused.plugin} refused this call: {refused}")
    except ToolFailure as failure:
        return failure
    except Exception as error:
        # A gate fails closed: what cannot be decided is refused, and the model sees why.
        log.error("call not prepared tool=%s call=%s", running.part.tool, running.call_id, exc_info=error)
        return ToolFailure(f"The call could not be prepared: {type(error).__name__}: {error}")
    return None


def _loop(running: ToolRun, tools: Mapping[str, Tool]) -> Sequence[Ask]:
    """Return the permission that a call in a loop needs."""
    if running.tool.repeatable:
        return []
    shown = (running.within or running).part
    if not is_loop(running.messages, shown, running.part, registered(tools)):
        return []
    return [Ask("doom_loop", [running.name], [running.name], {"tool": running.name, "input": running.args})]


def find(tools: Mapping[str, Tool], name: str) -> tuple[str, Tool]:
    """Return a tool by its name or an alias, with its registered name. Raises `ToolFailure`."""
    if name in tools:
        return name, tools[name]
    for known, tool in tools.items():
        if name in tool.aliases:
            return known, tool
    raise ToolFailure(f"Model tried to call unavailable tool '{name}'. Available tools: {', '.join(tools)}.")


def _parse(call: ToolPart) -> wire.Plain:
    assert isinstance(call.state, ToolPending)
    try:
        args = wire.parse(call.state.raw) if call.state.raw.strip() else {}
    except msgspec.DecodeError as error:
        raise ToolFailure(
            f"The arguments of {call.tool} are not JSON: {error}. Please rewrite the input."
        ) from None
    if not isinstance(args, dict):
        raise ToolFailure(f"The arguments of {call.tool} are not an object. Please rewrite the input.")
    return args


def _check(running: ToolRun) -> None:
    running.part.state = msgspec.structs.replace(running.part.state, input=running.args)
    problem = validate(running.args, running.tool.parameters)
    if problem:
        raise ToolFailure(f"The {running.name} tool was called with invalid arguments: {problem}")
    running.args = without_nulls(running.args, running.tool.parameters)


async def _before(instance: Instance, running: ToolRun) -> None:
    """Let hooks change the arguments, and say what a person is to be asked."""
    given = points.ToolCallInput(tool=running.name, session_id=running.session_id, call_id=running.call_id)
    output = points.ArgsOutput(args=json.loads(json.dumps(running.args)))
    await instance.plugins.trigger(points.TOOL_BEFORE, given, output)
    if not isinstance(output.args, dict):
        raise ToolFailure(
            f"A tool.execute.before hook left arguments that are not an object: {output.args!r}"
        )
    running.args, running.reason = wire.to_plain(output.args), output.ask


def _asks(running: ToolRun) -> Sequence[Ask]:
    """Return the permissions that a call needs; at least one where a hook wants that, each with its reason."""
    found = None if running.tool.permissions is None else running.tool.permissions(running.args, running)
    if found is None or (running.reason is not None and not found):
        found = [Ask(permission=running.tool.permission or running.name, aliases=running.tool.aliases)]
    if running.reason is None:
        return found
    reason = {"reason": running.reason}
    return [msgspec.structs.replace(ask, metadata=ask.metadata | reason, anew=True) for ask in found]


async def execute(running: ToolRun, ahead: asyncio.Task[ToolResult] | None = None) -> ToolResult:
    """Run a permitted call once the one `ahead`, which changes what it sees, has ended. Raises what its tool raises."""
    if ahead is not None:
        await asyncio.wait([ahead])
    await running.require_standing()
    with running.watched():
        result = await kept(running.tool.execute, running.args, running)
    if isinstance(result, str):
        return ToolResult(output=result)
    if isinstance(result, ToolResult) and isinstance(result.output, str):
        return result
    raise ToolFailure(f"The tool returned a {type(result).__name__}, not a text or a ToolResult with one.")


async def report(instance: Instance, running: ToolRun, outcome: ToolResult | BaseException) -> None:
    """Write the result of a call into its part, save it and call the plugins."""
    await running.settle()
    aside = await running.put_aside()
    if isinstance(outcome, ToolResult):
        await _report_success(instance, running, outcome, aside)
        return
    if isinstance(outcome, ToolFailure):
        error = str(outcome)
    else:
        log.error("tool failed tool=%s call=%s", running.part.tool, running.call_id, exc_info=outcome)
        error = f"The tool failed: {type(outcome).__name__}: {outcome}"
    await report_failure(instance, running, f"{error}\n\n{aside}" if aside else error)


async def _report_success(instance: Instance, running: ToolRun, result: ToolResult, aside: str) -> None:
    output = result.output
    cut: wire.Plain = {}
    if result.truncate:
        output, cut = truncate(result.output, instance.paths.tool_output, running.call_id)
    if aside:
        output = f"{output}\n\n{aside}"
    invoked = {INVOKED: list(running.invoked.values())} if running.invoked else {}
    try:
        after = points.ToolAfterOutput(
            title=result.title,
            output=output,
            metadata={**result.metadata, **cut, **invoked},
            attachments=list(result.attachments) or None,
        )
        sound = _completed(running, after)
    except UNSOUND as error:
        await report_failure(instance, running, f"What the tool returned cannot be kept: {error}")
        return
    await instance.plugins.trigger(points.TOOL_AFTER, _after_input(running), after)
    try:
        running.part.state = _completed(running, after)
    except UNSOUND as error:
        # An observer's half-made change is discarded.
        log.error("tool.execute.after left what cannot be kept call=%s error=%s", running.call_id, error)
        running.part.state = sound
    await running.save()


def _completed(running: ToolRun, after: points.ToolAfterOutput) -> ToolCompleted:
    """Return a call's end, detached. Raises one of `UNSOUND` where a plugin gave no text, or what is not JSON."""
    state = ToolCompleted(
        input=running.args,
        output=after.output,
        title=after.title,
        metadata=after.metadata,
        time=ToolSpan(start=running.started, end=now()),
        attachments=after.attachments,
    )
    return wire.as_stored(state)


async def report_failure(instance: Instance, running: ToolRun, error: str) -> None:
    """Write the failure of a call into its part, save it and call the plugins."""
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


def _after_input(running: ToolRun) -> points.ToolAfterInput:
    return points.ToolAfterInput(
        tool=running.name, session_id=running.session_id, call_id=running.call_id, args=running.args
    )


def aborted(running: ToolRun) -> ToolCompleted | ToolError:
    """A call that showed its output while it ran keeps it, as in opencode; others are errors."""
    metadata = getattr(running.part.state, "metadata", None) or {}
    span = ToolSpan(start=running.started, end=now())
    shown = metadata.get("output")
    if isinstance(shown, str):
        note = f"{shown}\n\n<shell_metadata>\nUser aborted the command\n</shell_metadata>"
        marked = {**metadata, "interrupted": True}
        title = getattr(running.part.state, "title", None) or ""
        return ToolCompleted(input=running.args, output=note, title=title, metadata=marked, time=span)
    return ToolError(input=running.args, error=ABORTED, metadata={**metadata, "interrupted": True}, time=span)
