"""Words about an instance: its events and what is stored of them, its definitions and MCP servers, and its end.

Also what instar leaves to others: accounts and upgrades.
"""

from typing import Annotated, Any, Literal

import msgspec

from instar.message import Rule
from instar.settings.config import McpOAuthConfig
from instar.wire import Plain, Wire


class UpgradeBody(Wire):
    """The version that is wanted."""

    target: str


class Upgraded(Wire):
    """That nothing was upgraded, and why."""

    success: bool
    error: str


class ExperimentalCapabilities(Wire):
    """Which of opencode's experiments are on."""

    background_subagents: bool


class ConsoleState(Wire):
    """What an account in opencode's cloud brings."""

    console_managed_providers: list[str]
    switchable_org_count: int


class ConsoleOrgs(Wire):
    """The organisations of such an account."""

    orgs: list[Plain]


class SwitchBody(Wire):
    """An account and its organisation."""

    account_id: str
    org_id: str


class ResumedEvents(Wire):
    """From where on a client follows: as the header ``Last-Event-ID``, for clients that cannot set one."""

    last_event_id: str | None = None


class DirectoryEvents(ResumedEvents):
    """Which directory's events are followed, and from where on."""

    directory: str | None = None
    workspace: str | None = None


class OwnEvents(ResumedEvents):
    """Which directory's events are followed, of all where none is named, and from where on."""

    directory: str | None = None


class OwnEvent(Wire):
    """An event of any type, instar's own ones too. `seq` is the number of a durable one in its session."""

    id: str
    type: str
    properties: Plain
    directory: str | None = None
    project_id: str | None = None
    seq: int | None = None


Number = Annotated[int, msgspec.Meta(ge=0)]


class HistoryEvent(Wire):
    """A durable event as it is stored; `type` ends in the version of its form (``message.updated.1``)."""

    id: str
    aggregate_id: str = msgspec.field(name="aggregate_id")
    seq: Number
    type: str
    data: Plain


class ReplayedEvent(Wire):
    """A durable event of another server."""

    id: Annotated[str, msgspec.Meta(pattern="^evt_")]
    aggregate_id: str
    seq: Number
    type: str
    data: dict[str, Any]


class ReplayBody(Wire):
    """Events of another server, to be carried out here."""

    directory: str
    events: Annotated[list[ReplayedEvent], msgspec.Meta(min_length=1)]


class StealBody(Wire):
    """The session that is to be taken over from another server."""

    session_id: Annotated[str, msgspec.Meta(pattern="^ses")]


class McpLocalConfig(Wire, tag_field="type", tag="local"):
    """A program to run; `timeout` in ms."""

    command: list[str]
    cwd: str | None = None
    environment: dict[str, str] | None = None
    enabled: bool | None = None
    timeout: Annotated[int, msgspec.Meta(gt=0)] | None = None


class McpRemoteConfig(Wire, tag_field="type", tag="remote"):
    """An address to call; `oauth` false: nobody is to log in; `timeout` in ms."""

    url: str
    enabled: bool | None = None
    headers: dict[str, str] | None = None
    oauth: McpOAuthConfig | bool | None = None
    timeout: Annotated[int, msgspec.Meta(gt=0)] | None = None


class McpBody(Wire):
    """A server to add until the instance ends."""

    name: str
    config: McpLocalConfig | McpRemoteConfig


class MCPStatus(Wire):
    """How a server is; `error` where it failed."""

    status: Literal["connected", "disabled", "needs_auth", "failed"]
    error: str | None = None


class McpResource(Wire):
    """Something that a server (`client`) offers to read."""

    name: str
    uri: str
    description: str | None = None
    mime_type: str | None = None
    client: str


class CodeBody(Wire):
    """The code of a login."""

    code: str


class Authorization(Wire):
    """Where to log in to a server."""

    authorization_url: str
    oauth_state: str


class Removed(Wire):
    """What was kept is gone."""

    success: bool


class McpUnsupportedOAuthError(Wire):
    """A login to a server that cannot be logged in to."""

    error: str


AgentMode = Literal["primary", "subagent", "all"]


class AgentModel(Wire):
    """The model that an agent is bound to."""

    provider_id: str
    model_id: str


class Agent(Wire):
    """An agent. `permission` holds every rule that applies to it, defaults first; `native`: it ships with instar."""

    name: str
    description: str | None = None
    mode: AgentMode
    native: bool | None = None
    hidden: bool | None = None
    top_p: float | None = None
    temperature: float | None = None
    color: str | None = None
    permission: list[Rule]
    model: AgentModel | None = None
    variant: str | None = None
    prompt: str | None = None
    options: Plain
    steps: int | None = None


class Command(Wire):
    """A command; `source` is what it is made of, `hints` the places in its template."""

    name: str
    description: str | None = None
    agent: str | None = None
    model: str | None = None
    source: Literal["command", "mcp", "skill"] | None = None
    template: str
    subtask: bool | None = None
    hints: list[str]


class Skill(Wire):
    """A skill: `location` is its file, `content` what stands below the front matter."""

    name: str
    description: str | None = None
    location: str
    content: str


class ToolQuery(Wire):
    """The model that the tools are for."""

    provider: str
    model: str


class ToolListItem(Wire):
    """A tool as the model sees it; `parameters` is a JSON Schema."""

    id: str
    description: str
    parameters: Plain


class LogBody(Wire):
    """A line for the log, of a client that calls itself `service`."""

    service: str
    level: Literal["debug", "info", "error", "warn"]
    message: str
    extra: Plain | None = None


class LSPStatus(Wire):
    """A language server."""

    id: str
    name: str
    root: str
    status: Literal["connected", "error"]


class FormatterStatus(Wire):
    """A formatter, and the file name extensions that it is for."""

    name: str
    extensions: list[str]
    enabled: bool
