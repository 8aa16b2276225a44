"""A person's own shell command in a session (``!ls``): no model is asked, the next prompt's reads what it printed.

It stands in the history as a user message and an answer with a call of `bash` (opencode's ``session.shell``).
Nobody is asked for a permission and no tool hook fires: the person typed it. ``shell.env`` does.
"""

import asyncio
from typing import Final

from instar import wire
from instar.api.session import ShellBody
from instar.event import Busy
from instar.message import (
    Assistant,
    Created,
    Origin,
    Span,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolRunning,
    ToolSpan,
    User,
    WithParts,
)
from instar.plugin import Invalid, PromptBody, ToolFailure
from instar.session.instance import Instance
from instar.session.sessions import place_in
from instar.session.state import SessionState, now
from instar.store import StoreError
from instar.tool import bash
from instar.tool.call import truncate
from instar.turn.calls import ToolRun, aborted
from instar.turn.loop import turn_for
from instar.turn.prompt import choose_model
from instar.turn.step import empty_answer
from instar.wire import ids

SAID: Final = "The following tool was executed by the user"
"""The text of the user message: opencode's, by which its clients know such a command."""
TOOL: Final = "bash"


class PersonCommand:
    """One command; `answered` is done when the message that holds its output is saved, however it ended."""

    def __init__(self, instance: Instance, live: SessionState, body: ShellBody, origin: Origin) -> None:
        """Raises `Invalid` for an id that is taken, and what finding the agent or the model raises."""
        if body.message_id is not None and live.find(body.message_id) is not None:
            raise Invalid(f"session {live.id} has a message {body.message_id} already")
        agent = instance.agents.get(body.agent)
        self._instance = instance
        self._live = live
        self._command = body.command
        self._origin = origin
        self._user = User(
            id=body.message_id or ids.new("msg"),
            session_id=live.id,
            time=Created(created=live.next_time()),
            agent=agent.name,
            model=choose_model(instance, live, PromptBody(parts=[], model=body.model), agent),
        )
        self.answered: asyncio.Future[WithParts] = asyncio.get_running_loop().create_future()

    async def carry_out(self) -> None:
        """Run it as the session's turn. Raises `asyncio.CancelledError` after an abort, with everything saved."""
        self._instance.sessions.set_status(self._live, Busy())
        try:
            turn = await turn_for(self._instance, self._live, self._user, 0)
            holder, part = await self._begin()
        except BaseException as error:
            taken = isinstance(error, StoreError) and "NOT NULL" in str(error)
            refused = Invalid(f"a message elsewhere has the id {self._user.id} already; leave it out")
            self.answered.set_exception(refused if taken else error)
            self.answered.exception()  # whoever asked may have gone
            if taken:
                return
            raise
        running = ToolRun(self._instance, turn, holder, part)
        running.args = part.state.input
        try:
            part.state = await self._outcome(running)
        except BaseException as error:
            await running.settle()
            part.state = (
                aborted(running) if isinstance(error, asyncio.CancelledError) else _failed(running, error)
            )
            raise
        finally:
            await self._end(holder, part)

    async def _begin(self) -> tuple[WithParts, ToolPart]:
        """Save the two messages, with the call as it runs."""
        user, sessions = self._user, self._instance.sessions
        said = TextPart(text=SAID, synthetic=True, **place_in(user))
        user.time.created = max(user.time.created, self._live.next_time())
        await sessions.save_prompt(self._live, user, [said], self._live.attribute(user.id, self._origin))
        answer = empty_answer(self._instance, self._live, user, user.agent, user.model)
        call_id = ids.new("tool")
        part = ToolPart(
            call_id=call_id.replace("tool", "call", 1),
            tool=TOOL,
            **place_in(answer),
            state=ToolRunning(input={"command": self._command}, time=Span(start=now())),
        )
        part = wire.as_stored(part)
        return await sessions.save_message(self._live, answer, [part]), part

    async def _outcome(self, running: ToolRun) -> ToolCompleted | ToolError:
        args = {**running.args, "timeout": bash.MAX_TIMEOUT}
        try:
            result = await bash.execute(args, running)
        except ToolFailure as error:
            await running.settle()
            return _failed(running, error)
        if self._origin.is_person and (places := self._instance.children.steering) is not None:
            # The person typed the command: a hook that it set up is theirs.
            places.forgive()
        await running.settle()
        output, cut = truncate(result.output, self._instance.paths.tool_output, running.call_id)
        state = ToolCompleted(
            input=running.args,
            output=output,
            title=result.title,
            metadata={**result.metadata, **cut},
            time=ToolSpan(start=running.started, end=now()),
        )
        return wire.as_stored(state)

    async def _end(self, holder: WithParts, part: ToolPart) -> None:
        answer = holder.info
        assert isinstance(answer, Assistant)
        try:
            await self._instance.sessions.save_part(holder, part)
            answer.time.completed = self._live.end_time(answer.time.created)
            await self._instance.sessions.save_message(self._live, answer)
        finally:
            if not self.answered.done():
                self.answered.set_result(holder)


def _failed(running: ToolRun, error: BaseException) -> ToolError:
    return ToolError(input=running.args, error=str(error), time=ToolSpan(start=running.started, end=now()))
