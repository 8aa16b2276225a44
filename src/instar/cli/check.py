"""Every mistake in the settings of a folder at once, each with its place; `instar.settings` stops at the first.

Nothing of the folder is run: plugins and tools are not loaded, servers are not connected.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from instar import settings
from instar.agent import Agents, UnknownAgent
from instar.cli import reference
from instar.cli.context import Context
from instar.command import Commands
from instar.config import Config, ConfigError, dotted, has_reference, spread_flat
from instar.definition import MistakeFound, complete, load, untrusted_places
from instar.document import DocumentError, locate, parse_jsonc, read_text
from instar.process import Processes
from instar.project import Project, discover
from instar.provider.assemble import UnknownModel
from instar.provider.keys import Keys, KeysError
from instar.provider.resolve import Models
from instar.settings import Settings, read_settings
from instar.skill import read_skills
from instar.usage import Limits, LimitsError
from instar.wire import Plain

Place = tuple[str | int, ...]

_MOST: Final = 50
"""Mistakes of one file that are told."""


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
    processes = Processes()
    try:
        project = await discover(folder, processes)
    finally:
        await processes.close()
    try:
        read = read_settings(folder, project, context.paths, context.environment, {}, context.trust)
    except DocumentError as error:
        found = [str(error), *_in_files(context, folder, project)]
        found += _definitions(context, _unread(context, folder, project), project)[1]
        return Checked(None, list(dict.fromkeys(found)))
    read, mistakes = _definitions(context, read, project)
    found = [*mistakes, *_referred(context, read), *filter(None, [context.trust.problem])]
    return Checked(read, found, _notes(context, read))


def _notes(context: Context, read: Settings) -> list[str]:
    told = [str(one) for one in read.unknown if not one.near]
    found = reference.notes(read.config, read.plugins, context.environment)
    return told + [f"{place(read, where)}: {text}" for where, text in found]


def models_of(context: Context, config: Config) -> Models:
    """Return the models of a configuration, with the keys that the person keeps."""
    return Models(config, context.environment, keys=Keys(context.paths.data / "auth.json"))


def _definitions(context: Context, read: Settings, project: Project) -> tuple[Settings, list[str]]:
    """The settings with the agents and commands of Markdown files, and the mistakes of these and of skills."""
    full, mistakes = complete(read, project, context.paths, context.trust)
    _, more = read_skills(full, project, context.paths, context.trust)
    return full, [*map(str, mistakes), *map(str, more)]


def _unread(context: Context, folder: Path, project: Project) -> Settings:
    """Settings that say nothing, with the folders in which definitions stand."""
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
        *(settings.project_sources([one], context.paths) for one in chain),
        settings.environment_sources(context.environment, folder),
    ]
    for group in groups:
        try:
            for source in group:
                yield from _in_source(source.text, source.origin, partial(_layer, context, source))
        except DocumentError as error:
            yield str(error)


def _layer(context: Context, source: Any) -> None:
    settings.layer_of(source, context.environment, context.trust)


def _in_source(text: str, origin: str, read: Callable[[], None]) -> Iterator[str]:
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
    """Each value of a wrong type: the first one is told and taken away, until none is left.

    A value that a reference fills is not judged by the reference's own text.
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


def _without(data: Plain, path: Place) -> Plain:
    """`data` less the value at `path`; less the whole list where it stands in one, whose indexes would shift."""
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
    """What the settings name and is not there: agents, models; limits that are none; texts that are missing."""
    config = read.config
    yield from (str(one) for one in read.unknown if one.near)
    for where, text in reference.mistakes(config, read.plugins):
        yield f"{place(read, where)}: {text}"
    try:
        Limits.of(config.limits, config.max_iterations)
    except LimitsError as error:
        yield f"{place(read, _limit(config.limits, str(error)))}: {error}"
    models = models_of(context, config)
    try:
        yield from _models(models, read)
        agents = Agents(config, (), models.find)
    except KeysError as error:
        yield str(error)
        return
    for problem in Commands(config, untrusted_places(read)).problems:
        name = next((name for name in config.command if f"command.{name}." in problem), "")
        yield f"{place(read, ('command', name))}: {problem}"
    yield from _agents(agents, read)


def _limit(limits: Plain, error: str) -> Place:
    """The place of the limit that an error speaks of."""
    return next((("limits", key) for key in limits if error.startswith(f"limits.{key} ")), ("limits",))


def _models(models: Models, read: Settings) -> Iterator[str]:
    config = read.config
    named: dict[Place, str | None] = {("model",): config.model, ("small_model",): config.small_model}
    for kind, blocks in (("agent", config.agent), ("command", config.command)):
        for name, block in blocks.items():
            # An agent's model without a provider is told by the agents themselves.
            if kind == "command" or "/" in (block.model or ""):
                named[kind, name, "model"] = block.model
    for path, model in named.items():
        try:
            if model:
                models.find(model)
        except UnknownModel as error:
            yield f"{place(read, path)}: {dotted(path)}: {error}"


def _agents(agents: Agents, read: Settings) -> Iterator[str]:
    config = read.config
    named: dict[Place, str | None] = {
        ("command", name, "agent"): block.agent for name, block in config.command.items()
    }
    named |= {("agent", name, "model"): name for name, block in config.agent.items() if not block.disable}
    for path, name in named.items():
        try:
            if name:
                agents.get(name)
        except UnknownAgent as error:
            yield f"{place(read, path)}: {dotted(path)}: {error}"
    try:
        agents.get(None)
    except UnknownAgent as error:
        yield f"{place(read, ('default_agent',))}: default_agent: {error}"


def place(read: Settings, path: Place) -> str:
    """Return where the value at `path` was written: ``file:line:column``, or the source without a line."""
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
    except (OSError, DocumentError, MistakeFound):
        return origin
    return origin
