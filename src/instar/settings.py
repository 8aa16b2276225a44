"""Settings: finds the configuration files, reads them, and makes one `Config` of them.

Where they stand, lowest first (the reference's section 3.4, design section 5):

- global: in each home configuration folder ``config.json``, ``opencode.json``, ``opencode.jsonc``,
  ``instar.json``, ``instar.jsonc``, and before them the seed's ``config.yaml`` (`instar.switch`);
- project: the same but ``config.json`` in each folder from the worktree down to the directory, then in
  ``.opencode/`` and ``.instar/`` of each of these. Outside a repository only the directory itself counts: a
  folder above it may belong to anybody;
- environment: the files ``$OPENCODE_CONFIG`` and ``$INSTAR_CONFIG``, the texts ``$OPENCODE_CONFIG_CONTENT``
  and ``$INSTAR_CONFIG_CONTENT``, the permissions ``$OPENCODE_PERMISSION``; then the flags.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from instar import switch
from instar.config import (
    SECTIONS,
    Config,
    ConfigError,
    Layer,
    Scope,
    Unknown,
    dotted,
    foreign,
    guarded,
    lowered,
    misspelt,
    prices_in,
    restrict,
    shortened,
    spread_flat,
    substitute,
    unknown,
    viewed,
    without_choice,
)
from instar.document import DocumentError, locate, parse_jsonc, read_text
from instar.flagship import is_bridge
from instar.paths import Paths
from instar.project import Project
from instar.trust import Trust, named_in
from instar.wire import Plain

_FILES: Final = ("opencode.json", "opencode.jsonc", "instar.json", "instar.jsonc")
_FOLDERS: Final = (".opencode", ".instar")
_PLUGIN_FOLDERS: Final = ("plugin", "plugins")
_PLUGIN_FILES: Final = ("*.py", "*.ts", "*.js")
"""What of a plugin folder is a plugin."""
_NO_CODE: Final = "an untrusted project may not run code"


class PluginFile(msgspec.Struct, frozen=True):
    """A plugin found as a file: `folder` is whose trust it needs, `trusted` whether it has it."""

    path: Path
    folder: Path
    trusted: bool


class PluginEntry(msgspec.Struct, frozen=True):
    """A plugin to load: a package's or flagship's name, or a file's absolute path, and its options."""

    target: str
    options: Plain = {}


class Settings(msgspec.Struct, frozen=True):
    """The settings of one directory.

    `layers` are what was merged, lowest first, after `dropped` (a sentence each) was taken from those that
    are not trusted. `origins` tells for a dotted path which layer it came from. `plugins` are those that may
    run, in loading order: the config's, then files. `plugin_files` are all the files that were found.
    `folders` are the configuration folders that exist, home ones first. `unknown` are the keys that nobody reads.
    """

    config: Config
    layers: list[Layer]
    origins: dict[str, str]
    dropped: list[str]
    plugins: list[PluginEntry]
    plugin_files: list[PluginFile]
    folders: list[Path]
    unknown: list[Unknown] = []


class Source(msgspec.Struct, frozen=True):
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
    if flags:
        Config.from_data(flags, "the command line")
        layers.append(Layer("the command line", "flag", flags))
    layers, dropped = restricted(layers)
    config, origins = viewed(layers)
    folders = [(home, None) for home in paths.config_homes] + project_folders(chain)
    files = list({file.path: file for file in _plugin_files(folders, trust)}.values())
    dropped += [f"{file.path} was left out: {_NO_CODE}" for file in files if not file.trusted]
    plugins = [PluginEntry(e) if isinstance(e, str) else PluginEntry(*e) for e in config.plugin]
    plugins += [PluginEntry(str(file.path)) for file in files if file.trusted]
    existing = list(dict.fromkeys(folder for folder, _ in folders if folder.is_dir()))
    return Settings(config, layers, origins, dropped, plugins, files, existing, strange)


# -- sources -----------------------------------------------------------------------------------------


def global_sources(paths: Paths) -> Iterator[Source]:
    """Yield the person's own files, lowest first. Raises `DocumentError` for one that cannot be read."""
    for home in paths.config_homes:
        for name in ("config.json", switch.NAME, *_FILES):
            yield from _file(home / name, "global", None)


def project_sources(chain: Iterable[Path], paths: Paths, trust: Trust | None = None) -> Iterator[Source]:
    """Yield the files of a project's folders, outermost first. Raises `DocumentError`.

    With `trust` also, as an empty one, a file that is gone and of which the person trusted something.
    """
    places: list[tuple[Path, Path | None]] = [(folder, folder) for folder in chain]
    # The worktree may be the home folder, whose .opencode has been read as the person's own.
    inner = [place for place in project_folders(chain) if place[0] not in paths.config_homes]
    for folder, owner in places + inner:
        kept = trust.guards(owner or folder) if trust else None
        for name in (switch.NAME, *_FILES):
            found = list(_file(folder / name, "project", owner))
            if owner is not None and not found and named_in(owner, folder / name) in (kept or ()):
                found.append(Source(str(folder / name), "project", "", folder, owner))
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


