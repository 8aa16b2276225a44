"""Definitions: agents and commands as Markdown files, made into settings.

As in opencode (https://opencode.ai/docs/agents) they stand in ``agent(s)/``, ``mode(s)/`` and ``command(s)/`` of each
configuration folder, with all subfolders. A file's name without ``.md``, with the subfolders before it, is the
definition's name. They become layers of the configuration, above the files of the same scope: the settings' own code
merges them, and restricts those of an untrusted folder (`instar.settings.untrusted`).

A file with a mistake is left out and named with line and field; its neighbours still load.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.definitions import claude
from instar.git.project import Project
from instar.settings.config import Config, ConfigError, dotted
from instar.settings.layer import Layer, Scope, merge
from instar.settings.load import Settings, restricted
from instar.settings.paths import Paths
from instar.settings.plugin_folders import PluginFolder
from instar.settings.rules import spread_flat
from instar.settings.steering import SteeringView
from instar.settings.trust import Trust
from instar.settings.untrusted import viewed
from instar.wire import Plain
from instar.wire.document import DocumentError, decoded, read_bytes
from instar.wire.front_matter import FrontMatter, front_matter

LONGEST: Final = 256 * 1024
"""Bytes of a definition's file."""
MOST: Final = 1000
"""Files of one kind in one folder, and folders below it, that are looked at: a link may lead to all of a disk."""

AGENT_FOLDERS: Final = ("agent", "agents", "mode", "modes")
COMMAND_FOLDERS: Final = ("command", "commands")
COLOURS: Final = ("primary", "secondary", "accent", "success", "warning", "error", "info")

_AGENT_FIELDS: Final = (
    *("name", "description", "mode", "model", "variant", "temperature", "top_p", "prompt", "tools"),
    *("disable", "hidden", "options", "color", "steps", "maxSteps", "permission"),
)
_COMMAND_FIELDS: Final = ("name", "description", "agent", "model", "variant", "subtask", "template")
_TEXTS: Final = ("name", "description", "mode", "model", "variant", "prompt", "color", "agent", "template")
_SWITCHES: Final = ("disable", "hidden", "subtask")
_WORDS: Final = {"yes": True, "on": True, "no": False, "off": False}


class DefinitionFolder(msgspec.Struct, frozen=True):
    """A configuration folder. Of one that is not `trusted` nothing is read that lies outside of `root`.

    `view` says where what steers in a project's folder is read. `plugin`: it is that plugin's.
    """

    folder: Path
    scope: Scope
    trusted: bool
    root: Path
    view: SteeringView | None = None
    plugin: PluginFolder | None = None


class DefinitionError(Exception):
    """A definition that cannot be used: ``path:line: field: message``. `field` is a dotted place, "" for the file."""

    def __init__(self, path: Path, line: int, field: str, message: str) -> None:
        super().__init__(": ".join(filter(None, [f"{path}:{line}", field, message])))


def definition_folders(
    read: Settings, project: Project, paths: Paths, trust: Trust
) -> list[DefinitionFolder]:
    """Return the configuration folders of `read` in order, the home ones first."""
    root = project.worktree if project.vcs else project.directory
    return [
        DefinitionFolder(folder, "global", True, folder)
        if folder in paths.config_homes
        else DefinitionFolder(
            folder, "project", trust.is_trusted(folder.parent), root, read.view(folder.parent)
        )
        for folder in read.folders
    ]


def plugin_source(plugin: PluginFolder) -> DefinitionFolder:
    """Return the folder of an installed plugin: what is in it was accepted."""
    return DefinitionFolder(plugin.root, "default", True, plugin.root, plugin=plugin)


def complete(
    read: Settings, project: Project, paths: Paths, trust: Trust, before: Sequence[Layer] = ()
) -> tuple[Settings, list[str]]:
    """Return the settings with the agents and commands of Markdown files in them, and what was left out.

    What an untrusted folder may not say is taken away with a sentence in `Settings.dropped`. A trusted file with a
    mistake that stands among the layers of `before` holds as it did there.
    """
    mistakes: list[str] = []
    previous = {layer.origin: layer for layer in before if layer.trusted}
    new = [layer for one in read.plugin_folders for layer in plugin_agents(one, mistakes)]
    new += [
        layer
        for source in definition_folders(read, project, paths, trust)
        for layer in _layers(source, mistakes, previous)
    ]
    if not new:
        return read, mistakes
    # All of them again: what an untrusted file may add depends on what the person's definitions say.
    layers, dropped = restricted([*read.layers, *new])
    config, origins = viewed(layers)
    changed = msgspec.structs.replace(
        read, config=config, layers=layers, origins=origins, dropped=[*read.dropped, *dropped]
    )
    return changed, mistakes


