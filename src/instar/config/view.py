"""The typed view of the merged settings. Keys are those of ``opencode.json`` (the reference's section 3.4).

Beside them stand our own (`OWN_KEYS`). What we do not know is kept in `Config.data`.
"""

import difflib
from typing import Annotated, Any, Final, Literal

import msgspec

from instar.config.fault import ConfigError, Path, describe, fault, permission_fault
from instar.wire import Plain

OWN_KEYS: Final = (
    "context_window_tokens",
    "evolve",
    "hooks",
    "limits",
    "max_iterations",
    "provider_retry_mode",
)
"""Top-level keys that are ours and not opencode's; a near miss of one of them is a mistake."""


_OURS: Final = ("data", "foreign")
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
    """An agent block (the reference's section 3.4); a key that it does not know is one of its `options`."""

    model: str | None = None
    variant: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    prompt: str | None = None
    tools: dict[str, bool] = {}
    disable: bool = False
    description: str | None = None
    mode: Literal["subagent", "primary", "all"] | None = None
    hidden: bool | None = None
    options: dict[str, Any] = {}
    color: str | None = None
    steps: Annotated[int, msgspec.Meta(ge=1)] | None = None
    permission: Any = None


class McpConfig(msgspec.Struct, frozen=True):
    """A server of the ``mcp`` block: a `command` to run (local) or a `url` (remote).

    `timeout` is in milliseconds. An entry of another layer may say only `enabled`.
    """

    type: Literal["local", "remote"] | None = None
    command: list[str] = []
    cwd: str | None = None
    environment: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    enabled: bool = True
    timeout: Annotated[int, msgspec.Meta(ge=1)] | None = None


class CommandConfig(msgspec.Struct, frozen=True):
    """A command block: `template` is the prompt that it becomes."""

    template: str | None = None
    description: str | None = None
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    subtask: bool | None = None


class Config(msgspec.Struct, frozen=True):
    """The settings that instar itself reads; `data` is everything, in the file's own form.

    `foreign` are the providers whose address an untrusted project gave: nobody but the person chooses them.
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
    mcp: dict[str, McpConfig] = {}
    plugin: list[str | tuple[str, dict[str, Any]]] = []
    instructions: list[str] = []
    tools: dict[str, bool] = {}
    snapshot: bool | None = None
    compaction: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    evolve: dict[str, Any] = {}
    context_window_tokens: Annotated[int, msgspec.Meta(ge=4096)] = 65536
    max_iterations: Annotated[int, msgspec.Meta(ge=1)] = 40
    provider_retry_mode: Literal["standard", "persistent"] = "standard"
    data: Plain = {}
    foreign: frozenset[str] = frozenset()

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
    """An agent block with ``maxSteps`` under its new name and unknown keys among its options."""
    if not isinstance(block, dict) or not isinstance(block.get("options", {}), dict):
        return block
    names = set(AgentConfig.__struct_fields__)
    known = {key: value for key, value in block.items() if key in names}
    extra = {
        key: value for key, value in block.items() if key not in names and key not in ("name", "maxSteps")
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
    for key in data:
        near = difflib.get_close_matches(key, OWN_KEYS, n=1, cutoff=0.85)
        if near and key not in OWN_KEYS:
            raise ConfigError(origin, (key,), f"there is no such setting; did you mean {near[0]}?")
