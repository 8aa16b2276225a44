"""A scripted model's script as it was read: its sections, and what each of them does."""

import re
from typing import Final

import msgspec

from instar.wire import Plain

PURPOSES: Final = ("title", "compaction", "generate")
"""Model calls that are not a session's turn; each has a section of its own name."""
FAILURES: Final = ("api", "auth", "overflow", "filter", "network")


class ScriptError(ValueError):
    """A mistake in a script; the text begins with ``file:line:``."""


class Say(msgspec.Struct, frozen=True):
    """Text, or thinking."""

    text: str
    reasoning: bool = False


class Ask(msgspec.Struct, frozen=True):
    """A tool call: its arguments, or their `raw` text as it stands."""

    name: str
    arguments: Plain
    raw: str | None = None


class Pause(msgspec.Struct, frozen=True):
    """Silence, in seconds."""

    seconds: float


class Fail(msgspec.Struct, frozen=True):
    """A failed call, the first `times` times that the section is played; None is every time."""

    message: str
    line: int
    kind: str | None = None
    status: int | None = None
    retry_after: float | None = None
    times: int | None = None


class Expect(msgspec.Struct, frozen=True):
    """What the model must have been sent; `of` is the key of the line: ``expect``, ``expect_not`` …"""

    of: str
    pattern: re.Pattern[str]
    line: int


Item = Say | Ask | Pause | Fail | Expect


class Section(msgspec.Struct):
    """One answer: what it does in order, and how. `when` makes it a rule; `once` lets it answer once."""

    line: int
    items: list[Item] = []
    when: re.Pattern[str] | None = None
    once: bool = False
    usage: dict[str, int] | None = None
    finish: str | None = None
    chunk: int = 0
    pace: float = 0.0

    @property
    def answers(self) -> bool:
        """Whether the section says or asks anything, and does not only fail."""
        return any(isinstance(item, Say | Ask) for item in self.items)


class Script(msgspec.Struct):
    """A read script: `turns` in order, `rules` that answer when they match, and `purposes`' sections."""

    source: str
    turns: list[Section] = []
    rules: list[Section] = []
    purposes: dict[str, list[Section]] = {}
