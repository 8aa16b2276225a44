"""The client: how a plugin, a tool or a door talks to the system it runs in.

One typed protocol, the subset of opencode's SDK that seed 004 and the reference's section 4 name. The
in-process runtime implements it; HTTP and the bridge will. Results are detached values.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from instar.api.session import ShellBody
from instar.event import AskedBy, Event, PermissionAsked, Question, QuestionAsked, SessionStatus, Todo
from instar.message import FileDiff, KnownPart, ModelRef, Origin, Rule, Session, SessionModel, WithParts
from instar.plugin.aside import Apart, Aside
from instar.plugin.request import (
    Answer,
    CommandBody,
    Done,
    PromptBody,
    Reverted,
    SessionBody,
    Task,
)
from instar.plugin.workspace import WorkspaceClient
from instar.wire import Plain

Messages = list[WithParts]
"""A session's messages with their parts, oldest first."""


class SessionClient(Protocol):
    """Sessions and their messages."""

    async def create(self, body: SessionBody | None = None, session_id: str | None = None) -> Session:
        """Make a session in the client's directory, under an id of its own or one that is given and free."""
        ...

    async def get(self, session_id: str) -> Session:
        """Return a session. Raises `NotFound`."""
        ...

    async def list(self) -> list[Session]:
        """Return the project's sessions, last updated first."""
        ...

    async def children(self, session_id: str) -> Sequence[Session]:
        """Return the sessions whose parent this is, last updated first. Raises `NotFound`."""
        ...

    async def todos(self, session_id: str) -> Sequence[Todo]:
        """Return the session's list of things to do. Raises `NotFound`."""
        ...

    async def put_todos(self, session_id: str, todos: Sequence[Todo]) -> None:
        """Replace the session's list of things to do and publish ``todo.updated``. Raises `NotFound`."""
        ...

    async def task(self, task: Task, started: Callable[[Session], None]) -> Done:
        """Let a sub-agent do a task in a session of its own and return its answer; `started` gets that session.

        Cancelling ends the sub-agent's turn. Raises `NotFound` and `Invalid`.
        """
        ...

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        archived: int | None = None,
        metadata: Plain | None = None,
        permission: Sequence[Rule] = (),
        agent: str | None = None,
        model: SessionModel | None = None,
    ) -> Session:
        """Change a session's title, metadata, agent or model, or put it away (`archived` in ms, 0 takes it out again).

        `permission` are rules that are added to the session's own: the last that matches decides. Raises `NotFound`.
        """
        ...

    async def revert(
        self,
        session_id: str,
        message_id: str | None = None,
        part_id: str | None = None,
        *,
        files: bool = True,
    ) -> Reverted:
        """Take a session and the files that it changed back to before a message (the person's last one) or a part.

        Without `files` those stay as they are. The messages stay until the next prompt. Raises `NotFound`, and
        `Invalid` while a turn runs.
        """
        ...

    async def unrevert(self, session_id: str) -> Reverted:
        """Undo `revert`, the files with it. Raises as `revert`."""
        ...

    async def settle(self, session_id: str) -> None:
        """Drop for good what a session was taken back from, as its next prompt would. Raises as `revert`."""
        ...

    async def fork(self, session_id: str, message_id: str | None = None) -> Session:
        """Make a session of copies of another one's messages, up to `message_id`, which is left out.

        Raises `NotFound`.
        """
        ...

    async def diff(self, session_id: str, message_id: str | None = None) -> Sequence[FileDiff]:
        """Return how the files differ that a session, or one prompt's turn, changed. Raises `NotFound`."""
        ...

    async def message(self, session_id: str, message_id: str) -> WithParts:
        """Return one message. Raises `NotFound`."""
        ...

    async def remove(self, session_id: str, message_id: str, part_id: str | None = None) -> None:
        """Delete a message, or one part of it; files stay as they are. Raises as `revert`."""
        ...

    async def put_part(self, session_id: str, part: KnownPart) -> KnownPart:
        """Change a part of a message; its type stays. Raises as `revert`."""
        ...

    async def delete(self, session_id: str) -> None:
        """Delete a session with all that belongs to it. Raises `NotFound`."""
        ...

    async def messages(self, session_id: str, limit: int | None = None) -> Messages:
        """Return the session's messages, oldest first. Raises `NotFound`."""
        ...

    async def prompt(self, session_id: str, body: PromptBody, origin: Origin | None = None) -> WithParts:
        """Save the prompt, run the turn, and return its last answer (the user message with `no_reply`).

        `origin` says for whom; without it a door speaks for a person and a plugin for itself. Limits, accounting
        and what goes on from here follow it.

        Raises `NotFound`, `Invalid`, or the refusal of a `chat.message` hook as `Invalid`. Not from inside
        a hook: there, queue with `follow_up`.
        """
        ...

    async def prompt_async(self, session_id: str, body: PromptBody, origin: Origin | None = None) -> None:
        """Save the prompt and start the turn, without waiting for it. Raises as `prompt`."""
        ...

    async def command(self, session_id: str, body: CommandBody) -> WithParts:
        """Make a prompt of a command, run the turn, and return its last answer.

        Publishes ``command.executed``. Raises as `prompt`, and the refusal of a `command.execute.before` hook as
        `Invalid`.
        """
        ...

    async def shell(self, session_id: str, body: ShellBody) -> WithParts:
        """Run a person's own shell command and return the message that holds what it printed.

        Nobody is asked for a permission and no model is called; the next prompt's reads it. Raises `NotFound`, `Busy`
        while a turn runs, and `Invalid`.
        """
        ...

    async def wait(self, session_id: str) -> None:
        """Return when no turn runs in a session. Raises `NotFound`."""
        ...

    async def follow_up(
        self, session_id: str, body: PromptBody, source: str, origin: Origin | None = None
    ) -> None:
        """Queue a prompt durably; the session's loop takes it up when it has nothing else to do.

        Without `origin` it has that of the turn that runs, or that ran last.
        """
        ...

    async def origin(self, session_id: str) -> Origin:
        """Return where the message comes from that the session answers now, or answered last. Raises `NotFound`."""
        ...

    async def abort(self, session_id: str) -> bool:
        """End the session's turn; True when one ran."""
        ...

    async def status(self) -> dict[str, SessionStatus]:
        """Return what each session that is not idle does."""
        ...

    async def summarize(
        self, session_id: str, model: ModelRef | None = None, origin: Origin | None = None
    ) -> None:
        """Summarise the session's history, booked for `origin` as a prompt is.

        Raises `NotFound`, and `Invalid` when there is nothing to summarise or a turn runs.
        """
        ...


