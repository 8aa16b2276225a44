"""What the settings make of an instance: its models, limits, agents, commands and instructions.

Made when an instance is opened, and once more when plugins have changed what they are made of: ``config``,
``provider`` and ``auth`` hooks run once, after all plugins are loaded.
"""

import contextlib
import getpass
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from instar.definitions.agent import Agents
from instar.definitions.command import Commands
from instar.definitions.instruction import Instructions, Pattern
from instar.definitions.markdown import untrusted_places
from instar.git.project import Project
from instar.limits.budget import CallLimits
from instar.message import Rule
from instar.plugin.door import Plugins
from instar.process import Processes
from instar.provider.keys import Keys, KeysError
from instar.provider.resolve import Models, contribute
from instar.sandbox.model_process import Children
from instar.session.instance import Instance
from instar.settings.config import Config
from instar.settings.load import Settings
from instar.settings.paths import Paths
from instar.settings.rules import spread_flat
from instar.wire import Plain
from instar.wire.secret import Secret, masked, secrets_in, unmasked

_ORIGIN = "a plugin's config hook"


class SettingsContext(msgspec.Struct, frozen=True):
    """What does not change with the settings. `own` are rules of the runtime itself, before the person's."""

    project: Project
    paths: Paths
    environment: Mapping[str, str]
    is_trusted: Callable[[Path], bool]
    own: Sequence[Rule]


def keys_of(paths: Paths) -> Keys:
    """Return the keys that a person keeps."""
    return Keys(paths.data / "auth.json")


def secrets(config: Config, ground: SettingsContext) -> list[Secret]:
    """Return the secrets that no child may get: of the settings, the logins, and the server's password."""
    found = list(secrets_in(config.data))
    with contextlib.suppress(KeysError):  # a file that cannot be read gave nobody a key
        found += keys_of(ground.paths).secrets()
    with contextlib.suppress(OSError, UnicodeDecodeError):
        found.append(Secret(ground.paths.password_file.read_text("utf-8").strip()))
    return found


def children(
    processes: Processes, config: Config, ground: SettingsContext, now: Callable[[], Config] | None = None
) -> Children:
    """Return the children that are started for the model, held back as the person's settings say.

    `now` gives the settings as plugins have left them, where they may: a key that one of them brought is a secret too.
    """
    return Children(
        processes,
        ground.paths,
        ground.environment,
        secrets=lambda: secrets(now() if now else config, ground),
        keep=config.shield.env,
        at_most=config.shield.at_most,
        worktree=ground.project.worktree if ground.project.vcs else ground.project.directory,
    )


class ConfiguredRooms(msgspec.Struct, frozen=True):
    """The rooms that are made of settings."""

    config: Config
    models: Models
    limits: CallLimits
    agents: Agents
    commands: Commands
    instructions: Instructions

    @classmethod
    def of(cls, read: Settings, ground: SettingsContext, models: Models | None = None) -> "ConfiguredRooms":
        """Make the rooms; `models` are those that plugins added to. Raises `LimitsError`."""
        models = models or Models(read.config, ground.environment, keys=keys_of(ground.paths))
        return cls(
            config=read.config,
            models=models,
            limits=CallLimits.of(read.config.limits, read.config.max_iterations),
            agents=Agents(read.config, ground.own, models.find),
            commands=Commands(read.config, untrusted_places(read)),
            instructions=Instructions(ground.project, ground.paths, _patterns(read), ground.is_trusted),
        )

    def stand(self, instance: Instance) -> None:
        """Replace an instance's rooms by these; a turn keeps the old ones until its step ends."""
        self.commands.late = instance.commands.late
        for name in self.__struct_fields__:
            setattr(instance, name, getattr(self, name))

    @property
    def problems(self) -> list[str]:
        """One-line sentences about what of the settings cannot be used."""
        return [*self.agents.problems, *self.commands.problems, *self.instructions.problems]


async def ask_plugins(
    instance: Instance, read: Settings, ground: SettingsContext
) -> tuple[Settings, list[str]]:
    """Let plugins change what the settings say, and remake an instance's rooms when one did.

    Returns the settings as they are now, and a sentence for each plugin that failed.
    """
    plugins = instance.plugins
    now, notices = await _changed(plugins, read, ground)
    if now is read and not plugins.registered("provider") and not plugins.registered("auth"):
        return read, notices
    made, more = await _made(plugins, now, ground)
    notices += [*more, *(problem for problem in made.problems if problem not in instance.agents.problems)]
    await instance.models.close()
    made.stand(instance)
    return now, notices


