"""A call that may run, and the context that its tool gets (`ToolContext`)."""

import asyncio
from pathlib import Path

from instar.context import Turn, rules_for
from instar.event import AskedBy
from instar.instance import Instance
from instar.live import now
from instar.message import ToolPart, ToolRunning, WithParts
from instar.plugin import Ask, Tool, ToolFailure, ToolResult, points, wire
from instar.standing import refusal
from instar.tool.repeat import INVOKED


class Running:
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
        within: "Running | None" = None,
    ) -> None:
        self._instance = instance
        self._turn = turn
        self._holder = holder
        self.part = part
        # As the tool is registered, whatever alias the model used: what guards it goes by that.
        self.name = part.tool
        self.within = within
        self.invoked: dict[str, wire.Plain] = {}
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
        self.process = instance.children
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
        """Return no tool: one that was invoked can invoke none."""
        return {}

    async def invoke(self, name: str, args: wire.Plain) -> ToolResult:
        """Raise `ToolFailure`: a tool that was invoked can invoke none."""
        raise ToolFailure(f"{self.part.tool} was invoked by another tool, and so can invoke none itself.")

    async def require_standing(self) -> None:
        """Raise `ToolFailure` when the session may do nothing any more: it was deleted, or another process has it."""
        live = self._turn.live
        why = await refusal(self._instance, live, live.origin_of(self._turn.user.id))
        if why is not None:
            raise ToolFailure(f"The call was not made: {why}.")

    async def save(self) -> None:
        """Save the part as it stands."""
        if self.within is not None:
            self.within.note(self.part)
            return
        await self._instance.sessions.save_part(self._holder, self.part)

    def note(self, part: ToolPart) -> None:
        """Take down what became of a call that this one's tool made."""
        self.invoked[part.call_id] = {"tool": part.tool, "callID": part.call_id, "input": part.state.input}
        self.metadata(metadata={INVOKED: list(self.invoked.values())})

    async def settle(self) -> None:
        """Wait for a save that `metadata` started, so that it cannot overtake the final state."""
        if self._saving is not None:
            await asyncio.gather(self._saving, return_exceptions=True)
