"""The in-process client's sessions: what clients may ask, carried out on the open sessions."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from instar import subagent, wire
from instar.agent import UnknownAgent
from instar.event import Todo, TodoUpdated, make
from instar.inprocess.moves import Moves
from instar.inprocess.past import Past
from instar.inprocess.prompts import Prompts
from instar.instance import Instance
from instar.message import Origin, Rule, Session, SessionModel
from instar.plugin import Done, Invalid, SessionBody, Task
from instar.store import PutTodos, PutValue, StoreError
from instar.tool import background


class SessionDoor(Past, Prompts, Moves):
    """Sessions as clients see them (`SessionClient`)."""

    def speaking_for(self, origin: Origin) -> "SessionDoor":
        """Return the same door for somebody who is no person: what they prompt is of `origin` unless they say more."""
        door = copy.copy(self)
        door._speaker = origin
        return door

    async def create(self, body: SessionBody | None = None, session_id: str | None = None) -> Session:
        """Make a session in the runtime's directory, or in a workspace's, under an id of its own or one that is given.

        Raises `Invalid`, also for an id that is taken, and `NotFound` for an unknown parent or workspace.
        """
        body = body or SessionBody()
        if body.agent is not None:
            _known(self._instance, body.agent)
        body, directory = await self._placed(body)
        try:
            made = await self._sessions.create(body, directory, session_id)
        except StoreError as error:
            if session_id is None or "UNIQUE" not in str(error):
                raise
            raise Invalid(f"there is a session {session_id} already") from error
        except msgspec.ValidationError as error:
            raise Invalid(f"a session cannot be made of this: {error}") from None
        self._instance.halt.made(made.id)
        await self._lifecycle.start(made.id, "new")
        return wire.copy(made)

    async def _placed(self, body: SessionBody) -> tuple[SessionBody, Path | None]:
        """Where a new session works: in its workspace's folder, which is its parent's when it names none."""
        parent = None if body.parent_id is None else (await self._sessions.open(body.parent_id)).session
        if body.workspace_id is not None:
            return body, await self._workspaces.enter(body.workspace_id)
        if parent is None or parent.workspace_id is None:
            return body, None
        return wire.replace(body, workspace_id=parent.workspace_id), Path(parent.directory)

    async def get(self, session_id: str) -> Session:
        """Return a session. Raises `NotFound`."""
        return wire.copy((await self._sessions.open(session_id)).session)

    async def list(self) -> list[Session]:
        """Return the project's sessions, last updated first."""
        return await self._sessions.list()

    async def children(self, session_id: str) -> Sequence[Session]:
        """Return the sessions whose parent this is, last updated first. Raises `NotFound`."""
        await self._sessions.open(session_id)
        return await self._instance.store.sessions(parent_id=session_id)

    async def todos(self, session_id: str) -> Sequence[Todo]:
        """Return the session's list of things to do. Raises `NotFound`."""
        await self._sessions.open(session_id)
        return await self._instance.store.todos(session_id)

    async def put_todos(self, session_id: str, todos: Sequence[Todo]) -> None:
        """Replace the session's list of things to do. Raises `NotFound`."""
        await self._sessions.open(session_id)
        happened = make(TodoUpdated(session_id=session_id, todos=list(todos)))
        await self._instance.store.commit([PutTodos(session_id, list(todos))], [happened])

    async def task(self, task: Task, started: Callable[[Session], None]) -> Done:
        """Let a sub-agent do a task in a session of its own and return its answer."""

        def begun(session: Session) -> None:
            self._instance.halt.inherit(session.id, task.session_id)
            started(session)

        door = self.speaking_for(self._speaker)
        door._for_agent = True
        return await subagent.run(self._instance, door, task, begun)

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        archived: int | None = None,
        metadata: wire.Plain | None = None,
        permission: Sequence[Rule] = (),
        agent: str | None = None,
        model: SessionModel | None = None,
    ) -> Session:
        """Change a session's title, metadata, agent or model, add rules to its own, or put it away.

        Raises `NotFound`, and `Invalid` when another process runs it, which would write over the change, or when
        there is no such agent or model.
        """
        if agent is not None:
            _known(self._instance, agent)
        async with self._held(session_id) as live:
            session = live.session
            if model is not None:
                self._instance.models.find(f"{model.provider_id}/{model.id}")
            was = session.title, session.time.archived, session.metadata, session.permission
            chosen = session.agent, session.model
            session.agent, session.model = agent or session.agent, model or session.model
            session.title = session.title if title is None else title
            session.time.archived = session.time.archived if archived is None else (archived or None)
            session.metadata = session.metadata if metadata is None else metadata
            session.permission = [*(session.permission or []), *permission] or session.permission
            try:
                await self._sessions.update(live)
            except StoreError:
                # What could not be saved must not go along with the turn's next save.
                session.title, session.time.archived, session.metadata, session.permission = was
                session.agent, session.model = chosen
                raise
        if archived:
            await self._lifecycle.end(session_id, "archived")
        return wire.copy(session)

    async def delete(self, session_id: str) -> None:
        """Abort and delete a session, its children and the prompts that were kept for them.

        Raises `NotFound`, and `Invalid` when another process runs one of them.
        """
        store = self._instance.store
        for child in await store.sessions(parent_id=session_id, archived=True):
            await self.delete(child.id)
        await self.abort(session_id)
        async with self._held(session_id) as live:
            await self._sessions.delete(session_id)
            # A prompt that came after the first look has begun a turn: it may not outlive its session.
            await self._turns.abort(live)
        await self._lifecycle.end(session_id, "deleted")
        await background.end(self._instance.children, session_id)
        kept = [f"prefix:{session_id}", *await store.values("instar", f"system:{session_id}:")]
        await store.commit([PutValue("instar", key, None) for key in kept])

    async def close(self) -> None:
        """Tell plugins of every session in use that it ends."""
        await self._lifecycle.close()


def _known(instance: Instance, agent: str) -> None:
    try:
        instance.agents.get(agent)
    except UnknownAgent as error:
        raise Invalid(str(error)) from error
