"""The typed view of the merged settings, and the faults of settings of a wrong type.

Keys are those of ``opencode.json`` (https://opencode.ai/docs/config). Beside them stand our own (`OWN_KEYS`), with the
blocks that guard (`SECTIONS`): `shield` of the core, and what flagships bring. A file may say only what such a block
has: a guard that a typing error takes away would let things through. Other unknown keys are kept in `Config.data`.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from instar.settings.builtin_plugins import section_kind, sections
from instar.wire import Plain

Path = tuple[str | int, ...]
"""A place in the data: keys and list indexes from the top."""

_ACTIONS: Final = ("allow", "ask", "deny")


class ConfigError(Exception):
    """A setting of the wrong type: where it was written (`origin`), at what `path`, what was expected."""

    def __init__(self, origin: str, path: Path, message: str) -> None:
        super().__init__(f"{origin}: {dotted(path) or 'the whole document'}: {message}")
        self.origin = origin
        self.path = path
        self.message = message


def dotted(path: Path) -> str:
    """Return a place as people write it: ``agent.build.tools``."""
    return ".".join(str(part) for part in path)


def value_at(data: Plain, path: Path) -> Any:
    """Return the value at a path; None without one."""
    found: Any = data
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def describe(value: Any) -> str:
    """Name the JSON type of `value`, not the value: it may be a key."""
    kinds = {str: "a string", int: "an integer", float: "a number", list: "a list", dict: "a map"}
    return "null" if value is None else "true or false" if isinstance(value, bool) else kinds[type(value)]


def check_keys(
    block: Mapping[str, Any],
    known: Iterable[str],
    path: Path,
    origin: str = "config",
    *,
    others: bool = False,
) -> None:
    """Raise `ConfigError` at the first key of a block that is not `known`.

    With `others`, a key that looks like no known one passes: a later opencode may read it.
    """
    names = list(known)
    for key in block:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            if others and not near:
                continue
            meant = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(names))}"
            raise ConfigError(origin, (*path, key), f"there is no such setting; {meant}")


def permission_fault(block: Any, path: Path, maps: int = 2) -> tuple[Path, str] | None:
    """Return the first place in a permission block that is not an action; maps may be nested `maps` deep."""
    if block in _ACTIONS:
        return None
    if not isinstance(block, dict) or not maps:
        found = repr(block) if isinstance(block, str) else describe(block)
        return path, f"expected allow, ask or deny{' (or a map of them)' if maps else ''}, found {found}"
    faults = (permission_fault(value, (*path, key), maps - 1) for key, value in block.items())
    return next((fault for fault in faults if fault is not None), None)


def fault(value: Any, kind: Any, path: Path = ()) -> tuple[Path, str] | None:
    """Return the innermost place where `value` does not fit `kind`, and what was expected, if any."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        kind = _bare(kind)
        for key, child in _children(value, kind):
            found = fault(value[key], child, (*path, key))
            if found is not None:
                return found
        return path, _expected(value, kind, str(error))
    return None


def _bare(kind: Any) -> Any:
    """`kind` without its description and ``| None``."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        rest = [arm for arm in get_args(kind) if arm is not NoneType]
        return _bare(rest[0]) if len(rest) == 1 else kind
    return kind


def _children(value: Any, kind: Any) -> Iterable[tuple[str | int, Any]]:
    if get_origin(kind) in (Union, UnionType):
        return [one for arm in get_args(kind) for one in _children(value, _bare(arm))]
    if isinstance(value, list) and get_origin(kind) is list:
        return [(index, get_args(kind)[0]) for index in range(len(value))]
    if not isinstance(value, dict):
        return []
    if get_origin(kind) is dict:
        return [(key, get_args(kind)[1]) for key in value]
    fields = (
        msgspec.structs.fields(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else ()
    )
    return [(field.encode_name, field.type) for field in fields if field.encode_name in value]


_WORDS: Final = {"str": "a string", "int": "an integer", "float": "a number", "bool": "true or false"}
_WORDS_MORE: Final = {"object": "a map", "array": "a list", "null": "null"}


def _expected(value: Any, kind: Any, error: str) -> str:
    """What msgspec's text says about a place, in words; the value is shown only where it cannot be a key."""
    if get_origin(kind) is Literal and isinstance(value, str):
        return f"expected one of {', '.join(get_args(kind))}, found {value[:40]!r}"
    found = re.match(r"Expected `([^`]*)`( [<>=]+ \S+)?", error)
    if found is None:
        return error
    kinds = [{**_WORDS, **_WORDS_MORE}.get(name, name) for name in found[1].split(" | ") if name != "null"]
    number = f", found {value}" if found[2] else f", found {describe(value)}"
    return f"expected {' or '.join(kinds)}{found[2] or ''}{number}"


