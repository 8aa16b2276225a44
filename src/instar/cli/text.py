"""Text that is printed: what a model, a file or a tool brought must not command the terminal."""

import re
from typing import Final

_CONTROL: Final = re.compile(r"\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """Return `text` without the characters that would command a terminal, line feeds and tabs kept.

    A model, a file or a tool may print escape sequences or reverse the direction of the text.
    """
    return _CONTROL.sub(lambda found: "\n" if found[0] == "\r\n" else "", text)


def one_line(text: str) -> str:
    """Return `text` as one harmless line: line breaks and runs of white space become single spaces."""
    return " ".join(harmless(text).split())
