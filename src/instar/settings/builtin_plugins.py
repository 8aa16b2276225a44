"""The plugins that ship with instar (flagships), by the names that a config's ``plugin`` list may use.

They load like any other plugin. The table holds strings, not imports: a flagship's code is loaded when it is used.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

BRIDGE: Final = "instar.js"
"""The name of the plugin file that brings the flagships into opencode."""
BRIDGE_MARK: Final = "// instar opencode install wrote this"
"""How it begins."""


class SettingsBlock(NamedTuple):
    """A flagship's own block of the settings, under its name: what it may say, and what it is for."""

    kind: str
    """``module:attribute`` of a `msgspec.Struct` with a default for each field, imported when a file has the block."""
    help: str
    key: str = ""
    """Its key in the settings; empty: the flagship's name."""


class FlagshipCommand(NamedTuple):
    """A command that a flagship adds to the CLI under a name of its own."""

    command: str
    """``module:attribute`` of a click command, imported when it is called."""
    help: str


class Flagship(NamedTuple):
    """A plugin that ships with instar: its module, and the command that it adds to the CLI."""

    module: str
    command: str
    """``module:attribute`` of a click command, imported when it is called; empty: it has none."""
    help: str
    environment: tuple[str, ...] = ()
    """Variables of the person's environment that switch it on."""
    flag: str | None = None
    """The command line flag that switches it on."""
    own_flags: tuple[str, ...] = ()
    """Its other command line flags."""
    section: SettingsBlock | None = None
    """What settings files say to it beside the options of its entry in ``plugin``."""
    changes: str | None = None
    """``module:attribute`` of a function from its data folder to the tool calls by which the agent changed itself.

    Each has a ``session``, a ``call`` and a ``kind``; `instar stats` tells what their steps used.
    """
    more: Mapping[str, FlagshipCommand] = MappingProxyType({})
    """Its other commands, by name."""
    under: Mapping[str, Mapping[str, FlagshipCommand]] = MappingProxyType({})
    """Its commands that stand in a group of the core's: by the group's name, then their own."""
    stands_by: bool = False
    """True if it works by itself: a server opens it at its start, not with the first request."""
    keys: tuple[str, ...] = ()
    """Keys of the settings that switch it on: at their top, or in an agent's block."""
    switch: str = ""
    """A dotted place in the settings that switches it on where it is true, or a map."""
    files: tuple[str, ...] = ()
    """Files of the project's folders, or the person's home, that switch it on by being there."""
    steers: str = ""
    """``module:attribute`` of a function that yields what its `files` in a folder name: paths that steer with them.

    It is given the folder, the person's home, and the folder's settings, a map for each file. It raises nothing.
    """
    last: bool = False
    """True if it is loaded after all others, when their ``config`` hooks have run: it judges what they did."""
    tool: str = ""
    """One of its tools: it stands aside where another plugin that is loaded with it offers that one."""
    routes: str = ""
    """``module:Class`` of the operations that it adds to the server where it is in use, imported to describe them."""
    idle: str = ""
    """How to switch it on; the answer to a request for one of its operations while it is off."""


FLAGSHIPS: Final[dict[str, Flagship]] = {
    "evolve": Flagship(
        module="instar.plugins.evolve",
        command="instar.plugins.evolve.cli:group",
        help="Look at an evolve workspace, and decide on what the agent changes in it.",
        environment=("INSTAR_WORKSPACE", "OPENCODE_EVOLVE_WORKSPACE"),
        flag="workspace",
        own_flags=("safe",),
        section=SettingsBlock(
            "instar.plugins.evolve.config:EvolveConfig",
            "How a change of the agent's own is judged before it goes live.",
        ),
        changes="instar.plugins.evolve.history.audit_log:changes",
        more={
            "heartbeat": FlagshipCommand(
                "instar.plugins.evolve.cli.heartbeat:group",
                "Show, start, pause or resume the heartbeat of an evolve workspace.",
            )
        },
        stands_by=True,
        tool="evolve_hook_edit",
        routes="instar.plugins.evolve.routes:EvolveRoutes",
        idle='set INSTAR_WORKSPACE, or list "evolve" under "plugin" in the settings',
    ),
    # Before `hooks`: what its rules see of a change is what the model sees.
    "formatter": Flagship(
        module="instar.plugins.files.formatter",
        command="",
        help="Format the files that tools write.",
        keys=("formatter",),
        switch="formatter",
        last=True,
        idle='set "formatter": true in the settings',
    ),
    "lsp": Flagship(
        module="instar.plugins.files.lsp",
        command="",
        help="Tell the model what language servers find in the files that tools write.",
        keys=("lsp",),
        switch="lsp",
        last=True,
        idle='set "lsp": true in the settings',
    ),
    "hooks": Flagship(
        module="instar.plugins.hooks.server",
        command="instar.plugins.hooks.cli:command",
        help="Show the rules of hooks that are in force, try one, and see what they did.",
        section=SettingsBlock(
            "instar.plugins.hooks.config:HookSettings",
            "What is said about hooks beside the rules themselves, which stand in `hooks`.",
            key="hook_settings",
        ),
        keys=("hooks",),
        files=(
            ".instar/hooks.json",
            ".openhands/hooks.json",
            ".claude/settings.json",
            ".claude/settings.local.json",
        ),
        steers="instar.plugins.hooks.sources:programs_in",
        last=True,
        routes="instar.plugins.hooks.routes:HooksRoutes",
        idle=(
            'no rule stands under "hooks" in the settings, or in a file of rules; those of a project count once it is '
            "trusted"
        ),
    ),
    "self": Flagship(
        module="instar.plugins.self",
        command="",
        help="Let the agent look at its own runtime and tune it.",
        switch="tools.self_evolution",
        own_flags=("profile",),
        under={
            "session": {
                "self": FlagshipCommand(
                    "instar.plugins.self.cli:command",
                    "Show what the agent set of its own runtime in a session.",
                )
            }
        },
        last=True,
        routes="instar.plugins.self.routes:SelfRoutes",
        idle='set "tools": {"self_evolution": true} in the settings',
    ),
    "telemetry": Flagship(
        module="instar.plugins.telemetry.server",
        command="",
        help="Send traces and metrics to an OpenTelemetry collector.",
        environment=(
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        ),
        switch="experimental.openTelemetry",
        last=True,
        idle="set OTEL_EXPORTER_OTLP_ENDPOINT",
    ),
}