class ShieldConfig(msgspec.Struct, frozen=True):
    """The ``shield`` block: how children that are started for the model are held back.

    ``tighter`` is explained by `instar.settings.guarding`; the descriptions are those of the JSON Schema and of
    docs/reference/guards.md.
    """

    level: Annotated[
        Literal["auto", "bubblewrap", "landlock", "none"],
        Meta(
            description="The highest level of confinement for children; `auto`: the highest that this machine has.",
            extra={"tighter": ["none", "landlock", "bubblewrap", "auto"]},
        ),
    ] = "auto"
    env: Annotated[
        list[str],
        Meta(
            description="Variables that children get even if they look like secrets.",
            extra={"tighter": "fewer"},
        ),
    ] = []
    startup_files: Annotated[
        list[str],
        Meta(
            description="Start-up files that children may change without your being asked: paths, with `*` and `~/`.",
            extra={"tighter": "fewer"},
        ),
    ] = []

    def __post_init__(self) -> None:
        """Raise `ValueError` for what can be no path of a start-up file."""
        for pattern in self.startup_files:
            if not pattern.startswith(("/", "~/", "*")):
                raise ValueError(
                    f"startup_files: expected a path that begins with /, ~/ or *, found {pattern!r}"
                )

    @property
    def at_most(self) -> Literal["bubblewrap", "landlock", "none"]:
        """The level up to which to look for what the machine can do."""
        return "bubblewrap" if self.level == "auto" else self.level


class StorageConfig(msgspec.Struct, frozen=True):
    """The ``storage`` block: what is kept of sessions when the machine fails (docs/concepts/reliability.md)."""

    durability: Annotated[
        Literal["process", "power"],
        Meta(
            description="What saved data survives: the end of the `process`, or also a loss of `power`, "
            "which costs one wait for the disk for each commit.",
            extra={"tighter": ["process", "power"]},
        ),
    ] = "process"

    @property
    def synchronous(self) -> Literal["NORMAL", "FULL"]:
        """The same in SQLite's words."""
        return "FULL" if self.durability == "power" else "NORMAL"


class McpServerConfig(msgspec.Struct, frozen=True):
    """The ``mcp_server`` block: what other agents may at the server's ``/instar/mcp`` (docs/guides/mcp.md)."""

    answers: Annotated[
        bool,
        Meta(
            description="Whether other agents may answer permission requests, once each.",
            extra={"tighter": [True, False]},
        ),
    ] = False
    tools: Annotated[
        bool,
        Meta(
            description="Whether other agents also get the tools of the evolve workspace's scripts.",
            extra={"tighter": [True, False]},
        ),
    ] = False


_OF_THE_CORE: Final[Mapping[str, type[msgspec.Struct]]] = MappingProxyType(
    {"shield": ShieldConfig, "storage": StorageConfig, "mcp_server": McpServerConfig}
)

SECTIONS: Final = (*_OF_THE_CORE, *sections())
"""The top-level keys that guard: a project's file is heard in them only as far as the person vouches for it."""


def kind_of(name: str) -> type[msgspec.Struct]:
    """Return the struct that says what the block `name` of `SECTIONS` may hold; for a flagship's, import it."""
    return _OF_THE_CORE[name] if name in _OF_THE_CORE else section_kind(name)


def check_section(name: str, block: Any, origin: str) -> None:
    """Raise `ConfigError` at the first mistake in the block `name` of `SECTIONS`."""
    if name not in SECTIONS:
        raise ConfigError(origin, (name,), f"expected one of {', '.join(SECTIONS)}")
    if not isinstance(block, dict):
        raise ConfigError(origin, (name,), f"expected a map, found {describe(block)}")
    kind = kind_of(name)
    check_keys(block, kind.__struct_fields__, (name,), origin)
    found = fault(block, kind, (name,))
    if found is not None:
        raise ConfigError(origin, *found)
    try:
        msgspec.json.encode(block)
    except UnicodeEncodeError:
        text = "expected text that UTF-8 can hold, found half of a surrogate pair"
        raise ConfigError(origin, (name,), text) from None