def untrusted_places(read: Settings) -> Callable[[str], bool]:
    """Return a test of dotted places in the settings: whether an untrusted folder wrote what stands there."""
    strangers = {layer.origin for layer in read.layers if not layer.trusted and layer.scope == "project"}
    return lambda place: read.origins.get(place) in strangers


def find(
    source: DefinitionFolder, folders: tuple[str, ...], wanted: Callable[[str], bool]
) -> Iterator[tuple[Path, Path]]:
    """Yield the files whose name is `wanted` below `folders` of a source, each with its folder, sorted.

    Links are followed, a folder is entered once. Of an untrusted source what leads out of its root is passed over.
    """
    for name in folders:
        top = source.folder / name
        if source.plugin is not None and top.is_file():
            yield top.parent, top
        found = {path for path in _walk(top, set()) if wanted(path.name)}
        if source.view is not None and (served := source.view.served(top)) != top:
            found |= {source.view.named(path) for path in _walk(served, set()) if wanted(path.name)}
        for path in sorted(found)[:MOST]:
            if source.view is not None and source.view.definition(path) is None:
                continue
            if source.trusted or path.resolve().is_relative_to(source.root.resolve()):
                yield top, path


def load(path: Path, view: SteeringView | None = None) -> FrontMatter:
    """Return a definition's fields and text, as they were accepted where they steer. Raises `DefinitionError`."""
    try:
        # Read once: what is used is what was compared.
        data = read_bytes(path) if view is None or view.tree is None else view.definition(path) or b""
        if len(data) > LONGEST:
            raise DefinitionError(path, 1, "", f"expected at most {LONGEST // 1024} KiB")
        return front_matter(decoded(data, path), str(path))
    except DocumentError as error:
        raise DefinitionError(path, error.line, "", error.message) from None
    except OSError as error:
        raise DefinitionError(path, 1, "", f"expected a readable file: {error.strerror}") from None


def unknown_field(path: Path, found: FrontMatter, known: tuple[str, ...], alike: float = 0.84) -> None:
    """Raise `DefinitionError` for a field that is nearly one of `known`; others may be somebody else's.

    `alike` (0 to 1) is what counts as nearly: less where a field that is not known means nothing anyway.
    """
    for name in found.data:
        near = difflib.get_close_matches(name, known, n=1, cutoff=alike)
        if name not in known and near:
            text = f"there is no such field; did you mean {near[0]}?"
            raise DefinitionError(path, found.line((name,)), name, text)


# -- files -------------------------------------------------------------------------------------------


def _walk(folder: Path, entered: set[Path]) -> Iterator[Path]:
    real = folder.resolve()
    if real in entered or len(entered) >= MOST or not folder.is_dir():
        return
    entered.add(real)
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            yield from _walk(Path(entry.path), entered)
        elif entry.is_file():
            yield Path(entry.path)


def _is_markdown(name: str) -> bool:
    return name.endswith(".md") and not name.startswith(".")


def _layers(source: DefinitionFolder, mistakes: list[str], previous: Mapping[str, Layer]) -> list[Layer]:
    """A layer for each file; one for all files of a folder that is not trusted, since each costs a check."""
    layers = []
    kinds: tuple[tuple[str, tuple[str, ...], Callable[..., Plain]], ...] = (
        ("command", COMMAND_FOLDERS, _command),
        ("agent", AGENT_FOLDERS, _agent),
    )
    for kind, folders, block_of in kinds:
        for top, path in find(source, folders, _is_markdown):
            name = str(path.relative_to(top).with_suffix(""))
            try:
                found = load(path, source.view)
                block = block_of(path, found, top.name)
                layers.append(_layer(source, kind, block.pop("name", None) or name, path, block, found))
            except DefinitionError as error:
                mistakes.append(str(error))
                layers += [previous[str(path)]] if source.trusted and str(path) in previous else []
    if source.trusted or not layers:
        return layers
    return [Layer(str(source.folder), source.scope, merge(layers).data, trusted=False)]


