"""Queries, bodies and answers of opencode's newer routes of sessions (``/api/session``), permissions and questions.

Named as in opencode 1.18's document.
"""

from typing import Annotated, Generic, Literal, TypeVar

import msgspec

from instar.api.session import PermissionReply
from instar.api.v2_message import (
    Delivery,
    Prompt,
    PromptAgentAttachment,
    PromptSource,
    RevertState,
    SessionDurableEvent,
    TokenCount,
)
from instar.message import SessionModel
from instar.wire import Plain, Wire, ids

T = TypeVar("T")

Order = Literal["asc", "desc"]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class Data(Wire, Generic[T]):
    """What is asked for."""

    data: T


class Cursors(Wire):
    """The pages before and after this one."""

    previous: str | None = None
    next: str | None = None


class Page(Wire, Generic[T]):
    """A page of a list."""

    data: list[T]
    cursor: Cursors


class LocationRef(Wire):
    """Where a session works."""

    directory: str
    workspace_id: ids.WorkspaceID | None = None


class KnownTimes(Wire):
    """When a session was made, last touched and (perhaps) archived."""

    created: float
    updated: float
    archived: float | None = None


class SessionV2Info(Wire):
    """A session; `subpath` is its folder below the worktree, if it is another one."""

    id: ids.SessionID
    parent_id: ids.SessionID | None = msgspec.field(default=None, name="parentID")
    project_id: str
    agent: str | None = None
    model: SessionModel | None = None
    cost: float
    tokens: TokenCount
    time: KnownTimes
    title: str
    location: LocationRef
    subpath: str | None = None
    revert: RevertState | None = None


class SessionsQuery(Wire):
    """Narrows a list. `cursor` is that of another page and stands for all but the limit; without it 50 are shown."""

    workspace: str | None = None
    limit: AtLeastOne | None = None
    order: Order | None = None
    search: str | None = None
    directory: str | None = None
    project: str | None = None
    subpath: str | None = None
    cursor: str | None = None


class SessionMessagesQuery(Wire):
    """A page of messages. `cursor` is that of another page, and fixes its order."""

    limit: AtLeastOne | None = None
    order: Order | None = None
    cursor: str | None = None


class HistoryQuery(Wire):
    """Which durable events: at most `limit` of those with a number above `after`."""

    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    after: Annotated[int, msgspec.Meta(ge=0)] = 0


class AfterQuery(Wire):
    """Only events with a sequence number above this one."""

    after: Annotated[int, msgspec.Meta(ge=0)] = 0


class SessionHistory(Wire):
    """Durable events; `has_more`: there are more after them."""

    data: list[SessionDurableEvent]
    has_more: bool


class SessionActive(Wire):
    """A session in which a turn runs."""

    type: Literal["running"] = msgspec.field(default_factory=lambda: "running")


class CreateBody(Wire):
    """A new session: under this id, if one is given; the one that has it already is answered then."""

    id: ids.SessionID | None = None
    agent: str | None = None
    model: SessionModel | None = None
    location: LocationRef | None = None


class AgentBody(Wire):
    """The agent that a session goes on with."""

    agent: str


class ModelBody(Wire):
    """The model that a session goes on with."""

    model: SessionModel


class PromptInputFileAttachment(Wire):
    """A file of a prompt."""

    uri: str
    name: str | None = None
    description: str | None = None
    source: PromptSource | None = None


class PromptInput(Wire):
    """What a person says."""

    text: str
    files: list[PromptInputFileAttachment] | None = None
    agents: list[PromptAgentAttachment] | None = None


class AdmitBody(Wire):
    """A prompt: said into the turn that runs (`steer`) or when it has ended. Without `resume` nobody answers it."""

    id: ids.MessageID | None = None
    prompt: PromptInput
    delivery: Delivery | None = None
    resume: bool | None = None


class SessionInputAdmitted(Wire):
    """A prompt that is kept. `admitted_seq` is the number of its event, of the one before it while it waits."""

    admitted_seq: int
    id: ids.MessageID
    session_id: ids.SessionID
    prompt: Prompt
    delivery: Delivery
    time_created: float


class StageBody(Wire):
    """To before which message a session is taken back, its `files` with it unless that is false."""

    message_id: ids.MessageID
    files: bool | None = None


class PermissionV2Source(Wire):
    """The call that asks."""

    type: Literal["tool"] = msgspec.field(default_factory=lambda: "tool")
    message_id: str
    call_id: str


class PermissionV2Request(Wire):
    """A call that waits for a permission: `action` on `resources`; `save` is what `always` would allow."""

    id: ids.PermissionID
    session_id: ids.SessionID
    action: str
    resources: list[str]
    save: list[str] | None = None
    metadata: Plain | None = None
    source: PermissionV2Source | None = None


class PermissionSavedInfo(Wire):
    """What was allowed for always; `id` names it for its removal."""

    id: str
    project_id: str
    action: str
    resource: str


class SavedQuery(Wire):
    """Of which project."""

    project_id: str | None = None


class PermissionQuestion(Wire):
    """Asks whether something is allowed."""

    id: ids.PermissionID | None = None
    action: str
    resources: list[str]
    save: list[str] | None = None
    metadata: Plain | None = None
    source: PermissionV2Source | None = None
    agent: str | None = None


Effect = Literal["allow", "deny", "ask"]


class PermissionEffect(Wire):
    """What the rules say of it."""

    id: ids.PermissionID
    effect: Effect


class PermissionV2Body(Wire):
    """An answer to a permission; `message` tells the model why it was rejected."""

    reply: PermissionReply
    message: str | None = None