OWN_KEYS: Final = (
    "context_window_tokens",
    "hooks",
    "limits",
    "max_iterations",
    "permission_options",
    "plugin_timeouts",
    "provider_retry_mode",
    "provider_retry_wait_seconds",
    "reload",
    *SECTIONS,
)
"""Top-level keys that are ours and not opencode's; a near miss of one of them is a mistake."""

_GUARDING: Final = (*OWN_KEYS, "permission")
"""Keys whose near miss stops a run: a rule or a limit that a typing error takes away would let things through."""

_GUARDING_AGENT: Final = ("permission", "tools", "disable")
"""The same of an agent's block, whose other keys are model options."""

_OURS: Final = ("data", "foreign", "asked")
"""Fields of the view that no file fills."""


class ModelConfig(msgspec.Struct, frozen=True):
    """A model of a provider block. `cost` in US dollars a million tokens, `limit` in tokens."""

    id: str | None = None
    name: str | None = None
    attachment: bool | None = None
    reasoning: bool | None = None
    temperature: bool | None = None
    tool_call: bool | None = None
    interleaved: Any = None
    cost: dict[str, Any] = {}
    limit: dict[str, int | float] = {}
    modalities: dict[str, list[str]] = {}
    options: dict[str, Any] = {}
    headers: dict[str, str] = {}
    variants: dict[str, Any] = {}
    status: str | None = None
    provider: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Raise `ValueError` for a price below 0: it would free what limits on cost count."""
        for name, price in self.cost.items():
            if isinstance(price, int | float) and price < 0:
                raise ValueError(f"a price cannot be below 0: {name} is {price}")


class ProviderConfig(msgspec.Struct, frozen=True):
    """A provider block as ``opencode.json`` writes it; `options` holds ``baseURL`` and ``apiKey``."""

    npm: str | None = None
    name: str | None = None
    api: str | None = None
    id: str | None = None
    env: list[str] = []
    options: dict[str, Any] = {}
    headers: dict[str, str] = {}
    models: dict[str, ModelConfig] = {}
    whitelist: list[str] | None = None
    blacklist: list[str] | None = None


class AgentConfig(msgspec.Struct, frozen=True):
    """An agent block; a key that it does not know is one of its `options`.

    The descriptions are those of the JSON Schema and of docs/guides/agents.md.
    """

    description: Annotated[
        str | None, Meta(description="When to use it; the model reads this to choose a sub-agent.")
    ] = None
    mode: Annotated[
        Literal["subagent", "primary", "all"] | None,
        Meta(
            description="`primary`: a person talks to it; `subagent`: tasks are handed to it; `all`: both (default)."
        ),
    ] = None
    model: Annotated[
        str | None,
        Meta(description="`provider/model`, or a model's name alone where it is known; else the session's."),
    ] = None
    variant: Annotated[str | None, Meta(description="The variant of the model.")] = None
    temperature: Annotated[
        float | None, Meta(description="Sampling; the default is 0, and 0.55 for Qwen models.")
    ] = None
    top_p: Annotated[
        float | None, Meta(description="Sampling; left to the provider where it is not given.")
    ] = None
    tools: Annotated[
        dict[str, bool],
        Meta(
            description="Tools by name, also with wildcards (`mymcp_*`); `write`, `edit` and `patch` mean `edit`."
        ),
    ] = {}
    permission: Annotated[
        Any,
        Meta(
            description='What its tools may do; `bash "git *": ask` is the same as a map of patterns under `bash`.'
        ),
    ] = None
    prompt: Annotated[
        str | None, Meta(description="The system prompt; in a file the text below the front matter is it.")
    ] = None
    steps: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="How many model calls a turn may take.")
    ] = None
    disable: Annotated[bool, Meta(description="Takes the agent away, a built-in one too.")] = False
    hidden: Annotated[bool | None, Meta(description="Not listed, and no task is handed to it.")] = None
    color: Annotated[
        str | None,
        Meta(
            description='`"#RRGGBB"` in quotes, or '
            "`primary`, `secondary`, `accent`, `success`, `warning`, `error`, `info`."
        ),
    ] = None
    options: Annotated[
        dict[str, Any],
        Meta(description="Goes to the provider as model options, as does any other field."),
    ] = {}


class McpOAuthConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The ``oauth`` block of a remote server: a client that was registered by hand, and what it asks for."""

    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None
    callback_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    redirect_uri: str | None = None


