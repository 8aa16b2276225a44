"""Events: what is published on the bus, and what of it is kept.

An event is ``{"id": "evt_…", "type": …, "properties": {…}}``. Each type is declared once, by the class of its
properties. A type with a `version` is a *sync event*, as opencode calls them: it is also a durable row with a
sequence number in its session. Payloads are those of opencode 1.18's document. May import `wire` and `message`. Begin
with `declare`; `bus.py` publishes, `renamed.py` has what older plugins hear.
"""

from typing import Any, Final, Literal

import msgspec

from instar import wire
from instar.message import (
    FileDiff,
    Message,
    MessageError,
    Part,
    Session,
    UnknownPart,
    decode_part,
    part_to_plain,
)
from instar.wire import Plain, Wire, ids


class EventType(msgspec.Struct, frozen=True):
    """A declared type: its name, its properties' class and, for a sync event, its version.

    `never` says why instar never sends a type that opencode's clients know; an `own` one their streams do not carry.
    """

    name: str
    properties: type[Wire]
    version: int | None = None
    never: str | None = None
    own: bool = False


TYPES: Final[dict[str, EventType]] = {}
"""Every declared event type by name."""
_BY_CLASS: Final[dict[type[Wire], EventType]] = {}


def declare(name: str, *, version: int | None = None, never: str | None = None, own: bool = False) -> Any:
    """Declare the decorated class as the properties of the event type `name`. Raises `ValueError` if it is taken."""

    def register(properties: type[Wire]) -> type[Wire]:
        if name in TYPES:
            raise ValueError(f"event type {name!r} is declared twice")
        TYPES[name] = _BY_CLASS[properties] = EventType(name, properties, version, never, own)
        return properties

    return register


class Event(msgspec.Struct, frozen=True):
    """One thing that happened: its own id, its type and its properties.

    `seq` is the number of a durable one in its session, known once it is saved; it is no part of the wire form.
    """

    id: str
    type: str
    properties: Wire
    seq: int | None = None
    _encoded: bytes | None = None

    @property
    def session_id(self) -> str | None:
        """The session that the event belongs to, if any."""
        return getattr(self.properties, "session_id", None)

    def copy(self) -> "Event":
        """Return an independent copy, with the same id."""
        properties = wire.replace(self.properties)
        part = getattr(properties, "part", None)
        if part is not None:
            properties.part = decode_part(part_to_plain(part))  # type: ignore[attr-defined]
        elif not all(isinstance(value, str | int) for value in msgspec.structs.astuple(properties)):
            # Deltas, of which there are thousands, are words alone and shared with nobody by now.
            properties = wire.copy(properties)
        return Event(self.id, self.type, properties, self.seq)

    def number(self, seq: int) -> None:
        """It was saved as the session's event `seq`; called by the store, before anybody else knows the event."""
        msgspec.structs.force_setattr(self, "seq", seq)

    def payload(self) -> bytes:
        """Return its properties as JSON, of a durable one as they were when this was first asked."""
        if self._encoded is not None:
            return self._encoded
        # Only as a dict can a part of an unknown type be encoded.
        is_unknown = isinstance(getattr(self.properties, "part", None), UnknownPart)
        data = wire.encode(self.to_plain()["properties"] if is_unknown else self.properties)
        if TYPES[self.type].version is not None:
            msgspec.structs.force_setattr(self, "_encoded", data)
        return data

    def to_plain(self) -> Plain:
        """Return the event's wire form as a detached dict."""
        plain = wire.to_plain(self.properties)
        part = getattr(self.properties, "part", None)
        if isinstance(part, UnknownPart):
            plain["part"] = part_to_plain(part)
        return {"id": self.id, "type": self.type, "properties": plain}


def make(properties: Wire) -> Event:
    """Return a new event with these properties; their class says of which type."""
    return Event(ids.new("evt"), _BY_CLASS[type(properties)].name, properties)


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


@declare("server.connected")
class ServerConnected(Wire):
    """A client's event stream is open."""


@declare("server.heartbeat")
class ServerHeartbeat(Wire):
    """A client's event stream is alive."""


@declare("file.edited")
class FileEdited(Wire):
    """A tool changed a file."""

    file: str


@declare("evolve.installed", own=True)
class EvolveInstalled(Wire):
    """A change of an evolve workspace went live; `epoch` rises with each, `gate` has ms by stage (our own event)."""

    files: list[str]
    epoch: int
    session_id: str | None = None
    gate: dict[str, int] = msgspec.field(default_factory=dict)


@declare("evolve.refused", own=True)
class EvolveRefused(Wire):
    """A candidate was refused at a stage of the gate, or waits for a person (our own event)."""

    file: str
    stage: str
    message: str
    session_id: str | None = None
    gate: dict[str, int] = msgspec.field(default_factory=dict)


@declare("evolve.rolledback", own=True)
class EvolveRolledback(Wire):
    """A change of an evolve workspace was taken back (our own event)."""

    files: list[str]
    epoch: int
    message: str


@declare("hooks.armed", own=True)
class HooksArmed(OfSession):
    """A session is used from now on under these rules; `problems` say what is not armed (our own event)."""

    rules: list[str]
    problems: list[str]


@declare("hooks.ran", own=True)
class HooksRan(OfSession):
    """A rule was put to an event of a session: what it decided, in how many ms, at what cost (our own event)."""

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


@declare("instar.hook.waiting", own=True)
class HookWaiting(Wire):
    """A turn has waited 2 s for a hook, a rule or a script; once more, with its ms, at its end (our own event)."""

    session_id: str | None = None
    plugin: str
    name: str
    hook: str
    since: int
    duration: int | None = None


@declare("self.modified", own=True)
class SelfModified(OfSession):
    """The agent changed its own runtime at `path`; without a call the watchdog did (our own event)."""

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
    """Of a trusted folder these files, as ``new``, ``changed`` or ``gone``, wait for a person now (our own event)."""

    directory: str
    unaccepted: dict[str, str]


@declare("server.instance.disposed")
class ServerInstanceDisposed(Wire):
    """A directory's instance ended."""

    directory: str


@declare("global.disposed")
class GlobalDisposed(Wire):
    """Every directory's instance ended, since the person's own settings changed or a client asked for it."""


@declare("installation.updated", never="instar does not upgrade itself: its package manager does")
class InstallationUpdated(Wire):
    """The program itself was brought to another version."""

    version: str


@declare("lsp.updated")
class LspUpdated(Wire):
    """A language server's state changed, or it looked at the file `path`."""

    server_id: str | None = None
    path: str | None = None


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
class PtyUpdated(PtyCreated):
    """A terminal's title or size was set."""


@declare("pty.exited")
class PtyExited(Wire):
    """A terminal's program has exited."""

    id: str
    exit_code: int


@declare("pty.deleted")
class PtyDeleted(Wire):
    """A terminal was closed."""

    id: str


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
    variant: Literal["info", "success", "warning", "error"]
    duration: int | None = None


@declare("tui.session.select")
class TuiSessionSelect(OfSession):
    """A session is to be opened."""
