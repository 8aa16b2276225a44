"""Words about sessions: prompts and other bodies, queries and answers, and why a request cannot be carried out."""

from typing import Annotated, Any, Literal

import msgspec

from instar.event import PermissionAsked, QuestionAsked, SessionStatus
from instar.message import Assistant, KnownPart, ModelRef, Rule, Session, User
from instar.wire import Plain, Wire, ids


class NotFound(Exception):
    """A session, message or agent does not exist; the text names it."""


class Invalid(Exception):
    """A request cannot be carried out as it is; the text says what and why."""


class Busy(Invalid):
    """A request that a session cannot carry out while it works; `why` goes on after its id."""

    def __init__(self, session_id: str, why: str) -> None:
        super().__init__(f"session {session_id} is busy and {why}")
        self.session_id = session_id


class PromptBody(Wire):
    """The body of a prompt: opencode's ``POST /session/{id}/message``."""

    message_id: ids.MessageID | None = None
    model: ModelRef | None = None
    agent: str | None = None
    no_reply: bool | None = None
    tools: dict[str, bool] | None = None
    format: Plain | None = None
    system: str | None = None
    variant: str | None = None
    parts: list[Plain]

    @classmethod
    def text(cls, text: str, *, synthetic: bool | None = None, **fields: Any) -> "PromptBody":
        """Return a prompt of one text part."""
        part: Plain = {"type": "text", "text": text}
        if synthetic is not None:
            part["synthetic"] = synthetic
        return cls(parts=[part], **fields)


class CommandBody(Wire):
    """The body of a command: opencode's ``POST /session/{id}/command``. `parts` are files beside its prompt."""

    command: str
    arguments: str
    message_id: ids.MessageID | None = None
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    parts: list[Plain] | None = None


class SessionBody(Wire):
    """The body of a new session: opencode's ``POST /session``."""

    parent_id: ids.SessionID | None = msgspec.field(default=None, name="parentID")
    title: str | None = None
    agent: str | None = None
    model: Plain | None = None
    metadata: Plain | None = None
    permission: list[Rule] | None = None
    workspace_id: str | None = None


class MessageWithParts(Wire):
    """A message and its parts, oldest first."""

    info: User | Assistant
    parts: list[KnownPart]


class SessionQuery(Wire):
    """Narrows a list: `roots` without sub-agents' sessions, `start` (ms) changed since, `search` in titles and texts.

    `path` is a folder below the worktree, "" the worktree itself: sessions that work there or deeper. Without it
    `directory` names their folder, unless `scope` is ``project``.
    """

    roots: bool = False
    start: Annotated[float, msgspec.Meta(ge=0)] | None = None
    search: str = ""
    limit: Annotated[float, msgspec.Meta(ge=0)] | None = None
    scope: Literal["project"] | None = None
    path: str | None = None
    directory: str | None = None


class MessageQuery(Wire):
    """A page of messages: the newest `limit` of those older than `before` (the ``x-next-cursor`` of another page)."""

    limit: Annotated[int, msgspec.Meta(ge=0)] | None = None
    before: str | None = None


class GlobalQuery(Wire):
    """Narrows the list of all projects' sessions; `cursor` is the ``x-next-cursor`` of the page before."""

    roots: bool = False
    start: Annotated[float, msgspec.Meta(ge=0)] | None = None
    cursor: Annotated[float, msgspec.Meta(ge=0)] | None = None
    search: str = ""
    limit: Annotated[float, msgspec.Meta(ge=0)] | None = None
    archived: bool = False
    directory: str | None = None


class ProjectSummary(Wire):
    """The project that a session belongs to."""

    id: str
    name: str | None = None
    worktree: str


class GlobalSession(Session):
    """A session of any project, with its project; null for one that nobody knows any more."""

    project: ProjectSummary | None = msgspec.field(default_factory=lambda: None)


class ShellBody(Wire):
    """A shell command that a person runs; its output is added to the history for this agent and model."""

    message_id: ids.MessageID | None = None
    agent: str
    model: ModelRef | None = None
    command: str


class ToolCallBody(Wire):
    """A tool that another program calls, as the agent would, and what it is given."""

    tool: str
    arguments: Plain = msgspec.field(default_factory=dict)
    agent: str | None = None


class InitBody(Wire):
    """With which model the project's ``AGENTS.md`` is written, and the id of the prompt for it."""

    model_id: str
    provider_id: str
    message_id: ids.MessageID


class DiffQuery(Wire):
    """Asks for what one prompt's turn changed, not the whole session."""

    message_id: ids.MessageID | None = None


class RevertBody(Wire):
    """To before which message, or part of it, a session and (unless `files` is false) its files are taken back."""

    message_id: ids.MessageID
    part_id: ids.PartID | None = None
    files: bool = True


class ForkBody(Wire):
    """Up to which message, left out, a session's messages are copied; without one, all of them."""

    message_id: ids.MessageID | None = None


class SummarizeBody(Wire):
    """The model that summarises. `auto` is read and makes no difference: a person asks here."""

    provider_id: str
    model_id: str
    auto: bool = False


class ChangedTime(Wire):
    """The times that a client may set, in ms."""

    archived: float | None = None


class ChangeBody(Wire):
    """What a client may change of a session; `permission` rules are added to its own."""

    title: str | None = None
    metadata: Plain | None = None
    permission: list[Rule] | None = None
    time: ChangedTime | None = None


PermissionReply = Literal["once", "always", "reject"]


class PermissionBody(Wire):
    """An answer to a permission; `message` tells the model why it was rejected."""

    reply: PermissionReply
    message: str | None = None


class ResponseBody(Wire):
    """An answer to a permission in opencode's older form."""

    response: PermissionReply


class WaitingReport(Wire):
    """What waits for a person and what works, in all directories that are open."""

    permissions: list[PermissionAsked]
    questions: list[QuestionAsked]
    status: dict[str, SessionStatus]


class AnswersBody(Wire):
    """An answer to questions: for each the labels chosen, or what was typed."""

    answers: list[list[str]]
