"""Words of opencode's newer routes (``/api/…``): locations, files, agents, models, providers and their keys."""

from typing import Annotated, Generic, Literal, TypeVar

import msgspec

from instar.api.provider import Cost, Limit, Prompts, Status
from instar.wire import Plain, Wire

T = TypeVar("T")


class LocationProject(Wire):
    """The project of a location: its id, and the folder of its repository (``/`` outside one)."""

    id: str
    directory: str


class LocationInfo(Wire):
    """The directory that an answer is about, and its project."""

    directory: str
    workspace_id: str | None = None
    project: LocationProject


class Located(Wire, Generic[T]):
    """What is asked for, and the location that it holds for."""

    location: LocationInfo
    data: T


class ReferenceInfo(Wire):
    """A folder outside of the project that the settings let the model look at; instar has none."""

    name: str
    path: str
    description: str | None = None
    hidden: bool | None = None
    source: Plain


class ListQuery(Wire):
    """Names a folder of the location; none: the location itself."""

    path: str = ""


class FindQuery(Wire):
    """Letters that a path holds in this order; at most `limit` files or folders, as `type` says."""

    query: str
    type: Literal["file", "directory"] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] | None = None


class Health(Wire):
    """The server is well."""

    healthy: bool


class CatalogModelRef(Wire):
    """A model, and a variant of it."""

    id: str
    provider_id: str
    variant: str | None = None


class ProviderRequest(Wire):
    """What goes with each request: headers, and fields of the body. Keys are left out."""

    headers: dict[str, str]
    body: Plain


class PermissionV2Rule(Wire):
    """What may be done (`action`), with what (`resource`), and whether it may."""

    action: str
    resource: str
    effect: Literal["allow", "ask", "deny"]


class AgentV2Info(Wire):
    """An agent; `system` is its own prompt."""

    id: str
    model: CatalogModelRef | None = None
    request: ProviderRequest
    system: str | None = None
    description: str | None = None
    mode: Literal["primary", "subagent", "all"]
    hidden: bool
    color: str | None = None
    steps: int | None = None
    permissions: list[PermissionV2Rule]


class CommandV2Info(Wire):
    """A command."""

    name: str
    template: str
    description: str | None = None
    agent: str | None = None
    model: CatalogModelRef | None = None
    subtask: bool | None = None


class SkillV2Info(Wire):
    """A skill, with its file and its text."""

    name: str
    description: str | None = None
    slash: bool | None = None
    location: str
    content: str


class ProviderApi(Wire, tag_field="type", tag="aisdk"):
    """How a provider is called."""

    package: str
    url: str | None = None


class ProviderV2Info(Wire):
    """A provider that can be called."""

    id: str
    name: str
    api: ProviderApi
    request: ProviderRequest


class CatalogModelApi(Wire, tag_field="type", tag="aisdk"):
    """How a model is called, under which name."""

    id: str
    package: str
    url: str | None = None


class ModelCapabilities(Wire):
    """Whether a model calls tools, and what it takes and gives."""

    tools: bool
    input: list[str]
    output: list[str]


class ModelVariant(Wire):
    """More of the request under a name."""

    id: str
    headers: dict[str, str]
    body: Plain


class ModelTime(Wire):
    """When a model came out, in ms; 0 where that is not known."""

    released: int


class ModelV2Info(Wire):
    """A model that can be called."""

    id: str
    provider_id: str
    family: str | None = None
    name: str
    api: CatalogModelApi
    capabilities: ModelCapabilities
    request: ProviderRequest
    variants: list[ModelVariant]
    time: ModelTime
    cost: list[Cost]
    status: Status
    enabled: bool
    limit: Limit


class KeyMethod(Wire, tag_field="type", tag="key"):
    """A key is handed in."""

    label: str | None = None


class EnvMethod(Wire, tag_field="type", tag="env"):
    """One of these variables holds the key."""

    names: list[str]


class OAuthMethod(Wire, tag_field="type", tag="oauth"):
    """The person logs in elsewhere."""

    id: str
    label: str
    prompts: Prompts | None = None


class CredentialConnection(Wire, tag_field="type", tag="credential"):
    """A login that is kept; `id` is what `/api/credential` knows it by."""

    id: str
    label: str


class EnvConnection(Wire, tag_field="type", tag="env"):
    """A variable that holds a key."""

    name: str


class IntegrationInfo(Wire):
    """What a person may connect: how, and what of it is connected."""

    id: str
    name: str
    methods: list[KeyMethod | EnvMethod | OAuthMethod]
    connections: list[CredentialConnection | EnvConnection]


class KeyBody(Wire):
    """A key, and a name for people."""

    key: str
    label: str | None = None


class OAuthBody(Wire):
    """Which method, and the answers to its questions."""

    method_id: str
    inputs: dict[str, str]
    label: str | None = None


class LoginCodeBody(Wire):
    """The code that the person was shown."""

    code: str | None = None


class LabelBody(Wire):
    """A name for people."""

    label: str


class AttemptTime(Wire):
    """When a login began and until when it may be ended, in ms."""

    created: int
    expires: int


class IntegrationAttempt(Wire):
    """A login that was begun; `auto`: its end is waited for, `code`: a code is to be handed in."""

    attempt_id: str
    url: str
    instructions: str
    mode: Literal["auto", "code"]
    time: AttemptTime


class IntegrationAttemptStatus(Wire):
    """How a login stands; `message` says why it failed."""

    status: Literal["pending", "complete", "failed", "expired"]
    message: str | None = None
    time: AttemptTime
