"""The client as a plugin has it: what it prompts is the plugin's own, unless it says for whom.

So that a plugin that prompts itself is no person who speaks, whom no limit of calls in a row holds.
"""

from collections.abc import AsyncIterator, Sequence

import msgspec

from instar import wire
from instar.event import Event
from instar.inprocess import SessionDoor
from instar.message import ModelRef, Origin
from instar.plugin import (
    Answer,
    Apart,
    Aside,
    Client,
    PermissionClient,
    QuestionClient,
    SessionClient,
    WorkspaceClient,
)


class Speaker:
    """A `Client` that speaks for `origin`; everything else is that of the client behind it."""

    def __init__(self, client: Client, door: SessionDoor, origin: Origin) -> None:
        self._client = client
        self._origin = origin
        self.session: SessionClient = door.speaking_for(origin)

    @property
    def permission(self) -> PermissionClient:
        """Tool calls that wait for a person's permission."""
        return self._client.permission

    @property
    def question(self) -> QuestionClient:
        """Questions of the model to a person."""
        return self._client.question

    @property
    def workspace(self) -> WorkspaceClient:
        """Folders apart that sessions work in."""
        return self._client.workspace

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
        """Make one model call without tools or hooks, for a session or for none."""
        whose = origin or (None if session_id else self._origin)
        return await self._client.generate(
            system=system, prompt=prompt, model=model, cause=cause, session_id=session_id, origin=whose
        )

    async def aside(self, aside: Aside) -> Apart:
        """Let a model work in a session apart, for a session or for none."""
        if aside.origin is None and not aside.session_id:
            aside = msgspec.structs.replace(aside, origin=self._origin)
        return await self._client.aside(aside)

    def events(self) -> AsyncIterator[Event]:
        """Iterate over events as they are published, from now on."""
        return self._client.events()

    async def publish(self, event: Event) -> None:
        """Publish an event of a declared type."""
        await self._client.publish(event)

    async def config(self) -> wire.Plain:
        """Return the merged configuration, secrets masked."""
        return await self._client.config()

    async def agents(self) -> list[str]:
        """Return the names of the agents, built-in ones first."""
        return await self._client.agents()

    async def tools(self) -> list[str]:
        """Return the names of the tools that are registered."""
        return await self._client.tools()
