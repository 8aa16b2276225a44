"""Where rules come from, in order, and which of them are read at all (issue 8, item 1).

`hooks` of the settings, ``.instar/hooks.json``, ``.openhands/hooks.json``, ``.claude/settings.json`` and
``settings.local.json``, each in the project and then at home; then what agents' front matter and plugins say, which
others have read. A project's file is read only where a person trusts its folder: its rules run commands.
"""

import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from instar.plugin import document
from instar.plugins.hooks.entry import Keys
from instar.plugins.hooks.event import Dialect
from instar.plugins.hooks.parse import Fault, Place, parse
from instar.plugins.hooks.rule import Rule
from instar.plugins.hooks.seen import FILES as NAMES

LARGEST: Final = 256 << 10
"""Characters of a file of rules."""
MANY: Final = 50
"""Rules on one event from which on a person is told: each of them makes it wait."""

FILES: Final[tuple[tuple[str, Dialect], ...]] = tuple(
    zip(NAMES, ("instar", "openhands", "claude", "claude"), strict=True)
)
"""The files of a folder, in order, with the dialect of each."""


class Given(msgspec.Struct, frozen=True):
    """Rules that somebody else has read: of an agent's front matter (`agent`), or of a plugin."""

    data: Any
    source: str
    dialect: Dialect = "instar"
    agent: str = ""
    place: Callable[[Keys], tuple[int, int]] | None = None


def of_settings(config: Mapping[str, Any], origins: Mapping[str, str]) -> list[Given]:
    """Return what ``hooks`` of the merged settings says, apart by the file that said it.

    `origins` are those of `PluginInput`: of each group of rules, the file. What has none is a plugin's.
    """
    block = config.get("hooks")
    if not isinstance(block, dict):
        return [Given({"hooks": block}, "hooks of the settings")] if block else []
    found: dict[str, dict[str, list[Any]]] = {}
    for event, groups in block.items():
        for index, group in enumerate(groups if isinstance(groups, list) else [groups]):
            found.setdefault(_origin(origins, f"{event}.{index}"), {}).setdefault(event, []).append(group)
        if not groups:
            found.setdefault(_origin(origins, event), {})[event] = groups
    order = list(dict.fromkeys(origins.values()))
    known = sorted(found, key=lambda origin: order.index(origin) if origin in order else len(order))
    return [Given({"hooks": found[origin]}, origin, place=_placed(origin)) for origin in known]


def _origin(origins: Mapping[str, str], place: str) -> str:
    return origins.get(f"hooks.{place}", "a plugin's config hook")


def of_agents(config: Mapping[str, Any], origins: Mapping[str, str]) -> list[Given]:
    """Return what the agents of the merged settings say in ``hooks``: their files' front matter, or their blocks."""
    agents = config.get("agent")
    found = []
    for name, block in agents.items() if isinstance(agents, dict) else ():
        if isinstance(block, dict) and block.get("hooks"):
            begin = f"agent.{name}.hooks"
            source = next((origin for place, origin in origins.items() if place.startswith(begin)), "")
            found.append(Given({"hooks": block["hooks"]}, source or f"the agent {name}", agent=name))
    return found


class Found(msgspec.Struct):
    """The rules in force, in order; what was not understood; and what a person should know, a sentence each."""

    rules: list[Rule] = []
    faults: list[Fault] = []
    notices: list[str] = []

    def take(self, given: Given) -> None:
        """Add what one source says."""
        parsed = parse(given.data, given.source, given.dialect, given.place, given.agent)
        if parsed.off:
            self.notices.append(f"{given.source}: disableAllHooks is true: its rules are not armed")
        self.faults += parsed.faults
        seen = {rule.key for rule in self.rules if rule.dialect == "claude"}
        for rule in parsed.rules:
            # As in Claude Code: a rule that stands twice in its files runs once.
            if rule.dialect != "claude" or rule.key not in seen:
                self.rules.append(rule)
                seen.add(rule.key)


def find(
    config: Mapping[str, Any],
    folders: Sequence[Path],
    home: Path,
    trusted: Callable[[Path], bool],
    more: Iterable[Given] = (),
    origins: Mapping[str, str] = MappingProxyType({}),
) -> Found:
    """Return all rules for `folders` (the project's, outermost first) and `home`.

    `config` are the merged settings (`PluginInput.config`), from which the core has left out what no trusted file
    says; `origins` say which file each of them came from. `more` come last: agents' front matter. Reads files, changes
    none, and raises nothing: what cannot be read is a fault.
    """
    found = Found()
    for given in of_settings(config, origins):
        found.take(given)
    projects = list(dict.fromkeys(folder for folder in folders if folder != home))
    for name, dialect in FILES:
        for folder in projects:
            if trusted(folder):
                _read(folder / name, dialect, found)
            elif _is_there(folder / name):
                found.notices.append(
                    f"{folder / name} was not read: nobody trusted the folder (instar trust {folder})"
                )
        if dialect != "claude":
            _read(home / name, dialect, found)
    for name, dialect in FILES:
        if dialect == "claude":
            _read(home / name, dialect, found)
    for given in more:
        found.take(given)
    found.notices += _crowded(found.rules)
    return found


def _read(path: Path, dialect: Dialect, found: Found) -> None:
    if not _is_there(path):
        return
    try:
        if path.stat().st_size > LARGEST:
            raise document.DocumentError(str(path), 1, 1, f"expected at most {LARGEST >> 10} KiB, found more")
        text = document.read_text(path)
        data = document.parse_jsonc(text, str(path))
    except document.DocumentError as error:
        found.faults.append(
            Fault(error.source, error.line, error.column, "", f"{error.message}; no rule of it is armed")
        )
        return
    except OSError as error:
        found.faults.append(
            Fault(str(path), 0, 0, "", f"it cannot be read: {error.strerror}; no rule of it is armed")
        )
        return
    place: Place = lambda keys: document.locate(text, keys)  # noqa: E731 - it closes over the text
    for key in document.repeated(text):
        why = "stands twice in one map: what stands under the last one counts alone"
        found.faults.append(Fault(str(path), 0, 0, key, why))
    found.take(Given(data, str(path), dialect, place=place))


def _placed(origin: str) -> Place | None:
    """The places in a file of settings, where an origin is one."""
    if not origin.endswith((".json", ".jsonc")):
        return None
    try:
        text = document.read_text(Path(origin))
    except (OSError, document.DocumentError):
        return None  # it is gone since it was read
    return lambda keys: document.locate(text, keys)


def _is_there(path: Path) -> bool:
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # not readable: reading it says so
        return True


def _crowded(rules: Iterable[Rule]) -> list[str]:
    counts: dict[str, int] = {}
    for rule in rules:
        counts[rule.event] = counts.get(rule.event, 0) + 1
    return [
        f"{count} rules wait for {event}: each makes it slower"
        for event, count in counts.items()
        if count >= MANY
    ]
