"""The client: how a plugin, a tool or a door talks to the system it runs in, with what its calls take and give.

The session calls follow opencode's SDK (https://opencode.ai/docs/sdk). The in-process runtime implements it, and so
does the bridge over HTTP. Results are detached values.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from instar.api.project import WorkspaceInfo
from instar.api.session import CommandBody, PromptBody, SessionBody, ShellBody
from instar.event import AskedBy, Event, PermissionAsked, Question, QuestionAsked, SessionStatus, Todo
from instar.message import FileDiff, KnownPart, ModelRef, Origin, Rule, Session, SessionModel, WithParts
from instar.wire import Plain


class LocalTarget(msgspec.Struct, frozen=True):
    """A workspace on this machine: the absolute path of its folder."""

    directory: Path


class RemoteTarget(msgspec.Struct, frozen=True):
    """A workspace on another machine: the address of its server, and headers that every request needs."""

    url: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


Target = LocalTarget | RemoteTarget


class WorkspaceAdapter(Protocol):
    """Makes and removes workspaces of one type. What it raises becomes one line for the person."""

    @property
    def name(self) -> str:
        """What people call the type."""

    @property
    def description(self) -> str:
        """What such a workspace is, in one sentence."""

    async def configure(self, info: WorkspaceInfo) -> WorkspaceInfo:
        """Return `info` with its directory, branch and extra fields. Makes nothing yet."""

    async def create(
        self, info: WorkspaceInfo, env: Mapping[str, str], from_: WorkspaceInfo | None = None
    ) -> None:
        """Make the workspace. `env` is for programs that work in it, `from_` is a workspace to start from.

        After a failure, or a crash, `remove` is called for what was made so far.
        """

    async def remove(self, info: WorkspaceInfo) -> None:
        """Remove the workspace, also an incomplete one."""

    async def target(self, info: WorkspaceInfo) -> Target:
        """Return where the workspace is."""


@runtime_checkable
class Careful(Protocol):
    """An optional part of an adapter: it knows what removing a workspace would lose."""

    async def unsaved(self, info: WorkspaceInfo) -> str | None:
        """Return what exists only there (``2 commits that no other branch has``), or None."""


class WorkspaceClient(Protocol):
    """The workspaces of the client's project."""

    async def create(
        self,
        kind: str = "worktree",
        *,
        name: str | None = None,
        branch: str | None = None,
        extra: Any = None,
        from_id: str | None = None,
    ) -> WorkspaceInfo:
        """Make a workspace of the type `kind`; without a name it gets one.

        Nothing is left of one that could not be made. Raises `Invalid`, and `NotFound` when `from_id` is nobody's.
        """

    async def list(self) -> Sequence[WorkspaceInfo]:
        """Return the project's workspaces, oldest first."""

    async def get(self, named: str) -> WorkspaceInfo:
        """Return the workspace with this id or name. Raises `NotFound`."""

    async def remove(self, named: str, *, force: bool = False) -> WorkspaceInfo:
        """Remove a workspace and return what it was.

        Raises `NotFound`; `Invalid` when a session runs in it, and without `force` when work would be lost.
        """

    async def target(self, named: str) -> Target:
        """Return where a workspace is. Raises `NotFound` and `Invalid`."""

    async def types(self) -> Mapping[str, str]:
        """Return the types that there are, each with its description."""


Ended = Literal["decided", "answered", "limit", "failed"]
"""How an ephemeral session ended: `until` was called, the model was done, a limit was reached, it failed."""


class OwnTool(msgspec.Struct, frozen=True):
    """A tool of the caller's, for one ephemeral session.

    `parameters` is a JSON Schema of an object; `take` gets arguments that fit it and returns what the model reads.
    """

    description: str
    parameters: Plain
    take: Callable[[Plain], Awaitable[str]]


