"""``instar config``: the settings of a folder and their sources, mistakes in them, and their JSON Schema."""

import asyncio
import difflib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click
import msgspec

from instar.cli.check import SettingPath, check
from instar.cli.complete import Named, words_of
from instar.cli.door import Context, Failure, door, folder_option
from instar.cli.text import counted, echo, harmless, note, one_line, print_json
from instar.definitions.markdown import complete
from instar.settings.builtin_plugins import sections
from instar.settings.config import SECTIONS, Config, dotted, kind_of
from instar.settings.layer import has_reference
from instar.settings.load import Settings
from instar.wire import Plain
from instar.wire.document import DocumentError, parse_jsonc, read_jsonc
from instar.wire.pattern import late_pattern
from instar.wire.secret import MASK, Secret, masked, redact

_WIDEST: Final = 160
"""Characters of a value that are shown on its line; ``--json`` has all."""
_CONCATENATED: Final = ("plugin", "instructions")
_MASKED_MAPS: Final = ("headers", "environment")
"""Maps whose values may be keys, whatever they are called."""
_REFERENCE: Final = late_pattern(r"\{(env|file):[^{}]*\}")
_USERINFO: Final = late_pattern(r"://[^/@\s]*@")
"""The name and password in an address."""

_folder = folder_option("The settings of this folder.")


class _Value(msgspec.Struct, frozen=True):
    """One setting as it may be shown: `origin` is where it was written, ``default`` if nowhere."""

    path: SettingPath
    value: Any
    origin: str


async def _set(ctx: click.Context) -> Named:
    """The keys that are set, a block's own before those in it."""
    _, read = await ctx.obj.settings(ctx.obj.folder(ctx.params.get("folder")))
    found = list(_values(read, ctx.obj.environment))
    keys = dict.fromkeys([*(str(one.path[0]) for one in found), *(dotted(one.path) for one in found)])
    return [(key, KEYS.get(key, "")) for key in keys]


@click.group()
def command() -> None:
    """Show or check the settings of a folder, or print their schema for editors."""


@command.command(short_help="Print the settings, each with where it was written.")
@click.argument("key", required=False, shell_complete=words_of(_set))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object: config, origins, left_out.")
@_folder
@door
def show(context: Context, key: str | None, as_json: bool, folder: str | None) -> None:
    """Print the merged settings, or those under KEY (model, provider.mine), each with where it was written.

    Secrets are masked; a value that came from {env:} or {file:} is shown as that reference.
    """
    where = context.folder(folder)
    project, read = asyncio.run(context.settings(where))
    read, _ = complete(read, project, context.paths, context.trust)
    found = list(_values(read, context.environment))
    if key:
        found = [one for one in found if f"{dotted(one.path)}.".startswith(f"{key}.")]
    if key and not found:
        left = [one for one in read.dropped if key in one]
        why = f"; left out, not trusted: {'; '.join(left)}" if left else _meant(key)
        raise Failure(f"{key} is not set{why}")
    if as_json:
        print_json(_plain(found, read.dropped))
        return
    for one in found:
        text = msgspec.json.encode(one.value).decode()
        short = text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
        # An empty map came from nowhere in particular: layers only add to it.
        source = f"  ({one_line(one.origin)})" if one.origin else ""
        echo(f"{one_line(dotted(one.path))} = {harmless(short)}{source}")
    for sentence in read.dropped:
        echo(f"left out, not trusted: {one_line(sentence)}")


@command.command("check", short_help="Print every mistake with its place.")
@_folder
@door
def check_(context: Context, folder: str | None) -> int:
    """Read every settings file, agent, command and skill; print each mistake with its place.

    Exit code 2: there are mistakes. A note names a setting that does nothing, or most likely not what was meant.
    Nothing of the folder is run, and no plugin is loaded.
    """
    where = context.folder(folder)
    found = asyncio.run(check(context, where))
    for mistake in found.mistakes:
        note(mistake)
    for text in found.notes:
        echo(f"note: {one_line(text)}", err=True)
    if found.read is None or found.mistakes:
        return 2
    left = f"; {len(found.read.dropped)} left out, not trusted" if found.read.dropped else ""
    well = "no mistake" if found.notes else "all is well"
    echo(f"{well}: {counted(len(found.read.layers), 'source')} of settings for {where}{left}")
    return 0


