"""The client as tools of a session apart have it: it knows that session alone."""

from collections.abc import AsyncIterator, Sequence

from instar import wire
from instar.event import Event
from instar.inprocess import SessionDoor
from instar.instance import Instance
from instar.message import ModelRef, Origin
from instar.plugin import (
    Answer,
    Apart,
    Aside,
    Invalid,
    PermissionClient,
    QuestionClient,
    Registry,
    SessionClient,
    WorkspaceClient,
)
from instar.turns import Turns
from instar.workspace import Workspaces


class Within:
    """A `Client` of the instance `own`, which is one session's."""

    def __init__(self, own: Instance, turns: Turns) -> None:
        workspaces = Workspaces(own, Registry(), {})
        self._own = own
        self.session: SessionClient = SessionDoor(own, turns, workspaces).speaking_for(Origin("tool"))
        self.permission: PermissionClient = own.approvals
        self.question: QuestionClient = own.questions
        self.workspace: WorkspaceClient = workspaces

    async def generate(
        self,
        *,
        system: Sequence[str],
        prompt: str,
        model: ModelRef | None = None,
        cause: str,
        session_id: str = "",
        origin: Origin | None = None,
    ) -> Answer:
        """Raise `Invalid`: what a session apart spends is its own model's."""
        raise Invalid("a session apart makes no calls beside its own")

    async def aside(self, aside: Aside) -> Apart:
        """Raise `Invalid`: there is none inside another."""
        raise Invalid("a session apart begins no other")

    def events(self) -> AsyncIterator[Event]:
        """Iterate over the session's own events."""
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        with self._own.bus.subscribe() as subscription:
            async for event in subscription:
                yield event

    async def publish(self, event: Event) -> None:
        """Publish an event where nobody but the session hears it."""
        self._own.bus.publish(event)

    async def config(self) -> wire.Plain:
        """Return no configuration."""
        return {}

    async def agents(self) -> list[str]:
        """Return the name of its one agent."""
        return [agent.name for agent in self._own.agents.all()]

    async def tools(self) -> list[str]:
        """Return the names of its tools."""
        return list(self._own.tools)
