"""Plugin folders: what a person installed of Claude Code's plugins and of Agent Plugins, as they accepted it.

A plugin folder brings commands, agents, skills, rules of hooks and MCP servers (`docs/guides/plugin-folders.md`).
Its files are kept as accepted content (`instar.settings.steering`) and laid out where children of the model may read
them: the
folder or repository that it came from is not looked at again until the person says so. Its rules and servers are
layers of the settings below the person's own; `instar.definitions` reads the rest.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from instar.settings.accepted import Damaged
from instar.settings.config import Config, ConfigError
from instar.settings.layer import Layer, as_map
from instar.settings.paths import Paths
from instar.settings.steered import SteeringFile
from instar.settings.steering import Steering
from instar.wire import Plain
from instar.wire.document import DocumentError, atomic_write, decoded, locked, parse_jsonc, read_bytes
from instar.wire.pattern import late_pattern

Files = Mapping[str, SteeringFile]
"""The files of a plugin by their paths in its folder."""
Kind = Literal["commands", "agents", "skills", "hooks", "mcpServers"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

CLAUDE_MANIFEST: Final = ".claude-plugin/plugin.json"
AGENT_MANIFEST: Final = "plugin.json"
SCHEMA: Final = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
"""What the manifest of an Agent Plugin names."""
_MCP_SCHEMA: Final = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
_USUAL: Final[Mapping[str, str]] = {
    "commands": "commands",
    "agents": "agents",
    "skills": "skills",
    "hooks": "hooks/hooks.json",
    "mcpServers": ".mcp.json",
}
"""Where Claude Code looks for what a manifest does not name."""
_PORTABLE: Final[Mapping[str, str]] = {"skills": "skills", "mcpServers": "mcp.json"}
"""The fixed places of Agent Plugins."""
_REMOTE: Final = frozenset(("type", "url", "headers"))
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "stdio": frozenset(("type", "command", "args", "env", "cwd")),
    "streamable-http": _REMOTE,
    "sse": _REMOTE,
}
"""What a server of an Agent Plugin may say; anything else makes it invalid."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_VARIABLE: Final = late_pattern(r"\$\{(\w+)(?::-([^}]*))?\}")
_NAME: Final = late_pattern(r"(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")


class PluginFolderError(Exception):
    """A plugin folder cannot be used; the text says which, why, and what to do."""


class InstalledPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin as it is noted.

    `source` is the folder or URL that it came from; `ref` the branch, tag or commit that was asked for; `entry` its
    name in the marketplace there. `commit` is what was fetched, `digest` names its content, `accepted` the
    accepted content that holds it. `manifest` is what its manifest and its entry say together.
    """

    name: str
    source: str
    format: Literal["claude", "agent"]
    ref: str = ""
    entry: str = ""
    commit: str = ""
    digest: str = ""
    accepted: str = ""
    manifest: Plain = {}

    @property
    def version(self) -> str:
        """Its own version; "" where it names none."""
        return str(self.manifest.get("version") or "")


class PluginFolder(msgspec.Struct, frozen=True):
    """An installed plugin and where its accepted files stand; `data` is a folder for what it keeps."""

    installed: InstalledPlugin
    root: Path
    data: Path

    @property
    def name(self) -> str:
        """The name that stands before those of what it brings."""
        return self.installed.name

    @property
    def variables(self) -> dict[str, str]:
        """The variables that its programs get, in both formats' names."""
        names = ("CLAUDE_PLUGIN_", "PLUGIN_")
        return {f"{name}ROOT": str(self.root) for name in names} | {
            f"{name}DATA": str(self.data) for name in names
        }

    @property
    def origin(self) -> str:
        """What the paths of its files begin with in messages, and where the settings name an origin."""
        return f"plugin {self.name}: "

    def expanded(self, text: str) -> str:
        """Return a text of the plugin's with its own variables filled in, and no others."""
        own = self.variables
        return _VARIABLE.sub(lambda found: own.get(found[1], found[0]), text)

    def places(self, kind: Kind) -> tuple[str, ...]:
        """Return the files and folders in which it has something of a kind: the usual one, and those it names."""
        return places(self.installed, kind)