class McpConfig(msgspec.Struct, frozen=True):
    """A server of the ``mcp`` block: a `command` to run (local) or a `url` (remote).

    `timeout` is in milliseconds; `oauth` false: nobody is to log in. An entry of another layer may say only `enabled`.
    """

    type: Literal["local", "remote"] | None = None
    command: list[str] = []
    cwd: str | None = None
    environment: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    oauth: McpOAuthConfig | bool | None = None
    enabled: bool = True
    timeout: Annotated[int, Meta(ge=1)] | None = None


class CommandConfig(msgspec.Struct, frozen=True):
    """A command block: `template` is the prompt that it becomes.

    The descriptions are those of the JSON Schema and of docs/guides/commands.md.
    """

    template: Annotated[
        str | None, Meta(description="The prompt; in a file the text below the front matter is it.")
    ] = None
    description: Annotated[str | None, Meta(description="One line on what it is for.")] = None
    agent: Annotated[str | None, Meta(description="Who answers; else the one that was asked for.")] = None
    model: Annotated[
        str | None, Meta(description="With which model; else the agent's, else the one that was asked for.")
    ] = None
    variant: Annotated[str | None, Meta(description="The variant of the model.")] = None
    subtask: Annotated[
        bool | None,
        Meta(
            description="Whether a sub-agent does it in a session of its own, and the conversation goes on with what "
            "it brought; without it, so does a command whose agent is a sub-agent."
        ),
    ] = None


class CompactionConfig(msgspec.Struct, frozen=True):
    """The ``compaction`` block: how a conversation that fills the window is summarised.

    `auto`: without being asked. `prune`: old tool outputs are cleared first. `reserved`: tokens of the window
    that stay free. `tail_turns`: how many of the last turns may be kept as they are, up to
    `preserve_recent_tokens`.
    """

    auto: bool = True
    prune: bool = False
    reserved: Annotated[int, Meta(ge=0)] | None = None
    tail_turns: Annotated[int, Meta(ge=0)] = 2
    preserve_recent_tokens: Annotated[int, Meta(ge=0)] | None = None


class FormatterConfig(msgspec.Struct, frozen=True):
    """An entry of ``formatter``: one of opencode's that is `disabled` or changed, or one by its `command`."""

    disabled: bool = False
    command: list[str] | None = None
    environment: dict[str, str] | None = None
    extensions: list[str] | None = None


class LspConfig(msgspec.Struct, frozen=True):
    """An entry of ``lsp``: one of opencode's servers that is `disabled` or changed, or one by its `command`."""

    disabled: bool = False
    command: list[str] | None = None
    extensions: list[str] | None = None
    env: dict[str, str] | None = None
    initialization: Plain | None = None


_KNOWN_BLOCKS: Final[Mapping[Path, tuple[str, ...]]] = MappingProxyType(
    {
        ("compaction",): CompactionConfig.__struct_fields__,
        ("limits",): ("steps", "calls", "failures", "turn", "session", "day", "heartbeat", "cause"),
        ("limits", "turn"): ("minutes",),
        ("limits", "session"): ("tokens", "cost"),
        ("limits", "day"): ("tokens", "cost"),
        ("limits", "heartbeat"): ("tokens", "cost"),
    }
)
"""Blocks whose keys are known; one that looks like them, and in a block of our own any other, is a mistake."""