def environment_sources(environment: Mapping[str, str], directory: Path) -> Iterator[Source]:
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
            yield Source(f"${name}", "environment", environment[name], directory)
    if environment.get("OPENCODE_PERMISSION"):
        text = '{"permission":' + environment["OPENCODE_PERMISSION"] + "}"
        yield Source("$OPENCODE_PERMISSION", "environment", text, directory)


def _file(path: Path, scope: Scope, owner: Path | None) -> Iterator[Source]:
    if path.name == switch.NAME and not switch.names_it(path):
        return
    try:
        text = read_text(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise DocumentError(
            str(path), 1, 1, f"expected a readable file: {error.strerror}; make it one, or move it away"
        ) from None
    yield Source(str(path), scope, text, path.parent, owner)


def folder_chain(directory: Path, project: Project) -> list[Path]:
    """The folders from the worktree down to the directory; outside a repository the directory alone."""
    if project.vcs is None or not directory.is_relative_to(project.worktree):
        return [directory]
    parents = [folder for folder in directory.parents if folder.is_relative_to(project.worktree)]
    return [*reversed(parents), directory]


# -- layers ------------------------------------------------------------------------------------------


def layer_of(source: Source, environment: Mapping[str, str], trust: Trust) -> Layer:
    """Return a source's settings. Raises `DocumentError` at the first mistake, with its place."""
    written = _written(source)
    believed = source.owner is None or trust.is_trusted(source.owner)
    # An untrusted layer keeps its references as they stand, so that `restrict` sees and drops them.
    data = _checked(_filled(written, source, environment) if believed else written, source)
    vouched = None if source.owner is None else trust.vouched(Path(source.origin), source.owner)
    return Layer(source.origin, source.scope, _resolved(data, source.folder), believed, vouched)


def _filled(written: Any, source: Source, environment: Mapping[str, str]) -> Any:
    """What was written, with its references followed; but those in a project's blocks that guard stay texts.

    What they bring can change while the file stays what the person trusted.
    """
    guards = written if source.owner is not None and isinstance(written, dict) else {}
    kept = {name: guards[name] for name in SECTIONS if name in guards}
    rest = {key: value for key, value in written.items() if key not in kept} if kept else written
    data = substitute(rest, environment, lambda name: _referred(name, written, source))
    return {**data, **kept} if kept else data


def _written(source: Source) -> Any:
    """What a source says, as it stands there. Raises `DocumentError`."""
    if _is_switch(source):
        return switch.read(source.text, source.origin).data
    return parse_jsonc(source.text, source.origin) if source.text.strip() else {}


def _is_switch(source: Source) -> bool:
    return Path(source.origin).name == switch.NAME


def _unknown(source: Source, layer: Layer) -> Iterator[Unknown]:
    if _is_switch(source):
        for path, (line, column) in switch.read(source.text, source.origin).others:
            yield Unknown(f"{source.origin}:{line}:{column}", shortened(path), None)
        return
    for key, near in unknown(layer.data):
        line, column = locate(source.text, (key,))
        yield Unknown(f"{source.origin}:{line}:{column}", shortened((key,)), near)
    for path, meant in misspelt(layer.data):
        line, column = locate(source.text, path)
        yield Unknown(f"{source.origin}:{line}:{column}", shortened(path), meant)


def _checked(data: Any, source: Source) -> Plain:
    try:
        Config.from_data(data, source.origin)
        return spread_flat(data, source.origin)
    except ConfigError as error:
        line, column = locate(source.text, error.path)
        where = f"{dotted(error.path)}: " if error.path else ""
        raise DocumentError(source.origin, line, column, where + error.message) from None


def _referred(name: str, data: Any, source: Source) -> str:
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
    """`data` with its relative plugin paths made absolute: they are meant from the file that names them."""
    if not data.get("plugin"):
        return data
    entries = [
        [_spec(entry[0], folder), *entry[1:]] if isinstance(entry, list) else _spec(entry, folder)
        for entry in data["plugin"]
    ]
    return {**data, "plugin": entries}


def _spec(spec: str, folder: Path) -> str:
    if spec.startswith("~/"):
        return str(Path(spec).expanduser())
    return str((folder / spec).resolve()) if spec.startswith(("./", "../")) else spec


def restricted(layers: list[Layer]) -> tuple[list[Layer], list[str]]:
    """Return each untrusted layer as far as it may be heard, given all that is held without it."""
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


# -- folders and plugin files ------------------------------------------------------------------------


def project_folders(chain: Iterable[Path]) -> list[tuple[Path, Path | None]]:
    """The configuration folders of a project, each with the folder whose trust it needs."""
    return [(folder / name, folder) for folder in chain for name in _FOLDERS]


def _plugin_files(folders: Iterable[tuple[Path, Path | None]], trust: Trust) -> Iterator[PluginFile]:
    seen: set[Path] = set()
    for folder, owner in folders:
        # A worktree that is the home folder has its .opencode in both lists; the person's own comes first.
        if folder in seen:
            continue
        seen.add(folder)
        trusted = owner is None or trust.is_trusted(owner)
        for path in sorted(
            path for name in _PLUGIN_FOLDERS for kind in _PLUGIN_FILES for path in (folder / name).glob(kind)
        ):
            if path.is_file() and not path.name.startswith(("_", ".")) and not is_bridge(path):
                yield PluginFile(path, owner or folder, trusted)