@command.command("schema")
@door
def schema(context: Context) -> None:
    """Print the JSON Schema of a settings file, for editors ("$schema")."""
    print_json(_schema())


def _meant(key: str) -> str:
    top = key.partition(".")[0]
    if top in KEYS:
        return ""
    near = difflib.get_close_matches(top, KEYS, n=1)
    return f"; did you mean {near[0]}?" if near else ", and instar knows no such setting"


def _plain(found: list[_Value], left_out: list[str]) -> Plain:
    config: Plain = {}
    for one in found:
        inner = config
        for name in one.path[:-1]:
            inner = inner.setdefault(str(name), [] if name in _CONCATENATED else {})
        if isinstance(inner, list):
            inner.append(one.value)
        else:
            inner[str(one.path[-1])] = one.value
    origins = {dotted(one.path): one.origin for one in found}
    return {"config": config, "origins": origins, "left_out": left_out}


# -- what may be shown -------------------------------------------------------------------------------


def _values(read: Settings, environment: Mapping[str, str]) -> Iterator[_Value]:
    secrets = [Secret(value) for name, value in environment.items() if masked({name: value})[name] == MASK]
    written = _Written(environment)
    for path, value in _leaves(read.config.data, ()):
        origin = read.origins.get(dotted(path), "")
        safe = _redacted(written.reference(origin, path, value), secrets)
        yield _Value(path, _hidden(path, safe), origin)
    for field in msgspec.structs.fields(Config):
        if field.name in KEYS and field.name not in read.config.data and isinstance(field.default, int | str):
            yield _Value((field.name,), field.default, "default")
    for name in SECTIONS:
        for key, value in msgspec.structs.asdict(kind_of(name)()).items():
            if key not in read.config.data.get(name, {}):
                yield _Value((name, key), value, "default")


def _leaves(data: Any, path: SettingPath) -> Iterator[tuple[SettingPath, Any]]:
    """The values that have a place of their own: all but maps, and the entries of lists that concatenate."""
    if isinstance(data, dict) and (data or not path):
        for key, value in data.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(data, list) and len(path) == 1 and path[0] in _CONCATENATED:
        yield from (((*path, index), value) for index, value in enumerate(data))
    else:
        yield path, data


class _Written:
    """The files and variables that settings came from, as they were written."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._files: dict[str, Any] = {}

    def reference(self, origin: str, path: SettingPath, value: Any) -> Any:
        """Return `value`, or the text that asks for ``{env:}`` or ``{file:}`` where its source holds one."""
        data = self._data(origin)
        if path[0] in _CONCATENATED:
            # The index is that of the merged list: an entry is shown if it stands in its source as it is.
            entries = data.get(path[0]) if isinstance(data, dict) else None
            return MASK if has_reference(entries) and value not in (entries or ()) else value
        for key in path:
            data = data.get(key) if isinstance(data, dict) else None
        return data if has_reference(data) else value

    def _data(self, origin: str) -> Any:
        if origin not in self._files:
            self._files[origin] = None
            with suppress(OSError, DocumentError):  # changed since it was read, or a folder
                self._files[origin] = self._parsed(origin)
        return self._files[origin]

    def _parsed(self, origin: str) -> Any:
        text = self._environment.get(origin.removeprefix("$"), "") if origin.startswith("$") else ""
        if text:
            return parse_jsonc(text, origin)
        return read_jsonc(Path(origin)) if origin.startswith("/") and not origin.endswith(".md") else None


def _redacted(value: Any, secrets: list[Secret]) -> Any:
    """`value` without the person's keys, wherever they stand in it."""
    if isinstance(value, str):
        return redact(_USERINFO.sub(f"://{MASK}@", value), secrets)
    if isinstance(value, list):
        return [_redacted(item, secrets) for item in value]
    if isinstance(value, dict):
        return {key: _redacted(item, secrets) for key, item in value.items()}
    return value