class Config(msgspec.Struct, frozen=True):
    """The settings that instar itself reads; `data` is everything, in the file's own form.

    `foreign` are the providers whose address an untrusted project gave: nobody but the person chooses them.
    `asked` are the rules by which an untrusted project wants to be asked: agent (or nothing), permission, pattern.
    """

    model: str | None = None
    small_model: str | None = None
    default_agent: str | None = None
    username: str | None = None
    agent: dict[str, AgentConfig] = {}
    command: dict[str, CommandConfig] = {}
    provider: dict[str, ProviderConfig] = {}
    disabled_providers: list[str] = []
    enabled_providers: list[str] | None = None
    permission: Any = None
    permission_options: dict[str, list[str]] = {}
    mcp: dict[str, McpConfig] = {}
    formatter: bool | dict[str, FormatterConfig] | None = None
    lsp: bool | dict[str, LspConfig] | None = None
    plugin: list[str | tuple[str, dict[str, Any]]] = []
    plugin_timeouts: dict[str, Annotated[float, Meta(gt=0)]] = {}
    instructions: list[str] = []
    tools: dict[str, bool] = {}
    snapshot: bool | None = None
    compaction: CompactionConfig = CompactionConfig()
    limits: dict[str, Any] = {}
    shield: ShieldConfig = ShieldConfig()
    storage: StorageConfig = StorageConfig()
    mcp_server: McpServerConfig = McpServerConfig()
    context_window_tokens: Annotated[int, Meta(ge=4096)] = 65536
    max_iterations: Annotated[int, Meta(ge=1)] = 40
    provider_retry_mode: Literal["standard", "persistent"] = "standard"
    provider_retry_wait_seconds: Annotated[int, Meta(ge=0)] = 3600
    reload: bool = True
    data: Plain = {}
    foreign: frozenset[str] = frozenset()
    asked: frozenset[tuple[str, str, str]] = frozenset()

    @classmethod
    def from_data(cls, data: Plain, origin: str = "config") -> "Config":
        """Return the view of `data`. Raises `ConfigError` at the first value of a wrong type."""
        if not isinstance(data, dict):
            raise ConfigError(origin, (), f"expected a map, found {describe(data)}")
        known = {key: value for key, value in data.items() if key not in _OURS}
        if isinstance(known.get("agent"), dict):
            known["agent"] = {name: _agent(block) for name, block in known["agent"].items()}
        try:
            view = msgspec.convert(known, cls)
        except msgspec.ValidationError as error:
            path, message = fault(known, cls) or ((), str(error))
            raise ConfigError(origin, path, message) from None
        _check_rest(view, data, origin)
        return msgspec.structs.replace(view, data=data)


def _agent(block: Any) -> Any:
    """An agent block with ``maxSteps`` under its new name and unknown keys, but for ``hooks``, among its options."""
    if not isinstance(block, dict) or not isinstance(block.get("options", {}), dict):
        return block
    names = set(AgentConfig.__struct_fields__)
    known = {key: value for key, value in block.items() if key in names}
    extra = {
        key: value
        for key, value in block.items()
        if key not in names and key not in ("name", "maxSteps", "hooks")
    }
    if "maxSteps" in block:
        known.setdefault("steps", block["maxSteps"])
    return {**known, "options": {**extra, **block.get("options", {})}}


def _check_rest(view: Config, data: Plain, origin: str) -> None:
    """What types cannot say: permission blocks, and near misses of our own keys."""
    blocks: dict[Path, Any] = {("permission",): view.permission}
    blocks |= {("agent", name, "permission"): agent.permission for name, agent in view.agent.items()}
    for path, block in blocks.items():
        found = None if block is None else permission_fault(block, path)
        if found is not None:
            raise ConfigError(origin, *found)
    for path, names in _KNOWN_BLOCKS.items():
        block = value_at(data, path)
        check_keys(
            block if isinstance(block, dict) else {}, names, path, origin, others=path == ("compaction",)
        )
    for name in SECTIONS:
        if name in data:
            check_section(name, data[name], origin)
    _check_near(data, _GUARDING, (), origin)
    for name in view.agent:
        _check_near(data["agent"][name], _GUARDING_AGENT, ("agent", name), origin)


def _check_near(block: Plain, names: tuple[str, ...], path: Path, origin: str) -> None:
    """Raise `ConfigError` for a key of a block that is nearly one of `names`."""
    for key in block:
        near = difflib.get_close_matches(key, names, n=1, cutoff=0.8)
        if near and key not in names:
            raise ConfigError(origin, (*path, key), f"there is no such setting; did you mean {near[0]}?")
