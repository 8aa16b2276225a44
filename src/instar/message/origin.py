"""Where a prompt comes from: who spoke first, and what made the session go on (issue 7, item 8)."""

from typing import Final

import msgspec

PERSON: Final = "person"
"""The name of the origin of what a person asked for."""


class Origin(msgspec.Struct, frozen=True):
    """The root of a chain of model calls, and how far from it a message stands.

    `name` is ``person``, ``heartbeat``, ``action``, ``plugin`` …, `id` which one (``heartbeat`` ``12``). `source`
    says what made the session go on just now (``evolve.idle``, ``compaction`` …; empty for a direct prompt) and
    `depth` how often the chain went on by actions.
    """

    name: str = PERSON
    id: str = ""
    source: str = ""
    depth: int = 0

    @property
    def is_person(self) -> bool:
        """Whether a person asked for this very message: nothing made the session go on by itself."""
        return self.name == PERSON and not self.source

    @property
    def chain(self) -> str:
        """The chain's name and id as one text: ``heartbeat:12``."""
        return f"{self.name}:{self.id}"

    def by(self, source: str) -> "Origin":
        """Return the same chain, gone on because of `source`; a person's own queued prompt stays theirs."""
        return msgspec.structs.replace(self, source="" if source == PERSON else source)