def plugin_agents(plugin: PluginFolder, mistakes: list[str]) -> Iterator[Layer]:
    """Yield a layer of the settings for each agent of a plugin; its commands are skills."""
    source = plugin_source(plugin)
    for top, path in find(source, plugin.places("agents"), _is_markdown):
        try:
            found = load(path)
            name = found.data.get("name") or path.relative_to(top).with_suffix("").as_posix()
            block = _claude_agent(plugin, found)
            yield _layer(source, "agent", f"{plugin.name}:{name}".replace("/", ":"), path, block, found)
        except DefinitionError as error:
            mistakes.append(str(error))


def _claude_agent(plugin: PluginFolder, found: FrontMatter) -> Plain:
    """An agent as Claude Code writes it, as a block of the configuration."""
    said = found.data
    block: Plain = {
        "description": " ".join(str(said.get("description") or "").split()),
        "mode": "subagent",
        "prompt": plugin.expanded(found.body.strip()),
    }
    if (model := claude.named_model(said.get("model"))) is not None:
        block["model"] = model
    if rules := claude.denied(said.get("tools"), said.get("disallowedTools")):
        block["permission"] = rules
    return block


def _layer(
    source: DefinitionFolder, kind: str, name: str, path: Path, block: Plain, found: FrontMatter
) -> Layer:
    data = {kind: {name: block}}
    try:
        Config.from_data(data, str(path))
        data = spread_flat(data, str(path))
    except ConfigError as error:
        place = error.path[2:]
        raise DefinitionError(
            path, found.line(place), dotted(place), error.message + _meant(block, place)
        ) from None
    return Layer(str(path), source.scope, data, source.trusted)


def _meant(block: Plain, place: tuple[str | int, ...]) -> str:
    """What to write in the place of a word that reads like yes or no, where an action is expected."""
    value: Any = block
    for key in place:
        value = value.get(key) if isinstance(value, dict) else None
    word = _WORDS.get(str(value).lower(), value)
    if place[:1] != ("permission",) or not isinstance(word, bool):
        return ""
    return f"; write {'allow' if word else 'deny'}"


# -- fields ------------------------------------------------------------------------------------------


def _agent(path: Path, found: FrontMatter, folder: str) -> Plain:
    """An agent file as a block of the configuration; the text is its prompt."""
    unknown_field(path, found, _AGENT_FIELDS)
    if "color" in found.data:
        _check_colour(path, found)
    block = _typed(found)
    if isinstance(block.get("tools"), dict):
        block["tools"] = {name: _switch(value) for name, value in block["tools"].items()}
    if found.body.strip():
        block["prompt"] = found.body.strip()
    if folder in ("mode", "modes"):
        block["mode"] = "primary"
    return block


def _command(path: Path, found: FrontMatter, folder: str) -> Plain:
    """A command file as a block of the configuration; the text is its template."""
    unknown_field(path, found, _COMMAND_FIELDS, alike=0.75)
    template = found.body.strip()
    if not template:
        raise DefinitionError(path, found.first, "", "expected the command's text below the front matter")
    return {**_typed(found), "template": template}


def _typed(found: FrontMatter) -> Plain:
    """Convert fields by their schema: text stays as written; yes and no become booleans where one is expected."""
    block = {key: value for key, value in found.data.items() if value is not None}
    for key in _TEXTS:
        if key in block and not isinstance(block[key], dict | list):
            block[key] = found.written[(key,)]
    for key in _SWITCHES:
        if key in block:
            block[key] = _switch(block[key])
    return block


def _switch(value: Any) -> Any:
    return _WORDS.get(value.lower(), value) if isinstance(value, str) else value


def _check_colour(path: Path, found: FrontMatter) -> None:
    value = found.data["color"]
    if isinstance(value, str) and (value in COLOURS or re.fullmatch(r"#[0-9a-fA-F]{6}", value)):
        return
    shown = "nothing (a # begins a comment: put it in quotes)" if value is None else repr(value)
    expected = f"expected #RRGGBB in quotes or one of {', '.join(COLOURS)}, found {shown}"
    raise DefinitionError(path, found.line(("color",)), "color", expected)
