"""Settings as the API shows and takes them: opencode's ``Config``.

Its schema allows no other keys: `fitted` leaves them out of an answer. A body may have them: they stand
beside the known fields.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from instar.wire import Plain, Wire

Amount = Annotated[int, Meta(ge=0)]
Duration = Annotated[int, Meta(gt=0)]
Color = Annotated[
    str, Meta(pattern="^(#[0-9a-fA-F]{6}|primary|secondary|accent|success|warning|error|info)$")
]
Medium = Literal["text", "audio", "image", "video", "pdf"]


class _Settings(Wire, rename=None):
    """A block whose keys are written as they stand here."""


class CommandSettings(_Settings):
    """A command."""

    template: str
    description: str | None = None
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    subtask: bool | None = None


class AgentSettings(_Settings):
    """An agent; other keys are options of its model."""

    model: str | None = None
    variant: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    prompt: str | None = None
    tools: dict[str, bool] | None = None
    disable: bool | None = None
    description: str | None = None
    mode: Literal["subagent", "primary", "all"] | None = None
    hidden: bool | None = None
    options: Plain | None = None
    color: Color | None = None
    steps: Duration | None = None
    maxSteps: Duration | None = None  # noqa: N815 - the file's own name
    permission: Any = None


class ModelCostSettings(_Settings):
    """US dollars for a million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class ModelLimitSettings(_Settings):
    """Tokens."""

    context: float
    output: float
    input: float | None = None


class Modalities(_Settings):
    """What a model takes, and gives."""

    input: list[Medium] | None = None
    output: list[Medium] | None = None


class ModelProviderSettings(_Settings):
    """How one model is called otherwise than its provider's others."""

    npm: str | None = None
    api: str | None = None


class ModelSettings(_Settings):
    """A model of a provider."""

    id: str | None = None
    name: str | None = None
    family: str | None = None
    release_date: str | None = None
    attachment: bool | None = None
    reasoning: bool | None = None
    temperature: bool | None = None
    tool_call: bool | None = None
    cost: ModelCostSettings | None = None
    limit: ModelLimitSettings | None = None
    modalities: Modalities | None = None
    experimental: bool | None = None
    status: Literal["alpha", "beta", "deprecated", "active"] | None = None
    provider: ModelProviderSettings | None = None
    options: Plain | None = None
    headers: dict[str, str] | None = None
    variants: dict[str, Plain] | None = None


class ProviderSettings(_Settings):
    """A provider."""

    api: str | None = None
    name: str | None = None
    env: list[str] | None = None
    id: str | None = None
    npm: str | None = None
    whitelist: list[str] | None = None
    blacklist: list[str] | None = None
    options: Plain | None = None
    models: dict[str, ModelSettings] | None = None


class McpSettings(_Settings):
    """An MCP server: `command` where it is local, `url` where it is remote, or only `enabled`."""

    type: Literal["local", "remote"] | None = None
    command: list[str] | None = None
    cwd: str | None = None
    environment: dict[str, str] | None = None
    url: str | None = None
    headers: dict[str, str] | None = None
    enabled: bool | None = None
    timeout: Duration | None = None


class FormatterSettings(_Settings):
    """A formatter of opencode's."""

    disabled: bool | None = None
    command: list[str] | None = None
    environment: dict[str, str] | None = None
    extensions: list[str] | None = None


class LspSettings(_Settings):
    """A language server of opencode's: a `command`, or one of its own that is `disabled`."""

    command: list[str] | None = None
    extensions: list[str] | None = None
    disabled: bool | None = None
    env: dict[str, str] | None = None
    initialization: Plain | None = None


class ReferenceSettings(_Settings):
    """Another folder (`path`) or repository that opencode's model may read."""

    path: str | None = None
    repository: str | None = None
    branch: str | None = None
    description: str | None = None
    hidden: bool | None = None


class Compaction(_Settings):
    """How a conversation that fills the window is summarised."""

    auto: bool | None = None
    prune: bool | None = None
    tail_turns: Amount | None = None
    preserve_recent_tokens: Amount | None = None
    reserved: Amount | None = None


