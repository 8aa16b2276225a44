"""Every mistake in the settings of a folder at once, each with its place; `instar.settings.load` stops at the first.

For `instar config check` and `instar doctor`. Nothing of the folder is run: plugins and tools are not loaded, servers
are not connected. A mistake is what cannot work. A note is what most likely is not meant: a rule for a tool that
nobody has could be for one of a plugin or a server, which is known only when it runs.
"""

import difflib
import importlib.util
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from instar.cli.door import Context
from instar.definitions.agent import Agents, UnknownAgent
from instar.definitions.command import Commands
from instar.definitions.markdown import DefinitionError, complete, load, untrusted_places
from instar.definitions.skill import read_skills
from instar.git.project import Project
from instar.limits.budget import (
    CallLimits,
    LimitsError,
)
from instar.mcp import config_fault
from instar.plugin.locate import is_npm
from instar.provider.keys import Keys, KeysError
from instar.provider.resolve import Models, UnknownModel
from instar.settings import load as settings
from instar.settings.builtin_plugins import flagship_name
from instar.settings.config import Config, ConfigError, dotted
from instar.settings.known import shortened, without_effect
from instar.settings.layer import has_reference
from instar.settings.load import PluginEntry, Settings, read_settings
from instar.settings.permission import DEFAULTS
from instar.settings.rules import spread_flat
from instar.tool.registry import builtin
from instar.wire import Plain
from instar.wire.document import DocumentError, locate, parse_jsonc, read_text

T = TypeVar("T")
SettingPath = tuple[str | int, ...]
"""The keys that lead to a value in the settings."""

_MOST: Final = 50
"""Mistakes of one file that are named."""
_TOOLS: Final = ("task", "skill", "question")
"""Tools that are there only when there is something to choose from, or somebody to ask."""
_PERMISSIONS: Final = ("patch", "websearch", "codesearch", "lsp", "mcp", "plan_enter", "plan_exit")
"""Names of permissions that are no built-in tool's: those of opencode's tools are accepted."""
_NEAR: Final = 0.75
_LONGEST_NAME: Final = 60


class Checked(msgspec.Struct, frozen=True):
    """What a folder's settings are, and what is wrong with them.

    `read` is None when a file has a mistake: then nothing is merged. `mistakes` are one-line sentences that
    begin with their place; so are `notes`, on what does nothing or was most likely not meant.
    """

    read: Settings | None
    mistakes: list[str]
    notes: list[str] = []


async def check(context: Context, folder: Path) -> Checked:
    """Read every source of the folder's settings, and everything that they name."""
    project = await context.project(folder)
    try:
        read = read_settings(folder, project, context.paths, context.environment, {}, context.trust)
    except DocumentError as error:
        found = [str(error), *_in_files(context, folder, project)]
        found += _definitions(context, _unread(context, folder, project), project)[1]
        return Checked(None, list(dict.fromkeys(found)))
    read, mistakes = _definitions(context, read, project)
    found = [*mistakes, *_referred(context, read), *filter(None, [context.trust.problem])]
    notes = [str(one) for one in read.unknown if not one.near]
    notes += [f"{_place(read, path)}: {text}" for path, text in _notes(read, context.environment)]
    if not context.trust.is_trusted(folder):
        why = f"runs nothing here: nobody trusted the folder (instar trust {folder})"
        on = [key for key in ("formatter", "lsp") if read.config.data.get(key) not in (None, False)]
        notes += [f"{_place(read, (key,))}: {key} {why}" for key in on]
    return Checked(read, found, notes)


def models_of(context: Context, config: Config) -> Models:
    """Return the models of a configuration, with the keys that the person keeps."""
    return Models(config, context.environment, keys=Keys(context.paths.data / "auth.json"))


def _definitions(context: Context, read: Settings, project: Project) -> tuple[Settings, list[str]]:
    """The settings with the agents and commands of Markdown files, and the mistakes of these and of skills."""
    full, mistakes = complete(read, project, context.paths, context.trust)
    _, more = read_skills(full, project, context.paths, context.trust)
    return full, [*mistakes, *more]


def _unread(context: Context, folder: Path, project: Project) -> Settings:
    """Empty settings with the folders of definitions: for when the settings cannot be read."""
    folders = [*context.paths.config_homes]
    folders += [place for place, _ in settings.project_folders(settings.folder_chain(folder, project))]
    there = list(dict.fromkeys(folder for folder in folders if folder.is_dir()))
    return Settings(Config(), [], {}, [], [], [], there)


