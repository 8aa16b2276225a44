"""What the settings make of an instance: its models, limits, agents, commands and instructions.

Made when an instance is opened, and once more when plugins have changed what they are made of: ``config``,
``provider`` and ``auth`` hooks run once, after all plugins are loaded.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from instar.agent import Agents
from instar.command import Commands
from instar.config import Config, spread_flat
from instar.definition import untrusted_places
from instar.instance import Instance
from instar.instruction import Instructions, Pattern
from instar.message import Rule
from instar.paths import Paths
from instar.plugin.door import Plugins
from instar.project import Project
from instar.provider.contributed import contribute
from instar.provider.keys import Keys
from instar.provider.resolve import Models
from instar.secret import masked, unmasked
from instar.settings import Settings
from instar.usage import Limits
from instar.wire import Plain

_ORIGIN = "a plugin's config hook"


class Ground(msgspec.Struct, frozen=True):
    """What does not change with the settings. `own` are rules of the runtime itself, before the person's."""

    project: Project
    paths: Paths
    environment: Mapping[str, str]
    is_trusted: Callable[[Path], bool]
    own: Sequence[Rule]

    @property
    def keys(self) -> Keys:
        """The keys that the person keeps."""
        return Keys(self.paths.data / "auth.json")


class Configured(msgspec.Struct, frozen=True):
    """The rooms that are made of settings."""

    config: Config
    models: Models
    limits: Limits
    agents: Agents
    commands: Commands
    instructions: Instructions

    @classmethod
    def of(cls, read: Settings, ground: Ground, models: Models | None = None) -> "Configured":
        """Make the rooms; `models` are those that plugins added to. Raises `LimitsError`."""
        models = models or Models(read.config, ground.environment, keys=ground.keys)
        return cls(
            config=read.config,
            models=models,
            limits=Limits.of(read.config.limits, read.config.max_iterations),
            agents=Agents(read.config, ground.own, models.find),
            commands=Commands(read.config, untrusted_places(read)),
            instructions=Instructions(ground.project, ground.paths, _patterns(read), ground.is_trusted),
        )

    @property
    def problems(self) -> list[str]:
        """One-line sentences about what of the settings cannot be used."""
        return [*self.agents.problems, *self.commands.problems, *self.instructions.problems]


async def ask_plugins(instance: Instance, read: Settings, ground: Ground) -> tuple[Settings, list[str]]:
    """Let plugins change what the settings say, and remake an instance's rooms when one did.

    Returns the settings as they are now, and a sentence for each plugin that failed.
    """
    plugins = instance.plugins
    now, notices = await _changed(plugins, read)
    if now is read and not plugins.registered("provider") and not plugins.registered("auth"):
        return read, notices
    models = Models(now.config, ground.environment, keys=ground.keys)
    notices += await contribute(models, plugins, ground.keys)
    made = Configured.of(now, ground, models)
    made.commands.late = instance.commands.late
    notices += [problem for problem in made.problems if problem not in instance.agents.problems]
    await instance.models.close()
    for name in Configured.__struct_fields__:
        setattr(instance, name, getattr(made, name))
    return now, notices


async def _changed(plugins: Plugins, read: Settings) -> tuple[Settings, list[str]]:
    raw = read.config.data
    shown: Plain = masked(raw)
    found = [read]

    def accept(data: Plain) -> None:
        found[0] = _settings(read, unmasked(data, raw))

    problems = await plugins.configure(shown, accept)
    return found[0], problems


def _settings(read: Settings, data: Plain) -> Settings:
    """`read` with the configuration `data`. Raises `ConfigError` and `LimitsError`."""
    config = Config.from_data(spread_flat(data, _ORIGIN), _ORIGIN)
    Limits.of(config.limits, config.max_iterations)
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
    origins |= {
        f"instructions.{index}": theirs[text]
        for index, text in enumerate(config.instructions)
        if text in theirs
    }
    return msgspec.structs.replace(read, config=config, origins=origins)


def _patterns(read: Settings) -> list[Pattern]:
    """The entries of ``instructions``, each with whether the person stands behind it."""
    strange = untrusted_places(read)
    entries = enumerate(read.config.instructions)
    return [Pattern(text, not strange(f"instructions.{index}")) for index, text in entries]
