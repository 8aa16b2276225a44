"""The in-process client: what clients may ask of a runtime, carried out on its open sessions.

`InProcessClient` implements `instar.plugin.Client`, `InProcessSessions` its part for sessions. Each speaks for one
`Origin`: a door's for a person, a plugin's for the plugin, so that no call of a plugin passes for a person's.
"""

import asyncio
import copy
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from instar import wire
from instar.api.session import ShellBody, ToolCallBody
from instar.definitions.agent import UnknownAgent
from instar.event import CommandExecuted, Event, SessionStatus, Todo, TodoUpdated, make
from instar.message import (
    PERSON,
    FileDiff,
    KnownPart,
    ModelRef,
    Origin,
    Rule,
    Session,
    SessionModel,
    ToolCompleted,
    ToolError,
    ToolPart,
    WithParts,
)
from instar.plugin import (
    Answer,
    Apart,
    Aside,
    Busy,
    CommandBody,
    Done,
    Invalid,
    Messages,
    NotFound,
    PermissionClient,
    PromptBody,
    QuestionClient,
    Reverted,
    SessionBody,
    SessionClient,
    Task,
    points,
)
from instar.plugin.door import DISPOSE, Late, in_time
from instar.project.workspace import Workspaces
from instar.provider.resolve import NoModel, UnknownModel
from instar.runtime.move import Changes, move
from instar.session import changes, revert, subagent
from instar.session.instance import Instance
from instar.session.state import Overrides, SessionState, part_of
from instar.store import PutTodos, PutValue, StoreError
from instar.store.lease import SessionBusy
from instar.tool import background
from instar.turn import command, compaction, loop, prompt, shell, tool_call
from instar.turn.model_call import call_for, single
from instar.turn.turns import Turns, check_there
from instar.wire.secret import masked

log = logging.getLogger("instar.session")


