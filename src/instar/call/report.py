"""What becomes of a call: run, cut, told to plugins and saved in its part."""

import logging

import msgspec

from instar.call.running import Running
from instar.instance import Instance
from instar.live import now
from instar.message import ToolCompleted, ToolError, ToolSpan
from instar.plugin import ToolFailure, ToolResult, points, wire
from instar.plugin.patience import kept
from instar.tool.output import truncate
from instar.tool.repeat import INVOKED

log = logging.getLogger("instar.tool")

ABORTED = "Tool execution aborted"
UNSOUND = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)
"""What is raised where something is not JSON, or of another type than it must be."""


async def execute(running: Running) -> ToolResult:
    """Run a call that may. Raises what its tool raises."""
    assert running.tool is not None
    await running.require_standing()
    result = await kept(running.tool.execute(running.args, running))
    if isinstance(result, str):
        return ToolResult(output=result)
    if isinstance(result, ToolResult) and isinstance(result.output, str):
        return result
    raise ToolFailure(f"The tool returned a {type(result).__name__}, not a text or a ToolResult with one.")


async def report(instance: Instance, running: Running, outcome: ToolResult | BaseException) -> None:
    """Take what became of a call that ran into its part, save it and tell plugins."""
    await running.settle()
    if isinstance(outcome, ToolResult):
        await _report_success(instance, running, outcome)
    elif isinstance(outcome, ToolFailure):
        await report_failure(instance, running, str(outcome))
    else:
        log.error("tool failed tool=%s call=%s", running.part.tool, running.call_id, exc_info=outcome)
        await report_failure(instance, running, f"The tool failed: {type(outcome).__name__}: {outcome}")


async def _report_success(instance: Instance, running: Running, result: ToolResult) -> None:
    output = result.output
    cut: wire.Plain = {}
    if result.truncate:
        output, cut = truncate(result.output, instance.paths.tool_output, running.call_id)
    try:
        after = points.ToolAfterOutput(
            title=result.title,
            output=output,
            metadata={**result.metadata, **cut, **_invoked(running)},
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
        # An observer's half-made change is discarded (design section 4).
        log.error("tool.execute.after left what cannot be kept call=%s error=%s", running.call_id, error)
        running.part.state = sound
    await running.save()


def _completed(running: Running, after: points.ToolAfterOutput) -> ToolCompleted:
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


async def report_failure(instance: Instance, running: Running, error: str) -> None:
    """Take why a call failed, or may not run, into its part, save it and tell plugins."""
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
        tool=running.name, session_id=running.session_id, call_id=running.call_id, args=running.args
    )


def aborted(running: Running) -> ToolCompleted | ToolError:
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


def _invoked(running: Running) -> wire.Plain:
    return {INVOKED: list(running.invoked.values())} if running.invoked else {}