class PermissionClient(Protocol):
    """Tool calls that wait for a person's permission, and what was allowed for always."""

    async def list(self) -> Sequence[PermissionAsked]:
        """Return what waits for an answer, oldest first."""
        ...

    async def reply(self, request_id: str, reply: str, message: str | None = None) -> None:
        """Answer ``once``, ``always`` or ``reject``; returns when the answer is durable.

        ``always`` answers the session's other calls that it covers. ``reject`` ends the turn, unless a `message`
        tells the model what to do instead. Raises `NotFound` and `Invalid`.
        """
        ...

    async def approvals(self) -> Sequence[Rule]:
        """Return the ``always`` answers that hold in the client's worktree, oldest first."""
        ...

    async def forget(self, permission: str, pattern: str) -> bool:
        """Take an ``always`` answer back; False when there is none."""
        ...


class QuestionClient(Protocol):
    """Questions of the model to a person."""

    async def ask(
        self, session_id: str, questions: Sequence[Question], caller: AskedBy | None = None
    ) -> list[list[str]] | None:
        """Put questions to a person and wait; for each the labels chosen, None when they would not answer.

        Raises `Invalid` when nobody is there to ask.
        """
        ...

    async def list(self) -> Sequence[QuestionAsked]:
        """Return what waits for an answer, oldest first."""
        ...

    async def reply(self, request_id: str, answers: Sequence[Sequence[str]]) -> None:
        """Answer: for each question the labels chosen. Raises `NotFound` and `Invalid`."""
        ...

    async def reject(self, request_id: str) -> None:
        """Say that nobody will answer. Raises `NotFound`."""
        ...


class Client(Protocol):
    """The whole of it. What a host lacks is absent from `PluginInput.host.capabilities`."""

    @property
    def session(self) -> SessionClient:
        """Sessions and their messages."""
        ...

    @property
    def permission(self) -> PermissionClient:
        """Tool calls that wait for a person's permission."""
        ...

    @property
    def question(self) -> QuestionClient:
        """Questions of the model to a person."""
        ...

    @property
    def workspace(self) -> WorkspaceClient:
        """Folders apart that sessions work in."""
        ...

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
        """Make one model call without a session, tools or hooks (capability ``generate``).

        It is booked as `cause`, for the session `session_id` if it is made for one. `origin` as in `prompt`; for
        a session without it, that of its turn.
        """
        ...

    async def aside(self, aside: Aside) -> Apart:
        """Let a model work for a moment in a session apart (capability ``aside``).

        No hook of any origin fires in it, it is in no list, nobody hears of it, and it begins no other. Cancelling
        ends it within a second, with all that it started. Raises `NotFound`, and `Invalid` for a model or a tool
        that cannot be had.
        """
        ...

    def events(self) -> AsyncIterator[Event]:
        """Iterate over events as they are published, from now on."""
        ...

    async def publish(self, event: Event) -> None:
        """Publish an event of a declared type."""
        ...

    async def config(self) -> Plain:
        """Return the merged configuration, secrets masked."""
        ...

    async def agents(self) -> list[str]:
        """Return the names of the agents, built-in ones first."""
        ...

    async def tools(self) -> list[str]:
        """Return the names of the tools that are registered."""
        ...
