"""Events: what is published on the bus, and what of it is kept.

An event is ``{"id": "evt_…", "type": …, "properties": {…}}``. Each type is declared once, by the class of its
properties. A type with a `version` is a *sync event*, as opencode calls them: it is also a durable row with a
sequence number in its session. Payloads are those of opencode 1.18's document.

May import `wire` and `message`. Begin with `types.py`, which declares a type; `bus.py` publishes, `renamed.py` has what
older plugins hear.
"""

from typing import Any, Literal

from instar.event.types import TYPES, Event, EventType, declare, make
from instar.message import FileDiff, Message, MessageError, Part, Session
from instar.wire import Plain, Wire

__all__ = ["TYPES", "Event", "EventType", "declare", "make"]


class OfSession(Wire):
    """Properties of an event that belongs to one session."""

    session_id: str


@declare("session.created", version=1)
class SessionCreated(OfSession):
    """A session was made."""

    info: Session


@declare("session.updated", version=1)
class SessionUpdated(OfSession):
    """A session's own fields changed."""

    info: Session


@declare("session.deleted", version=1)
class SessionDeleted(OfSession):
    """A session is gone, with all that belonged to it."""

    info: Session


@declare("session.diff")
class SessionDiff(OfSession):
    """The files that a session changed."""

    diff: list[FileDiff]


@declare("session.error")
class SessionError(Wire):
    """A turn failed."""

    session_id: str | None = None
    error: MessageError | None = None


class StatusBase(Wire, tag_field="type"):
    """What every status has: its name."""

    @property
    def type(self) -> str:
        """``idle``, ``busy`` or ``retry``."""
        return str(self.__struct_config__.tag)


class Idle(StatusBase, tag="idle"):
    """Nothing runs in the session."""


class Busy(StatusBase, tag="busy"):
    """A turn runs in the session."""


class Retry(StatusBase, tag="retry"):
    """A model call failed and will be tried again at `next` (ms since the epoch)."""

    attempt: int
    message: str
    next: int


SessionStatus = Idle | Busy | Retry


@declare("session.status")
class SessionStatusChanged(OfSession):
    """What the session is doing."""

    status: SessionStatus


@declare("session.idle")
class SessionIdle(OfSession):
    """The turn is over."""


@declare("session.compacted")
class SessionCompacted(OfSession):
    """The session's earlier messages were summarised."""


@declare("message.updated", version=1)
class MessageUpdated(OfSession):
    """A message was made or changed."""

    info: Message


@declare("message.removed", version=1)
class MessageRemoved(OfSession):
    """A message is gone, with its parts."""

    message_id: str


@declare("message.part.updated", version=1)
class PartUpdated(OfSession):
    """A part was made or changed; `time` is when, in milliseconds."""

    part: Part
    time: int


@declare("message.part.delta")
class PartDelta(OfSession):
    """`delta` was appended to `field` of a part. Never stored; may be merged with its neighbours."""

    message_id: str
    part_id: str
    field: str
    delta: str


@declare("message.part.removed", version=1)
class PartRemoved(OfSession):
    """A part is gone."""

    message_id: str
    part_id: str


class AskedBy(Wire):
    """The tool call that asks."""

    message_id: str
    call_id: str


@declare("permission.asked")
class PermissionAsked(OfSession):
    """A tool call waits for a person."""

    id: str
    permission: str
    patterns: list[str]
    metadata: Plain
    always: list[str]
    tool: AskedBy | None = None


@declare("permission.replied")
class PermissionReplied(OfSession):
    """A person answered."""

    request_id: str
    reply: Literal["once", "always", "reject"]


@declare("session.limit", own=True)
class LimitReached(OfSession):
    """A limit stopped the turn, or what follows it if `ends` is false (our own event); `cause`: whose work it was."""

    limit: str
    cause: str
    message: str
    ends: bool = True


class Option(Wire):
    """One answer to choose."""

    label: str
    description: str


class Question(Wire):
    """A question of the model to a person; `multiple` answers may be chosen, `custom` ones typed."""

    question: str
    header: str
    options: list[Option]
    multiple: bool | None = None
    custom: bool | None = None


@declare("question.asked")
class QuestionAsked(OfSession):
    """The model asks a person."""

    id: str
    questions: list[Question]
    tool: AskedBy | None = None


@declare("question.replied")
class QuestionReplied(OfSession):
    """A person answered: for each question the labels chosen."""

    request_id: str
    answers: list[list[str]]


@declare("question.rejected")
class QuestionRejected(OfSession):
    """A person would not answer."""

    request_id: str


class Todo(Wire):
    """One entry of the model's list; `status` and `priority` are opencode's words."""

    content: str
    status: str
    priority: str


@declare("todo.updated")
class TodoUpdated(OfSession):
    """The model's list changed."""

    todos: list[Todo]


@declare("command.executed")
class CommandExecuted(OfSession):
    """A command was turned into a prompt."""

    name: str
    arguments: str
    message_id: str


class Nothing(Wire):
    """An event that says only that it happened."""


@declare("server.connected")
class ServerConnected(Nothing):
    """A client's event stream is open."""


@declare("server.heartbeat")
class ServerHeartbeat(Nothing):
    """A client's event stream is alive."""


