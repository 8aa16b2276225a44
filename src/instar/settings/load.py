"""Settings: finds the configuration files, reads them, and makes one `Config` of them.

Where they stand, lowest first:

- global: in each home configuration folder ``config.json``, then instar's own ``config.yaml``, then ``opencode.json``,
  ``opencode.jsonc``, ``instar.json``, ``instar.jsonc``;
- project: the same but ``config.json`` in each folder from the worktree down to the directory, then in
  ``.opencode/`` and ``.instar/`` of each of these. Outside a repository only the directory itself counts: a
  folder above it may belong to anybody;
- environment: the files ``$OPENCODE_CONFIG`` and ``$INSTAR_CONFIG``, the texts ``$OPENCODE_CONFIG_CONTENT``
  and ``$INSTAR_CONFIG_CONTENT``, the permissions ``$OPENCODE_PERMISSION``; then the flags.

``config.yaml`` holds one switch, ``tools: self_evolution: true``. Many programs have a file of this name: one that does
not name the switch is another's, and is not looked at further.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.git.project import Project
from instar.settings.builtin_plugins import is_bridge
from instar.settings.config import SECTIONS, Config, ConfigError, dotted
from instar.settings.guarding import guarded, lowered
from instar.settings.known import Unknown, misspelt, shortened, unknown
from instar.settings.layer import Layer, Scope, substitute
from instar.settings.paths import Paths
from instar.settings.plugin_folders import PluginFolder, PluginFolders
from instar.settings.plugin_folders import layers as plugin_layers
from instar.settings.rules import spread_flat
from instar.settings.steered import (
    FOLDERS,
    PLUGIN_FOLDERS,
    SETTINGS,
    SWITCH_FILE,
    commands_in,
    path_of,
    spec,
)
from instar.settings.steering import SteeringView
from instar.settings.trust import Trust
from instar.settings.untrusted import foreign, restrict, viewed, without_choice
from instar.wire import Plain
from instar.wire.document import DocumentError, locate, parse_jsonc, read_text
from instar.wire.front_matter import LONGEST, Place, yaml_file

_TOOLS: Final = "tools"
_SELF_EVOLUTION: Final = "self_evolution"


_IDLE: Final = "{} names self_evolution, and switches nothing on: write it as tools: {{self_evolution: true}}"


class _Switch(msgspec.Struct, frozen=True):
    """What the file says, in the form of the settings, and the keys that nobody reads, with line and column."""

    data: Plain
    others: list[tuple[Place, tuple[int, int]]]


def _names_switch(path: Path) -> bool:
    """Whether the file at `path` is ours: a plain file whose beginning names the switch."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return _SELF_EVOLUTION.encode() in file.read(LONGEST)
    except OSError:
        return False


def _read_switch(text: str, source: str) -> _Switch:
    """Return what the file says. Raises `DocumentError`, with line and column, for invalid YAML or a non-boolean."""
    found = yaml_file(text, source)
    tools = found.data.get(_TOOLS)
    others: list[Place] = [(key,) for key in found.data if key != _TOOLS]
    if not isinstance(tools, dict):
        if tools is not None:
            raise DocumentError(source, *found.places[(_TOOLS,)], "tools: expected names with true or false")
        return _Switch({}, _placed(others, found.places))
    others += [(_TOOLS, key) for key in tools if key != _SELF_EVOLUTION]
    if _SELF_EVOLUTION not in tools:
        return _Switch({}, _placed(others, found.places))
    on = tools[_SELF_EVOLUTION]
    if not isinstance(on, bool):
        place = found.places[(_TOOLS, _SELF_EVOLUTION)]
        raise DocumentError(source, *place, f"tools.{_SELF_EVOLUTION}: expected true or false")
    return _Switch({_TOOLS: {_SELF_EVOLUTION: on}}, _placed(others, found.places))


def _placed(paths: list[Place], places: dict[Place, tuple[int, int]]) -> list[tuple[Place, tuple[int, int]]]:
    return [(path, places.get(path, (1, 1))) for path in paths]


_PLUGIN_FILES: Final = ("*.py", "*.ts", "*.js")
"""What of a plugin folder is a plugin."""
_NO_CODE: Final = "an untrusted project may not run code"


class PluginFile(msgspec.Struct, frozen=True):
    """A plugin found as a file: `folder` is whose trust it needs, `trusted` whether it has it.

    `code` is the file that is read for it: the accepted one.
    """

    path: Path
    folder: Path
    trusted: bool
    code: Path


class PluginEntry(msgspec.Struct, frozen=True):
    """A plugin to load: a package's or flagship's name, or a file's absolute path, and its options.

    `code` is what is read in the place of that file, where that is another. `required`: nothing runs without it.
    """

    target: str
    options: Plain = {}
    code: Path | None = None
    required: bool = False


