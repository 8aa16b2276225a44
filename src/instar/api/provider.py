"""Providers and their models as the API shows them, and logging in to one. No key is among it."""

from typing import Annotated, Literal

import msgspec

from instar.wire import Plain, Wire


class ModelApi(Wire):
    """How a model is called: its name there, the address, the package that opencode would call it with."""

    id: str
    url: str
    npm: str


class Media(Wire):
    """What a model takes, or gives."""

    text: bool
    audio: bool
    image: bool
    video: bool
    pdf: bool


class Interleaved(Wire):
    """The field in which a model wants its earlier thinking back."""

    field: str


class Capabilities(Wire):
    """What a model can do."""

    temperature: bool
    reasoning: bool
    attachment: bool
    toolcall: bool
    input: Media
    output: Media
    interleaved: bool | Interleaved


class CacheCost(Wire):
    """US dollars for a million tokens read from, and written to, a provider's cache."""

    read: float
    write: float


class Cost(Wire):
    """US dollars for a million tokens; 0 also where the price is not known."""

    input: float
    output: float
    cache: CacheCost


class Limit(Wire):
    """Tokens: the window (0 when unknown), and the longest answer."""

    context: int
    input: int | None = None
    output: int


Status = Literal["alpha", "beta", "deprecated", "active"]


class Model(Wire):
    """A model. The values of `headers` and keys among `options` are masked."""

    id: str
    provider_id: str
    api: ModelApi
    name: str
    family: str | None = None
    capabilities: Capabilities
    cost: Cost
    limit: Limit
    status: Status
    options: Plain
    headers: dict[str, str]
    release_date: str = msgspec.field(name="release_date")
    variants: dict[str, Plain]


class Provider(Wire):
    """A provider; `source` says where it is defined, `env` names the variables that may hold its key."""

    id: str
    name: str
    source: Literal["env", "config", "custom", "api"]
    env: list[str]
    options: Plain
    models: dict[str, Model]


class ConfigProviders(Wire):
    """The providers that can be called, and by their id the model to begin with."""

    providers: list[Provider]
    default: dict[str, str]


class ProviderList(Wire):
    """Every provider that is known, the model to begin with of each, and the ids of those that can be called."""

    all: list[Provider]
    default: dict[str, str]
    connected: list[str]


class Condition(Wire):
    """When a question is asked: the answer to another one is, or is not, `value`."""

    key: str
    op: Literal["eq", "neq"]
    value: str


class TextPrompt(Wire, tag_field="type", tag="text"):
    """A question of a login that is answered with a text."""

    key: str
    message: str
    placeholder: str | None = None
    when: Condition | None = None


class Choice(Wire):
    """One of the answers that a question offers."""

    label: str
    value: str
    hint: str | None = None


class SelectPrompt(Wire, tag_field="type", tag="select"):
    """A question of a login that is answered by choosing."""

    key: str
    message: str
    options: list[Choice]
    when: Condition | None = None


Prompts = list[TextPrompt | SelectPrompt]


class ProviderAuthMethod(Wire):
    """A way to log in to a provider, and what is asked before."""

    type: Literal["oauth", "api"]
    label: str
    prompts: Prompts | None = None


class AuthorizeBody(Wire):
    """Which of a provider's methods, counted from 0, and the answers to its questions."""

    method: Annotated[int, msgspec.Meta(ge=0)]
    inputs: dict[str, str] | None = None


class CallbackBody(Wire):
    """The method that was begun, and the code that the person was shown, where it wants one."""

    method: Annotated[int, msgspec.Meta(ge=0)]
    code: str | None = None


class ProviderAuthAuthorization(Wire):
    """Where to go for a login; `code`: what is shown there is to be handed in, `auto`: it is waited for."""

    url: str
    method: Literal["auto", "code"]
    instructions: str


class ApiAuth(Wire, tag_field="type", tag="api"):
    """A key."""

    key: str
    metadata: dict[str, str] | None = None


class OAuth(Wire, tag_field="type", tag="oauth"):
    """The tokens of a login; `expires` in ms since 1970."""

    refresh: str
    access: str
    expires: Annotated[int, msgspec.Meta(ge=0)]
    account_id: str | None = msgspec.field(default=None, name="accountId")
    enterprise_url: str | None = None


class WellKnownAuth(Wire, tag_field="type", tag="wellknown"):
    """A token for a server that says itself how it is used; kept, and used by nobody here."""

    key: str
    token: str


Auth = ApiAuth | OAuth | WellKnownAuth


class ProviderAuthData(Wire):
    """Whose login failed, at which field of what was asked, and why, as far as that is known."""

    provider_id: str | None = None
    field: str | None = None
    message: str | None = None
    kind: str | None = None


class ProviderAuthError(Wire):
    """A login that failed."""

    name: Literal[
        "BadRequest",
        "ProviderAuthOauthMissing",
        "ProviderAuthOauthCodeMissing",
        "ProviderAuthOauthCallbackFailed",
        "ProviderAuthValidationFailed",
    ]
    data: ProviderAuthData