class InProcessSessions:
    """Sessions as clients see them (`SessionClient`)."""

    def __init__(self, instance: Instance, turns: Turns, workspaces: Workspaces) -> None:
        self._instance = instance
        self._sessions = instance.sessions
        self._turns = turns
        self._workspaces = workspaces
        self._changing: set[str] = set()
        self._used: set[str] = set()
        self._origin = Origin()
        self._for_agent = False

    def speaking_for(self, origin: Origin) -> "InProcessSessions":
        """Return the same sessions for a program: prompts are attributed to `origin` unless they name another."""
        found = copy.copy(self)
        found._origin = origin
        return found

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
        self._instance.stops.session_made(made.id)
        await self._start(made.id, "new")
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
            self._instance.stops.inherit(session.id, task.session_id)
            started(session)

        sessions = self.speaking_for(self._origin)
        sessions._for_agent = True
        return await subagent.run(self._instance, sessions, task, begun, self._turns.spawn)

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
            await self._end(session_id, "archived")
        return wire.copy(session)

    async def delete(self, session_id: str) -> None:
        """Abort and delete a session, its children and the prompts that were kept for them.

        Raises `NotFound`, and `Invalid` when another process runs one of them.
        """
        store = self._instance.store
        self._turns.end_behind(session_id)
        for child in await store.sessions(parent_id=session_id, archived=True):
            await self.delete(child.id)
        await self.abort(session_id)
        async with self._held(session_id) as live:
            await self._sessions.delete(session_id)
            # A prompt that came after the first look has begun a turn: it may not outlive its session.
            await self._turns.abort(live)
        await self._end(session_id, "deleted")
        await background.end(self._instance.children, session_id)
        kept = [f"prefix:{session_id}", *await store.values("instar", f"system:{session_id}:")]
        await store.commit([PutValue("instar", key, None) for key in kept])

    async def prompt(self, session_id: str, body: PromptBody, origin: Origin | None = None) -> WithParts:
        """Save the prompt, run the turn and return its last answer.

        Raises `NotFound`, also when the session was deleted before its turn was over.
        """
        live, asked = await self._submit(session_id, body, origin)
        if body.no_reply:
            return asked.copy()
        return await self._turns.answer(live, asked)

    async def prompt_async(self, session_id: str, body: PromptBody, origin: Origin | None = None) -> None:
        """Save the prompt and start the turn, without waiting for it."""
        await self._submit(session_id, body, origin)

    async def command(self, session_id: str, body: CommandBody) -> WithParts:
        """Make a prompt of a command, run the turn and return its last answer."""
        await self._use(session_id)
        async with self._held(session_id) as live:
            self._check_home(live.session)
            own = body.agent or live.session.agent
            asked = await command.invoke(self._instance, live, body)
        live, prompted = await self._submit(session_id, asked, None)
        # The command's agent answers this prompt alone.
        live.session.agent = own
        await self._sessions.update(live)
        answer = await self._turns.answer(live, prompted)
        done = CommandExecuted(
            session_id=session_id, name=body.command, arguments=body.arguments, message_id=answer.info.id
        )
        self._instance.bus.publish(make(done))
        return answer

    async def shell(self, session_id: str, body: ShellBody | ToolCallBody) -> WithParts:
        """Run a person's own shell command, or a program's call, and return the message that holds what it printed.

        Raises `NotFound`, `Busy` while a turn runs, and `Invalid`.
        """
        await self._use(session_id)
        async with self._held(session_id) as live:
            self._check_home(live.session)
            self._check_rests(live, "runs no command")
            if not self._origin.is_person:
                await self._admit(live, None)
            run: shell.PersonCommand | tool_call.ProgramCall
            if isinstance(body, ToolCallBody):
                run = tool_call.ProgramCall(self._instance, live, body, self._origin)
            else:
                run = shell.PersonCommand(self._instance, live, body, self._origin)
            await self._finish_revert(live)
            await self._turns.occupy(live, run.carry_out)
        return (await asyncio.shield(run.answered)).copy()

    async def wait(self, session_id: str) -> None:
        """Return when no turn runs in a session. Raises `NotFound`."""
        await self._turns.wait(await self._sessions.open(session_id))

    async def follow_up(
        self, session_id: str, body: PromptBody, source: str, origin: Origin | None = None
    ) -> None:
        """Queue a prompt durably and see that the session's loop takes it up."""
        live = await self._sessions.open(session_id)
        self._check_home(live.session)
        if source == PERSON and not self._origin.is_person:
            source = self._origin.name
        await self._sessions.queue(session_id, source, wire.to_plain(body), origin or live.origin.traced())
        if (why := self._instance.stops.why(session_id)) is not None:
            log.info("follow-up waits source=%s: %s", source, why)
            return
        try:
            await self._turns.start(live)
        except SessionBusy as error:
            log.info("follow-up queued source=%s: %s", source, error)

    async def origin(self, session_id: str) -> Origin:
        """Return where the message comes from that the session answers now, or answered last. Raises `NotFound`."""
        return (await self._sessions.open(session_id)).origin

    async def abort(self, session_id: str) -> bool:
        """End the session's turn, else what its sub-agents do in the background; True when there was any."""
        return await self._turns.abort(await self._sessions.open(session_id)) or self._turns.end_behind(
            session_id
        )

    async def status(self) -> dict[str, SessionStatus]:
        """Return what each session that is not idle does."""
        return self._sessions.statuses()

    async def summarize(
        self, session_id: str, model: ModelRef | None = None, origin: Origin | None = None
    ) -> None:
        """Summarise the session's history (`SessionClient.summarize`)."""
        await self._use(session_id)
        async with self._held(session_id) as live:
            if live.turn is not None or session_id in self._changing:
                raise Invalid(f"session {session_id} is busy; wait until its turn has ended, or abort it")
            asked = loop.last_user(list(revert.visible(live)))
            if asked is None:
                raise Invalid(f"session {session_id} has no messages to summarise")
            await self._admit(live, origin)
            if model is not None:
                self._instance.models.find(f"{model.provider_id}/{model.model_id}")
                asked = msgspec.structs.replace(asked, model=model)
            await self._finish_revert(live)
            await compaction.ask(self._instance, live, asked, auto=False, origin=origin or self._origin)
            await self._turns.start(live)
        await self._turns.wait(live)

    async def _submit(
        self, session_id: str, body: PromptBody, origin: Origin | None
    ) -> tuple[SessionState, WithParts]:
        await self._use(session_id)
        async with self._held(session_id) as live:
            self._check_home(live.session)
            if session_id in self._changing:
                raise Busy(session_id, "is being changed: send the prompt again in a moment")
            if not body.no_reply:
                await self._admit(live, origin)
            await self._finish_revert(live)
            spoken = origin or self._origin.traced()
            more = self._turns.wanted(live, body)
            asked = await prompt.submit(self._instance, live, body, spoken, more)
            by = spoken.by("task") if self._for_agent else spoken
            await self._turns.reset_counts(live, by, asks=not body.no_reply)
            if not body.no_reply:
                await self._turns.start(live, asked)
        return live, asked

    async def _finish_revert(self, live: SessionState) -> None:
        """Drop for good what the session was taken back from, if it was."""
        if live.session.revert is not None:
            await revert.finish(self._instance, live)

    async def _admit(self, live: SessionState, origin: Origin | None) -> None:
        by_person = origin is None and self._origin.is_person
        await self._turns.admit(live, origin or self._origin, by_person=by_person)

    def _check_home(self, session: Session) -> None:
        """Raise `Invalid` when a session of a workspace would work in another folder than the workspace's.

        Once that folder is gone the session may go on anywhere, as any other session whose folder is gone.
        """
        home = Path(session.directory)
        here = self._instance.directory
        if session.workspace_id is not None and home.is_dir() and home.resolve() != here.resolve():
            raise Invalid(f"session {session.id} works in a workspace: go on with it there (--dir {home})")

    async def messages(self, session_id: str, limit: int | None = None) -> Messages:
        """Return the session's messages, oldest first. Raises `NotFound`."""
        history = (await self._sessions.open(session_id)).history
        first = 0 if limit is None else max(0, len(history) - max(0, limit))
        return [message.copy() for message in history[first:]]

    async def message(self, session_id: str, message_id: str) -> WithParts:
        """Return one message. Raises `NotFound`."""
        return (await self._sessions.open(session_id)).message(message_id).copy()

    async def diff(self, session_id: str, message_id: str | None = None) -> Sequence[FileDiff]:
        """Return what a session, or one prompt's turn, did to files. Raises `NotFound`."""
        live = await self._sessions.open(session_id)
        return await changes.shown(self._instance, revert.visible(live), message_id)

    async def revert(
        self,
        session_id: str,
        message_id: str | None = None,
        part_id: str | None = None,
        *,
        files: bool = True,
    ) -> Reverted:
        """Take a session and (with `files`) its files back. Raises `NotFound`, and `Invalid` while a turn runs."""
        async with self._resting(session_id, "reverted") as live:
            wanted = message_id if message_id is not None else revert.last_prompt(revert.visible(live))
            return await revert.revert(self._instance, live, wanted, part_id, files=files)

    async def unrevert(self, session_id: str) -> Reverted:
        """Take a session and its files forth again. Raises as `revert`."""
        async with self._resting(session_id, "unreverted") as live:
            return await revert.unrevert(self._instance, live)

    async def settle(self, session_id: str) -> None:
        """Drop for good what a session was taken back from. Raises as `revert`."""
        async with self._resting(session_id, "changed") as live:
            await self._finish_revert(live)

    async def remove(self, session_id: str, message_id: str, part_id: str | None = None) -> None:
        """Delete a message or a part. Raises as `revert`."""
        async with self._resting(session_id, "changed") as live:
            await revert.remove(self._instance, live, message_id, part_id)

    async def fork(self, session_id: str, message_id: str | None = None) -> Session:
        """Make a session of copies of this one's messages. Raises `NotFound`."""
        live = await self._sessions.open(session_id)
        return wire.copy(await revert.fork(self._instance, live, message_id))

    async def put_part(self, session_id: str, part: KnownPart) -> KnownPart:
        """Change a part of a message. Raises as `revert`, and `Invalid` for what the part cannot become."""
        async with self._resting(session_id, "changed") as live:
            holder = live.message(part.message_id)
            old = holder.parts[part_of(holder, part.id)]
            if old.type != part.type:
                raise Invalid(f"a part's type cannot be changed: {part.id} is of type {old.type!r}")
            if isinstance(part, ToolPart) and not isinstance(part.state, ToolCompleted | ToolError):
                raise Invalid(f"no turn runs that would end a call that is {part.state.status!r}")
            made = wire.as_stored(part)
            await self._sessions.save_part(holder, made)
        return wire.copy(made)

    async def move(self, session_id: str, destination: Path, changes: Changes = "stay") -> Session:
        """Let a session go on in another folder of its project, in which a workspace may be.

        The changes of the worktree stay, or are put onto the other one, whole or not at all; ``move`` takes them
        back here afterwards. Raises `NotFound`, `Busy` while a turn runs, `Invalid` for a folder that is none or
        of another project, and `vcs.ApplyError` for changes that do not fit: then nothing has moved.
        """
        async with self._held(session_id) as live:
            with self._changed(live, "cannot be moved"):
                await move(self._instance, self._workspaces, live, destination, changes)
            return wire.copy(live.session)

    async def _use(self, session_id: str) -> None:
        """Tell plugins that a session is about to be used, if it is not in use. Raises `NotFound`, and `Invalid`."""
        live = await self._sessions.open(session_id)
        if not await live.await_hooks(self._start(session_id, "resume" if live.history else "new")):
            raise Invalid(prompt.DISMISSED)

    @asynccontextmanager
    async def _resting(self, session_id: str, done: str) -> AsyncIterator[SessionState]:
        """Hold a session in which no turn runs, and let no prompt in meanwhile. Raises `Invalid`."""
        async with self._held(session_id) as live:
            self._check_home(live.session)
            # Files that it brings back may be the model's.
            with self._changed(live, f"cannot be {done}"), self._instance.children.lived():
                yield live

    @contextmanager
    def _changed(self, live: SessionState, what: str) -> Iterator[None]:
        """Let no prompt into a held session while it is changed. Raises as `_check_rests`."""
        self._check_rests(live, what)
        self._changing.add(live.id)
        try:
            yield
        finally:
            self._changing.discard(live.id)

    def _check_rests(self, live: SessionState, what: str) -> None:
        """See that no turn runs in a session and nobody changes it. Raises `Busy`, which says `what` cannot be."""
        if live.turn is not None or live.id in self._changing:
            raise Busy(live.id, f"{what}: wait until its turn has ended, or abort it")

    @asynccontextmanager
    async def _held(self, session_id: str) -> AsyncIterator[SessionState]:
        """Hold a session for a while; what a caller cannot have becomes `Invalid`.

        Raises `NotFound` when the session was deleted before what was begun in it could be saved.
        """
        live = await self._sessions.open(session_id)
        try:
            await self._sessions.hold(live)
        except SessionBusy as error:
            raise Invalid(str(error)) from error
        try:
            yield live
        except (UnknownAgent, UnknownModel, NoModel) as error:
            raise Invalid(str(error)) from error
        except StoreError:
            check_there(live)
            raise
        finally:
            await self._sessions.let_go(live)

    async def _start(self, session_id: str, source: Literal["new", "resume"] = "resume") -> None:
        """Tell plugins that a session is about to be used; nothing happens when it is in use already."""
        if session_id in self._used:
            return
        # Noted first: a hook that uses the session must not be told again.
        self._used.add(session_id)
        given = points.SessionStartInput(session_id=session_id, source=source)
        try:
            await self._instance.plugins.trigger(points.SESSION_START, given, points.Empty())
        except asyncio.CancelledError:
            self._used.discard(session_id)  # not everybody was told: whoever uses it next tells it again
            raise

    async def _end(self, session_id: str, reason: Literal["deleted", "archived", "closed"]) -> None:
        """Report `session.end` to plugins, if the session was in use."""
        if session_id not in self._used:
            return
        self._used.discard(session_id)
        if (live := self._instance.sessions.known(session_id)) is not None:
            live.overrides = Overrides()
        given = points.SessionEndInput(session_id=session_id, reason=reason)
        await self._instance.plugins.trigger(points.SESSION_END, given, points.Empty())

    async def close(self) -> None:
        """The instance ends: tell plugins of every session in use, oldest first, for a few seconds at most."""
        try:
            await in_time(DISPOSE, self._end_all)
        except Late as error:
            log.error("session.end was not told to everybody: %s", error)

    async def _end_all(self) -> None:
        for session_id in sorted(self._used, reverse=True):
            await self._end(session_id, "closed")


