"""Which files of a folder steer, and what of a file does: what says what instar runs and what it allows.

Settings, plugins, tools and rules do, with the programs, texts and modules that they name or import, and Markdown by
what it grants. Nothing is run here, and what cannot be told from the text of a file is left out.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from instar.settings.accepted import AcceptedFile, blob_id
from instar.settings.builtin_plugins import FLAGSHIPS
from instar.settings.config import Config, ConfigError, dotted
from instar.settings.layer import as_map, references
from instar.settings.paths import Paths
from instar.wire import Plain
from instar.wire.document import DocumentError, locate, open_regular, parse_jsonc
from instar.wire.front_matter import front_matter
from instar.wire.pattern import late_pattern

SWITCH_FILE: Final = "config.yaml"
"""Settings of a file's name that others use too; it holds one switch."""
SETTINGS: Final = (SWITCH_FILE, "opencode.json", "opencode.jsonc", "instar.json", "instar.jsonc")
"""The settings files of a project's folder, lowest first."""
FOLDERS: Final = (".opencode", ".instar")
"""The configuration folders of a project's folder."""
_DOTTED: Final = (*FOLDERS, ".claude", ".agents", ".openhands")
PLUGIN_FOLDERS: Final = ("plugin", "plugins")
CODE_FOLDERS: Final = (*PLUGIN_FOLDERS, "tool", "tools")
DEFINITION_FOLDERS: Final = ("agent", "agents", "mode", "modes", "command", "commands", "skill", "skills")
SKILL_FOLDERS: Final = (".claude/skills", ".agents/skills")
_MANIFESTS: Final = (
    *("package.json", "tsconfig.json", "jsconfig.json", "bunfig.toml"),
    *("package-lock.json", "bun.lock", "bun.lockb", "yarn.lock", "pnpm-lock.yaml"),
)
"""What decides which file an import means."""
_PACKAGES: Final = "node_modules"
_UNREAD: Final = (".git", "__pycache__")
_SCRIPTS: Final = (".ts", ".tsx", ".js", ".mjs", ".cjs", ".mts", ".cts", ".jsx")
_PROGRAMS: Final = (*_SCRIPTS, ".py", ".sh", ".bash", ".rb", ".pl")
_IMPORT: Final = late_pattern(
    r"""(?:\bfrom|\bimport|\brequire|\bimport\s*\(|\brequire\s*\()\s*["']([^"'\n]+)["']"""
)
_FREE: Final = ("name", "description", "color", "hidden", "mode", "license", "compatibility", "metadata")
"""Fields of a definition's front matter that grant nothing."""
_BODY: Final = late_pattern(r"!`|@(?:[/~]|[^\s`]*\.\.)")
"""What in a command's text runs something, or reads outside of the folder."""
_RUNS: Final = late_pattern(
    r"python[\d.]*|pypy[\d.]*|bash|sh|zsh|dash|ksh|fish|node|deno|bun|bunx|tsx|ts-node|npx|uv|uvx|ruby|perl|php|lua"
    r"|Rscript|source|\.|exec|env|time|timeout|nice|nohup|command"
)
"""Programs that run a file that they are given."""
MOST: Final = 20_000
LARGEST: Final = 256 << 20
"""Files and bytes that one folder's accepted tree may hold."""


_SEARCHED: Final = ("PATH", "PYTHONPATH", "NODE_PATH", "PERL5LIB", "RUBYLIB")
"""Variables that name the folders in which programs and modules are looked for."""


class SteeringError(Exception):
    """What steers in a folder cannot be accepted; the text says why and what to do."""


class SteeringFile(msgspec.Struct, frozen=True):
    """A file as it stands in the folder: its content, and whether it may be run."""

    data: bytes
    runs: bool = False

    @property
    def entry(self) -> AcceptedFile:
        """The file as a commit names it."""
        return AcceptedFile(0o100755 if self.runs else 0o100644, blob_id(self.data))


Found = Mapping[Path, SteeringFile]
"""What steers in a folder, by absolute paths."""


# -- what steers of a file ----------------------------------------------------------------------------


def part(path: Path, data: bytes) -> bytes:
    """Return what of a file steers, in one form; empty where nothing does. What cannot be read counts whole."""
    if path.suffix == ".md":
        return _definition_part(path, data)
    if path.suffix in (".json", ".jsonc") and path.name not in _MANIFESTS and not is_package(path):
        return _settings_part(path, data)
    if path.name == SWITCH_FILE:
        return data if b"self_evolution" in data else b""
    return hashlib.sha256(data).digest() if data else b""


