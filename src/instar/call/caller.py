"""A call that the model asked for: its tool may call other tools, as the model would."""

import asyncio
import difflib

from instar import ids, structured
from instar.call.prepare import prepare
from instar.call.report import ABORTED, UNSOUND, execute, report, report_failure
from instar.call.running import Running
from instar.context import available, defined
from instar.instance import Instance
from instar.message import ToolCompleted, ToolError, ToolPart, ToolPending, ToolRunning
from instar.plugin import PermissionDenied, Tool, ToolFailure, ToolResult, wire
from instar.stream import Call


class Caller(Running):
    """A call whose tool may make others. Each is prepared, run and reported as a call of the model's is."""

    _count = 0

    async def tools(self) -> dict[str, Tool]:
        """Return the tools that `invoke` takes, as the model would be told of them."""
        found = self._others()
        return {name: await defined(self._instance, name, tool) for name, tool in found.items()}

    async def invoke(self, name: str, args: wire.Plain) -> ToolResult:
        """Call another tool as the model would. Raises `ToolFailure`, and `PermissionDenied` as `ask` does."""
        self._may_invoke(name)
        self._count += 1
        call = _invocation(self, name, args, f"{self.call_id}.{self._count}")
        inner = Running(self._instance, self._turn, self._holder, call.part, self)
        self._instance.halt.check(self.session_id)
        refusal = await prepare(self._instance, inner, call, self._others())
        self._instance.halt.check(self.session_id)
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
        """What may be invoked: what this agent may have now, but the tool itself and the final answer's."""
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


async def _finished(instance: Instance, inner: Running) -> BaseException | None:
    """Run a call that a tool made, in that tool's own task, and report it; return what it failed with."""
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


def _invocation(running: Running, name: str, args: wire.Plain, call_id: str) -> Call:
    """A call by a tool, as the model would have made it. Its part is never saved."""
    try:
        raw = wire.encode(args).decode()
    except UNSOUND as error:
        raise ToolFailure(f"The arguments of {name} are not JSON: {error}.") from None
    part = ToolPart(
        id=ids.new("prt"),
        session_id=running.session_id,
        message_id=running.message_id,
        call_id=call_id,
        tool=name,
        state=ToolPending(input={}, raw=raw),
    )
    return Call(part, [raw])
