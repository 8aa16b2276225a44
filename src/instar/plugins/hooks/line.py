"""Texts on one line of a terminal."""

import re
from pathlib import Path
from typing import Final

_UNSAFE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and characters that change how a text is displayed."""


def one_line(text: str, width: int = 400) -> str:
    """Return `text` on one line without control characters, cut to `width` characters."""
    plain = " ".join(_UNSAFE.sub(" ", text).split())
    return plain if len(plain) <= width else f"{plain[: width - 1]}…"


def near(place: str, directory: Path) -> str:
    """Return ``file:line:column`` relative to `directory`, if the file is below it."""
    return place.removeprefix(f"{directory}/")


def counted(count: int, noun: str) -> str:
    """Return ``1 rule`` or ``1,200 rules``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
