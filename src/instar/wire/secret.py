"""Values that must not be seen: a string type that prints as ``***``, and redaction by value."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from instar.wire.pattern import late_pattern

MASK: Final = "***"
_SHORTEST = 6
_MAPS: Final = ("headers", "environment")
"""Maps whose values may be keys, whatever they are called."""
_USERINFO: Final = late_pattern(r"://[^/@\s]*@")
"""The name and password in an address."""
_QUERY: Final = late_pattern(r"(?<=[?&])([\w.-]+)=([^&#\s]+)")
"""A field of an address's query."""
_WORD: Final = late_pattern(r"(-{1,2}[\w-]+=|[\w-]+: *)(.+)", re.ASCII)
"""A word of a command that holds a value: ``--token=…``, or a header as ``--header`` takes it."""


class Secret:
    """A string that every printing, formatting and encoding path shows as ``***``.

    `reveal` is the one way to the value; call it where the value leaves for its owner (a request
    header), nowhere else. Secrets compare equal by value and hash by value.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value itself."""
        return self._value

    def __bool__(self) -> bool:
        """Whether there is a value at all."""
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        """Equal by value, and only to another secret."""
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        """Hash by value."""
        return hash(self._value)

    def __repr__(self) -> str:
        """Return the mask."""
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        """Format the mask."""
        return format(MASK, spec)

    def __copy__(self) -> "Secret":
        """Return the secret itself, which never changes."""
        return self

    def __deepcopy__(self, memo: object) -> "Secret":
        """Return the secret itself: a deep copy of the configuration holds the same one."""
        return self

    def __reduce__(self) -> str:
        """Refuse to be pickled."""
        raise TypeError("a secret is not pickled")


def redact(text: str, secrets: Iterable[Secret]) -> str:
    """Return `text` with each secret's value replaced by ``***``.

    Values shorter than six characters are left: they would blank out ordinary words. Of two secrets
    that begin alike the longer one goes first, so that no tail of it stays.
    """
    for value in sorted({secret.reveal() for secret in secrets}, key=len, reverse=True):
        if len(value) >= _SHORTEST:
            text = text.replace(value, MASK)
    return text


def masked(value: Any) -> Any:
    """Return a detached copy of JSON-ready `value` in which what a key names as secret reads ``***``."""
    if isinstance(value, dict):
        return {key: MASK if _names_secret(key) and item else masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [masked(item) for item in value]
    return value


def disclosed(value: Any, secrets: Iterable[Secret] = ()) -> Any:
    """Return a copy of JSON-ready `value` that may leave the process.

    Beside what `masked` takes, it lacks the values of headers and variables, names, passwords and keys in addresses,
    keys among the words of a command, and `secrets` wherever they stand.
    """
    return _without(masked(value), list(secrets))


def _without(value: Any, secrets: list[Secret]) -> Any:
    if isinstance(value, str):
        return redact(_QUERY.sub(_field, _USERINFO.sub(f"://{MASK}@", value)), secrets)
    if isinstance(value, list | tuple):
        return [_without(item, secrets) for item in _words(value)]
    if isinstance(value, dict):
        return {
            key: dict.fromkeys(item, MASK)
            if key in _MAPS and isinstance(item, dict)
            else _without(item, secrets)
            for key, item in value.items()
        }
    return value


def _field(found: re.Match[str]) -> str:
    name = found[1]
    return f"{name}={MASK}" if name.lower() == "key" or _names_secret(name) else found[0]


def _words(given: Iterable[Any]) -> Iterator[Any]:
    """The items of a list, which may be a command's words: what follows ``--api-key`` is a key."""
    is_next = False
    for item in given:
        word = item if isinstance(item, str) else ""
        held = _WORD.fullmatch(word)
        if is_next and word:
            yield MASK
        elif held is not None and _names_secret(held[1].strip("-=: ")):
            yield held[1] + MASK
        else:
            yield item
        is_next = not is_next and word.startswith("-") and _names_secret(word)


def unmasked(value: Any, original: Any) -> Any:
    """Return `value`, which was made from ``masked(original)``, with the secrets that still read ``***`` put back."""
    if isinstance(value, dict) and isinstance(original, dict):
        return {key: unmasked(item, original.get(key)) for key, item in value.items()}
    if isinstance(value, list) and isinstance(original, list) and len(value) == len(original):
        return [unmasked(item, before) for item, before in zip(value, original, strict=True)]
    return original if value == MASK and original is not None else value


def secrets_in(value: Any) -> Iterator[Secret]:
    """Yield the texts of JSON-ready `value` that stand under a key that names a secret."""
    if isinstance(value, dict):
        for key, item in value.items():
            if _names_secret(key) and isinstance(item, str):
                yield Secret(item)
            else:
                yield from secrets_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from secrets_in(item)


def _names_secret(key: str) -> bool:
    bare = key.lower().replace("_", "").replace("-", "")
    return bare.endswith(
        ("apikey", "token", "secret", "password", "authorization", "accesskey", "privatekey")
    )