def _definition_part(path: Path, data: bytes) -> bytes:
    try:
        found = front_matter(data.decode(), str(path))
    except (UnicodeDecodeError, DocumentError):
        return data
    granting = {key: value for key, value in found.data.items() if key not in _FREE and value is not None}
    body = found.body if _BODY.search(found.body) else ""
    return json.dumps([granting, body]).encode() if granting or body else b""


def _settings_part(path: Path, data: bytes) -> bytes:
    try:
        said = parse_jsonc(data.decode(), str(path)) if data.strip() else {}
    except (UnicodeDecodeError, DocumentError):
        return data
    if isinstance(said, dict):
        # Claude Code keeps much else there, and writes it itself.
        wanted = (
            (lambda key: "hook" in key.lower())
            if path.parent.name == ".claude"
            else (lambda key: key != "$schema")
        )
        said = {key: value for key, value in said.items() if wanted(key)}
    return json.dumps(said).encode() if said else b""


# -- which files steer ----------------------------------------------------------------------------------


def collect(
    folder: Path, paths: Paths, *, packages: bool = True, strict: bool = False
) -> dict[Path, SteeringFile]:
    """Return what steers in a folder as it stands, with what it names; `packages`: with those of JavaScript code.

    What is instar's own and the person's, and hidden from children, is no part of it, also where a link leads there.
    Raises `SteeringError` where it is too much, and if `strict` `DocumentError` for settings with a mistake.
    """
    found: dict[Path, SteeringFile] = {}
    size = 0
    for path in _all(folder, paths.home, packages=packages, strict=strict):
        if path in found or is_hidden(path, paths):
            continue
        try:
            found[path] = file_at(path)
        except OSError:
            continue
        size += len(found[path].data)
        if len(found) > MOST or size > LARGEST:
            raise SteeringError(
                f"{folder}: its plugins, their packages and its settings are more than {MOST} files or "
                f"{LARGEST >> 20} MiB; remove what is not needed from {', '.join(FOLDERS)}"
            )
    return found


def is_hidden(path: Path, paths: Paths) -> bool:
    """Whether a file lies in a folder of instar's that children must not read."""
    real = Path(os.path.realpath(path))
    own = [Path(os.path.realpath(one)) for one in (*paths.config_homes, paths.state, paths.data)]
    return any(real.is_relative_to(one) for one in own) and not real.is_relative_to(
        os.path.realpath(paths.worktrees)
    )


def _all(folder: Path, home: Path, *, packages: bool, strict: bool) -> Iterator[Path]:
    scripts = list[Path]()
    for path in usual(folder):
        yield path
        if path.suffix in _SCRIPTS:
            scripts.append(path)
    for path in _named(folder, home, strict=strict):
        for one in _parts(path):
            yield one
            if one.suffix in _SCRIPTS:
                scripts.append(one)
    yield from _imports(folder, scripts, packages=packages)
    for name in FOLDERS if packages else ():
        yield from walk(folder / name / _PACKAGES)


def usual(folder: Path) -> Iterator[Path]:
    """The files that steer by where they stand."""
    for place in (folder, *(folder / name for name in FOLDERS)):
        yield from (place / name for name in SETTINGS)
    for place in (folder / name for name in FOLDERS):
        yield from (place / name for name in _MANIFESTS)
        for name in CODE_FOLDERS:
            yield from walk(place / name)
        for name in DEFINITION_FOLDERS:
            yield from (path for path in walk(place / name) if path.suffix == ".md")
    for name in SKILL_FOLDERS:
        yield from (path for path in walk(folder / name) if path.name == "SKILL.md")
    for shipped in FLAGSHIPS.values():
        yield from (folder / name for name in shipped.files)


def _named(folder: Path, home: Path, *, strict: bool) -> Iterator[Path]:
    """What settings and rules name: plugins, texts that they bring in, and programs."""
    said = {file: as_map(_written(file, strict=strict)) for file in usual(folder) if file.is_file()}
    for file, data in said.items():
        for entry in data.get("plugin") or ():
            target = entry if isinstance(entry, str) else next(iter(entry or ()), "")
            if (path := path_of(spec(str(target), file.parent))) is not None:
                yield path
        brought = (file.parent / Path(name).expanduser() for name in references(data))
        yield from (path for path in brought if path.resolve().is_relative_to(folder))
        yield from (path for words in commands_in(data) for path in started(words, folder))
    for shipped in FLAGSHIPS.values():
        module, _, attribute = shipped.steers.partition(":")
        if module:
            programs = getattr(import_module(module), attribute)(folder, home, said.values(), strict=strict)
            yield from (path for path in programs if path.is_relative_to(folder))


