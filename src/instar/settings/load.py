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

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from instar.git.project import Project
from instar.settings.config import SECTIONS, Config, ConfigError, dotted
from instar.settings.guarding import guarded, lowered, prices_in
from instar.settings.known import Unknown, misspelt, shortened, unknown
from instar.settings.layer import Layer, Scope, substitute
from instar.settings.paths import Paths
from instar.settings.rules import spread_flat
from instar.settings.trust import (
    FOLDERS,
    Acceptance,
    PluginEntry,
    PluginFile,
    Trust,
    code_of,
    digest_of_entry,
    named_in,
    plugin_files,
    targets_in,
)
from instar.settings.untrusted import foreign, restrict, viewed, without_choice
from instar.wire import Plain
from instar.wire.document import DocumentError, locate, parse_jsonc, read_text
from instar.wire.front_matter import LONGEST, Place, yaml_file

SWITCH_FILE: Final = "config.yaml"
"""The file's name."""
_TOOLS: Final = "tools"
_SELF_EVOLUTION: Final = "self_evolution"


_IDLE: Final = "{} names self_evolution, and switches nothing on: write it as tools: {{self_evolution: true}}"


class _Switch(NamedTuple):
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


_FILES: Final = ("opencode.json", "opencode.jsonc", "instar.json", "instar.jsonc")
_NO_CODE: Final = "an untrusted project may not run code"


class Settings(msgspec.Struct, frozen=True):
    """The settings of one directory.

    `layers` are what was merged, lowest first, after `dropped` (a sentence each) was taken from those that
    are not trusted. `origins` tells for a dotted path which layer it came from. `plugins` are those that may
    run, in loading order: the config's, then files. `held` are those of trusted folders that nobody accepted as they
    are now (`instar.settings.trust`). `plugin_files` are all the files that were found.
    `folders` are the configuration folders that exist, home ones first. `unknown` are the keys that nobody reads.
    `notices` are sentences for the person on what has no effect.
    """

    config: Config
    layers: list[Layer]
    origins: dict[str, str]
    dropped: list[str]
    plugins: list[PluginEntry]
    plugin_files: list[PluginFile]
    folders: list[Path]
    unknown: list[Unknown] = []
    held: list[str] = []
    notices: list[str] = []


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
    sources = [
        *global_sources(paths),
        *project_sources(chain, paths, trust),
        *environment_sources(environment, directory),
    ]
    layers = [layer_of(source, environment, trust) for source in sources]
    strange = [one for source, layer in zip(sources, layers, strict=True) for one in _unknown(source, layer)]
    notices = [_IDLE.format(layer.origin) for layer in layers if _is_idle(layer)]
    judge = Acceptance(trust)
    pairs = zip(sources, layers, strict=True)
    layers = [judge.layer(layer, source.owner, partial(_entries, source)) for source, layer in pairs]
    if flags:
        Config.from_data(flags, "the command line")
        layers.append(Layer("the command line", "flag", flags))
    layers, dropped = restricted(layers)
    config, origins = viewed(layers)
    folders = [(home, None) for home in paths.config_homes] + project_folders(chain)
    files = list({file.path: file for file in plugin_files(folders, trust)}.values())
    dropped += [f"{file.path} was left out: {_NO_CODE}" for file in files if not file.trusted]
    plugins = [judge.entry(*([entry] if isinstance(entry, str) else entry)) for entry in config.plugin]
    plugins += [one for file in files if file.trusted and (one := judge.file(file)) is not None]
    dropped += judge.problems()
    existing = list(dict.fromkeys(folder for folder, _ in folders if folder.is_dir()))
    return Settings(config, layers, origins, dropped, plugins, files, existing, strange, judge.held, notices)


# -- sources -----------------------------------------------------------------------------------------


def global_sources(paths: Paths) -> Iterator[SettingsSource]:
    """Yield the person's own files, lowest first. Raises `DocumentError` for one that cannot be read."""
    for home in paths.config_homes:
        for name in ("config.json", SWITCH_FILE, *_FILES):
            yield from _file(home / name, "global", None)