# -- files -------------------------------------------------------------------------------------------


def _in_files(context: Context, folder: Path, project: Project) -> Iterator[str]:
    """The mistakes of each source by itself."""
    chain = settings.folder_chain(folder, project)
    groups = [
        settings.global_sources(context.paths),
        # One folder at a time: a file that cannot be read ends its own group only.
        *(settings.project_sources([one], context.paths, {one: context.trust.view(one)}) for one in chain),
        settings.environment_sources(context.environment, folder),
    ]
    for group in groups:
        try:
            for source in group:
                layer = partial(settings.layer_of, source, context.environment, context.trust, None)
                yield from _in_source(source.text, source.origin, layer)
        except DocumentError as error:
            yield str(error)


def _in_source(text: str, origin: str, read: Callable[[], object]) -> Iterator[str]:
    """The first mistake as a run would meet it, then the others of the same text."""
    try:
        read()
        return
    except DocumentError as error:
        yield str(error)
    try:
        data = parse_jsonc(text, origin)
    except DocumentError:
        return
    for fault in _faults(data, origin):
        line, column = locate(text, fault.path)
        where = f"{dotted(fault.path)}: " if fault.path else ""
        yield str(DocumentError(origin, line, column, where + fault.message))


def _faults(data: Any, origin: str) -> Iterator[ConfigError]:
    """Each value of a wrong type: yield the first one, remove it, and read again until none is left.

    The text of a reference is not judged in place of the value that it stands for.
    """
    for _ in range(_MOST):
        try:
            Config.from_data(data, origin)
            spread_flat(data, origin)
            return
        except ConfigError as error:
            if not error.path:
                yield error
                return
            if not has_reference(_at(data, error.path)):
                yield error
            data = _without(data, error.path)


def _without(data: Plain, path: SettingPath) -> Plain:
    """`data` without the value at `path`; in a list, without the whole list: its indexes would shift."""
    key, *rest = path
    inner = data.get(str(key))
    if rest and isinstance(inner, dict) and str(rest[0]) in inner:
        return {**data, str(key): _without(inner, tuple(rest))}
    return {name: value for name, value in data.items() if name != key}


def _at(data: Any, path: Iterable[str | int]) -> Any:
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


# -- names -------------------------------------------------------------------------------------------


def _referred(context: Context, read: Settings) -> Iterator[str]:
    """What the settings name and does not exist: agents, models, files; and limits with a wrong value."""
    config = read.config
    yield from (str(one) for one in read.unknown if one.near)
    for path, text in _mistakes(config, read.plugins):
        yield f"{_place(read, path)}: {text}"
    try:
        CallLimits.of(config.limits, config.max_iterations)
    except LimitsError as error:
        yield f"{_place(read, _limit(config.limits, str(error)))}: {error}"
    models = models_of(context, config)
    try:
        yield from _models(models, read)
        agents = Agents(config, (), models.find)
    except KeysError as error:
        yield str(error)
        return
    for problem in Commands(config, untrusted_places(read)).problems:
        name = next((name for name in config.command if f"command.{name}." in problem), "")
        yield f"{_place(read, ('command', name))}: {problem}"
    yield from _agents(agents, read)


def _limit(limits: Plain, error: str) -> SettingPath:
    """The path of the limit that an error names."""
    return next((("limits", key) for key in limits if error.startswith(f"limits.{key} ")), ("limits",))


def _models(models: Models, read: Settings) -> Iterator[str]:
    config = read.config
    named: dict[SettingPath, str | None] = {("model",): config.model, ("small_model",): config.small_model}
    named |= {("command", name, "model"): block.model for name, block in config.command.items()}
    # `Agents` names an agent's model without a provider.
    named |= {
        ("agent", name, "model"): block.model
        for name, block in config.agent.items()
        if "/" in (block.model or "")
    }
    return _unknown({path: name for path, name in named.items() if name}, models.find, read)


def _agents(agents: Agents, read: Settings) -> Iterator[str]:
    config = read.config
    named: dict[SettingPath, str | None] = {
        ("command", name, "agent"): block.agent for name, block in config.command.items() if block.agent
    }
    named |= {("agent", name, "model"): name for name, block in config.agent.items() if not block.disable}
    return _unknown({**named, ("default_agent",): None}, agents.get, read)


