"""The prefix of a session's requests: what a provider's cache can serve of it, and what broke it.

Providers charge a tenth for the input tokens that stand, byte for byte, at the beginning of an earlier request
(docs/concepts/caching.md). So each request of a session should begin with all of the one before: its tools, its
system prompt, its messages. Where one does not, a `Break` is booked: which block changed first, and who changed it.
`breaks` reads them back; ``instar stats`` shows the plugins among them.

How a request is compared: `Sent` gives the digests of its pieces. The last request's pieces are kept in memory, so
that comparing a history of 2,000 messages takes a fraction of a millisecond; a `Note` of them is kept durably, so
that the first request after a restart is compared too. This module only compares; `turn/prompt_cache.py` finds out
which plugin changed what.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final, Literal, TypeVar

import msgspec

from instar.provider.protocol import DIGEST, PromptPiece
from instar.store import PruneValues, PutValue, Write
from instar.store.store import Store
from instar.wire import ids

T = TypeVar("T")

OWNER: Final = "instar"
"""Under whose name the notes and the breaks stand in the store."""
_NOTE, _BREAK = "prefix:", "cache-break:"

MOST: Final = 1000
"""Breaks that are kept, the newest of all sessions; those of deleted sessions too, as what they cost is."""

Block = Literal["model", "tools", "system", "options", "messages"]
"""What changed first, in the order in which a cache compares. `options`: parameters that are part of it."""
Cause = Literal["model", "agent", "prompt", "compaction", "history", "settings", "plugin"]
"""Who changed it: another model or agent was asked for; a prompt's own ``system``, ``tools``, ``format`` or
variant; a summary or cleared outputs; a history that was edited or reverted; settings, agents or skills; a plugin."""
Stage = tuple[str, str]
"""A plugin, or "" for the core, and the mark of what it left."""


class Break(msgspec.Struct, frozen=True):
    """One request that did not begin with the one before it.

    `created` is in ms; `place` is the tool's name, or the message's id and number; `lost` are the bytes that were
    sent again and could have come from the cache, had nothing changed.
    """

    session_id: str
    created: int
    block: Block
    cause: Cause
    plugin: str = ""
    place: str = ""
    lost: int = 0

    @property
    def is_asked(self) -> bool:
        """Whether a person, their settings or a summary wanted the change; a plugin's is nobody's wish."""
        return self.cause != "plugin"


class ToolMark(msgspec.Struct, frozen=True, array_like=True):
    """A tool that was offered: whose it is, the mark of what was sent, and of what it was before hooks."""

    name: str
    owner: str
    sent: str
    own: str


class Head(msgspec.Struct, frozen=True):
    """What a request had before its messages, and who had a hand in it.

    `asked` marks what its prompt itself asks for; `start` is the message of the summary that it begins with.
    """

    model: str
    agent: str
    asked: str
    tools: list[ToolMark]
    defined: list[Stage]
    system: list[Stage]
    options: list[Stage]
    start: str = ""


class Note(msgspec.Struct, frozen=True):
    """The last request of a session as it is kept durably.

    `chain` marks all messages together; `bytes` has one byte of each message's digest, in base64: enough to say
    which was the first to change.
    """

    head: Head
    created: int
    count: int
    chain: str
    bytes: str


class Prefix(msgspec.Struct, frozen=True):
    """The last request of a session in memory.

    `stages`: what each hook on the messages left, message by message; `characters` and `texts`: how long the
    system prompt, and the texts of the messages, were after the core ("") and after each plugin.
    """

    head: Head
    created: int
    pieces: list[PromptPiece]
    stages: list[tuple[str, list[int]]]
    characters: list[tuple[str, int]] = []
    texts: list[tuple[str, int]] = []
    digests: bytes = b""
    """Those of the pieces in one, where they were at hand."""

    def note(self) -> Note:
        """Return what is kept durably."""
        digests = self.digests or _digests(self.pieces)
        first = b64encode(digests[::DIGEST]).decode()
        return Note(self.head, self.created, len(self.pieces), mark(digests), first)


def mark(data: bytes) -> str:
    """Return a short digest of these bytes."""
    return blake2b(data, digest_size=8).hexdigest()


def chain(pieces: Sequence[PromptPiece]) -> str:
    """Return a digest of all pieces in their order."""
    return mark(_digests(pieces))


def _digests(pieces: Sequence[PromptPiece]) -> bytes:
    return b"".join([piece.digest for piece in pieces])


def parted(before: Prefix | Note, now: Sequence[PromptPiece]) -> int | None:
    """Return the index of the first message that changed; None when none did.

    The number of messages now, where there are fewer and those are as they were.
    """
    if isinstance(before, Note):
        return _parted_from_note(before, now)
    was = before.pieces
    if now[: len(was)] == was:
        return None
    return next((at for at, (old, new) in enumerate(zip(was, now, strict=False)) if old != new), len(now))


def _parted_from_note(note: Note, now: Sequence[PromptPiece]) -> int | None:
    if len(now) >= note.count and chain(now[: note.count]) == note.chain:
        return None
    was = b64decode(note.bytes)
    pairs = enumerate(zip(was, now, strict=False))
    return next((at for at, (old, new) in pairs if old != new.digest[0]), min(note.count, len(now)))


def parted_stage(before: Sequence[Stage], now: Sequence[Stage]) -> str:
    """Return the first plugin of which something else is there than before; "" when that is the core, or nobody."""
    for (was, left), (name, leaves) in zip(before, now, strict=False):
        if was != name:
            return was if was and was not in {plugin for plugin, _ in now} else name or was
        if left != leaves:
            return name
    longer = before if len(before) > len(now) else now
    return longer[min(len(before), len(now))][0] if len(before) != len(now) else ""


def parted_tool(before: Sequence[ToolMark], now: Sequence[ToolMark]) -> tuple[ToolMark, bool]:
    """Return the first tool that came, went or changed, and whether it was changed by hooks alone."""
    was, are = {tool.name: tool for tool in before}, {tool.name: tool for tool in now}
    for tool in [*now, *before]:
        if tool.name not in was or tool.name not in are:
            return tool, False
    for old, new in zip(before, now, strict=True):
        if old != new:
            return new, old.name == new.name and (old.own, old.owner) == (new.own, new.owner)
    return now[0], False


async def read_note(store: Store, session_id: str) -> Note | None:
    """Return what is kept of a session's last request; None where nothing is, or nothing that can be read."""
    return _converted(await store.value(OWNER, _NOTE + session_id), Note)


def writes(session_id: str, prefix: Prefix, broken: Break | None) -> list[Write]:
    """Return what is to be written of a request: the note, and what broke."""
    note = PutValue(OWNER, _NOTE + session_id, msgspec.to_builtins(prefix.note()))
    if broken is None:
        return [note]
    kept = PutValue(OWNER, _BREAK + ids.new("evt"), msgspec.to_builtins(broken))
    return [note, kept, PruneValues(OWNER, _BREAK, MOST)]


async def breaks(store: Store, since: int = 0, session_id: str | None = None) -> list[Break]:
    """Return the breaks from `since` (ms) on, of one session or all, oldest first."""
    kept = await store.values(OWNER, _BREAK)
    found = [broken for key in sorted(kept) if (broken := _converted(kept[key], Break)) is not None]
    return [one for one in found if one.created >= since and session_id in (None, one.session_id)]


def _converted(value: Any, kind: type[T]) -> T | None:
    # What another version wrote is no reason to fail: the next request is compared with this one.
    try:
        return None if value is None else msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None
