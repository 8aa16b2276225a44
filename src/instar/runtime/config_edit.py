"""Amendments of a settings file: what a client sets, put into the file with its comments and layout left alone.

As in opencode maps are joined and lists replaced; nothing is removed. All of it is written or nothing.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from instar.limits.budget import CallLimits
from instar.settings.config import Config
from instar.settings.load import SettingsSource, global_sources, layer_of
from instar.settings.paths import Paths
from instar.settings.trust import Trust
from instar.settings.untrusted import viewed
from instar.wire import Plain
from instar.wire.document import atomic_write, blanked, locked, parse_jsonc, read_text
from instar.wire.pattern import late_pattern
from instar.wire.secret import MASK, Secret, disclosed, secrets_in

if TYPE_CHECKING:
    from instar.settings.layer import Scope

NAMES: Final = ("config.json", "opencode.json", "opencode.jsonc", "instar.json", "instar.jsonc")
"""Files of settings that can be amended, lowest first."""
_NEW: Final = "instar.json"
_DECODER: Final = json.JSONDecoder()
_SPACE: Final = late_pattern(r"\s*")
_COMMA: Final = late_pattern(r"(?>\s+|//[^\n]*|/\*.*?\*/)*+,", re.DOTALL)
"""A comma that stands behind a map's last value."""
_LINE_END: Final = late_pattern(r"(?:[ \t]*(?://[^\n]*(?=\n)|/\*[^\n]*?\*/))*")
_INDENT: Final = 2


class MaskedValue(ValueError):
    """A list that holds ``***`` where a secret stood: nobody can tell which; the text names its place."""


class EditedFile(NamedTuple):
    """A file to amend, and the folder whose trust it needs (None: it is the person's own)."""

    path: Path
    owner: Path | None


def own_file(homes: tuple[Path, ...], home: Path) -> EditedFile:
    """Return the person's file that is heard last of those that are there, else a new one in the folder `home`."""
    return EditedFile(_last(homes) or home / _NEW, None)


def project_file(directory: Path) -> EditedFile:
    """Return the file of a directory that is heard last of those that are there, else a new one in it."""
    folders = (directory, directory / ".opencode", directory / ".instar")
    return EditedFile(_last(folders, NAMES[1:]) or directory / _NEW, directory)


def own_settings(paths: Paths, environment: Mapping[str, str], trust: Trust) -> Plain:
    """Return what the person's own files say, merged. Raises what reading settings raises."""
    layers = [layer_of(source, environment, trust) for source in global_sources(paths)]
    return dict(viewed(layers)[0].data)


def amend(
    place: EditedFile,
    changes: Plain,
    environment: Mapping[str, str],
    trust: Trust,
    secrets: Iterable[Secret] = (),
) -> Plain:
    """Put `changes` into a settings file and return what it then holds.

    What a client was shown masked (``***``, without `secrets`), and sends back, stays as it is.

    Raises `DocumentError` and `ConfigError` where the file has a mistake or would have one, with its place,
    `LimitsError` for limits of no use, `MaskedValue`, and `OSError`; nothing is written then.
    """
    with locked(place.path.parent):
        text = _text(place.path)
        before = _layer(place, text, environment, trust)
        wanted = _news(changes, before, disclosed(before, [*secrets, *secrets_in(before)]), ())
        if not wanted:
            return before
        made = amended(text, wanted)
        after = _layer(place, made, environment, trust)
        new = not place.path.exists()
        atomic_write(place.path, made.encode(), 0o600 if new else None)
        return after


def amended(text: str, changes: Plain) -> str:
    """Return the text of a JSONC map with `changes` in it: maps joined, all else replaced.

    Comments, order and layout stay; a new key stands last in its map. Raises `DocumentError` for a text with a mistake.
    """
    text = text if text.strip() else "{}\n"
    if not isinstance(parse_jsonc(text, "the settings"), dict):
        text = "{}\n"
    plain = blanked(text, "the settings")
    edits = _edits(text, plain, _skip(plain, 0), changes, _INDENT)
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


class _Member(NamedTuple):
    """Where a map's value begins and ends."""

    start: int
    end: int


class _Map(NamedTuple):
    """The members of a map by key, and where its closing bracket stands."""

    members: dict[str, _Member]
    close: int