def _unknown(named: Mapping[SettingPath, T], find: Callable[[T], object], read: Settings) -> Iterator[str]:
    """What the settings name and `find` does not know."""
    for path, name in named.items():
        try:
            find(name)
        except (UnknownAgent, UnknownModel) as error:
            yield f"{_place(read, path)}: {dotted(path)}: {error}"


def _place(read: Settings, path: SettingPath) -> str:
    """Where the value at `path` was written: ``file:line:column``, or the source without a line."""
    origin = read.origins.get(dotted(path)) or next(
        (other for name, other in read.origins.items() if name.startswith(dotted(path) + ".")), "the settings"
    )
    file = Path(origin)
    try:
        if file.suffix == ".md":
            return f"{origin}:{load(file).line(path[2:])}"
        if file.is_absolute() and file.is_file():
            line, column = locate(read_text(file), path)
            return f"{origin}:{line}:{column}"
    except (OSError, DocumentError, DefinitionError):
        return origin
    return origin


# -- servers, plugins and tools ----------------------------------------------------------------------


def _mistakes(config: Config, plugins: list[PluginEntry]) -> Iterator[tuple[SettingPath, str]]:
    """Return what cannot work: a server without a command or an address, a plugin whose file is missing."""
    for name, block in config.mcp.items():
        fault = config_fault(name, block) if block.enabled else None
        if fault is not None:
            yield ("mcp", name), fault
    for entry in plugins:
        path = Path(entry.target.removeprefix("file://"))
        if path.is_absolute() and not path.exists():
            yield ("plugin",), f"plugin: there is no file {path}"


def _notes(read: Settings, environment: Mapping[str, str]) -> Iterator[tuple[SettingPath, str]]:
    """What has no effect, or most likely not the one that was meant."""
    config = read.config
    for entry in config.instructions:
        if "://" in entry:
            yield ("instructions",), f"instructions: {entry} is not fetched: only files are read"
    for name, block in config.mcp.items():
        # A program with a path is meant from the folder in which the server is started.
        program = block.command[0] if block.enabled and block.command else "/"
        is_known = "/" in program or "PATH" in block.environment
        if not is_known and shutil.which(program, path=environment.get("PATH")) is None:
            yield ("mcp", name, "command"), f"mcp.{name}.command: there is no program {program} on PATH"
    for path, why in without_effect(config.data):
        yield path, f"{shortened(path)} has no effect: {why}"
    yield from _plugins(read.plugins)
    yield from _tool_names(config)


def _plugins(plugins: list[PluginEntry]) -> Iterator[tuple[SettingPath, str]]:
    offered = {one.name for one in entry_points(group="instar.plugins")}
    for entry in plugins:
        target = entry.target
        if flagship_name(target) or target in offered or Path(target.removeprefix("file://")).is_absolute():
            continue
        if target.startswith(("npm:", "@")) or _is_installed(target):
            continue
        todo = "it is taken from npm" if is_npm(target) else "install it, or name a file by its path"
        yield ("plugin",), f"plugin: there is no Python module {target!r}; {todo}"


def _is_installed(target: str) -> bool:
    """Whether the first package of a module's name can be imported; it is not."""
    top = target.partition(".")[0]
    return top.isidentifier() and importlib.util.find_spec(top) is not None


def _tool_names(config: Config) -> Iterator[tuple[SettingPath, str]]:
    """Names of tools, in permissions and ``tools``, that look like a known one and are not."""
    tools = builtin()
    permissions = {tool.permission or name for name, tool in tools.items()}
    permissions |= {rule.permission for rule in DEFAULTS}
    known = sorted({*tools, *permissions, *_TOOLS, *_PERMISSIONS} - {"*", "invalid"})
    blocks: dict[SettingPath, Any] = {("permission",): config.permission, ("tools",): config.tools}
    for name, agent in config.agent.items():
        blocks["agent", name, "permission"] = agent.permission
        blocks["agent", name, "tools"] = agent.tools
    for path, block in blocks.items():
        for name in block if isinstance(block, dict) else ():
            near = _near(name, known, config)
            if near is not None:
                yield (*path, name), f"no tool is called {name[:_LONGEST_NAME]}; did you mean {near}?"


def _near(name: str, known: list[str], config: Config) -> str | None:
    """The known name that an unknown one looks like; None for a wildcard and for what a server may offer."""
    is_server = any(name.startswith(f"{server}_") for server in config.mcp)
    if name in known or is_server or len(name) > _LONGEST_NAME or "*" in name or "?" in name:
        return None
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)), None)
