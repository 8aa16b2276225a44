"""How the tool quotes names and values in its answers, and the refusals that it answers with.

The wording of the answers is that of nanobot's tool ``self`` where it has one; nanobot-self.md in
docs/reference/compatibility lists them. Secrets are masked before a value gets here.
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

SHOWN: Final = 2000
"""Characters of a value that is shown; the rest is cut, and its size is named."""
ANSWER: Final = 30_000
"""Characters of what a called method returned."""
ITEMS: Final = 20
"""Items of a map or a list that are shown."""
KEY: Final = 80
"""Characters of a key that are repeated in an answer."""
DESCRIPTION: Final = Path(__file__).with_name("self.md").read_text(encoding="utf-8").strip()
"""The description of the tool."""


class Refusal(Exception):
    """What is asked for is not done. The text is the sentence that the model reads; it never leaves the tool."""


class UnfitValue(Refusal):
    """A value cannot be set or kept. The text says why, without ``Error: ``, for the sentence of an action."""


class HiddenName(Refusal):
    """A path holds a name that no action may reach. The text is the name: each action has words of its own."""


class PathNotFound(Refusal):
    """Nothing is at `path`, for the reason `why`. `nearest` are paths like it that exist."""

    def __init__(self, path: str, why: str, nearest: Sequence[str] = ()) -> None:
        hint = f"; the nearest are {', '.join(map(repr, nearest))}" if nearest else ""
        super().__init__(f"Error: {quoted(path)} not found: {why}{hint}")


def cut(text: str, most: int = SHOWN) -> str:
    """Return a text of at most `most` characters; one that was cut says how long it is."""
    return text if len(text) <= most else f"{text[:most]}... (truncated: {len(text):,} characters)"


def quoted(name: str) -> str:
    """Return a name as answers quote it, cut to 80 characters."""
    return repr(name if len(name) <= KEY else f"{name[:KEY]}... ({len(name):,} characters)")


def value(given: Any) -> str:
    """Return a value as Python writes it; of a long map or list the first 20 items."""
    if not isinstance(given, dict | list) or len(given) <= ITEMS:
        return cut(repr(given))
    first = repr(given[:ITEMS] if isinstance(given, list) else dict(islice(given.items(), ITEMS)))
    return f"{cut(first[:-1])}, ...{first[-1]} ({len(given)} items)"


def only_tighter(path: str, old: Any) -> Refusal:
    """Return the refusal to loosen or reset a guard that is `old` now."""
    why = f"guards this runtime and may only be tightened (it is {value(old)})"
    return Refusal(f"Error: {quoted(path)} {why}")