class Experimental(_Settings):
    """What may change any day."""

    disable_paste_summary: bool | None = None
    batch_tool: bool | None = None
    openTelemetry: bool | None = None  # noqa: N815 - the file's own name
    primary_tools: list[str] | None = None
    continue_loop_on_deny: bool | None = None
    mcp_timeout: Duration | None = None


class Skills(_Settings):
    """More places of skills."""

    paths: list[str] | None = None
    urls: list[str] | None = None


class Watcher(_Settings):
    """What is not watched."""

    ignore: list[str] | None = None


class ImageAttachment(_Settings):
    """How large a picture may be that is attached."""

    auto_resize: bool | None = None
    max_width: Duration | None = None
    max_height: Duration | None = None
    max_base64_bytes: Duration | None = None


class Attachment(_Settings):
    """What is attached to a message."""

    image: ImageAttachment | None = None


class ToolOutput(_Settings):
    """How much of a tool's output the model is shown."""

    max_lines: int | None = None
    max_bytes: int | None = None


class Enterprise(_Settings):
    """The address of an enterprise's own server."""

    url: str | None = None


class ServerSettings(_Settings):
    """Where a server listens."""

    port: Duration | None = None
    hostname: str | None = None
    mdns: bool | None = None
    mdnsDomain: str | None = None  # noqa: N815 - the file's own name
    cors: list[str] | None = None


class Config(_Settings):
    """Settings in opencode's form. instar reads those that docs/reference/configuration.md names.

    A key that no setting has is looked at too: it may be a mistyped one.
    """

    keeps_unknown: ClassVar[bool] = True

    schema: str | None = msgspec.field(default=None, name="$schema")
    shell: str | None = None
    logLevel: Literal["DEBUG", "INFO", "WARN", "ERROR"] | None = None  # noqa: N815 - the file's own name
    server: ServerSettings | None = None
    command: dict[str, Plain] | None = None
    skills: Skills | None = None
    watcher: Watcher | None = None
    snapshot: bool | None = None
    plugin: list[str | tuple[str, Plain]] | None = None
    share: Literal["manual", "auto", "disabled"] | None = None
    autoshare: bool | None = None
    autoupdate: bool | Literal["notify"] | None = None
    disabled_providers: list[str] | None = None
    enabled_providers: list[str] | None = None
    model: str | None = None
    small_model: str | None = None
    default_agent: str | None = None
    subagent_depth: int | None = None
    username: str | None = None
    mode: dict[str, Plain] | None = None
    agent: dict[str, Plain] | None = None
    provider: dict[str, Plain] | None = None
    mcp: dict[str, Plain] | None = None
    formatter: bool | dict[str, Plain] | None = None
    lsp: bool | dict[str, Plain] | None = None
    references: dict[str, str | Plain] | None = None
    reference: dict[str, str | Plain] | None = None
    instructions: list[str] | None = None
    layout: Literal["auto", "stretch"] | None = None
    permission: Any = None
    tools: dict[str, bool] | None = None
    attachment: Attachment | None = None
    enterprise: Enterprise | None = None
    tool_output: ToolOutput | None = None
    compaction: Compaction | None = None
    experimental: Experimental | None = None


_ACTIONS: Final = ("allow", "ask", "deny")
_PLAIN_ONLY: Final = ("todowrite", "question", "webfetch", "websearch", "doom_loop")
"""Permissions to which opencode's schema allows no patterns."""
_OF_KIND: Final = {
    "local": ("type", "command", "cwd", "environment", "enabled", "timeout"),
    "remote": ("type", "url", "headers", "enabled", "timeout"),
    None: ("enabled",),
}
_NEEDED: Final = {"local": "command", "remote": "url", None: "enabled"}


_EXACT: Final = {
    "command": dict[str, CommandSettings],
    "mode": dict[str, AgentSettings],
    "agent": dict[str, AgentSettings],
    "provider": dict[str, ProviderSettings],
    "mcp": dict[str, McpSettings],
    "formatter": bool | dict[str, FormatterSettings],
    "lsp": bool | dict[str, LspSettings],
    "references": dict[str, str | ReferenceSettings],
    "reference": dict[str, str | ReferenceSettings],
}
"""What the blocks hold that are free in `Config`: a body's own keys in them must not get lost."""