class Settings(msgspec.Struct, frozen=True):
    """The settings of one directory.

    `layers` are what was merged, lowest first, after `dropped` (a sentence each) was taken from those that
    are not trusted. `origins` tells for a dotted path which layer it came from. `plugins` are those that may
    run, in loading order: the config's, then files. `plugin_files` are all the files that were found. `views` are where
    what steers in the project's folders is read, outermost first.
    `folders` are the configuration folders that exist, home ones first. `unknown` are the keys that nobody reads.
    `notices` are sentences for the person on what has no effect. `plugin_folders` are the installed ones.
    """

    config: Config
    layers: list[Layer]
    origins: dict[str, str]
    dropped: list[str]
    plugins: list[PluginEntry]
    plugin_files: list[PluginFile]
    folders: list[Path]
    unknown: list[Unknown] = []
    views: list[SteeringView] = []
    notices: list[str] = []
    plugin_folders: list[PluginFolder] = []

    def view(self, folder: Path) -> SteeringView | None:
        """Return where what steers in one of the project's folders is read."""
        return next((view for view in self.views if view.folder == folder), None)

    def served(self, path: Path) -> Path:
        """Return what to read in the place of a file of the project's that steers: the accepted one."""
        around = [view for view in self.views if path.is_relative_to(view.folder)]
        return around[-1].served(path) if around else path


class SettingsSource(msgspec.Struct, frozen=True):
    """A text of settings: `folder` is where its relative paths start, `owner` whose trust it needs."""

    origin: str
    scope: Scope
    text: str
    folder: Path
    owner: Path | None = None


def read_settings(
    directory: Path,
    project: Project,
    paths: Paths,
    environment: Mapping[str, str],
    flags: Plain,
    trust: Trust,
) -> Settings:
    """Read every source for `directory` and return the settings.

    `flags` is what the command line says, in the form of a config file. Raises `DocumentError` with file,
    line and column for a text that does not parse or a value of the wrong type, and `ConfigError` for such
    a flag; nothing is guessed then.
    """
    chain = folder_chain(directory.resolve(), project)
    views = {folder: trust.view(folder) for folder in chain}
    sources = [
        *global_sources(paths),
        *project_sources(chain, paths, views),
        *environment_sources(environment, directory),
    ]
    layers = [layer_of(source, environment, trust, views.get(source.owner or Path())) for source in sources]
    strange = [one for source, layer in zip(sources, layers, strict=True) for one in _unknown(source, layer)]
    notices = [_IDLE.format(layer.origin) for layer in layers if _is_idle(layer)]
    codes = _codes(zip(sources, layers, strict=True), views)
    if flags:
        Config.from_data(flags, "the command line")
        layers.append(Layer("the command line", "flag", flags))
    brought = PluginFolders(paths).all(notices) if paths.plugins.exists() else []
    layers += [layer for one in brought for layer in plugin_layers(one, environment, notices)]
    layers, dropped = restricted(layers)
    config, origins = viewed(layers)
    folders = [(home, None) for home in paths.config_homes] + project_folders(chain)
    files = list({file.path: file for file in _plugin_files(folders, views, trust)}.values())
    dropped += [f"{file.path} was left out: {_NO_CODE}" for file in files if not file.trusted]
    plugins = [
        one
        for one in (_listed(entry, codes) for entry in config.plugin)
        if one.code is None or one.code.exists() or one.required or not Path(one.target).exists()
    ]
    plugins += [
        PluginEntry(str(file.path), {}, file.code if file.code != file.path else None)
        for file in files
        if file.trusted
    ]
    dropped += [notice for view in views.values() if (notice := view.notice())]
    existing = list(
        dict.fromkeys(
            folder
            for folder, owner in folders
            if folder.is_dir() or (owner is not None and views[owner].served(folder).is_dir())
        )
    )
    return Settings(
        *(config, layers, origins, dropped, plugins, files, existing, strange, [*views.values()], notices),
        plugin_folders=brought,
    )


def _listed(entry: str | tuple[str, Plain], codes: Mapping[str, Path]) -> PluginEntry:
    target, options = (entry, {}) if isinstance(entry, str) else entry
    own = {name: value for name, value in options.items() if name != "required"}
    return PluginEntry(target, own, codes.get(target), required=bool(options.get("required")))


