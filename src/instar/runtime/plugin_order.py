"""Which plugins an instance loads, and in which order.

A flagship that judges what others did (`Flagship.last`) is loaded after them, when they have changed the settings.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from instar import wire
from instar.git.project import Project
from instar.plugin.load import Spec, digest, digest_of_files, distinct
from instar.plugin.locate import PluginLocation
from instar.settings.builtin_plugins import FLAGSHIPS, is_named, is_switched_on
from instar.settings.load import Settings

Flags = Mapping[str, Any]


def listed(read: Settings) -> list[Spec]:
    """Return the plugins that settings and plugin folders name, in the order in which they load."""
    return [
        Spec(entry.target, entry.options, code=entry.code, required=entry.required) for entry in read.plugins
    ]


def early(read: Settings, environment: Mapping[str, str], flags: Flags) -> list[Spec]:
    """Return the plugins to load first: listed ones, and those that the environment or a flag selects."""
    return [spec for spec in _asked(read, environment, flags) if not _is_last(spec)]


def late(read: Settings, environment: Mapping[str, str], flags: Flags, folders: Iterable[Path]) -> list[Spec]:
    """Return the plugins to load last. `read` are the settings after the other plugins changed them.

    A setting of such a flagship, or a file of it in one of `folders`, switches it on too.
    """
    places = list(folders)
    named = [Spec(name) for name in FLAGSHIPS if is_named(name, read.config.data, _files(name, read, places))]
    return [spec for spec in [*_asked(read, environment, flags), *named] if _is_last(spec)]


def guarding(loaded: Iterable[str]) -> list[Spec]:
    """Return the `loaded` flagships that guard.

    A file of rules that is gone switches none of them off while an instance lives.
    """
    return [Spec(name) for name in dict.fromkeys(loaded) if name in FLAGSHIPS and FLAGSHIPS[name].steers]


def marker(read: Settings, folders: Iterable[Path]) -> Callable[[PluginLocation], str]:
    """Return the function that gives the digest of a plugin that is loaded last: its rules are not in its code.

    It is the keys of the settings that it goes by, and its files in `folders`.
    """
    where = list(folders)

    def digest_of(place: PluginLocation) -> str:
        shipped = FLAGSHIPS.get(place.name)
        if shipped is None:
            return digest(place)
        own = shipped.section.key or place.name if shipped.section else place.name
        keys = (*shipped.keys, own)
        blocks = {"": read.config.data, **read.config.data.get("agent", {})}
        said = {name: [block.get(key) for key in keys] for name, block in blocks.items()}
        come = {at: origin for at, origin in read.origins.items() if any(key in at for key in keys)}
        files = digest_of_files(_files(place.name, read, where))
        return json.dumps([said, come, files], default=str, sort_keys=True) if shipped.keys else ""

    return digest_of


def _files(name: str, read: Settings, places: Sequence[Path]) -> list[Path]:
    """Return the files of a flagship in `places`: the accepted ones in a project, those at home as they stand."""
    *projects, home = places
    served = [read.served(folder / file) for folder in projects for file in FLAGSHIPS[name].files]
    return [*served, *(home / file for file in FLAGSHIPS[name].files)]


def places(project: Project, directory: Path, home: Path) -> list[Path]:
    """Return the folders in which a flagship's files stand, the person's home last."""
    return [*([project.worktree] if project.vcs else []), directory, home]


def settings_of(flags: Flags) -> wire.Plain:
    """Return the flags that are settings; the others are a flagship's own."""
    own = {flag for shipped in FLAGSHIPS.values() for flag in (shipped.flag, *shipped.own_flags)}
    return {name: value for name, value in flags.items() if name not in own}


def _asked(read: Settings, environment: Mapping[str, str], flags: Flags) -> Sequence[Spec]:
    specs = distinct(listed(read))
    known = {spec.identity for spec in specs}
    return [
        *(spec for spec in specs if not _is_off(spec)),
        *(Spec(name) for name in FLAGSHIPS if name not in known and is_switched_on(name, environment, flags)),
    ]


def _is_off(spec: Spec) -> bool:
    """Whether an entry switches a flagship off, by the option ``enabled``; none that guards is switched off so."""
    shipped = FLAGSHIPS.get(spec.identity)
    return shipped is not None and not shipped.last and spec.options.get("enabled") is False


def _is_last(spec: Spec) -> bool:
    return spec.identity in FLAGSHIPS and FLAGSHIPS[spec.identity].last
