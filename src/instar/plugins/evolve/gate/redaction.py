"""Taking secrets out of what is recorded: by their values, and by the names of the keys they stand under.

Secrets are never recorded. What is secret, unknown to instar and stands under a harmless name is
not found.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from instar.plugin import sandbox

MASK: Final = "***"
_SHORTEST: Final = 6
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-.\s]+")
_PLAIN: Final = re.compile(r"[A-Za-z0-9]+")
_CODE: Final = re.compile(r"\\+u([0-9A-Fa-f]{4})")
_SHORT: Final = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}

Secrets = Callable[[], Iterable[str]]
"""Gives the values that are known to be secret, asked for each record."""


def redact(data: bytes, secrets: Iterable[str]) -> bytes | None:
    """Return JSON `data` with each of `secrets`, and what stands under a key that names one, as ``***``.

    Values are found in keys and texts, in whatever form JSON may write a character, also in JSON that stands
    inside a text. One shorter than six characters is left: it would blank out ordinary words. A number under such a
    key becomes 0, but for counts of tokens. Unchanged data is returned as it is; None for data that is not JSON.
    """
    known = _known(secrets)
    try:
        value = msgspec.json.decode(data)
        hidden = _hidden(value, known)
        return data if hidden is value else msgspec.json.encode(hidden)
    except (ValueError, RecursionError):
        return None


def names_secret(key: str) -> bool:
    """Whether a key names a secret, as a variable of that name would; ``apiKey`` and ``api-key`` are ``API_KEY``."""
    return sandbox.is_secret_name(_WORDS.sub("_", key))


class _Value(NamedTuple):
    """A secret, and the longest piece of it that JSON writes as it is or as \\uXXXX, never in another way."""

    text: str
    plain: str


def _known(secrets: Iterable[str]) -> list[_Value]:
    values = {value for value in secrets if len(value) >= _SHORTEST}
    # Of two that begin alike the longer goes first, so that no tail of it stays.
    ordered = sorted(values, key=lambda value: (-len(value), value))
    return [_Value(value, max(_PLAIN.findall(value), key=len, default="")) for value in ordered]


@lru_cache(maxsize=32)
def _compiled(values: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join("".join(map(_written, value)) for value in values))


def _written(character: str) -> str:
    r"""A pattern for one character: as it stands, after backslashes, or as \\uXXXX, at any depth of JSON in JSON."""
    units = character.encode("utf-16-be", "surrogatepass")
    escaped = "".join(rf"\\+u(?i:{units[at : at + 2].hex()})" for at in range(0, len(units), 2))
    ways = [re.escape(character), escaped]
    if character in _SHORT:
        ways.append(rf"\\+{_SHORT[character]}")
    if character in '"\\/':
        ways.append(rf"\\+{re.escape(character)}")
    return f"(?:{'|'.join(ways)})"


def _hidden(value: Any, known: Sequence[_Value]) -> Any:
    """The value without secrets; the very same object where there are none."""
    if isinstance(value, str):
        return _text(value, known)
    if isinstance(value, list):
        items = [_hidden(item, known) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        made = {_text(key, known): _under(key, item, known) for key, item in value.items()}
        same = all(new is old for new, old in zip(made.values(), value.values(), strict=False))
        return value if same and list(made) == list(value) else made
    return value


def _under(key: str, value: Any, known: Sequence[_Value]) -> Any:
    if not names_secret(key):
        return _hidden(value, known)
    if isinstance(value, str):
        return MASK if value else value
    if isinstance(value, list):
        return [_under(key, item, known) for item in value] if value else value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if "token" in key.lower() else 0
    return _hidden(value, known)


def _text(text: str, known: Sequence[_Value]) -> str:
    if "\\" not in text:
        for value in known:
            if value.text in text:
                text = text.replace(value.text, MASK)
        return text
    # The pattern of a secret is slow, and holds up every other thread: it runs only where its plain piece stands.
    decoded = _CODE.sub(lambda found: chr(int(found[1], 16)), text) if "\\u" in text else text
    there = tuple(value.text for value in known if value.plain in text or value.plain in decoded)
    return _compiled(there).sub(MASK, text) if there else text
