"""Another program's call of a tool in a session: no model is asked.

It stands in the history as a user message and an answer with the call. Rules, hooks and questions are those of a call
that the agent makes.
"""

import asyncio
import json
from typing import Final

from instar.api.session import ToolCallBody
from instar.event import Busy
from instar.message import Created, Origin, TextPart, Tokens, ToolPart, ToolPending, User, WithParts
from instar.plugin import PromptBody
from instar.provider.protocol import Finish
from instar.session.instance import Instance
from instar.session.sessions import place_in
from instar.session.state import SessionState
from instar.turn import calls
from instar.turn.context import available
from instar.turn.loop import turn_for
from instar.turn.prompt import choose_model
from instar.turn.step import answering, end
from instar.wire import ids

SAID: Final = "Another program calls a tool."


class ProgramCall:
    """One call; `answered` is done when the message that holds its outcome is saved, however it ended."""

    def __init__(self, instance: Instance, live: SessionState, body: ToolCallBody, origin: Origin) -> None:
        """Raises what finding the agent or the model raises."""
        agent = instance.agents.get(body.agent)
        self._instance, self._live, self._body, self._origin = instance, live, body, origin
        self._user = User(
            id=ids.new("msg"),
            session_id=live.id,
            time=Created(created=live.next_time()),
            agent=agent.name,
            model=choose_model(instance, live, PromptBody(parts=[]), agent),
        )
        self.answered: asyncio.Future[WithParts] = asyncio.get_running_loop().create_future()

    async def carry_out(self) -> None:
        """Make the call as the session's turn. Raises `asyncio.CancelledError` after an abort, with all saved."""
        instance, live, user = self._instance, self._live, self._user
        instance.sessions.set_status(live, Busy())
        try:
            turn = await turn_for(instance, live, user, 1)
            said = TextPart(text=SAID, synthetic=True, **place_in(user))
            await instance.sessions.save_prompt(live, user, [said], live.attribute(user.id, self._origin))
            async with answering(instance, turn) as writer:
                call = ToolPart(
                    call_id=ids.new("tool").replace("tool", "call", 1),
                    tool=self._body.tool,
                    state=ToolPending(input={}, raw=json.dumps(self._body.arguments)),
                    **place_in(writer.holder.info),
                )
                await instance.sessions.save_part(writer.holder, call)
                await calls.run(instance, turn, writer.holder, [call], available(instance, turn))
                await end(instance, turn, writer.holder, Finish("stop", Tokens.zero()))
        except Exception as error:
            self.answered.set_exception(error)
            self.answered.exception()  # whoever asked may have gone
            raise
        finally:
            if not self.answered.done():
                self.answered.set_result(live.history[-1])
