"""``instar config``: the settings of a folder: what they are and whence, what is wrong with them, their schema."""

import asyncio
import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from instar.cli.check import Place, check
from instar.cli.context import Context
from instar.cli.door import door
from instar.cli.failure import Failure
from instar.cli.schema import KEYS, schema
from instar.cli.text import harmless, one_line
from instar.config import SECTIONS, Config, dotted, has_reference, kind_of
from instar.document import DocumentError, parse_jsonc, read_jsonc
from instar.secret import MASK, Secret, masked, redact
from instar.settings import Settings, read_settings
from instar.wire import Plain

_WIDEST: Final = 160
"""Characters of a value that are shown on its line; ``--json`` has all."""
_CONCATENATED: Final = ("plugin", "instructions")
_MASKED_MAPS: Final = ("headers", "environment")
"""Maps whose values may be keys, whatever they are called."""
_REFERENCE: Final = re.compile(r"\{(env|file):[^{}]*\}")
_USERINFO: Final = re.compile(r"://[^/@\s]*@")
"""The name and password in an address."""

_folder = click.option("--dir", "folder", metavar="PATH", help="The settings of this folder.")


class _Value(msgspec.Struct, frozen=True):
    """One setting as it may be shown: `origin` is where it was written, ``default`` if nowhere."""

    path: Place
    value: Any
    origin: str


@click.group()
def command() -> None:
    """Look at the settings of a folder: where each came from, what is wrong, the schema for editors."""


@command.command(short_help="Print the settings, each with where it was written.")
@click.argument("key", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object: config, origins, left_out.")
@_folder
@door
def show(context: Context, key: str | None, as_json: bool, folder: str | None) -> None:
    """Print the merged settings, or those under KEY (model, provider.mine), each with where it was written.

    Keys and the like are masked; what {env:} and {file:} brought is shown as the reference.
    """
    read = asyncio.run(_read(context, context.folder(folder)))
    found = [one for one in _values(read, context.environment) if _is_under(dotted(one.path), key)]
    if key and not found:
        left = [one for one in read.dropped if key in one]
        why = f"; left out, not trusted: {'; '.join(left)}" if left else _meant(key)
        raise Failure(f"{key} is not set{why}")
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(_plain(found, read.dropped))))
        return
    for one in found:
        text = msgspec.json.encode(one.value).decode()
        short = text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
        # An empty map came from nowhere in particular: layers only add to it.
        where = f"  ({one_line(one.origin)})" if one.origin else ""
        click.echo(f"{one_line(dotted(one.path))} = {harmless(short)}{where}")
    for sentence in read.dropped:
        click.echo(f"left out, not trusted: {one_line(sentence)}")


@command.command("check", short_help="Name every mistake with its place; exit code 2: there are.")
@_folder
@door
def checking(context: Context, folder: str | None) -> int:
    """Read every settings file, agent, command and skill; name each mistake with its place. Exit code 2: there are.

    A note says what does nothing, or most likely not what was meant. Nothing of the folder is run, and no plugin is
    loaded.
    """
    where = context.folder(folder)
    found = asyncio.run(check(context, where))
    for mistake in found.mistakes:
        click.echo(f"instar: {one_line(mistake)}", err=True)
    for note in found.notes:
        click.echo(f"note: {one_line(note)}", err=True)
    if found.read is None or found.mistakes:
        return 2
    count = len(found.read.layers)
    left = f"; {len(found.read.dropped)} left out, not trusted" if found.read.dropped else ""
    well = "no mistake" if found.notes else "all is well"
    click.echo(f"{well}: {count} source{'' if count == 1 else 's'} of settings for {where}{left}")
    return 0


@command.command("schema")
@door
def printing(context: Context) -> None:
    """Print the JSON Schema of a settings file, for editors ("$schema")."""
    click.echo(msgspec.json.format(msgspec.json.encode(schema())))


async def _read(context: Context, folder: Path) -> Settings:
    # Start-up time: `schema` and the help need neither children nor Markdown.
    from instar.definition import complete
    from instar.process import Processes
    from instar.project import discover

    processes = Processes()
    try:
        project = await discover(folder, processes)
    finally:
        await processes.close()
    read = read_settings(folder, project, context.paths, context.environment, {}, context.trust)
    return complete(read, project, context.paths, context.trust)[0]


def _is_under(place: str, key: str | None) -> bool:
    return not key or place == key or place.startswith(f"{key}.")


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


def _leaves(data: Any, path: Place) -> Iterator[tuple[Place, Any]]:
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

    def reference(self, origin: str, path: Place, value: Any) -> Any:
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
            try:
                self._files[origin] = self._parsed(origin)
            except (OSError, DocumentError):  # changed since it was read, or a folder
                self._files[origin] = None
        return self._files[origin]

    def _parsed(self, origin: str) -> Any:
        text = self._environment.get(origin.removeprefix("$"), "") if origin.startswith("$") else ""
        if text:
            return parse_jsonc(text, origin)
        return read_jsonc(Path(origin)) if origin.startswith("/") and not origin.endswith(".md") else None


def _redacted(value: Any, secrets: list[Secret]) -> Any:
    """`value` without the person's keys, wherever a reference of a variable's text put them."""
    if isinstance(value, str):
        return redact(_USERINFO.sub(f"://{MASK}@", value), secrets)
    if isinstance(value, list):
        return [_redacted(item, secrets) for item in value]
    if isinstance(value, dict):
        return {key: _redacted(item, secrets) for key, item in value.items()}
    return value


def _hidden(path: Place, value: Any) -> Any:
    """`value`, masked where a key on its way or inside it names a secret; a mere reference holds none."""
    if isinstance(value, str) and _REFERENCE.fullmatch(value):
        return value
    if path[0] in ("provider", "mcp") and any(name in _MASKED_MAPS for name in path[:-1]):
        return MASK if value else value
    return masked({str(path[-1]): value})[str(path[-1])]
