"""Dot-paths: how a key is read, which names are refused, and what a path leads to in plain data.

The refused names are those that nanobot's tool ``self`` blocks, and Python's own. None of them is in the tree; they are
listed so that the answer is nanobot's refusal instead of "not found".
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from instar.plugins.self.messages import HiddenName, PathNotFound, Refusal, quoted

LONGEST: Final = 256
"""Characters of a path."""
MOST: Final = 16
"""Names of a path."""
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
"""A name of the tree, and of a runtime variable."""
BLOCKED: Final = frozenset(
    (
        *("bus", "provider", "_running", "_config_defaults", "_runtime_vars", "_config_snapshots"),
        *("_unregistered_tools", "_critical_tool_backup"),
    )
)
"""What nanobot blocks: what corrupts messages or model calls, ends the loop, or belongs to the tool."""
DENIED: Final = frozenset(("func_globals", "func_code"))
"""Python's own names that do not begin with two underscores."""
ITSELF: Final = "self"
"""The tool that cannot be unregistered: nothing could register it again."""
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,5}", re.ASCII)

Names = tuple[str, ...]


def is_denied(name: str) -> bool:
    """Return whether a name is Python's own, however it is written."""
    bare = folded(name)
    return bare.startswith("__") or bare in DENIED


def is_blocked(name: str) -> bool:
    """Return whether a name is refused, however it is written."""
    return is_denied(name) or folded(name) in BLOCKED


def first(names: Iterable[str], is_refused: Callable[[str], bool] = is_blocked) -> str | None:
    """Return the first of the names that is refused."""
    return next((name for name in names if is_refused(name)), None)


def folded(name: str) -> str:
    """Return a name without differences that only show: width, case, blanks and characters that do not print."""
    text = unicodedata.normalize("NFKC", name)
    return "".join(
        one for one in text if unicodedata.category(one) not in ("Cf", "Cc", "Zs", "Mn")
    ).casefold()


def text(argument: str, given: str | None) -> str:
    """Return an argument that must have something in it. Raises `Refusal`."""
    if given is None or not folded(given):
        raise Refusal(f"Error: {argument!r} cannot be empty or whitespace")
    return given


def parse(argument: str, given: str | None) -> Names:
    """Return the names of a path. Raises `Refusal` for anything else."""
    written = text(argument, given)
    if len(written) > LONGEST:
        raise PathNotFound(written, f"a path has {LONGEST} characters at most")
    names = tuple(written.split("."))
    if len(names) > MOST:
        raise PathNotFound(written, f"a path has {MOST} names at most")
    if not all(names):
        raise PathNotFound(written, "one of its names is empty")
    if not is_plain(written):
        # A name that only looks like a blocked one is refused like that one.
        if (hidden := first(names)) is not None:
            raise HiddenName(hidden)
        raise PathNotFound(written, "it holds characters that names cannot have")
    return names


def is_plain(written: str) -> bool:
    """Return whether a text is printable and its own compatibility form."""
    return written.isprintable() and unicodedata.normalize("NFKC", written) == written


def inside(path: str, data: Any, names: Sequence[str]) -> Any:
    """Return what is in plain data under `names`, keys of maps and indexes of lists.

    Raises `PathNotFound`, which names the whole `path`.
    """
    for name in names:
        data = data[_place(path, data, name)]
    return data


def replaced(path: str, data: Any, names: Sequence[str], new: Any) -> Any:
    """Return plain data with `new` in place of what is under `names`; the rest is shared.

    A map may get a new key, a list no new index. Raises `PathNotFound`, which names the whole `path`.
    """
    if not names:
        return new
    name, rest = names[0], names[1:]
    if type(data) is dict and not rest:
        return {**data, name: new}
    place = _place(path, data, name)
    copy = data.copy()
    copy[place] = replaced(path, data[place], rest, new)
    return copy


def _place(path: str, data: Any, name: str) -> Any:
    """Return the key or the index that a name is in a map or a list."""
    if type(data) is dict:
        if name not in data:
            raise PathNotFound(path, f"there is no {quoted(name)} among {len(data)} keys")
        return name
    if type(data) is not list:
        raise PathNotFound(path, f"a value of type {type(data).__name__} holds no {quoted(name)}")
    if not _INDEX.fullmatch(name) or int(name) >= len(data):
        raise PathNotFound(path, f"there is no {quoted(name)} in a list of {len(data)}")
    return int(name)
