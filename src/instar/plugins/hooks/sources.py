"""Where rules come from, in order, and which of them are read at all.

`hooks` of the settings, ``.instar/hooks.json``, ``.openhands/hooks.json``, ``.claude/settings.json`` and
``settings.local.json``, each in the project and then at home; then what agents' front matter and plugins say, which
others have read. A project's file is read only where a person trusts its folder: its rules run commands.

`arm` reads them when the instance opens; they are unchanged until it reads them again.
"""

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from instar.plugin import Means, PluginFolder, PluginInput, document
from instar.plugins.hooks import config
from instar.plugins.hooks.config import HookSettings
from instar.plugins.hooks.parse import ParsedRules, Place, RuleSource, broken, parse
from instar.plugins.hooks.programs import programs
from instar.plugins.hooks.rule import Dialect, HookRule

FILES: Final[tuple[tuple[str, Dialect], ...]] = (
    (".instar/hooks.json", "instar"),
    (".openhands/hooks.json", "openhands"),
    (".claude/settings.json", "claude"),
    (".claude/settings.local.json", "claude"),
)
"""The files of rules of a folder, in order, with the dialect of each."""
LARGEST: Final = 256 << 10
"""Characters of a file of rules."""
MANY: Final = 50
"""Rules of one event from which on a notice says that they slow it down."""


def of_settings(
    config: Mapping[str, Any],
    origins: Mapping[str, str],
    served: Callable[[Path], Path] = lambda path: path,
    brought: Iterable[PluginFolder] = (),
) -> list[RuleSource]:
    """Return the ``hooks`` of the merged settings, one source for each file.

    `origins` are those of `PluginInput`: of each group of rules, the file. What has none is a plugin's. What stands in
    a plugin folder of `brought` is written as Claude Code reads it.
    """
    block = config.get("hooks")
    if not isinstance(block, dict):
        return [RuleSource({"hooks": block}, "hooks of the settings")] if block else []
    found: dict[str, dict[str, list[Any]]] = {}
    for event, groups in block.items():
        for index, group in enumerate(groups if isinstance(groups, list) else [groups]):
            found.setdefault(_origin(origins, f"{event}.{index}"), {}).setdefault(event, []).append(group)
        if not groups:
            found.setdefault(_origin(origins, event), {})[event] = groups
    order = list(dict.fromkeys(origins.values()))
    known = sorted(found, key=lambda origin: order.index(origin) if origin in order else len(order))
    sources = []
    for origin in known:
        folder = next((one for one in brought if origin.startswith(one.origin)), None)
        if folder is None:
            sources.append(RuleSource({"hooks": found[origin]}, origin, place=_placed(origin, served)))
            continue
        place = _placed(str(folder.root / origin.removeprefix(folder.origin)))
        given = {"hooks": found[origin]}
        sources.append(RuleSource(given, origin, "claude", place=place, environment=folder.variables))
    return sources


def _origin(origins: Mapping[str, str], place: str) -> str:
    return origins.get(f"hooks.{place}", "a plugin's config hook")


def of_agents(config: Mapping[str, Any], origins: Mapping[str, str]) -> list[RuleSource]:
    """Return the ``hooks`` of agents in the merged settings, from front matter or settings blocks."""
    agents = config.get("agent")
    found = []
    for name, block in agents.items() if isinstance(agents, dict) else ():
        if isinstance(block, dict) and block.get("hooks"):
            begin = f"agent.{name}.hooks"
            source = next((origin for place, origin in origins.items() if place.startswith(begin)), "")
            found.append(RuleSource({"hooks": block["hooks"]}, source or f"the agent {name}", agent=name))
    return found