def fitted(data: Plain) -> Config:
    """Return what of settings fits opencode's schema."""
    found = _fit(data, Config)
    for block, kind in _EXACT.items():
        if block in found:
            found[block] = _fit(found[block], kind)
    for block in ("agent", "mode"):
        if block in found:
            found[block] = {name: _agent(data[block][name], one) for name, one in found[block].items()}
    for block, whole in _WHOLE.items():
        if isinstance(found.get(block), dict):
            found[block] = {name: one for name, given in found[block].items() if (one := whole(given))}
    found["permission"] = _permission(data.get("permission"))
    return msgspec.convert(found, Config)


def _agent(given: Plain, known: Plain) -> Plain:
    """An agent's fields that fit, and its other keys, which are its own affair."""
    others = {key: value for key, value in given.items() if key not in AgentSettings.__struct_fields__}
    rules = _permission(given.get("permission"))
    return {**others, **known, "permission": {} if rules is None else rules}


def _mcp(server: Plain) -> Plain | None:
    kind = server.get("type")
    if _NEEDED[kind] not in server:
        return None
    return {key: value for key, value in server.items() if key in _OF_KIND[kind]}


def _lsp(server: Plain) -> Plain | None:
    if "command" in server:
        return server
    return {"disabled": True} if server.get("disabled") is True else None


def _reference(given: Any) -> Any:
    if isinstance(given, str):
        return given
    kind = "path" if "path" in given else "repository"
    keys = (kind, "description", "hidden", *(("branch",) if kind == "repository" else ()))
    return {key: given[key] for key in keys if key in given} if kind in given else None


_WHOLE: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {"mcp": _mcp, "lsp": _lsp, "references": _reference, "reference": _reference}
)
"""Blocks in which an entry is one of several forms: an entry as the form has it, or nothing."""


def _permission(block: Any) -> Any:
    """Return a block of rules in opencode's form, without entries that are not rules."""
    if not isinstance(block, dict):
        return block if block in _ACTIONS else None
    found: Plain = {}
    for name, rule in block.items():
        if rule in _ACTIONS if not isinstance(rule, dict) else False:
            found[name] = rule
        elif isinstance(rule, dict) and name in _PLAIN_ONLY:
            if rule.get("*") in _ACTIONS:
                found[name] = rule["*"]
        elif isinstance(rule, dict):
            found[name] = {pattern: action for pattern, action in rule.items() if action in _ACTIONS}
    return found


_UNFIT: Final = object()


def _fit(value: Any, kind: Any) -> Any:
    """`value` as plain data without the entries that do not fit `kind`; `_UNFIT` where nothing is left to say."""
    bare = _bare(kind)
    if get_origin(bare) in (Union, UnionType):
        arms = (arm for arm in get_args(bare) if arm is not NoneType)
        return next((one for arm in arms if (one := _fit(value, arm)) is not _UNFIT), _UNFIT)
    if get_origin(bare) is dict and isinstance(value, dict):
        inner = get_args(bare)[1]
        return {key: one for key, item in value.items() if (one := _fit(item, inner)) is not _UNFIT}
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        return _fit_struct(value, bare)
    try:
        return msgspec.to_builtins(msgspec.convert(value, kind))
    except msgspec.ValidationError:
        return _UNFIT


def _fit_struct(value: Any, kind: type[msgspec.Struct]) -> Any:
    if not isinstance(value, dict):
        return _UNFIT
    found = {}
    for field in msgspec.structs.fields(kind):
        one = _fit(value[field.encode_name], field.type) if field.encode_name in value else _UNFIT
        if one is not _UNFIT and one is not None:
            found[field.encode_name] = one
        elif field.required:
            return _UNFIT
    return found


def _bare(kind: Any) -> Any:
    while get_origin(kind) is Annotated and not isinstance(get_args(kind)[0], type):
        kind = get_args(kind)[0]
    return kind


class AcceptedChange(Wire):
    """A file that steers and is not as it was accepted: its name, ``new``, ``changed`` or ``gone``, and the diff."""

    file: str
    change: str
    diff: str


class TrustState(Wire):
    """What of a directory's folders is not as it was accepted. `version` names it for `TrustBody`."""

    folders: list[str]
    trusted: bool
    changes: list[AcceptedChange]
    version: str


class TrustBody(Wire):
    """Which version a person accepts: the one that they were shown."""

    version: str