def project_sources(
    chain: Iterable[Path], paths: Paths, trust: Trust | None = None
) -> Iterator[SettingsSource]:
    """Yield the files of a project's folders, outermost first. Raises `DocumentError`.

    With `trust` also, as an empty one, a file that is gone and of which the person trusted something.
    """
    places: list[tuple[Path, Path | None]] = [(folder, folder) for folder in chain]
    # The worktree may be the home folder, whose .opencode has been read as the person's own.
    inner = [place for place in project_folders(chain) if place[0] not in paths.config_homes]
    for folder, owner in places + inner:
        kept = trust.guards(owner or folder) if trust else None
        for name in (SWITCH_FILE, *_FILES):
            found = list(_file(folder / name, "project", owner))
            if owner is not None and not found and named_in(owner, folder / name) in (kept or ()):
                found.append(SettingsSource(str(folder / name), "project", "", folder, owner))
            yield from found


def guards_in(folder: Path, paths: Paths) -> dict[str, Plain]:
    """Return what the settings of a project's `folder` say that guards: file to its blocks, and its `PRICES`.

    For the person, who looks at it before they trust the folder. Raises `DocumentError`.
    """
    real, found = folder.resolve(), {}
    for source in project_sources([real], paths):
        data = _written(source)
        blocks = {name: data[name] for name in SECTIONS if isinstance(data, dict) and name in data}
        _checked(blocks, source)
        if said := {**blocks, **prices_in(data)}:
            found[named_in(real, Path(source.origin))] = said
    return found


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


def _file(path: Path, scope: Scope, owner: Path | None) -> Iterator[SettingsSource]:
    if path.name == SWITCH_FILE and not _names_switch(path):
        return
    try:
        text = read_text(path)
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


def layer_of(source: SettingsSource, environment: Mapping[str, str], trust: Trust) -> Layer:
    """Return a source's settings. Raises `DocumentError` at the first mistake, with its place."""
    written = _written(source)
    believed = source.owner is None or trust.is_trusted(source.owner)
    # An untrusted layer keeps its references as they stand, so that `restrict` sees and drops them.
    data = _checked(_filled(written, source, environment) if believed else written, source)
    vouched = None if source.owner is None else trust.vouched(Path(source.origin), source.owner)
    return Layer(source.origin, source.scope, _resolved(data, source.folder), believed, vouched)


def _filled(written: Any, source: SettingsSource, environment: Mapping[str, str]) -> Any:
    """Return the settings with references resolved; in a project's guarding blocks they stay texts.

    What they bring can change while the file stays what the person trusted.
    """
    guards = written if source.owner is not None and isinstance(written, dict) else {}
    kept = {name: guards[name] for name in SECTIONS if name in guards}
    rest = {key: value for key, value in written.items() if key not in kept} if kept else written
    data = substitute(rest, environment, lambda name: _referred(name, written, source))
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


def _referred(name: str, data: Any, source: SettingsSource) -> str:
    path = source.folder / Path(name).expanduser()
    try:
        return read_text(path)
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
        return _spec(entry, folder)
    spec, options = entry
    if isinstance(options.get("workspace"), str):
        options = {**options, "workspace": _spec(options["workspace"], folder)}
    return [_spec(spec, folder), options]


def _spec(spec: str, folder: Path) -> str:
    if spec.startswith("~/"):
        return str(Path(spec).expanduser())
    return str((folder / spec).resolve()) if spec.startswith(("./", "../")) else spec


def _entries(source: SettingsSource) -> list[tuple[str, str]]:
    """The names and digests of the entries of a file's ``plugin`` list; what ``{file:…}`` brings counts with them."""
    written, found = _written(source), []
    for entry in written.get("plugin") or () if isinstance(written, dict) else ():
        brought = substitute(entry, {}, lambda name: _referred(name, written, source))
        spec = entry if isinstance(entry, str) else entry[0]
        name = f"{named_in(source.owner or source.folder, Path(source.origin))}: plugin {json.dumps(spec)}"
        found.append((name, digest_of_entry([entry, brought])))
    return found


def code_in(folder: Path, paths: Paths, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a person accepts of the code in a project's `folder` who trusts it now (`instar.settings.trust`).

    Raises `DocumentError`.
    """
    real, listed, targets = folder.resolve(), dict[str, str](), list[str]()
    for source in project_sources([real], paths):
        written = _written(source)
        block = _checked({"plugin": written.get("plugin", [])} if isinstance(written, dict) else {}, source)
        listed |= _entries(source)
        targets += targets_in(_resolved(_filled(block, source, environment), source.folder))
    return code_of(real, listed, targets)


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
