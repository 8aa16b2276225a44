"""What waits for a person: candidates that would reach more than their live version.

They are kept outside the workspace, where nothing that runs for the model can write. A person
decides on exactly what they were shown: an entry's digest covers the file, its new text, the live
version that it was judged against and each sentence of what it raises, and an id is never of two of them.
"""

import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from sqlite3 import Connection
from typing import Any, Final, TypeVar

import msgspec

from instar.plugins.evolve.database import Database
from instar.plugins.evolve.history.trailers import ends, escaped

T = TypeVar("T")

MOST: Final = 32
"""Entries that wait, and rejected ones that are remembered."""
LARGEST: Final = 4 << 20
"""Bytes of one entry as it is written. Nothing that a person decides on is cut."""
_ALL: Final = "SELECT id, value FROM pending ORDER BY time, id"
_ONE: Final = "SELECT id, value FROM pending WHERE id = ?"
_PUT: Final = "INSERT INTO pending VALUES (?, ?, NULL, ?)"
_DECIDE: Final = "UPDATE pending SET rejected = ?, value = ? WHERE id = ?"
_DELETE: Final = "DELETE FROM pending WHERE id = ?"
_FORGET: Final = """DELETE FROM pending WHERE id IN
  (SELECT id FROM pending WHERE rejected IS NOT NULL ORDER BY rejected DESC LIMIT -1 OFFSET ?)"""


class NotPending(Exception):
    """What cannot wait, or does not, or cannot be decided; the text says why and what to do."""


class Cause(msgspec.Struct, frozen=True):
    """What led to a candidate: ids of session and tool call, the tool's name, the agent's, the message's id."""

    session: str | None = None
    call: str | None = None
    tool: str | None = None
    agent: str | None = None
    message: str | None = None


class Proposal(msgspec.Struct, frozen=True):
    """A candidate that passed its trials and would reach more.

    `file` is its path in the workspace and `base` git's id of the live version that it was judged against,
    "" for a new file; `also` are new texts of files that go with it, by path. `raised` is what
    `authority.raises` said, and before it a sentence on each eval that is `undecided`. `diff`, `test`, `replay` and
    `score` are texts for a person; `prediction` is as the model gave it.
    `takes_back` is the commit that approving takes back, "" for a change that is new: then `content` and `also` are the
    texts of before it, "" where no file was, and the first of `raised` says why it is proposed.
    """

    file: str
    base: str
    content: str
    raised: tuple[str, ...]
    cause: Cause = Cause()
    also: dict[str, str] = {}
    diff: str = ""
    test: str = ""
    replay: str = ""
    prediction: Any = None
    takes_back: str = ""
    undecided: tuple[str, ...] = ()
    score: str = ""

    @property
    def would(self) -> str:
        """What it would do that a person decides on, before the sentences of `raised`."""
        if self.takes_back:
            return f"would take back {self.takes_back[:12]} and what the agent changed there since"
        return "has to be allowed by a person" if self.undecided else "would reach more"


class Decision(msgspec.Struct, frozen=True):
    """What a person said about the entry of this digest; `time` in ms since 1970."""

    approved: bool
    by: str
    time: int
    digest: str


class PendingEntry(msgspec.Struct, frozen=True):
    """A proposal that waits, or that a person rejected; `time` in ms since 1970."""

    id: str
    digest: str
    time: int
    proposal: Proposal
    decision: Decision | None = None

    @property
    def state(self) -> str:
        """One of ``waiting`` and ``rejected``."""
        return "waiting" if self.decision is None or self.decision.approved else "rejected"

    def stale(self, live: str) -> str | None:
        """Return why it must be judged again, when `live`, git's id of the live version ("": no file), is another."""
        if live == self.proposal.base:
            return None
        return (
            f"{self.id} is out of date: {self.proposal.file} changed since. Reject it; "
            "the agent may propose it again"
        )

    def text(self) -> str:
        """Return all that a person must see to decide, as text in which nothing hides or moves the cursor."""
        asked = self.proposal
        cause = [f"{name} {value}" for name, value in msgspec.structs.asdict(asked.cause).items() if value]
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.time / 1000))
        lines = [f"{self.id}  {asked.file}  {self.state}  {when}"]
        lines += [f"proposed by: {', '.join(cause)}"] if cause else []
        if self.decision:
            lines.append(f"{self.state} by {self.decision.by}")
        head = "a person has to allow:" if asked.undecided else f"it {asked.would}:"
        lines += [head, *(f"- {sentence}" for sentence in asked.raised)]
        if asked.prediction is not None:
            lines.append(f"it predicts: {msgspec.json.encode(asked.prediction).decode()}")
        said = [escaped(line.replace("\n", " ")) for line in lines]
        parts = [("diff", asked.diff), ("test", asked.test), ("replay", asked.replay), ("score", asked.score)]
        also = "file" if asked.takes_back else "new file"
        parts += [(f"{also} {path}", text) for path, text in sorted(asked.also.items())]
        return "\n".join([*said, *(f"\n{escaped(name)}:\n{escaped(text)}" for name, text in parts if text)])

    def is_of(self, proposal: Proposal) -> bool:
        """Whether what a person says of it is said of just this: this file, text and base, with these sentences."""
        return self.digest == digest(proposal)


class Listing(msgspec.Struct, frozen=True):
    """All entries, the oldest first, and a sentence on each that could not be read.

    `stale`: ids of those whose file changed since, so that they cannot be approved.
    """

    entries: list[PendingEntry]
    problems: list[str]
    stale: list[str] = []