def _hidden(path: SettingPath, value: Any) -> Any:
    """Return `value` with secrets masked: those whose key's name says so. References to secrets stay."""
    if isinstance(value, str) and _REFERENCE.fullmatch(value):
        return value
    if path[0] in ("provider", "mcp") and any(name in _MASKED_MAPS for name in path[:-1]):
        return MASK if value else value
    return masked({str(path[-1]): value})[str(path[-1])]


# -- the schema -------------------------------------------------------------------------------------

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "model": "The model that answers, as provider/model.",
        "small_model": "The model for titles; without it a cheap one of the same provider.",
        "default_agent": "The agent that answers when none is named; without it build.",
        "username": "The person's name, as opencode keeps it.",
        "agent": "Agents by name, beside those of Markdown files.",
        "command": "Commands by name, beside those of Markdown files.",
        "provider": "Providers of models by name: address, key, models.",
        "disabled_providers": "Providers that are not used.",
        "enabled_providers": "If given, the only providers that are used.",
        "permission": "What tools may do: allow, ask or deny, for a tool or for patterns of its input.",
        "permission_options": "Options of programs that take a value and stand before a subcommand, which rules name.",
        "mcp": "MCP servers by name.",
        "formatter": "true: files are formatted after an edit; or formatters by name.",
        "lsp": "true: language servers tell the model what is wrong after an edit; or servers by name.",
        "plugin": "Plugins: names, paths from the file that names them, or [name, options].",
        "plugin_timeouts": "Seconds that a plugin may take at a hook point, by its name, or gate, observer, event.",
        "instructions": "Files with instructions for the model; patterns from the project's folder.",
        "tools": "Tools by name, true or false; permission says the same more finely.",
        "snapshot": "false: no snapshots of the folder's files are taken, so that none can be put back.",
        "compaction": "How a conversation that fills the window is summarised: auto, prune, reserved, tail_turns, …",
        "limits": "Ceilings: steps and minutes of a turn; calls in a row; tokens or cost of a session, day, cause …",
        "shield": "How children that run for the model are held back: level, env.",
        "mcp_server": "What other agents may at the server's `/instar/mcp`.",
        "storage": "What of a session survives when the machine fails: durability.",
        "context_window_tokens": "The window, in tokens, of a model that does not say its own.",
        "max_iterations": "Model calls of one turn at most.",
        "provider_retry_mode": "How long a provider that fails is tried again.",
        "provider_retry_wait_seconds": "How long a provider may ask to wait before it is tried again.",
        "reload": "false: what changes in files is taken up at the next start, not in a running instance.",
        **{name: section.help for name, section in sections().items()},
    }
)
"""What each top-level key means; a test holds it to the fields of `Config` and the blocks of flagships."""

_NOT_IN_FILES: Final = ("data", "foreign", "asked")
_ACTION: Final = {"enum": ["allow", "ask", "deny"]}
_PERMISSION: Final = {
    "anyOf": [
        _ACTION,
        {
            "type": "object",
            "additionalProperties": {
                "anyOf": [_ACTION, {"type": "object", "additionalProperties": _ACTION}],
            },
        },
        {"type": "null"},
    ]
}


def _schema() -> Plain:
    """The schema of a settings file. Keys that instar does not use are allowed, as they are in files."""
    kinds: list[type[msgspec.Struct]] = [Config, *map(kind_of, SECTIONS)]
    (_, *blocks), parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for kind in kinds[1:]:
        # A typing error in what guards is a mistake.
        parts[kind.__name__]["additionalProperties"] = False
    top: dict[str, Any] = parts.pop("Config")
    for name in _NOT_IN_FILES:
        del top["properties"][name]
    top["properties"] |= {
        name: block for name, block in zip(SECTIONS, blocks, strict=True) if name in sections()
    }
    for name, text in KEYS.items():
        top["properties"][name] = {"description": text, **top["properties"][name]}
    top["properties"]["permission"] |= _PERMISSION
    top["properties"]["$schema"] = {"type": "string"}
    agent = parts["AgentConfig"]["properties"]
    agent["permission"] |= _PERMISSION
    agent["maxSteps"] = agent["steps"]
    return {**top, "$schema": _DIALECT, "title": "instar", "description": _ABOUT, "$defs": parts}


_ABOUT: Final = (
    "Settings of instar: instar.json, instar.jsonc, and opencode's opencode.json and opencode.jsonc."
)