def _codes(
    read: Iterable[tuple["SettingsSource", Layer]], views: Mapping[Path, SteeringView]
) -> dict[str, Path]:
    """What is read in the place of the files that the ``plugin`` lists of trusted projects name."""
    found: dict[str, Path] = {}
    for source, layer in read:
        view = None if source.owner is None else views[source.owner]
        for entry in layer.data.get("plugin") or () if view is not None and view.tree is not None else ():
            target = entry if isinstance(entry, str) else entry[0]
            if view is not None and (path := path_of(target)) is not None:
                found[target] = view.served(path)
    return found


# -- sources -----------------------------------------------------------------------------------------


def global_sources(paths: Paths) -> Iterator[SettingsSource]:
    """Yield the person's own files, lowest first. Raises `DocumentError` for one that cannot be read."""
    for home in paths.config_homes:
        for name in ("config.json", *SETTINGS):
            yield from _file(home / name, "global", None)


def project_sources(
    chain: Iterable[Path], paths: Paths, views: Mapping[Path, SteeringView]
) -> Iterator[SettingsSource]:
    """Yield the files of a project's folders, outermost first. Raises `DocumentError`."""
    places: list[tuple[Path, Path | None]] = [(folder, folder) for folder in chain]
    # The worktree may be the home folder, whose .opencode has been read as the person's own.
    inner = [place for place in project_folders(chain) if place[0] not in paths.config_homes]
    for folder, owner in places + inner:
        for name in SETTINGS:
            yield from _file(folder / name, "project", owner, None if owner is None else views[owner])


def environment_sources(environment: Mapping[str, str], directory: Path) -> Iterator[SettingsSource]:
    """Yield the files and texts that variables name. Raises `DocumentError`."""
    for name in ("OPENCODE_CONFIG", "INSTAR_CONFIG"):
        if environment.get(name):
            path = directory / Path(environment[name]).expanduser()
            found = list(_file(path, "environment", None))
            if not found:
                raise DocumentError(str(path), 1, 1, f"expected the file that ${name} names, found none")
            yield from found
    for name in ("OPENCODE_CONFIG_CONTENT", "INSTAR_CONFIG_CONTENT"):
        if environment.get(name):
            yield SettingsSource(f"${name}", "environment", environment[name], directory)
    if environment.get("OPENCODE_PERMISSION"):
        text = '{"permission":' + environment["OPENCODE_PERMISSION"] + "}"
        yield SettingsSource("$OPENCODE_PERMISSION", "environment", text, directory)


def _file(
    path: Path, scope: Scope, owner: Path | None, view: SteeringView | None = None
) -> Iterator[SettingsSource]:
    served = path if view is None else view.served(path)
    if path.name == SWITCH_FILE and not _names_switch(served):
        return
    try:
        text = read_text(served)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise DocumentError(
            str(path), 1, 1, f"expected a readable file: {error.strerror}; make it one, or move it away"
        ) from None
    yield SettingsSource(str(path), scope, text, path.parent, owner)


def folder_chain(directory: Path, project: Project) -> list[Path]:
    """The folders from the worktree down to the directory; outside a repository the directory alone."""
    if project.vcs is None or not directory.is_relative_to(project.worktree):
        return [directory]
    parents = [folder for folder in directory.parents if folder.is_relative_to(project.worktree)]
    return [*reversed(parents), directory]


# -- layers ------------------------------------------------------------------------------------------


def layer_of(
    source: SettingsSource, environment: Mapping[str, str], trust: Trust, view: SteeringView | None = None
) -> Layer:
    """Return a source's settings. Raises `DocumentError` at the first mistake, with its place."""
    written = _written(source)
    believed = source.owner is None or trust.is_trusted(source.owner)
    # An untrusted layer keeps its references as they stand, so that `restrict` sees and drops them.
    data = _checked(_filled(written, source, environment, view) if believed else written, source)
    if view is not None:
        for words in commands_in(data):
            words[:] = view.words(words, view.folder)
    own = source.owner is not None and trust.is_own(source.owner)
    return Layer(source.origin, source.scope, _resolved(data, source.folder), believed, own)


def _filled(
    written: Any, source: SettingsSource, environment: Mapping[str, str], view: SteeringView | None
) -> Any:
    """Return the settings with references resolved; in a project's guarding blocks they stay texts.

    What they bring can change while the file stays what the person trusted.
    """
    guards = written if source.owner is not None and isinstance(written, dict) else {}
    kept = {name: guards[name] for name in SECTIONS if name in guards}
    rest = {key: value for key, value in written.items() if key not in kept} if kept else written
    data = substitute(rest, environment, lambda name: _referred(name, written, source, view))
    return {**data, **kept} if kept else data


def _written(source: SettingsSource) -> Any:
    """What a source says, as it stands there. Raises `DocumentError`."""
    if _is_switch(source):
        return _read_switch(source.text, source.origin).data
    return parse_jsonc(source.text, source.origin) if source.text.strip() else {}