@declare("file.edited")
class FileEdited(Wire):
    """A tool changed a file."""

    file: str


@declare("evolve.installed", own=True)
class EvolveInstalled(Wire):
    """A change of an evolve workspace went live; `epoch` rises with each (our own event)."""

    files: list[str]
    epoch: int
    session_id: str | None = None


@declare("evolve.refused", own=True)
class EvolveRefused(Wire):
    """A candidate was refused at a stage of the gate, or waits for a person (our own event)."""

    file: str
    stage: str
    message: str
    session_id: str | None = None


@declare("evolve.rolledback", own=True)
class EvolveRolledback(Wire):
    """A change of an evolve workspace was taken back (our own event)."""

    files: list[str]
    epoch: int
    message: str


@declare("hooks.armed", own=True)
class HooksArmed(Wire):
    """A session is used from now on under these rules; `problems` say what is not armed (our own event)."""

    session_id: str
    rules: list[str]
    problems: list[str]


@declare("hooks.ran", own=True)
class HooksRan(Wire):
    """A rule was put to an event of a session: what it decided, in how many ms, at what cost (our own event)."""

    session_id: str
    event: str
    rule: str
    place: str
    evaluator: str
    dialect: str
    action: str
    undecided: bool
    reason: str
    error: str
    messages: list[str]
    duration: int
    code: int | None = None
    output: str = ""
    tool: str = ""
    call_id: str = ""
    tokens: int = 0
    cost: float | None = None
    model: str = ""
    child_id: str = ""


@declare("self.modified", own=True)
class SelfModified(Wire):
    """The agent changed its own runtime at `path`; without a call the watchdog did (our own event)."""

    session_id: str
    call_id: str
    path: str
    old: Any
    new: Any


@declare("plugin.error", own=True)
class PluginError(Wire):
    """A plugin's hook failed and its half-made changes were discarded (our own event)."""

    plugin: str
    hook: str
    message: str


@declare("file.watcher.updated")
class FileWatcherUpdated(Wire):
    """A file changed on disk."""

    file: str
    event: Literal["add", "change", "unlink"]


@declare("vcs.branch.updated")
class VcsBranchUpdated(Wire):
    """Another branch is checked out."""

    branch: str | None = None


class ProjectTime(Wire):
    """When a project was first seen, last changed, and initialised."""

    created: int
    updated: int
    initialized: int | None = None


@declare("project.updated")
class ProjectUpdated(Wire):
    """A project's own fields changed."""

    id: str
    worktree: str
    vcs: Literal["git"] | None = None
    name: str | None = None
    icon: Plain | None = None
    commands: Plain | None = None
    time: ProjectTime
    sandboxes: list[str]


@declare("instance.reloaded", own=True)
class InstanceReloaded(Wire):
    """Files changed and were reloaded: `what` (`agents`, `plugin:x` …), or not, with `problems`. Our own event."""

    what: list[str]
    problems: list[str]


@declare("instar.trust.changed", own=True)
class TrustChanged(Wire):
    """Other files of a trusted folder than before are not heard until a person accepts them (our own event).

    They are those in `unaccepted`: each path with ``new``, ``changed`` or ``gone``; none once all are accepted.
    """

    directory: str
    unaccepted: dict[str, str]


@declare("server.instance.disposed")
class ServerInstanceDisposed(Wire):
    """A directory's instance ended."""

    directory: str


@declare("global.disposed")
class GlobalDisposed(Nothing):
    """Every directory's instance ended, since the person's own settings changed or a client asked for it."""


@declare(
    "installation.updated", never="instar does not upgrade itself: the package manager that installed it does"
)
class InstallationUpdated(Wire):
    """The program itself was brought to another version."""

    version: str


@declare("lsp.updated", never="instar starts no language servers")
class LspUpdated(Nothing):
    """A language server's state changed."""


class Pty(Wire):
    """A terminal as clients see it. `exit_code` is set once its program has exited; a signal's is 128 more."""

    id: str
    title: str
    command: str
    args: list[str]
    cwd: str
    status: Literal["running", "exited"]
    pid: int
    exit_code: int | None = None


@declare("pty.created")
class PtyCreated(Wire):
    """A terminal was opened."""

    info: Pty


@declare("pty.updated")
class PtyUpdated(Wire):
    """A terminal's title or size was set."""

    info: Pty


@declare("pty.exited")
class PtyExited(Wire):
    """A terminal's program has exited."""

    id: str
    exit_code: int


@declare("pty.deleted")
class PtyDeleted(Wire):
    """A terminal was closed."""

    id: str


Variant = Literal["info", "success", "warning", "error"]


@declare("tui.prompt.append")
class TuiPromptAppend(Wire):
    """Text is to be put behind what stands in the prompt."""

    text: str


@declare("tui.command.execute")
class TuiCommandExecute(Wire):
    """A command of the interface is to be carried out, as `session.list` or `prompt.submit`."""

    command: str


@declare("tui.toast.show")
class TuiToastShow(Wire):
    """A notice is to be shown for `duration` milliseconds."""

    title: str | None = None
    message: str
    variant: Variant
    duration: int | None = None


@declare("tui.session.select")
class TuiSessionSelect(Wire):
    """A session is to be opened."""

    session_id: str
