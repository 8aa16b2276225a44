"""Dot-paths: the names that a key is made of, and where they lead in plain data (seed 001)."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final

from instar.plugins.self import blocked, words
from instar.plugins.self.refusal import Hidden, Missing, Refusal

LONGEST: Final = 256
"""Characters of a path."""
MOST: Final = 16
"""Names of a path."""
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
"""A name of the tree, and of a runtime variable."""
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,5}", re.ASCII)

Names = tuple[str, ...]


def text(argument: str, given: Any) -> str:
    """Return an argument that must be a text with something in it. Raises `Refusal`."""
    if given is None:
        raise Refusal(words.blank(argument))
    if type(given) is not str:
        raise Refusal(words.no_text(argument, given))
    if not blocked.folded(given):
        raise Refusal(words.blank(argument))
    return given


def parse(argument: str, given: Any) -> Names:
    """Return the names of a path. Raises `Refusal` for what is none."""
    written = text(argument, given)
    if len(written) > LONGEST:
        raise Missing(words.missing(written, f"a path has {LONGEST} characters at most"))
    names = tuple(written.split("."))
    if len(names) > MOST:
        raise Missing(words.missing(written, f"a path has {MOST} names at most"))
    if not all(names):
        raise Missing(words.missing(written, "one of its names is empty"))
    if not is_plain(written):
        # A name that only looks like a blocked one is refused as that one is.
        if (hidden := blocked.first(names)) is not None:
            raise Hidden(hidden, words.hidden(hidden))
        raise Missing(words.missing(written, "it holds characters that names cannot have"))
    return names


def is_plain(written: str) -> bool:
    """Whether a text is what it looks like: printable, and its own compatibility form."""
    return written.isprintable() and unicodedata.normalize("NFKC", written) == written


def inside(data: Any, names: Sequence[str]) -> Any:
    """Return what stands in plain data under `names`, keys of maps and indexes of lists.

    Raises `KeyError` with a reason.
    """
    for name in names:
        if type(data) is dict:
            if name not in data:
                raise KeyError(f"there is no {words.key(name)} among {len(data)} keys")
            data = data[name]
        elif type(data) is list:
            data = data[_index(data, name)]
        else:
            raise KeyError(f"a value of type {type(data).__name__} holds no {words.key(name)}")
    return data


def replaced(data: Any, names: Sequence[str], new: Any) -> Any:
    """Return plain data with `new` in place of what stands under `names`; the rest is shared.

    A map may get a new key, a list no new index. Raises `KeyError` with a reason.
    """
    if not names:
        return new
    name, rest = names[0], names[1:]
    if type(data) is dict:
        if rest and name not in data:
            raise KeyError(f"there is no {words.key(name)} among {len(data)} keys")
        return {**data, name: replaced(data.get(name), rest, new)}
    if type(data) is list:
        index = _index(data, name)
        return [*data[:index], replaced(data[index], rest, new), *data[index + 1 :]]
    raise KeyError(f"a value of type {type(data).__name__} holds no {words.key(name)}")


def _index(data: list[Any], name: str) -> int:
    if not _INDEX.fullmatch(name) or int(name) >= len(data):
        raise KeyError(f"there is no {words.key(name)} in a list of {len(data)}")
    return int(name)