class Aside(msgspec.Struct, frozen=True, kw_only=True):
    """Work for an ephemeral session: a short one that is hidden, runs no hooks and is not kept.

    - `session_id` is the session that the work is for; its usage counts there, booked as `cause`. "" is none.
    - `system` is the whole system prompt, `prompt` the task. `model` None takes the small model; a model without a
      provider is looked up by its name.
    - `agent` names an agent as which it works ("": the default one): with its temperature and options, its prompt where
      `system` is "", and where `model` is None its model, else the default one. Its tools and permissions do not count.
    - `script` is the file that a model of the provider ``scripted`` plays.
    - `tools` names built-in tools. A plugin's tool may be named only with both `write` and `network`, since no sandbox
      confines it. `own` are tools of the caller's, by name. The first call of the one that `until` names ends the
      session. A model that ends its turn without that call is told once to make it, unless `enough(text)` is True.
    - Without `write` no file of the project changes: editing tools refuse, and commands run in a sandbox on a copy.
      Without `network` nothing reaches the network.
    - `steps` limits its model calls, `timeout` its wall-clock time in seconds. It makes no further call once its calls
      have used `tokens`, or cost `cost` US dollars or an unknown amount; 0 is no limit.
    """

    cause: str
    system: str
    prompt: str
    session_id: str = ""
    title: str = "a session apart"
    agent: str | None = None
    model: ModelRef | None = None
    script: Path | None = None
    tools: Sequence[str] = ()
    own: Mapping[str, OwnTool] = MappingProxyType({})
    until: str = ""
    enough: Callable[[str], bool] | None = None
    write: bool = False
    network: bool = False
    steps: int = 10
    timeout: float = 60.0
    tokens: int = 0
    cost: float = 0.0
    origin: Origin | None = None


class Apart(msgspec.Struct, frozen=True):
    """The result of an ephemeral session.

    `own_limit`: it ended at a limit that its `Aside` sets, not at one of the person's.

    `calls` are the arguments of each call of `Aside.until` in the answer that ended it, and `text` is that answer's
    text. `error` says why it ended, "" where it ended by itself. `steps` counts answered model calls, `tokens` their
    tokens; `cost` is in US dollars (None where a price is unknown), `ms` the wall-clock time. `model` is
    ``provider/model``. `session_id` is the id that it had; nothing is kept under it.
    """

    session_id: str
    ended: Ended
    text: str = ""
    calls: Sequence[Plain] = ()
    error: str = ""
    steps: int = 0
    tokens: int = 0
    cost: float | None = 0.0
    ms: int = 0
    model: str = ""
    own_limit: bool = False


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Work for a sub-agent: who asks (a session, its agent and the answer that holds the call), who does it, what.

    `task_id` names the session of an earlier task of the same parent, which then goes on.
    `by_person`: a person's command asked for it, so a primary agent may do it too; `model` is then the command's.
    `background`: nobody waits; its end is told to the session that asks, as a prompt of its own.
    """

    session_id: str
    message_id: str
    caller: str
    agent: str
    description: str
    prompt: str
    task_id: str | None = None
    by_person: bool = False
    model: ModelRef | None = None
    background: bool = False


class Done(msgspec.Struct, frozen=True):
    """What a sub-agent answered; `error` is None unless its last step failed or was ended. `running`: it goes on."""

    session_id: str
    text: str
    error: str | None = None
    running: bool = False


class Reverted(msgspec.Struct, frozen=True):
    """A session that was reverted or restored, and its files (names relative to the worktree).

    `files` are as they were then; `changed` are those among them that somebody had changed since the session
    did; `kept` were left alone, since no snapshot holds what they would have lost. `note` says why files are not
    as they were, None when they are.
    """

    session: Session
    files: Sequence[str] = ()
    changed: Sequence[str] = ()
    kept: Sequence[str] = ()
    note: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """What a single model call returned; `model` is ``provider/model``."""

    text: str
    cost: float | None
    tokens: int
    model: str = ""


Messages = list[WithParts]
"""A session's messages with their parts, oldest first."""


