"""A setting of the wrong type: where it stands and what was expected there, in words."""

import difflib
import re
from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

Path = tuple[str | int, ...]
"""A place in the data: keys and list indexes from the top."""

_ACTIONS: Final = ("allow", "ask", "deny")


class ConfigError(Exception):
    """A setting of the wrong type: where it was written (`origin`), at what `path`, what was expected."""

    def __init__(self, origin: str, path: Path, message: str) -> None:
        super().__init__(f"{origin}: {dotted(path) or 'the whole document'}: {message}")
        self.origin = origin
        self.path = path
        self.message = message


def dotted(path: Path) -> str:
    """Return a place as people write it: ``agent.build.tools``."""
    return ".".join(str(part) for part in path)


def describe(value: Any) -> str:
    """Name the JSON type of `value`, not the value: it may be a key."""
    kinds = {str: "a string", int: "an integer", float: "a number", list: "a list", dict: "a map"}
    return "null" if value is None else "true or false" if isinstance(value, bool) else kinds[type(value)]


def check_keys(
    block: Mapping[str, Any],
    known: Iterable[str],
    path: Path,
    origin: str = "config",
    *,
    others: bool = False,
) -> None:
    """Raise `ConfigError` at the first key of a block that is not `known`.

    With `others`, a key that looks like no known one passes: a later opencode may read it.
    """
    names = list(known)
    for key in block:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            if others and not near:
                continue
            meant = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(names))}"
            raise ConfigError(origin, (*path, key), f"there is no such setting; {meant}")


def permission_fault(block: Any, path: Path, maps: int = 2) -> tuple[Path, str] | None:
    """Return the first place in a permission block that is no action; `maps` levels of maps may stand."""
    if block in _ACTIONS:
        return None
    if not isinstance(block, dict) or not maps:
        found = repr(block) if isinstance(block, str) else describe(block)
        return path, f"expected allow, ask or deny{' (or a map of them)' if maps else ''}, found {found}"
    faults = (permission_fault(value, (*path, key), maps - 1) for key, value in block.items())
    return next((fault for fault in faults if fault is not None), None)


def fault(value: Any, kind: Any, path: Path = ()) -> tuple[Path, str] | None:
    """Return the innermost place where `value` does not fit `kind`, and what was expected, if any."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        kind = _bare(kind)
        for key, child in _children(value, kind):
            found = fault(value[key], child, (*path, key))
            if found is not None:
                return found
        return path, _expected(value, kind, str(error))
    return None


def _bare(kind: Any) -> Any:
    """`kind` without its description and ``| None``."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        rest = [arm for arm in get_args(kind) if arm is not NoneType]
        return _bare(rest[0]) if len(rest) == 1 else kind
    return kind


def _children(value: Any, kind: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, list) and get_origin(kind) is list:
        return [(index, get_args(kind)[0]) for index in range(len(value))]
    if not isinstance(value, dict):
        return []
    if get_origin(kind) is dict:
        return [(key, get_args(kind)[1]) for key in value]
    fields = (
        msgspec.structs.fields(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else ()
    )
    return [(field.encode_name, field.type) for field in fields if field.encode_name in value]


_WORDS: Final = {"str": "a string", "int": "an integer", "float": "a number", "bool": "true or false"}
_WORDS_MORE: Final = {"object": "a map", "array": "a list", "null": "null"}


def _expected(value: Any, kind: Any, error: str) -> str:
    """What msgspec's text says about a place, in words; the value is shown only where it cannot be a key."""
    if get_origin(kind) is Literal and isinstance(value, str):
        return f"expected one of {', '.join(get_args(kind))}, found {value[:40]!r}"
    found = re.match(r"Expected `([^`]*)`( [<>=]+ \S+)?", error)
    if found is None:
        return error
    kinds = [{**_WORDS, **_WORDS_MORE}.get(name, name) for name in found[1].split(" | ") if name != "null"]
    number = f", found {value}" if found[2] else f", found {describe(value)}"
    return f"expected {' or '.join(kinds)}{found[2] or ''}{number}"
