"""Values that must not be seen: a string type that prints as ``***``, and redaction by value."""

from collections.abc import Iterable
from typing import Any, Final

MASK: Final = "***"
_SHORTEST = 6


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


def unmasked(value: Any, original: Any) -> Any:
    """Return `value`, which was made from ``masked(original)``, with the secrets that still read ``***`` put back."""
    if isinstance(value, dict) and isinstance(original, dict):
        return {key: unmasked(item, original.get(key)) for key, item in value.items()}
    if isinstance(value, list) and isinstance(original, list) and len(value) == len(original):
        return [unmasked(item, before) for item, before in zip(value, original, strict=True)]
    return original if value == MASK and original is not None else value


def _names_secret(key: str) -> bool:
    bare = key.lower().replace("_", "").replace("-", "")
    return bare.endswith(
        ("apikey", "token", "secret", "password", "authorization", "accesskey", "privatekey")
    )