def _written(file: Path, *, strict: bool) -> Any:
    """The settings in a file, or in the front matter of an agent; nothing for any other."""
    text = content_of(file).decode(errors="replace")
    try:
        if file.name in SETTINGS[1:]:
            data = parse_jsonc(text, str(file)) if text.strip() else {}
            if strict and isinstance(data, dict):
                _check(data, file, text)
            return data
        if file.suffix == ".md" and "hooks" in text:
            return {"agent": {str(file): front_matter(text, str(file)).data}}
    except DocumentError:
        if strict and file.name in SETTINGS:
            raise
    return {}


def _check(data: Plain, file: Path, text: str) -> None:
    """Raise `DocumentError` for a mistake: what is accepted holds until it is accepted again, so it must be sound."""
    try:
        Config.from_data(data, str(file))
    except ConfigError as error:
        line, column = locate(text, error.path)
        message = f"{dotted(error.path)}: {error.message}"
        raise DocumentError(str(file), line, column, message) from None


def commands_in(data: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield the commands, as lists of words, that settings have instar start: servers, formatters."""
    for key in ("mcp", "formatter", "lsp"):
        for block in as_map(data.get(key)).values():
            words = as_map(block).get("command")
            if isinstance(words, list) and all(isinstance(word, str) for word in words):
                yield words


def started(
    words: Sequence[str], directory: Path, served: Callable[[Path], Path] = lambda path: path
) -> Iterator[Path]:
    """Yield the files that a command starts in `directory`: its program, an interpreter's scripts, what has a run bit.

    `served` gives what is read in the place of a file; the file need not exist then.
    """
    interprets = runs = bool(words) and _RUNS.fullmatch(words[0].rpartition("/")[2]) is not None
    for index, word in enumerate(words):
        try:
            path = Path(os.path.normpath(directory / word))
            there = [one for one in (served(path), path) if one.is_file()]
        except (OSError, ValueError):
            continue
        if not there:
            continue
        is_program = (interprets and path.suffix in _PROGRAMS) or os.access(there[0], os.X_OK)
        if (index == 0 and "/" in word) or (index > 0 and (runs or is_program)):
            yield path
            runs = False  # what comes after a script is given to it


def accepted_words(words: Sequence[str], directory: Path, served: Callable[[Path], Path]) -> list[str]:
    """Return a command with the files that it starts in `directory` as they were accepted.

    `served` is `SteeringView.served`. A file of the folder that was not accepted cannot be started.
    """
    found, starting = list(words), {*started(words, directory, served)}
    for index, word in enumerate(words):
        path = Path(os.path.normpath(directory / word))
        if path in starting:
            found[index] = str(served(path)) if served(path) != path else word
    return found


def accepted_environment(
    environment: Mapping[str, str], folder: Path, served: Callable[[Path], Path]
) -> dict[str, str]:
    """Return an environment in which nothing of a `folder` is found by name but what was accepted."""
    found = dict(environment)
    home = Path(environment.get("HOME") or "/")
    if home.is_relative_to(folder) or environment.get("INSTAR_TRUST") == "all":
        return found
    for name in _SEARCHED:
        if name in found:
            entries = [Path(entry) for entry in found[name].split(os.pathsep) if entry.startswith("/")]
            kept = [served(entry) if entry.is_relative_to(folder) else entry for entry in entries]
            there = [
                new
                for old, new in zip(entries, kept, strict=True)
                if old != new or not old.is_relative_to(folder)
            ]
            found[name] = os.pathsep.join(str(entry) for entry in there)
    return found


def spec(text: str, folder: Path) -> str:
    """Return an entry of a ``plugin`` list as it is meant from the folder of the file that names it."""
    if text.startswith("~/"):
        return str(Path(text).expanduser())
    return str((folder / text).resolve()) if text.startswith(("./", "../")) else text


def path_of(target: str) -> Path | None:
    """Return the file or folder that an entry of a ``plugin`` list names; None: it is a package or a flagship."""
    path = Path(unquote(target.removeprefix("file://")) if target.startswith("file://") else target)
    return path if path.is_absolute() else None


def _parts(path: Path) -> Iterator[Path]:
    """What belongs to a named file or folder: all of a package, the neighbours of a program in a hidden folder."""
    if path.is_dir() or path.name == "__init__.py":
        yield from walk(path if path.is_dir() else path.parent)
        return
    yield path
    if path.suffix in _SCRIPTS:
        yield from (path.parent / name for name in _MANIFESTS)
    if any(name.startswith(".") for name in path.parent.parts):
        yield from (one for one in sorted(path.parent.glob("*")) if one.suffix == path.suffix)


def _imports(folder: Path, scripts: list[Path], *, packages: bool) -> Iterator[Path]:
    """What JavaScript imports, and what that imports: files by relative paths, and packages of the folder."""
    seen = {*scripts}
    todo = list(scripts)
    while todo:
        script = todo.pop()
        for name in _IMPORT.findall(content_of(script).decode(errors="replace")):
            if name.startswith("."):
                one = _module(Path(os.path.normpath(script.parent / name)))
                if one is not None and one not in seen and len(seen) <= MOST:
                    seen.add(one)
                    todo += [one] if one.suffix in _SCRIPTS else []
                    yield one
            elif packages and not name.startswith(("node:", "bun:", "/")):
                yield from _package(name, script.parent, folder, seen)


def _module(path: Path) -> Path | None:
    """The file that a relative import means."""
    tried = [
        path,
        *(Path(f"{path}{end}") for end in (*_SCRIPTS, ".json")),
        *(path / f"index{end}" for end in _SCRIPTS),
    ]
    tried += [
        path.with_suffix(end) for end in (".ts", ".tsx", ".mts") if path.suffix in (".js", ".jsx", ".mjs")
    ]
    return next((one for one in tried if one.is_file()), None)


def _package(name: str, start: Path, folder: Path, seen: set[Path]) -> Iterator[Path]:
    """The files of an imported package and of those that it depends on; for a file of the folder those in it."""
    short = "/".join(name.split("/")[: 2 if name.startswith("@") else 1])
    inside = start.is_relative_to(folder)
    above = [place for place in (start, *start.parents) if not inside or place.is_relative_to(folder)]
    place = next((one for up in above if (one := up / _PACKAGES / short).is_dir()), None)
    if place is None or place in seen:
        return
    seen.add(place)
    yield from walk(place)
    with contextlib.suppress(DocumentError):
        described = as_map(
            parse_jsonc(content_of(place / "package.json").decode(errors="replace") or "{}", short)
        )
        for other in as_map(described.get("dependencies")):
            yield from _package(other, place, folder, seen)


def walk(top: Path) -> Iterator[Path]:
    """Yield the files below a folder; links are followed, each folder is entered once."""
    entered, count = set[str](), 0
    for at, folders, names in os.walk(top, followlinks=True):
        real = os.path.realpath(at)
        folders[:] = [] if real in entered else sorted(name for name in folders if name not in _UNREAD)
        entered.add(real)
        yield from (Path(at, name) for name in sorted(names))
        count += len(names)
        if count > MOST:
            return


def file_at(path: Path) -> SteeringFile:
    """Read a file. Raises `OSError`, also for a pipe, which would never end."""
    with open_regular(path) as file:
        return SteeringFile(file.read(LARGEST + 1), bool(os.fstat(file.fileno()).st_mode & 0o100))


def content_of(path: Path) -> bytes:
    """What a file holds; empty for what cannot be read."""
    try:
        return file_at(path).data
    except OSError:
        return b""


def is_code(path: Path, folder: Path) -> bool:
    """Whether a file that steers in a `folder` is code: what it does cannot be told from its text."""
    inner = path.relative_to(folder).parts if path.is_relative_to(folder) else ()
    return (
        path.suffix in _PROGRAMS
        or path.name in _MANIFESTS
        or (len(inner) > 2 and inner[0] in FOLDERS and inner[1] in CODE_FOLDERS)
        or (not path.suffix and os.access(path, os.X_OK))
    )


def is_package(path: Path) -> bool:
    """Whether a file is one of an installed package."""
    return _PACKAGES in path.parts


def folders_below(folder: Path) -> Iterator[Path]:
    """Yield the folders below one, in the same git worktree, that bring something that steers by where it stands."""
    count = 0
    for at, folders, names in os.walk(folder):
        here = Path(at)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != _PACKAGES)
        if here != folder and (here / ".git").exists():
            folders[:] = []
            continue
        count += 1
        if count > MOST:
            return
        if here != folder and (
            any(name in SETTINGS[1:] for name in names) or any((here / name).is_dir() for name in _DOTTED)
        ):
            yield here
