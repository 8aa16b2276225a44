"""The in-process client's sessions: what clients may ask, carried out on the open sessions."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from instar import compaction, invocation, loop, prompt, subagent, wire
from instar.agent import UnknownAgent
from instar.event import CommandExecuted, SessionStatus, Todo, TodoUpdated, make
from instar.instance import Instance
from instar.lease import SessionBusy
from instar.message import ModelRef, Session, WithParts
from instar.plugin import CommandBody, Done, Invalid, Messages, PromptBody, SessionBody, Task
from instar.provider.assemble import UnknownModel
from instar.provider.resolve import NoModel
from instar.session import Live
from instar.store import PutTodos, PutValue
from instar.tool import background
from instar.turns import Turns

log = logging.getLogger("instar.session")


class SessionDoor:
    """Sessions as clients see them (`SessionClient`)."""

    def __init__(self, instance: Instance, turns: Turns) -> None:
        self._instance = instance
        self._sessions = instance.sessions
        self._turns = turns

    async def create(self, body: SessionBody | None = None) -> Session:
        """Make a session in the runtime's directory. Raises `Invalid`, and `NotFound` for an unknown parent."""
        body = body or SessionBody()
        if body.agent is not None:
            _known(self._instance, body.agent)
        if body.parent_id is not None:
            await self._sessions.open(body.parent_id)
        try:
            return wire.copy(await self._sessions.create(body))
        except msgspec.ValidationError as error:
            raise Invalid(f"a session cannot be made of this: {error}") from None

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
        return await subagent.run(self._instance, self, task, started)

    async def update(
        self, session_id: str, *, title: str | None = None, archived: int | None = None
    ) -> Session:
        """Change a session's title, or put it away. Raises `NotFound`."""
        live = await self._sessions.open(session_id)
        live.session.title = live.session.title if title is None else title
        live.session.time.archived = live.session.time.archived if archived is None else archived
        await self._sessions.update(live)
        return wire.copy(live.session)

    async def delete(self, session_id: str) -> None:
        """Abort and delete a session, its children and the prompts that were kept for them.

        Raises `NotFound`, and `Invalid` when another process runs one of them.
        """
        store = self._instance.store
        for child in await store.sessions(parent_id=session_id, archived=True):
            await self.delete(child.id)
        await self.abort(session_id)
        async with self._held(session_id):
            await self._sessions.delete(session_id)
        await background.end(self._instance.processes, session_id)
        kept = await store.values("instar", f"system:{session_id}:")
        await store.commit([PutValue("instar", key, None) for key in kept])

    async def messages(self, session_id: str, limit: int | None = None) -> Messages:
        """Return the session's messages, oldest first. Raises `NotFound`."""
        history = (await self._sessions.open(session_id)).history
        first = 0 if limit is None else max(0, len(history) - max(0, limit))
        return [message.copy() for message in history[first:]]

    async def prompt(self, session_id: str, body: PromptBody) -> WithParts:
        """Save the prompt, run the turn and return its last answer."""
        live, asked = await self._submit(session_id, body)
        if body.no_reply:
            return asked.copy()
        await self._turns.wait(live)
        return live.history[-1].copy()

    async def prompt_async(self, session_id: str, body: PromptBody) -> None:
        """Save the prompt and start the turn, without waiting for it."""
        await self._submit(session_id, body)

    async def command(self, session_id: str, body: CommandBody) -> WithParts:
        """Make a prompt of a command, run the turn and return its last answer."""
        async with self._held(session_id) as live:
            asked = await invocation.invoke(self._instance, live, body)
        answer = await self.prompt(session_id, asked)
        done = CommandExecuted(
            session_id=session_id, name=body.command, arguments=body.arguments, message_id=answer.info.id
        )
        self._instance.bus.publish(make(done))
        return answer

    async def follow_up(self, session_id: str, body: PromptBody, source: str) -> None:
        """Queue a prompt durably and see that the session's loop takes it up."""
        live = await self._sessions.open(session_id)
        await self._sessions.queue(session_id, source, wire.to_plain(body))
        try:
            await self._turns.start(live)
        except SessionBusy as error:
            log.info("follow-up queued source=%s: %s", source, error)

    async def abort(self, session_id: str) -> bool:
        """End the session's turn; True when one ran."""
        return await self._turns.abort(await self._sessions.open(session_id))

    async def status(self) -> dict[str, SessionStatus]:
        """Return what each session that is not idle does."""
        return self._sessions.statuses()

    async def summarize(self, session_id: str, model: ModelRef | None = None) -> None:
        """Summarise the session's history.

        Raises `NotFound`, and `Invalid` when there is nothing to summarise or a turn runs.
        """
        async with self._held(session_id) as live:
            asked = loop.last_user(live.history)
            if asked is None:
                raise Invalid(f"session {session_id} has no messages to summarise")
            if live.turn is not None:
                raise Invalid(f"session {session_id} is busy; wait until its turn has ended, or abort it")
            if model is not None:
                self._instance.models.find(f"{model.provider_id}/{model.model_id}")
                asked = msgspec.structs.replace(asked, model=model)
            await compaction.ask(self._instance, live, asked, auto=False)
            await self._turns.start(live)
        await self._turns.wait(live)

    async def _submit(self, session_id: str, body: PromptBody) -> tuple[Live, WithParts]:
        async with self._held(session_id) as live:
            asked = await prompt.submit(self._instance, live, body)
            live.continued.clear()
            if not body.no_reply:
                await self._turns.start(live, asked)
        return live, asked

    @asynccontextmanager
    async def _held(self, session_id: str) -> AsyncIterator[Live]:
        """Hold a session for a while; what a caller cannot have becomes `Invalid`."""
        live = await self._sessions.open(session_id)
        try:
            await self._sessions.hold(live)
        except SessionBusy as error:
            raise Invalid(str(error)) from error
        try:
            yield live
        except (UnknownAgent, UnknownModel, NoModel) as error:
            raise Invalid(str(error)) from error
        finally:
            await self._sessions.let_go(live)


def _known(instance: Instance, agent: str) -> None:
    try:
        instance.agents.get(agent)
    except UnknownAgent as error:
        raise Invalid(str(error)) from error
