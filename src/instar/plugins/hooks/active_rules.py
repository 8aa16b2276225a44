"""The active rules: read when the instance opens, and unchanged until it reads them again.

The model can write the files of a project that a person trusts, and must not rewrite its own guards. Its children
cannot even write them: the files are guarded. Each session start looks whether they are still as they were read, and
says so when they are not. The same holds for the programs of the project that rules start.

Where files are read anew in a running instance, a rule of the project that a person vouched for is
in force until a person vouches for its file as it is then: what came into the file stands beside it, and can refuse.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from instar.plugin import Children, Means, PluginInput
from instar.plugins.hooks import config
from instar.plugins.hooks.config import HookSettings
from instar.plugins.hooks.programs import programs
from instar.plugins.hooks.rule import HookRule
from instar.plugins.hooks.seen import TrustedRules, held_back, own_files
from instar.plugins.hooks.sources import FILES, RulesFound, find, of_agents

log = logging.getLogger("instar.hooks")

_NO_AGENTS: Final = (
    "before a tool use an agent rule runs only with hook_settings.agent_pre_tool_use: true; it is not armed"
)


_LAST: Final[WeakKeyDictionary[Children, tuple[HookRule, ...]]] = WeakKeyDictionary()
"""The rules that each instance armed last, by the object that starts its children."""


class ActiveRules(msgspec.Struct):
    """The active rules by event, the problems in their files, and the signatures of the files."""

    settings: HookSettings
    rules: Mapping[str, tuple[HookRule, ...]]
    problems: list[str]
    files: Mapping[Path, object]
    told: bool = False

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

    def changed(self) -> str | None:
        """Return a sentence the first time that a file differs from what was read, else None."""
        if self.told:
            return None
        different = [str(path) for path, seen in self.files.items() if _signature(path) != seen]
        self.told = bool(different)
        return (
            f"{', '.join(different)} changed since they were read: "
            "the rules that were read hold until instar reads them again"
            if different
            else None
        )


def home_of(environment: Mapping[str, str]) -> Path:
    """Return the person's home folder."""
    return Path(environment["HOME"]) if environment.get("HOME") else Path.home()


def arm(given: PluginInput | Means) -> ActiveRules:
    """Read the rules of an instance, guard their files, and log the problems. Changes no file."""
    home = home_of(given.environment)
    folders = list(
        dict.fromkeys((given.worktree, given.directory) if given.project.vcs else (given.directory,))
    )
    problems: list[str] = []
    try:
        settings = config.read(given.config)
    except msgspec.ValidationError as error:
        # A plugin's config hook may have broken the settings. That must not disarm the rules.
        settings = HookSettings(on_error="deny")
        problems.append(f"hook_settings: {error}; its defaults hold, and what is undecided is refused")
    found = RulesFound()
    if settings.enabled:
        agents = of_agents(given.config, given.origins)
        found = find(given.config, folders, home, given.trusted, agents, given.origins)
    problems += [*map(str, found.faults), *found.notices]
    seen = TrustedRules(folders, given.seen, own_files(home, given.environment, given.directory))
    of_all = [held_back(rule) if _is_new(rule, seen, given.origins) else rule for rule in found.rules]
    of_all = _with_last(_LAST.get(given.children, ()), of_all, seen) if settings.enabled else of_all
    _LAST[given.children] = tuple(of_all)
    problems += seen.problems() if settings.enabled else []
    rules: dict[str, tuple[HookRule, ...]] = {}
    for rule in of_all:
        if rule.evaluator == "agent" and rule.event == "PreToolUse" and not settings.agent_pre_tool_use:
            problems.append(f"{rule.place}: {_NO_AGENTS}")
        else:
            rules[rule.event] = (*rules.get(rule.event, ()), rule)
    files = {path: _signature(path) for path in _files([*folders, home], found.rules)}
    guarded = [path for path, seen in files.items() if seen is not None]
    running = [*guarded, *_programs(of_all, given, folders[0], home)]
    given.children.guard(readonly=running, owner="hooks")
    for problem in problems:
        log.warning("hooks=problem %s", " ".join(problem.split()))
    return ActiveRules(settings, rules, problems, files)


def _with_last(last: Iterable[HookRule], now: list[HookRule], seen: TrustedRules) -> list[HookRule]:
    """Return the rules, with earlier rules that a person approved in place of those that their changed files hold
    now.
    """
    kept = [rule for rule in last if not rule.new and seen.was_vouched(rule.source)]
    known = {rule.key for rule in kept}
    return [*kept, *(rule for rule in now if not (rule.new and rule.key in known))]


def _is_new(rule: HookRule, seen: TrustedRules, origins: Mapping[str, str]) -> bool:
    """Return whether no person approved a rule as it is now. An agent's rules may come from several files."""
    begin = f"agent.{rule.agent}.hooks"
    more = [origin for place, origin in origins.items() if place.startswith(begin)] if rule.agent else []
    return any(seen.is_new(source) for source in dict.fromkeys((rule.source, *more)))


def _programs(rules: Iterable[HookRule], given: PluginInput | Means, project: Path, home: Path) -> list[Path]:
    """Return the files that rules start. The model must not write them."""
    found = [path for rule in rules for path in programs(rule, given.directory, project, home)]
    return list(dict.fromkeys(found))


def _files(folders: Iterable[Path], rules: Iterable[HookRule]) -> list[Path]:
    """Return the files that hold rules or may hold them."""
    usual = [folder / name for folder in folders for name, _ in FILES]
    named = [Path(rule.source) for rule in rules if rule.source.startswith("/")]
    return list(dict.fromkeys([*usual, *named]))


def _signature(path: Path) -> object:
    """Return the identity of a file's content, None where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