class SessionClient(Protocol):
    """Sessions and their messages."""

    async def create(self, body: SessionBody | None = None, session_id: str | None = None) -> Session:
        """Make a session in the client's directory, under an id of its own or one that is given and free."""

    async def get(self, session_id: str) -> Session:
        """Return a session. Raises `NotFound`."""

    async def list(self) -> list[Session]:
        """Return the project's sessions, last updated first."""

    async def children(self, session_id: str) -> Sequence[Session]:
        """Return the sessions whose parent this is, last updated first. Raises `NotFound`."""

    async def todos(self, session_id: str) -> Sequence[Todo]:
        """Return the session's list of things to do. Raises `NotFound`."""

    async def put_todos(self, session_id: str, todos: Sequence[Todo]) -> None:
        """Replace the session's list of things to do and publish ``todo.updated``. Raises `NotFound`."""

    async def task(self, task: Task, started: Callable[[Session], None]) -> Done:
        """Let a sub-agent do a task in a session of its own and return its answer; `started` gets that session.

        Cancelling ends the sub-agent's turn. Raises `NotFound` and `Invalid`.
        """

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
        """Change a session's title, metadata, agent or model, or archive it (`archived` in ms, 0 restores it).

        `permission` are rules that are added to the session's own: the last that matches decides. Raises `NotFound`.
        """

    async def revert(
        self,
        session_id: str,
        message_id: str | None = None,
        part_id: str | None = None,
        *,
        files: bool = True,
    ) -> Reverted:
        """Revert a session and its files to before a message (by default the last user message) or a part.

        Without `files` those stay as they are. The messages stay until the next prompt. Raises `NotFound`, and
        `Invalid` while a turn runs.
        """

    async def unrevert(self, session_id: str) -> Reverted:
        """Undo `revert`, the files with it. Raises as `revert`."""

    async def settle(self, session_id: str) -> None:
        """Delete the messages after the point of `revert`, as the next prompt would. Raises as `revert`."""

    async def fork(self, session_id: str, message_id: str | None = None) -> Session:
        """Fork a session: copy its messages up to `message_id`, exclusive.

        Raises `NotFound`.
        """

    async def diff(self, session_id: str, message_id: str | None = None) -> Sequence[FileDiff]:
        """Return the file differences of a session, or of one prompt's turn. Raises `NotFound`."""

    async def message(self, session_id: str, message_id: str) -> WithParts:
        """Return one message. Raises `NotFound`."""

    async def remove(self, session_id: str, message_id: str, part_id: str | None = None) -> None:
        """Delete a message, or one part of it; files stay as they are. Raises as `revert`."""

    async def put_part(self, session_id: str, part: KnownPart) -> KnownPart:
        """Change a part of a message; its type stays. Raises as `revert`."""

    async def delete(self, session_id: str) -> None:
        """Delete a session with all that belongs to it. Raises `NotFound`."""

    async def messages(self, session_id: str, limit: int | None = None) -> Messages:
        """Return the session's messages, oldest first. Raises `NotFound`."""

    async def prompt(self, session_id: str, body: PromptBody, origin: Origin | None = None) -> WithParts:
        """Save the prompt, run the turn, and return its last answer (the user message with `no_reply`).

        `origin` says for whom; without it a door speaks for a person and a plugin for itself. Limits, accounting
        and what goes on from here follow it.

        Raises `NotFound`, `Invalid`, or the refusal of a `chat.message` hook as `Invalid`. Not from inside
        a hook: there, queue with `follow_up`.
        """

    async def prompt_async(self, session_id: str, body: PromptBody, origin: Origin | None = None) -> None:
        """Save the prompt and start the turn, without waiting for it. Raises as `prompt`."""

    async def command(self, session_id: str, body: CommandBody) -> WithParts:
        """Make a prompt of a command, run the turn, and return its last answer.

        Publishes ``command.executed``. Raises as `prompt`, and the refusal of a `command.execute.before` hook as
        `Invalid`.
        """

    async def shell(self, session_id: str, body: ShellBody) -> WithParts:
        """Run a person's own shell command and return the message that holds what it printed.

        Nobody is asked for a permission and no model is called; the next prompt's reads it. Raises `NotFound`, `Busy`
        while a turn runs, and `Invalid`.
        """

    async def wait(self, session_id: str) -> None:
        """Return when no turn runs in a session. Raises `NotFound`."""

    async def follow_up(
        self, session_id: str, body: PromptBody, source: str, origin: Origin | None = None
    ) -> None:
        """Queue a prompt durably; it runs when the session has no other work.

        Without `origin` it has that of the turn that runs, or that ran last.
        """

    async def origin(self, session_id: str) -> Origin:
        """Return the origin of the message that the session answers now, or answered last. Raises `NotFound`."""

    async def abort(self, session_id: str) -> bool:
        """End the session's turn, else what its sub-agents do in the background; True when there was any."""

    async def status(self) -> dict[str, SessionStatus]:
        """Return what each session that is not idle does."""

    async def summarize(
        self, session_id: str, model: ModelRef | None = None, origin: Origin | None = None
    ) -> None:
        """Summarise the session's history, booked for `origin` as a prompt is.

        Raises `NotFound`, and `Invalid` when there is nothing to summarise or a turn runs.
        """


