"""The in-process client's sessions: what clients may ask, carried out on the open sessions."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from instar import changes, compaction, fork, invocation, loop, prompt, revert, subagent, wire
from instar.agent import UnknownAgent
from instar.event import CommandExecuted, SessionStatus, Todo, TodoUpdated, make
from instar.instance import Instance
from instar.lease import SessionBusy
from instar.lifecycle import Lifecycle
from instar.live import Live
from instar.message import FileDiff, ModelRef, Rule, Session, WithParts
from instar.plugin import (
    Busy,
    CommandBody,
    Done,
    Invalid,
    Messages,
    NotFound,
    PromptBody,
    Reverted,
    SessionBody,
    Task,
)
from instar.provider.assemble import UnknownModel
from instar.provider.resolve import NoModel
from instar.store import PutTodos, PutValue, StoreError
from instar.tool import background
from instar.turns import Turns
from instar.workspace import Workspaces, check_home

log = logging.getLogger("instar.session")


class SessionDoor:
    """Sessions as clients see them (`SessionClient`)."""

    def __init__(self, instance: Instance, turns: Turns, workspaces: Workspaces) -> None:
        self._instance = instance
        self._sessions = instance.sessions
        self._turns = turns
        self._workspaces = workspaces
        self._changing: set[str] = set()
        self._lifecycle = Lifecycle(instance)

    async def create(self, body: SessionBody | None = None) -> Session:
        """Make a session in the runtime's directory, or in a workspace's.

        Raises `Invalid`, and `NotFound` for an unknown parent or workspace.
        """
        body = body or SessionBody()
        if body.agent is not None:
            _known(self._instance, body.agent)
        body, directory = await self._placed(body)
        try:
            made = await self._sessions.create(body, directory)
        except msgspec.ValidationError as error:
            raise Invalid(f"a session cannot be made of this: {error}") from None
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
        return await subagent.run(self._instance, self, task, started)

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        archived: int | None = None,
        metadata: wire.Plain | None = None,
        permission: Sequence[Rule] = (),
    ) -> Session:
        """Change a session's title or metadata, add rules to its own, or put it away.

        Raises `NotFound`, and `Invalid` when another process runs it, which would write over the change.
        """
        async with self._held(session_id) as live:
            session = live.session
            was = session.title, session.time.archived, session.metadata, session.permission
            session.title = session.title if title is None else title
            session.time.archived = session.time.archived if archived is None else (archived or None)
            session.metadata = session.metadata if metadata is None else metadata
            session.permission = [*(session.permission or []), *permission] or session.permission
            try:
                await self._sessions.update(live)
            except StoreError:
                # What could not be saved must not go along with the turn's next save.
                session.title, session.time.archived, session.metadata, session.permission = was
                raise
        if archived:
            await self._lifecycle.end(session_id, "archived")
        return wire.copy(session)

    async def revert(
        self, session_id: str, message_id: str | None = None, part_id: str | None = None
    ) -> Reverted:
        """Take a session and its files back. Raises `NotFound`, and `Invalid` while a turn runs."""
        async with self._resting(session_id, "reverted") as live:
            wanted = message_id if message_id is not None else revert.last_prompt(revert.visible(live))
            return await revert.revert(self._instance, live, wanted, part_id)

    async def unrevert(self, session_id: str) -> Reverted:
        """Take a session and its files forth again. Raises as `revert`."""
        async with self._resting(session_id, "unreverted") as live:
            return await revert.unrevert(self._instance, live)

    async def remove(self, session_id: str, message_id: str, part_id: str | None = None) -> None:
        """Delete a message or a part. Raises as `revert`."""
        async with self._resting(session_id, "changed") as live:
            await revert.remove(self._instance, live, message_id, part_id)

    async def fork(self, session_id: str, message_id: str | None = None) -> Session:
        """Make a session of copies of this one's messages. Raises `NotFound`."""
        live = await self._sessions.open(session_id)
        return wire.copy(await fork.fork(self._instance, live, message_id))

    async def diff(self, session_id: str, message_id: str | None = None) -> Sequence[FileDiff]:
        """Return what a session, or one prompt's turn, did to files. Raises `NotFound`."""
        live = await self._sessions.open(session_id)
        return await changes.shown(self._instance, revert.visible(live), message_id)

    async def message(self, session_id: str, message_id: str) -> WithParts:
        """Return one message. Raises `NotFound`."""
        found = (await self._sessions.open(session_id)).find(message_id)
        if found is None:
            raise NotFound(f"Message not found: {message_id}")
        return found.copy()

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
        await self._lifecycle.end(session_id, "deleted")
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
        return compaction.last_answer(live.history).copy()

    async def prompt_async(self, session_id: str, body: PromptBody) -> None:
        """Save the prompt and start the turn, without waiting for it."""
        await self._submit(session_id, body)

    async def command(self, session_id: str, body: CommandBody) -> WithParts:
        """Make a prompt of a command, run the turn and return its last answer."""
        await self._use(session_id)
        async with self._held(session_id) as live:
            check_home(live.session, self._instance.directory)
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
        check_home(live.session, self._instance.directory)
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
        await self._use(session_id)
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

    async def close(self) -> None:
        """Tell plugins of every session in use that it ends."""
        await self._lifecycle.close()

    async def _use(self, session_id: str) -> None:
        """A session is about to be used. Raises `NotFound`."""
        live = await self._sessions.open(session_id)
        await self._lifecycle.start(session_id, "resume" if live.history else "new")

    async def _submit(self, session_id: str, body: PromptBody) -> tuple[Live, WithParts]:
        await self._use(session_id)
        async with self._held(session_id) as live:
            check_home(live.session, self._instance.directory)
            if session_id in self._changing:
                raise Busy(session_id, "is being changed: send the prompt again in a moment")
            await revert.finish(self._instance, live)
            asked = await prompt.submit(self._instance, live, body)
            live.hear_person()
            if not body.no_reply:
                await self._turns.start(live, asked)
        return live, asked

    @asynccontextmanager
    async def _resting(self, session_id: str, done: str) -> AsyncIterator[Live]:
        """Hold a session in which no turn runs, and let no prompt in meanwhile. Raises `Invalid`."""
        async with self._held(session_id) as live:
            check_home(live.session, self._instance.directory)
            if live.turn is not None or session_id in self._changing:
                raise Busy(session_id, f"cannot be {done}: wait until its turn has ended, or abort it")
            self._changing.add(session_id)
            try:
                yield live
            finally:
                self._changing.discard(session_id)

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
