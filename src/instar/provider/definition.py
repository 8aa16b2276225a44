"""What is made of a tool's definition for the model: once, and again only when the definition has changed."""

from collections.abc import Callable
from copy import deepcopy
from typing import Final, Generic, NamedTuple, TypeVar

from instar.provider.protocol import Piece, ToolSpec, piece

Made = TypeVar("Made")

_MOST: Final = 2048
"""Tools that are remembered; with one more, all are forgotten."""


class Shown(NamedTuple):
    """A definition as a provider is sent it, and what is booked of these bytes."""

    json: bytes
    piece: Piece

    @classmethod
    def of(cls, spec: ToolSpec, json: bytes) -> "Shown":
        """Return a definition with the bytes that were made of it."""
        return cls(json, piece(spec.name, json))


class Remembered(Generic[Made]):
    """A function of one definition that gives the same for the same, remembered by the tool's name.

    A step shows the model the tools of the step before, nearly always; to write and digest 13 of them anew takes
    0.11 ms of it, to look at them 0.02. What is remembered is held against the definition's content, since a plugin may
    change its tool in place.
    """

    def __init__(self, make: Callable[[ToolSpec], Made]) -> None:
        self._make = make
        self._known: dict[str, tuple[ToolSpec, Made]] = {}

    def __call__(self, spec: ToolSpec) -> Made:
        """Return what the function makes of a definition."""
        known = self._known.get(spec.name)
        if known is not None and known[0] == spec:
            return known[1]
        made = self._make(spec)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[spec.name] = (deepcopy(spec), made)
        return made