class Pending:
    """The entries of one workspace. Any process may use them.

    At most `most` wait, and of rejected ones the newest `most` are kept, so that the same
    candidate is answered at once when it comes again. Methods raise `NotPending` where
    they cannot be read or written.
    """

    def __init__(self, database: Database, most: int = MOST) -> None:
        self._database = database
        self._most = most

    def put(self, proposal: Proposal) -> PendingEntry:
        """Let a proposal wait and return its entry: the one that there is, decided or not, if it is the same.

        It takes the place of one with the same new text that was judged otherwise and not rejected, and of all that
        cannot be read. Raises `NotPending` when too many wait or it is too large.
        """
        # An id is not made of the content: whoever writes that could let two of them meet in one short id.
        entry = PendingEntry(secrets.token_hex(4), digest(proposal), _now(), _cut(proposal))

        def turn(connection: Connection) -> PendingEntry:
            found = [(row[0], _decoded(*row)) for row in connection.execute(_ALL)]
            entries = [one for _, one in found if isinstance(one, PendingEntry)]
            known = next((one for one in entries if one.digest == entry.digest), None)
            if known is not None:
                return known
            gone = [name for name, one in found if isinstance(one, str) or _is_replaced(one, proposal)]
            waiting = [one for one in entries if one.state != "rejected" and one.id not in gone]
            if len(waiting) >= self._most:
                raise NotPending(
                    f"{len(waiting)} candidates wait for a person already, and no more may: decide on some with "
                    "`instar evolve approve` or `reject`, or ask the person to"
                )
            connection.execute(_PUT, (entry.id, entry.time, _encode(entry)))
            connection.executemany(_DELETE, [(name,) for name in gone])
            return entry

        return self._change(turn)

    def get(self, id: str) -> PendingEntry:  # noqa: A002 - the word that the person types
        """Return the entry of this id. Raises `NotPending` when there is none, or it is damaged."""
        return self._change(lambda connection: _entry(id, connection.execute(_ONE, (id,)).fetchone()))

    def reject(self, id: str, by: str) -> PendingEntry:  # noqa: A002
        """Keep it that the person `by` said no, and return the entry. Raises `NotPending` as `get` does."""

        def turn(connection: Connection) -> PendingEntry:
            entry = _entry(id, connection.execute(_ONE, (id,)).fetchone())
            decision = Decision(False, by, _now(), entry.digest)
            decided = msgspec.structs.replace(entry, decision=decision)
            connection.execute(_DECIDE, (decision.time, _encode(decided), id))
            connection.execute(_FORGET, (self._most,))
            return decided

        return self._change(turn)

    def remove(self, id: str) -> bool:  # noqa: A002
        """Take an entry away, also a damaged one: after its installation. Returns whether there was one."""
        return self._change(lambda connection: connection.execute(_DELETE, (id,)).rowcount > 0)

    def list(self) -> Listing:
        """Return all entries; what cannot be read is named and left out."""
        try:
            found = [_decoded(*row) for row in self._database.rows(_ALL)]
        except OSError as error:
            return Listing([], [str(error)])
        entries = [one for one in found if isinstance(one, PendingEntry)]
        return Listing(entries, [one for one in found if isinstance(one, str)])

    def _change(self, turn: Callable[[Connection], T]) -> T:
        try:
            return self._database.change(turn)
        except OSError as error:
            raise NotPending(str(error)) from None


def digest(proposal: Proposal) -> str:
    """Return what a decision is bound to, in hex: file, base, all new text and the raised sentences.

    Raises `NotPending` for text that is not Unicode.
    """
    try:
        bound = [
            proposal.file,
            proposal.base,
            proposal.content,
            proposal.raised,
            sorted(proposal.also.items()),
            *([proposal.takes_back] if proposal.takes_back else []),
        ]
        return sha256(msgspec.json.encode(bound)).hexdigest()
    except UnicodeEncodeError as error:
        raise NotPending(f"{proposal.file}: its text cannot be written as UTF-8 ({error.reason})") from None


def _entry(id: str, row: tuple[str, bytes] | None) -> PendingEntry:  # noqa: A002
    if row is None:
        raise NotPending(f"nothing waits under the id {id!r}: `instar evolve pending` lists what does")
    found = _decoded(*row)
    if isinstance(found, str):
        raise NotPending(found)
    return found


def _decoded(id: str, value: bytes) -> PendingEntry | str:  # noqa: A002
    """Return an entry, or a sentence on what is wrong with it."""
    try:
        entry = msgspec.json.decode(value, type=PendingEntry)
        if entry.id != id or entry.digest != digest(entry.proposal):
            why = "its text is not the one that it was made for"
        elif entry.decision is not None and entry.decision.digest != entry.digest:
            why = "its decision was made on another text"
        else:
            return entry
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError) as error:
        why = str(error)
    return f"what waits as {id} is damaged and left out ({why}): let its candidate be proposed again"


def _encode(entry: PendingEntry) -> bytes:
    file = entry.proposal.file
    try:
        data = msgspec.json.encode(entry)
    except (UnicodeEncodeError, TypeError, OverflowError) as error:
        raise NotPending(f"{file}: the candidate cannot be kept for a person ({error})") from None
    if len(data) > LARGEST:
        raise NotPending(f"{file}: {len(data)} bytes are more than may wait for a person ({LARGEST})")
    return data


def _is_replaced(one: PendingEntry, proposal: Proposal) -> bool:
    old = one.proposal
    same = (old.file, old.content, old.also) == (proposal.file, proposal.content, proposal.also)
    return same and one.state != "rejected"


def _cut(proposal: Proposal) -> Proposal:
    shown = {name: ends(getattr(proposal, name)) for name in ("test", "replay", "score")}
    return msgspec.structs.replace(proposal, **shown)


def _now() -> int:
    return time.time_ns() // 1_000_000