class InProcessClient:
    """A client of one instance (`instar.plugin.Client`) that speaks for `origin`."""

    def __init__(
        self,
        instance: Instance,
        sessions: InProcessSessions,
        workspaces: Workspaces,
        origin: Origin,
        ephemeral: Callable[[Instance, Aside], Awaitable[Apart]],
    ) -> None:
        """`ephemeral` lets a model work in an ephemeral session (`instar.runtime.ephemeral.run`)."""
        self.instance = instance
        self.session: SessionClient = sessions if origin.is_person else sessions.speaking_for(origin)
        self.permission: PermissionClient = instance.approvals
        self.question: QuestionClient = instance.questions
        self.workspace = workspaces
        self._origin = origin
        self._ephemeral = ephemeral

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
        call = await call_for(self.instance, model, cause, session_id, whose)
        return await single(self.instance, call, system, prompt)

    async def aside(self, aside: Aside) -> Apart:
        """Let a model work in an ephemeral session, for a session or for none."""
        if aside.origin is None and not aside.session_id:
            aside = msgspec.structs.replace(aside, origin=self._origin)
        return await self._ephemeral(self.instance, aside)

    async def events(self) -> AsyncIterator[Event]:
        """Iterate over events as they are published, from now on."""
        with self.instance.bus.subscribe() as subscription:
            async for event in subscription:
                yield event

    async def publish(self, event: Event) -> None:
        """Publish an event of a declared type."""
        self.instance.bus.publish(event)

    async def config(self) -> wire.Plain:
        """Return the merged configuration, secrets masked."""
        return dict(masked(self.instance.config.data))

    async def agents(self) -> list[str]:
        """Return the names of the agents, built-in ones first."""
        return [agent.name for agent in self.instance.agents.all()]

    async def rules(self, agent: str = "", session_id: str = "") -> list[Rule]:
        """Return the permission rules of an agent and of a session."""
        try:
            found = self.instance.agents.get(agent or None)
        except UnknownAgent:
            found = self.instance.agents.get(None)
        try:
            own = (await self.session.get(session_id)).permission if session_id else None
        except NotFound:
            own = None
        return [*found.permission, *(own or ())]

    async def tools(self) -> list[str]:
        """Return the names of the tools that are registered."""
        return [*self.instance.tools, *sorted(self.instance.plugins.tools())]


def _known(instance: Instance, agent: str) -> None:
    try:
        instance.agents.get(agent)
    except UnknownAgent as error:
        raise Invalid(str(error)) from error