def _is_idle(layer: Layer) -> bool:
    return Path(layer.origin).name == SWITCH_FILE and not layer.data


def _is_switch(source: SettingsSource) -> bool:
    return Path(source.origin).name == SWITCH_FILE


def _unknown(source: SettingsSource, layer: Layer) -> Iterator[Unknown]:
    if _is_switch(source):
        for path, (line, column) in _read_switch(source.text, source.origin).others:
            yield Unknown(f"{source.origin}:{line}:{column}", shortened(path), None)
        return
    for key, near in unknown(layer.data):
        line, column = locate(source.text, (key,))
        yield Unknown(f"{source.origin}:{line}:{column}", shortened((key,)), near)
    for path, meant in misspelt(layer.data):
        line, column = locate(source.text, path)
        yield Unknown(f"{source.origin}:{line}:{column}", shortened(path), meant)


def _checked(data: Any, source: SettingsSource) -> Plain:
    try:
        Config.from_data(data, source.origin)
        return spread_flat(data, source.origin)
    except ConfigError as error:
        line, column = locate(source.text, error.path)
        where = f"{dotted(error.path)}: " if error.path else ""
        raise DocumentError(source.origin, line, column, where + error.message) from None


def _referred(name: str, data: Any, source: SettingsSource, view: SteeringView | None) -> str:
    path = source.folder / Path(name).expanduser()
    try:
        return read_text(path if view is None else view.brought(path))
    except (OSError, DocumentError) as error:
        why = error.strerror if isinstance(error, OSError) else error.message
        line, column = locate(source.text, _path_of(data, f"{{file:{name}}}") or ())
        message = f"expected a file that {{file:{name}}} can read, {path}: {why}"
        raise DocumentError(source.origin, line, column, message) from None


def _path_of(data: Any, text: str) -> tuple[str | int, ...] | None:
    """Where in `data` the first string that holds `text` stands."""
    if isinstance(data, str):
        return () if text in data else None
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in entries:
        if (inner := _path_of(value, text)) is not None:
            return (key, *inner)
    return None


def _resolved(data: Plain, folder: Path) -> Plain:
    """`data` with the relative paths of plugins, and of their `workspace`, made absolute.

    They are meant from the file that names them.
    """
    if not data.get("plugin"):
        return data
    return {**data, "plugin": [_entry(entry, folder) for entry in data["plugin"]]}


def _entry(entry: Any, folder: Path) -> Any:
    if isinstance(entry, str):
        return spec(entry, folder)
    target, options = entry
    if isinstance(options.get("workspace"), str):
        options = {**options, "workspace": spec(options["workspace"], folder)}
    return [spec(target, folder), options]


def restricted(layers: list[Layer]) -> tuple[list[Layer], list[str]]:
    """Return the permitted part of each untrusted layer, given the settings without it."""
    layers, dropped = guarded(layers)
    layers, higher = lowered(layers)
    dropped += higher
    for index, layer in enumerate(layers):
        later = [other for other in layers[index + 1 :] if other.trusted]
        layers[index], sentences = restrict(layer, [*layers[:index], layer, *later])
        dropped += sentences
    theirs = foreign(layers)
    chosen = [without_choice(layer, theirs) for layer in layers]
    return [layer for layer, _ in chosen], dropped + [text for _, sentences in chosen for text in sentences]


# -- folders ----------------------------------------------------------------------------------------


def project_folders(chain: Iterable[Path]) -> list[tuple[Path, Path | None]]:
    """The configuration folders of a project, each with the folder whose trust it needs."""
    return [(folder / name, folder) for folder in chain for name in FOLDERS]


def _plugin_files(
    folders: Iterable[tuple[Path, Path | None]], views: Mapping[Path, SteeringView], trust: Trust
) -> Iterator[PluginFile]:
    """Yield the plugins in the plugin folders of configuration folders, each given with whose trust it needs."""
    seen: set[Path] = set()
    for folder, owner in folders:
        # A worktree that is the home folder has its .opencode in both lists; the person's own comes first.
        if folder in seen:
            continue
        seen.add(folder)
        places = [
            folder / name if owner is None else views[owner].served(folder / name) for name in PLUGIN_FOLDERS
        ]
        for code in sorted(path for place in places for kind in _PLUGIN_FILES for path in place.glob(kind)):
            if code.is_file() and not code.name.startswith(("_", ".")) and not is_bridge(code):
                path = code if owner is None else views[owner].named(code)
                yield PluginFile(path, owner or folder, owner is None or trust.is_trusted(owner), code)