def find(
    config: Mapping[str, Any],
    folders: Sequence[Path],
    home: Path,
    trusted: Callable[[Path], bool],
    more: Iterable[RuleSource] = (),
    origins: Mapping[str, str] = MappingProxyType({}),
    served: Callable[[Path], Path] = lambda path: path,
    brought: Iterable[PluginFolder] = (),
) -> ParsedRules:
    """Return all rules for `folders` (the project's, outermost first) and `home`.

    `config` are the merged settings (`PluginInput.config`), from which the core has left out what no trusted file
    says; `origins` say which file each of them came from. `more` come last: agents' front matter. `served` and
    `brought` are `PluginInput.served` and ``plugin_folders``. Reads files, changes none, and raises nothing: what
    cannot be read is a fault.
    """
    found = ParsedRules()
    for given in of_settings(config, origins, served, brought):
        parse(given, found)
    projects = list(dict.fromkeys(folder for folder in folders if folder != home))
    every = [(folder, name, dialect) for name, dialect in FILES for folder in (*projects, home)]
    # Claude Code's files at home come last.
    for folder, name, dialect in sorted(every, key=lambda one: one[0] == home and one[2] == "claude"):
        if folder == home or trusted(folder):
            _read(folder / name, dialect, found, served if folder != home else None)
        elif _signature(folder / name) is not None:
            why = f"nobody trusted the folder (instar trust {folder})"
            found.problems.append(f"{folder / name} was not read: {why}")
    for given in more:
        parse(given, found)
    # As in Claude Code: a rule that stands twice in its files runs once.
    unique: dict[object, HookRule] = {}
    for number, rule in enumerate(found.rules):
        unique.setdefault(rule.key if rule.dialect == "claude" else number, rule)
    found.rules = list(unique.values())
    counts = Counter(rule.event for rule in found.rules).items()
    many = [f"{count} rules wait for {event}" for event, count in counts if count >= MANY]
    found.problems += [f"{waiting}: each makes it slower" for waiting in many]
    return found


def _read(
    path: Path,
    dialect: Dialect,
    found: ParsedRules,
    served: Callable[[Path], Path] | None = None,
    *,
    strict: bool = False,
) -> None:
    """Add the rules of a file; `served` gives what is read in its place. Raises what `strict` does not let pass."""
    try:
        text = document.read_text(served(path) if served else path)
        if len(text) > LARGEST:
            raise document.DocumentError(str(path), 1, 1, f"expected at most {LARGEST >> 10} KiB, found more")
        data = document.parse_jsonc(text, str(path))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return
    except (document.DocumentError, OSError) as error:
        if strict:
            raise
        at = (error.line, error.column) if isinstance(error, document.DocumentError) else (0, 0)
        why = error.message if isinstance(error, document.DocumentError) else str(error.strerror)
        refused = broken(RuleSource(None, str(path), dialect), f"it cannot be read: {why}", at)
        found.broken += refused
        what = "what it may judge is refused" if refused else "no rule of it is armed"
        found.problems.append(f"{path}{''.join(f':{number}' for number in at if number)}: {why}; {what}")
        return
    twice = "stands twice in one map: what stands under the last one counts alone"
    found.problems += [f"{path}: {key}: {twice}" for key in document.repeated(text)]
    parse(RuleSource(data, str(path), dialect, place=lambda keys: document.locate(text, keys)), found)


def _placed(origin: str, served: Callable[[Path], Path] = lambda path: path) -> Place:
    """Return the positions in a settings file."""
    if origin.endswith((".json", ".jsonc")):
        # It may be gone since it was read.
        with contextlib.suppress(OSError, document.DocumentError):
            text = document.read_text(served(Path(origin)))
            return lambda keys: document.locate(text, keys)
    return lambda _keys: (0, 0)


log = logging.getLogger("instar.hooks")

_NO_AGENTS: Final = (
    "before a tool use an agent rule runs only with hook_settings.agent_pre_tool_use: true; it is not armed"
)