async def asked(
    plugins: Plugins, read: Settings, ground: SettingsContext
) -> "tuple[Settings, ConfiguredRooms, list[str]]":
    """Let `plugins` change what the settings say, and return them, what they make, and a sentence for each failure.

    No instance is changed. Raises `LimitsError`.
    """
    now, notices = await _changed(plugins, read, ground)
    made, more = await _made(plugins, now, ground)
    return now, made, [*notices, *more]


async def _made(
    plugins: Plugins, now: Settings, ground: SettingsContext
) -> "tuple[ConfiguredRooms, list[str]]":
    models = Models(now.config, ground.environment, keys=keys_of(ground.paths))
    notices = await contribute(models, plugins, keys_of(ground.paths))
    return ConfiguredRooms.of(now, ground, models), notices


def user_name() -> str:
    """Return the person's name on this machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return "unknown"


async def _changed(plugins: Plugins, read: Settings, ground: SettingsContext) -> tuple[Settings, list[str]]:
    raw = read.config.data
    filled = _filled(read, ground)
    shown: Plain = filled | masked(raw)
    found = [read]

    def accept(data: Plain) -> None:
        changed = {key: one for key, one in data.items() if key in raw or one != filled.get(key)}
        found[0] = _settings(read, unmasked(changed, raw))

    problems = await plugins.configure(shown, accept)
    return found[0], problems


def _filled(read: Settings, ground: SettingsContext) -> Plain:
    """Return what opencode gives a ``config`` hook of settings that say nothing of it."""
    own = str(ground.paths.config)
    sources = [
        (one, read.origins.get(f"plugin.{at}", ""))
        for at, one in enumerate(read.config.data.get("plugin") or ())
    ]
    return {
        "$schema": "https://opencode.ai/config.json",
        "username": user_name(),
        "agent": {},
        "mode": {},
        "plugin": [],
        "plugin_origins": [
            {"spec": spec, "source": source, "scope": "global" if source.startswith(own) else "local"}
            for spec, source in sources
        ],
    }


def _settings(read: Settings, data: Plain) -> Settings:
    """`read` with the configuration `data`. Raises `ConfigError` and `LimitsError`."""
    config = Config.from_data(spread_flat(data, _ORIGIN), _ORIGIN)
    CallLimits.of(config.limits, config.max_iterations)
    config = msgspec.structs.replace(config, foreign=read.config.foreign, asked=read.config.asked)
    # An entry that a stranger wrote stays a stranger's, wherever a plugin moved it.
    strange = untrusted_places(read)
    theirs = {
        text: read.origins[f"instructions.{index}"]
        for index, text in enumerate(read.config.instructions)
        if strange(f"instructions.{index}")
    }
    origins = {
        place: origin for place, origin in read.origins.items() if not place.startswith("instructions.")
    }
    # Rules that a plugin put there, or moved, have no file.
    kept = _same_rules(data.get("hooks"), read.config.data.get("hooks"))
    origins = {
        place: origin for place, origin in origins.items() if not place.startswith("hooks.") or place in kept
    }
    origins |= {
        f"instructions.{index}": theirs[text]
        for index, text in enumerate(config.instructions)
        if text in theirs
    }
    return msgspec.structs.replace(read, config=config, origins=origins)


def _same_rules(now: object, before: object) -> set[str]:
    """Return the dotted paths of the groups of rules that did not change."""
    if not (isinstance(now, dict) and isinstance(before, dict)):
        return set()
    return {
        f"hooks.{event}.{index}"
        for event, groups in now.items()
        if isinstance(groups, list) and isinstance(before.get(event), list)
        for index, (one, other) in enumerate(zip(groups, before[event], strict=False))
        if one == other
    } | {f"hooks.{event}" for event, groups in now.items() if groups == before.get(event)}


def _patterns(read: Settings) -> list[Pattern]:
    """Return the entries of ``instructions``, each with whether it is trusted."""
    strange = untrusted_places(read)
    entries = enumerate(read.config.instructions)
    return [Pattern(text, not strange(f"instructions.{index}")) for index, text in entries]