class PermissionClient(Protocol):
    """Tool calls that wait for a person's permission, and what was allowed for always."""

    async def list(self) -> Sequence[PermissionAsked]:
        """Return what waits for an answer, oldest first."""

    async def reply(self, request_id: str, reply: str, message: str | None = None) -> None:
        """Answer ``once``, ``always`` or ``reject``; returns when the answer is durable.

        ``always`` answers the session's other calls that it covers. ``reject`` ends the turn, unless a `message`
        tells the model what to do instead. Raises `NotFound` and `Invalid`.
        """

    async def approvals(self) -> Sequence[Rule]:
        """Return the ``always`` answers that hold in the client's worktree, oldest first."""

    async def forget(self, permission: str, pattern: str) -> bool:
        """Remove an ``always`` answer; false when there is none."""


class QuestionClient(Protocol):
    """Questions of the model to a person."""

    async def ask(
        self, session_id: str, questions: Sequence[Question], caller: AskedBy | None = None
    ) -> list[list[str]] | None:
        """Put questions to a person and wait; for each the labels chosen, None when they would not answer.

        Raises `Invalid` when nobody is there to ask.
        """

    async def list(self) -> Sequence[QuestionAsked]:
        """Return what waits for an answer, oldest first."""

    async def reply(self, request_id: str, answers: Sequence[Sequence[str]]) -> None:
        """Answer: for each question the labels chosen. Raises `NotFound` and `Invalid`."""

    async def reject(self, request_id: str) -> None:
        """Dismiss the questions. Raises `NotFound`."""


class Client(Protocol):
    """The client of a plugin. What a host lacks is absent from `PluginInput.host.capabilities`."""

    @property
    def session(self) -> SessionClient:
        """Sessions and their messages."""

    @property
    def permission(self) -> PermissionClient:
        """Tool calls that wait for a person's permission."""

    @property
    def question(self) -> QuestionClient:
        """Questions of the model to a person."""

    @property
    def workspace(self) -> WorkspaceClient:
        """Workspaces: folders or machines that sessions work in."""

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

    async def aside(self, aside: Aside) -> Apart:
        """Run an ephemeral session and return its result (capability ``aside``).

        No hook fires in it, no list shows it, no event is published for it, and it starts no other. Cancelling ends it
        within a second, with all that it started. Raises `NotFound`, and `Invalid` for a model or a tool that is not
        available.
        """

    def events(self) -> AsyncIterator[Event]:
        """Iterate over events as they are published, from now on."""

    async def publish(self, event: Event) -> None:
        """Publish an event of a declared type."""

    async def config(self) -> Plain:
        """Return the merged configuration, secrets masked."""

    async def agents(self) -> list[str]:
        """Return the names of the agents, built-in ones first."""

    async def rules(self, agent: str = "", session_id: str = "") -> list[Rule]:
        """Return the permission rules of an agent, defaults first, then a session's own; the last match decides.

        Without `agent` those of the default agent, also where there is none of that name. A session that is gone has
        none of its own.
        """

    async def tools(self) -> list[str]:
        """Return the names of the tools that are registered."""
