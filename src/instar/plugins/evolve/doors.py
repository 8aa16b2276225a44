"""Doors: how actions reach sessions (`actions.Doors`)."""

import logging
from collections.abc import Callable, Sequence

from instar.plugin import Client, Invalid, PromptBody, SessionBody
from instar.plugins.evolve.actions import SOURCE, ActionRequest, CreateSession, Send
from instar.plugins.evolve.settings import EvolveSettings

log = logging.getLogger("instar.evolve")


def no_agent(wanted: str, agents: Sequence[str]) -> str:
    """Say that the setting `heartbeat_agent` names an agent that is none of `agents`."""
    return f"heartbeat_agent: there is no agent {wanted!r}; there are: {', '.join(agents)}"


class SessionDoors:
    """Carries actions out on the client's sessions, with the agent that `settings` name."""

    def __init__(self, client: Client, settings: Callable[[], EvolveSettings | None]) -> None:
        self._client = client
        self._settings = settings

    async def send(self, action: Send, asking: ActionRequest) -> None:
        """Send the message; the session answers with the heartbeat agent.

        To the session that asks it is a follow-up (design "Continuing is a queue"), which has a cap of its own. A
        session that another process runs is refused by name. Raises `NotFound` and `Invalid`.
        """
        body = PromptBody.text(action.message, synthetic=action.synthetic, agent=await self._agent())
        session = self._client.session
        if action.session_id == asking.session_id:
            await session.follow_up(action.session_id, body, SOURCE, asking.then())
        else:
            await session.prompt_async(action.session_id, body, asking.then())

    async def _agent(self) -> str | None:
        """The heartbeat agent. Where nobody chose one, and there is none of the usual name, the session's own."""
        wanted = (self._settings() or EvolveSettings()).heartbeat_agent
        agents = await self._client.agents()
        if wanted in agents:
            return wanted
        if wanted == EvolveSettings().heartbeat_agent:
            return None
        raise Invalid(no_agent(wanted, agents))

    async def create_session(self, action: CreateSession, asking: ActionRequest) -> None:
        """Make a session of this title. Raises `Invalid`."""
        made = await self._client.session.create(SessionBody(title=action.title))
        log.info("session=%s made by=%s from=%s", made.id, asking.hook, asking.session_id)