ALIASES: Final[dict[str, str]] = {"opencode-evolve": "evolve"}
"""Other names in a ``plugin`` list that select a flagship."""


def flagship_name(spec: str) -> str | None:
    """Return the flagship that a spec selects, or None. A version (``opencode-evolve@1.2``) is ignored."""
    bare = spec.rpartition("@")[0] or spec
    name = ALIASES.get(bare, bare)
    return name if name in FLAGSHIPS else None


def commands() -> dict[str, tuple[str, str]]:
    """Return the flagships' commands: where each is, and its line in the help."""
    found = {name: (shipped.command, shipped.help) for name, shipped in FLAGSHIPS.items() if shipped.command}
    for shipped in FLAGSHIPS.values():
        found |= {name: (more.command, more.help) for name, more in shipped.more.items()}
    return found


def commands_under(group: str) -> dict[str, FlagshipCommand]:
    """Return the flagships' commands that stand in a group of the core's, by name."""
    return {name: one for shipped in FLAGSHIPS.values() for name, one in shipped.under.get(group, {}).items()}


def is_switched_on(name: str, environment: Mapping[str, str], flags: Mapping[str, Any]) -> bool:
    """Whether the environment or a flag asks for a flagship."""
    shipped = FLAGSHIPS[name]
    return any(environment.get(variable) for variable in shipped.environment) or bool(
        shipped.flag and flags.get(shipped.flag)
    )


def is_named(name: str, config: Mapping[str, Any], files: Iterable[Path]) -> bool:
    """Whether the settings hold a key of a flagship, or one of its `files` is there."""
    shipped = FLAGSHIPS[name]
    agents = config.get("agent")
    blocks = [config, *(agents.values() if isinstance(agents, Mapping) else ())]
    if any(isinstance(block, Mapping) and block.get(key) for block in blocks for key in shipped.keys):
        return True
    switch = _at(config, shipped.switch)
    if switch is True or isinstance(switch, Mapping):
        return True
    return any(file.exists() for file in files)


def _at(config: Any, place: str) -> Any:
    """What stands at a dotted place of the settings, None for nothing."""
    for key in place.split("."):
        config = config.get(key) if isinstance(config, Mapping) else None
    return config


def stands_by(listed: Iterable[str], environment: Mapping[str, str], flags: Mapping[str, Any]) -> bool:
    """Whether a flagship that works without being asked is wanted; `listed` are the specs of the settings."""
    named = {flagship_name(spec) for spec in listed}
    return any(
        shipped.stands_by and (name in named or is_switched_on(name, environment, flags))
        for name, shipped in FLAGSHIPS.items()
    )


def sections() -> dict[str, SettingsBlock]:
    """Return the blocks that flagships have in the settings, by their keys."""
    return {
        shipped.section.key or name: shipped.section
        for name, shipped in FLAGSHIPS.items()
        if shipped.section is not None
    }


def section_kind(name: str) -> Any:
    """Return the struct of the block with this key; this imports its flagship's module. Raises `KeyError`."""
    module, _, attribute = sections()[name].kind.partition(":")
    return getattr(import_module(module), attribute)


def is_bridge(path: Path) -> bool:
    """Whether a file is what `instar opencode install` writes for opencode: instar needs no bridge to itself."""
    if path.name != BRIDGE:
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(BRIDGE_MARK)) == BRIDGE_MARK.encode()
    except OSError:
        return False