class ActiveRules(msgspec.Struct):
    """The active rules of an instance by event, the problems in their files, and the signatures of the files.

    `project` is the folder that scripts get as the project's, `home` what ``~`` means. `served` is
    that of `PluginInput`.
    """

    directory: Path
    project: Path
    home: Path
    environment: Mapping[str, str]
    settings: HookSettings = HookSettings()
    rules: Mapping[str, tuple[HookRule, ...]] = {}
    problems: list[str] = []
    files: Mapping[Path, object] = {}
    served: Callable[[Path], Path] = lambda path: path

    def of(self, event: str) -> tuple[HookRule, ...]:
        """Return the rules of an event, in order."""
        return self.rules.get(event, ())

    @property
    def starts_programs(self) -> bool:
        """Return whether any rule starts a program."""
        return any(rule.evaluator == "command" for rules in self.rules.values() for rule in rules)

    @property
    def labels(self) -> list[str]:
        """The labels of the rules, with their events."""
        return [f"{name}: {rule.label}" for name, rules in self.rules.items() for rule in rules]

    def changed(self) -> str:
        """Return a sentence the first time that a file differs from what was read, else ""."""
        different = [str(path) for path, seen in self.files.items() if _signature(path) != seen]
        if not different:
            return ""
        self.files = {}
        changed = f"{', '.join(different)} changed since they were read"
        return f"{changed}: the rules that were read hold until instar reads them again"


def arm(given: PluginInput | Means) -> ActiveRules:
    """Read the rules of an instance, guard their files, and log the problems. Changes no file."""
    home = Path(given.environment["HOME"]) if given.environment.get("HOME") else Path.home()
    project = given.worktree if given.project.vcs else given.directory
    folders = list(dict.fromkeys((project, given.directory)))
    problems: list[str] = []
    settings = config.read(given.config)
    of_all: list[HookRule] = []
    if settings.enabled:
        agents = of_agents(given.config, given.origins)
        found = find(
            *(given.config, folders, home, given.trusted, agents, given.origins, given.served),
            brought=given.plugin_folders,
        )
        of_all = [*found.rules, *found.broken]
        problems += found.problems
    rules: dict[str, tuple[HookRule, ...]] = {}
    for rule in of_all:
        if rule.evaluator == "agent" and rule.event == "PreToolUse" and not settings.agent_pre_tool_use:
            problems.append(f"{rule.place}: {_NO_AGENTS}")
        else:
            rules[rule.event] = (*rules.get(rule.event, ()), rule)
    files = {path: _signature(path) for path in map(given.served, _files([*folders, home], of_all))}
    started = [path for rule in of_all for path in programs(rule, given.directory, project, home)]
    # A project's are heard as they were accepted, whatever becomes of its files.
    own = [one for one in (*_files([home], of_all), *started) if one.is_relative_to(home) and one.exists()]
    given.children.guard(
        readonly=[one for one in own if not any(map(one.is_relative_to, folders))], owner="hooks"
    )
    for problem in problems:
        log.warning("hooks=problem %s", " ".join(problem.split()))
    where = (given.directory, project, home, given.environment)
    return ActiveRules(*where, settings, rules, problems, files, given.served)


def programs_in(
    folder: Path, home: Path, settings: Iterable[Mapping[str, Any]], *, strict: bool = False
) -> Iterator[Path]:
    """Yield the programs that the rules of a folder start, in its files as they stand there now and in `settings`.

    Raises `DocumentError` if `strict` for a file or rule that cannot be read: it would guard nothing.
    """
    found = ParsedRules()
    for name, dialect in FILES:
        _read(folder / name, dialect, found, strict=strict)
    for block in settings:
        for source in (*of_settings(block, {}), *of_agents(block, {})):
            parse(source, found)
    for rule in found.broken if strict else ():
        raise document.DocumentError(rule.source, rule.line, rule.column, rule.broken)
    for rule in found.rules:
        yield from programs(rule, folder, folder, home)


def _files(folders: Iterable[Path], rules: Iterable[HookRule]) -> list[Path]:
    """Return the files that hold rules or may hold them."""
    usual = [folder / name for folder in folders for name, _ in FILES]
    named = [Path(rule.source) for rule in rules if rule.source.startswith("/")]
    return list(dict.fromkeys([*usual, *named]))


def _signature(path: Path) -> object:
    """Return the identity of a file's content; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
