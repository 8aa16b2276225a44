"""What a terminal has printed, for clients that come later and for those that read slowly.

Places in it are counted as opencode's clients count them: in UTF-16 code units from the terminal's beginning.
"""

from typing import Final

LIMIT: Final = 2 * 1024 * 1024
"""Units that are kept, as in opencode; what is older is let go of."""
_UNIT: Final = 2
_HIGH: Final = range(0xD8, 0xDC)
"""The upper byte of the first half of a pair of units that are one character."""


class Lost(Exception):
    """What was printed at a place is not kept any more."""


class Scrollback:
    """The newest `limit` units of what was printed: from the place `start` to the place `end`."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.start = 0
        self._limit = limit
        self._kept = bytearray()

    @property
    def end(self) -> int:
        """The place behind what was printed last."""
        return self.start + len(self._kept) // _UNIT

    def add(self, text: str) -> None:
        """Take what was printed."""
        self._kept += text.encode("utf-16-le", "replace")
        over = len(self._kept) - self._limit * _UNIT
        if over > 0:
            del self._kept[:over]
            self.start += over // _UNIT

    def after(self, place: int, most: int) -> tuple[str, int]:
        """Return what stands from `place` on, at most `most` units (2 or more), and the place behind it.

        No character is cut at its end; where one is cut at the beginning, U+FFFD stands for the rest of it. Raises
        `Lost` for a place before `start`; a place behind `end` is taken for `end`.
        """
        if place < self.start:
            raise Lost(f"what was printed before {self.start} is not kept")
        place = min(place, self.end)
        first = (place - self.start) * _UNIT
        piece = bytes(self._kept[first : first + most * _UNIT])
        if len(piece) == most * _UNIT and piece[-1] in _HIGH:
            piece = piece[:-_UNIT]
        return piece.decode("utf-16-le", "replace"), place + len(piece) // _UNIT