def places(installed: InstalledPlugin, kind: Kind) -> tuple[str, ...]:
    """Return the files and folders in which a plugin has something of a kind. Raises `PluginFolderError`."""
    if installed.format == "agent":
        return (_PORTABLE[kind],) if kind in _PORTABLE else ()
    named = installed.manifest.get(kind)
    paths = [one for one in (named if isinstance(named, list) else [named]) if isinstance(one, str)]
    return tuple(dict.fromkeys([_USUAL[kind], *(_inner(installed.name, path) for path in paths)]))


def check_places(installed: InstalledPlugin) -> None:
    """Raise `PluginFolderError` for a manifest that names a place outside of its folder."""
    for kind in KINDS:
        places(installed, kind)


def _inner(name: str, path: str) -> str:
    """A path of a manifest, from the plugin's folder."""
    parts = PurePosixPath(path).parts
    if path.startswith(("/", "~")) or ".." in parts:
        raise PluginFolderError(f"the plugin {name} names {path}, which does not lie in its folder")
    return str(PurePosixPath(*parts))


def is_name(name: str) -> bool:
    """Whether a plugin may be called so."""
    return _NAME.fullmatch(name) is not None


# -- what is installed --------------------------------------------------------------------------------


class PluginFolders:
    """The plugins that a person installed. What writes raises `PluginFolderError` and `OSError`."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._steering = Steering(paths)

    def all(self, problems: list[str]) -> list[PluginFolder]:
        """Return those that can be used, by name; what cannot is one of `problems`."""
        try:
            noted = self.installed()
        except PluginFolderError as error:
            problems.append(str(error))
            return []
        found = []
        for name, one in sorted(noted.items()):
            view = self._steering.laid_out(self._base(name), one.accepted)
            if view is None:
                problems.append(
                    f"the accepted files of the plugin {name} are gone, so it is not used (instar plugin remove {name})"
                )
            else:
                found.append(PluginFolder(one, view.served(self._base(name)), self._data(name)))
        return found

    def installed(self) -> dict[str, InstalledPlugin]:
        """Return what is noted of each, by name. Raises `PluginFolderError`."""
        path = self._paths.plugins
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, InstalledPlugin])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise PluginFolderError(f"{path} cannot be read, so no plugin is used: {error}") from None

    def put(self, installed: InstalledPlugin, files: Files) -> None:
        """Keep the files of a plugin that the person accepted, and use them from now on."""
        base = self._base(installed.name)
        self._data(installed.name).mkdir(parents=True, exist_ok=True)
        try:
            made = self._steering.accept(base, {base / path: file for path, file in files.items()})
        except Damaged as error:
            raise PluginFolderError(f"the plugin {installed.name} cannot be kept: {error}") from None
        with self._changing() as noted:
            # From here on it is the one that counts, with its manifest.
            noted[installed.name] = msgspec.structs.replace(installed, accepted=made)

    def remove(self, name: str) -> None:
        """Forget a plugin, its files and what it kept."""
        # Start-up time: few starts remove one.
        import shutil

        with self._changing() as noted:
            noted.pop(name, None)
        self._steering.forget(self._base(name))
        shutil.rmtree(self._data(name), ignore_errors=True)

    def kept(self, name: str) -> Files:
        """Return the files of a plugin as they were accepted."""
        base, noted = self._base(name), self.installed().get(name)
        view = None if noted is None else self._steering.laid_out(base, noted.accepted)
        kept = {} if view is None else self._steering.kept(view)
        return {path.relative_to(base).as_posix(): file for path, file in kept.items()}

    def _base(self, name: str) -> Path:
        """The place by which its accepted content is known; nothing stands there."""
        return self._paths.data / "plugins" / name

    def _data(self, name: str) -> Path:
        return self._paths.plugin_data / name

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, InstalledPlugin]]:
        self._paths.data.mkdir(parents=True, exist_ok=True)
        with locked(self._paths.data):
            noted = self.installed()
            yield noted
            atomic_write(self._paths.plugins, msgspec.json.format(msgspec.json.encode(noted)), 0o600)


# -- as settings --------------------------------------------------------------------------------------


def layers(folder: PluginFolder, environment: Mapping[str, str], problems: list[str]) -> list[Layer]:
    """Return the settings that a plugin brings: its rules of hooks, a layer for each file, and its MCP servers.

    What cannot be used is left out, with a sentence in `problems`.
    """
    found = [*_hooks(folder, problems), *_servers(folder, environment, problems)]
    return [layer for layer in found if _is_sound(layer, problems)]


def _is_sound(layer: Layer, problems: list[str]) -> bool:
    try:
        Config.from_data(layer.data, layer.origin)
    except ConfigError as error:
        problems.append(str(error))
        return False
    return True


def _hooks(folder: PluginFolder, problems: list[str]) -> Iterator[Layer]:
    for origin, said in _said(folder, "hooks", problems):
        rules = as_map(said).get("hooks", said)
        if isinstance(rules, dict) and rules:
            yield Layer(origin, "default", {"hooks": rules})


def _servers(folder: PluginFolder, environment: Mapping[str, str], problems: list[str]) -> Iterator[Layer]:
    for origin, said in _said(folder, "mcpServers", problems):
        if folder.installed.format == "agent" and as_map(said).get("$schema") != _MCP_SCHEMA:
            problems.append(f"{origin}: $schema: expected {_MCP_SCHEMA}; its servers were left out")
            continue
        for name, block in as_map(as_map(said).get("mcpServers", said)).items():
            try:
                server = _server(folder, as_map(block), environment)
            except (TypeError, ValueError) as error:
                problems.append(f"{origin}: mcpServers.{name}: {error}; it was left out")
            else:
                yield Layer(origin, "default", {"mcp": {f"{folder.name}:{name}": server}})


def _said(folder: PluginFolder, kind: Kind, problems: list[str]) -> Iterator[tuple[str, Any]]:
    """What the files of a kind say, and the manifest itself, each with its origin."""
    for place in folder.places(kind):
        path = folder.root / place
        if path.is_file():
            try:
                origin = folder.origin + place
                yield origin, parse_jsonc(decoded(read_bytes(path), path), origin)
            except (DocumentError, OSError) as error:
                problems.append(f"{error}; it was left out")
    inline = folder.installed.manifest.get(kind)
    if isinstance(inline, dict) and folder.installed.format == "claude":
        yield folder.origin + CLAUDE_MANIFEST, inline


def _server(folder: PluginFolder, block: Plain, environment: Mapping[str, str]) -> Plain:
    """Return a server's block in the form of ``mcp``. Raises `ValueError` and `TypeError`."""
    kind = str(block.get("type") or ("stdio" if "command" in block else "http"))
    if folder.installed.format == "agent":
        kind = str(block.get("type"))
        if odd := sorted(set(block) - _FIELDS.get(kind, frozenset())):
            raise ValueError(f"{odd[0]}: it has no place in a server of type {kind}")

    def filled(text: Any) -> str:
        if not isinstance(text, str):
            raise TypeError(f"expected a text, found {text!r:.40}")
        own = folder.expanded(text)
        if folder.installed.format == "agent":
            return own
        return _VARIABLE.sub(lambda found: environment.get(found[1]) or found[2] or "", own)

    if kind in ("http", "sse", "streamable-http"):
        url = filled(block.get("url"))
        if folder.installed.format == "agent":
            _check_address(url)
        headers = {name: filled(text) for name, text in as_map(block.get("headers")).items()}
        return {"type": "remote", "url": url, "headers": headers}
    if kind != "stdio":
        raise ValueError(f"type: instar has no transport {kind!r}")
    return _local(folder, block, filled)


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise ValueError("url: expected https://, or http:// on this machine")


def _local(folder: PluginFolder, block: Plain, filled: Callable[[Any], str]) -> Plain:
    portable = folder.installed.format == "agent"
    command = block.get("command")
    if not isinstance(command, str) or not command:
        raise ValueError("command: expected the name of a program")
    first = command if portable else filled(command)
    if portable and "/" in command:
        if not command.startswith("./"):
            raise ValueError("command: expected a program's name, or a path that begins with ./")
        first = str(_within(folder, command))
    cwd = filled(block["cwd"]) if block.get("cwd") else "." if portable else ""
    variables = {name: filled(text) for name, text in as_map(block.get("env")).items()}
    return {
        "type": "local",
        "command": [first, *map(filled, block.get("args") or [])],
        "environment": variables | folder.variables,
        **({"cwd": str(_within(folder, cwd) if portable else cwd)} if cwd else {}),
    }


def _within(folder: PluginFolder, path: str) -> Path:
    found = Path(os.path.normpath(folder.root / path))
    if not any(found.is_relative_to(one) for one in (folder.root, folder.data)):
        raise ValueError(f"{path} does not lie in the plugin's folder")
    return found