def _edits(text: str, plain: str, at: int, changes: Plain, indent: int) -> Iterator[tuple[int, int, str]]:
    """Yield what to put in place of which part of `text`, for the map that starts at `at`; `plain` has no comments."""
    found = _map(plain, at)
    added: Plain = {}
    for key, value in changes.items():
        member = found.members.get(key)
        if member is None:
            added[key] = value
        elif isinstance(value, dict) and plain[member.start] == "{":
            yield from _edits(text, plain, member.start, value, indent + _INDENT)
        else:
            yield member.start, member.end, _written(value, indent)
    if added:
        lines = [
            f"{' ' * indent}{json.dumps(key, ensure_ascii=False)}: {_written(value, indent)}"
            for key, value in added.items()
        ]
        yield from _additions(text, at, found, "\n" + ",\n".join(lines), indent)


def _additions(text: str, at: int, found: _Map, new: str, indent: int) -> Iterator[tuple[int, int, str]]:
    """Yield how the members `new` come into a map as its last ones."""
    closing = "\n" + " " * (indent - _INDENT)
    if not found.members:
        yield at + 1, at + 1, new + ("" if "\n" in text[at : found.close] else closing)
        return
    end = max(member.end for member in found.members.values())
    comma = _COMMA.match(text, end, found.close)
    comma_end = end if comma is None else comma.end()
    # A comment behind the last value, on its line, belongs to that value.
    after = comma_end + len(_LINE_END.match(text, comma_end, found.close)[0])  # type: ignore[index]
    if "\n" not in text[after : found.close]:
        new += closing
    if comma is not None:
        yield after, after, new
    elif after == end:
        yield end, end, "," + new
    else:
        yield end, end, ","
        yield after, after, new


def _map(plain: str, at: int) -> _Map:
    """Read a map that starts at `at`; of a key that stands twice the last one counts."""
    members: dict[str, _Member] = {}
    at = _skip(plain, at + 1)
    while plain[at] != "}":
        key, at = _DECODER.raw_decode(plain, at)
        start = _skip(plain, _skip(plain, at) + 1)
        _, end = _DECODER.raw_decode(plain, start)
        members[key] = _Member(start, end)
        at = _skip(plain, end)
        at = _skip(plain, at + 1) if plain[at] == "," else at
    return _Map(members, at)


def _skip(plain: str, at: int) -> int:
    found = _SPACE.match(plain, at)
    return found.end() if found else at


def _written(value: Any, indent: int) -> str:
    text = json.dumps(value, indent=_INDENT, ensure_ascii=False)
    return text.replace("\n", "\n" + " " * indent)


def _news(changes: Plain, before: Any, shown: Any, path: tuple[str, ...]) -> Plain:
    """What of `changes` is news to who was shown the file as `shown`."""
    before, shown = (value if isinstance(value, dict) else {} for value in (before, shown))
    found: Plain = {}
    for key, value in changes.items():
        if isinstance(value, dict):
            inner = _news(value, before.get(key), shown.get(key), (*path, key))
            if inner or (not value and key not in before):
                found[key] = inner
        elif key in before and value in (before[key], shown.get(key)) and type(value) is type(before[key]):
            continue
        elif not _holds_mask(value):
            found[key] = value
        elif isinstance(value, list):
            place = ".".join((*path, key))
            raise MaskedValue(
                f"{place}: {MASK} stands for a secret here; send the secret, or leave {key} out"
            )
    return found


def _holds_mask(value: Any) -> bool:
    if isinstance(value, str):
        return MASK in value
    if isinstance(value, dict):
        return any(map(_holds_mask, value.values()))
    return isinstance(value, list) and any(map(_holds_mask, value))


def _layer(place: EditedFile, text: str, environment: Mapping[str, str], trust: Trust) -> Plain:
    """What a file says that holds `text`, as instar reads it. Raises what reading settings raises."""
    scope: Scope = "global" if place.owner is None else "project"
    source = SettingsSource(str(place.path), scope, text, place.path.parent, place.owner)
    data = layer_of(source, environment, trust).data
    config = Config.from_data(data, source.origin)
    CallLimits.of(config.limits, config.max_iterations)
    return data


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except FileNotFoundError:
        return ""


def _last(folders: tuple[Path, ...], names: tuple[str, ...] = NAMES) -> Path | None:
    found = [folder / name for folder in folders for name in names if (folder / name).is_file()]
    return found[-1] if found else None
