"""What a view looks at: the session that asks, and the turn that runs or ran in it."""

from instar.agent import Agent, UnknownAgent
from instar.context import Turn, answering, available
from instar.instance import Instance
from instar.live import Live
from instar.message import Assistant, User
from instar.plugin import Tool
from instar.provider.protocol import Model


class Seen:
    """The sessions of an instance, as their views see them."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    async def live(self, session_id: str) -> Live:
        """Return the session that asks. Raises `NotFound`."""
        return await self.instance.sessions.open(session_id)

    def known(self, session_id: str) -> Live:
        """Return the session that asks, which is open. Raises `ValueError`."""
        live = self.instance.sessions.known(session_id)
        if live is None:
            raise ValueError("the session is not open here")
        return live

    def asked(self, live: Live) -> User | None:
        """Return the message that is answered now, or was last."""
        return next((m.info for m in reversed(live.history) if isinstance(m.info, User)), None)

    def agent(self, live: Live) -> Agent | None:
        """Return the agent that answers; None for one that is gone."""
        asked = self.asked(live)
        try:
            return self.instance.agents.get(live.session.agent if asked is None else asked.agent)
        except UnknownAgent:
            return None

    def model(self, live: Live) -> Model:
        """Return the model that the next step calls. Raises `UnknownModel`, `NoModel`."""
        asked = self.asked(live)
        if asked is not None:
            return answering(self.instance, live, asked)
        return self.instance.models.find(live.tuning.model or self.named(live))

    def named(self, live: Live) -> str:
        """Return the model that the session asks for, ``provider/model``. Raises `NoModel`."""
        asked = self.asked(live)
        if asked is not None:
            return f"{asked.model.provider_id}/{asked.model.model_id}"
        chosen = live.session.model
        return self.instance.models.default().ref if chosen is None else f"{chosen.provider_id}/{chosen.id}"

    def turn(self, live: Live) -> Turn | None:
        """Return the turn that runs, or ran last; None before the first one. Raises as `model`."""
        asked, agent = self.asked(live), self.agent(live)
        if asked is None or agent is None:
            return None
        return Turn(live, agent, self.model(live), asked, self.step(live))

    def step(self, live: Live) -> int:
        """Return how many steps the turn has made, the one that runs included."""
        asked = self.asked(live)
        if asked is None:
            return 0
        answers = (m.info for m in live.history if isinstance(m.info, Assistant))
        return sum(answer.parent_id == asked.id for answer in answers)

    def tools(self, live: Live) -> dict[str, Tool]:
        """Return the tools that the next step offers; before the first one all there are. Raises as `model`."""
        turn = self.turn(live)
        if turn is None:
            return {**self.instance.tools, **self.instance.plugins.tools()}
        return available(self.instance, turn)
