"""What waits for a person: candidates that would reach more than their live version, one file each.

The folder lies outside the workspace, where nothing that runs for the model can write. A person
decides on exactly what they were shown: an entry's digest covers the file, its new text, the live
version that it was judged against and each sentence of what it raises, and an id is never of two of them.
"""

import re
import secrets
import time
import unicodedata
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugin import document
from instar.plugins.evolve.ledger.standing import sha256

MOST: Final = 32
"""Entries that wait, and rejected ones that are remembered."""
LARGEST: Final = 4 << 20
"""Bytes of one entry as it is written. Nothing that a person decides on is cut."""
SHOWN: Final = 1 << 16
"""Characters of a test's output and of a replay's report; of a longer one both ends are kept."""
_ID: Final = re.compile(r"[0-9a-f]{8}")


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

    `file` is its path in the workspace and `base` the sha256 of the live version's bytes that it was judged against,
    "" for a new file; `also` are new texts of files that go with it, by path. `raised` is what
    `authority.raises` said. `diff`, `test` and `replay` are texts for a person; `prediction` is as the model gave it.
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


class Decision(msgspec.Struct, frozen=True):
    """What a person said about the entry of this digest; `time` in ms since 1970."""

    approved: bool
    by: str
    time: int
    digest: str


class PendingEntry(msgspec.Struct, frozen=True):
    """A proposal that waits, or on which a person has decided; `time` in ms since 1970."""

    id: str
    digest: str
    time: int
    proposal: Proposal
    decision: Decision | None = None

    @property
    def state(self) -> str:
        """One of ``waiting``, ``approved`` and ``rejected``."""
        if self.decision is None:
            return "waiting"
        return "approved" if self.decision.approved else "rejected"

    def stale(self, live: str) -> str | None:
        """Return why it must be judged again, when `live`, the live version's sha256 ("": no file), is another."""
        if live == self.proposal.base:
            return None
        return (
            f"{self.id} was judged against another version of {self.proposal.file} than the one that is live "
            "now: let it be proposed and judged again"
        )

    def is_of(self, proposal: Proposal) -> bool:
        """Whether what a person says of it is said of just this: this file, text and base, with these sentences."""
        return self.digest == digest(proposal)


class Listing(msgspec.Struct, frozen=True):
    """All entries, the oldest first, and a sentence on each file that could not be read as one."""

    entries: list[PendingEntry]
    problems: list[str]


class Pending:
    """The entries of one workspace, in `folder`; it is made by the first one. Any process may use it.

    At most `most` wait or are approved, and of rejected ones the newest `most` are kept, so that the same
    candidate is answered without asking again.
    """

    def __init__(self, folder: Path, most: int = MOST) -> None:
        self._folder = folder
        self._most = most

    def put(self, proposal: Proposal) -> PendingEntry:
        """Let a proposal wait and return its entry: the one that there is, decided or not, if it is the same.

        It takes the place of one with the same new text that was judged otherwise and not rejected. Raises `NotPending`
        when too many wait or it is too large.
        """
        mark = digest(proposal)
        proposal = _cut(proposal)
        with document.locked(self._folder):
            entries = self.list().entries
            for entry in entries:
                if entry.digest == mark:
                    return entry
            replaced = [
                one for one in entries if one.state != "rejected" and _same_text(one.proposal, proposal)
            ]
            waiting = [one for one in entries if one.state != "rejected" and one not in replaced]
            if len(waiting) >= self._most:
                raise NotPending(
                    f"{len(waiting)} candidates wait for a person already, and no more may: decide on some with "
                    "`instar evolve approve` or `reject`, or ask the person to"
                )
            entry = PendingEntry(self._free(), mark, _now(), proposal)
            self._write(entry)
            for one in replaced:
                self._path(one.id).unlink(missing_ok=True)
            return entry

    def get(self, id: str) -> PendingEntry:  # noqa: A002 - the word that the person types
        """Return the entry of this id. Raises `NotPending` when there is none, or its file is corrupt."""
        if not _ID.fullmatch(id) or not self._path(id).exists():
            raise NotPending(f"nothing waits under the id {id!r}: `instar evolve pending` lists what does")
        return _read(self._path(id))

    def decide(self, id: str, approved: bool, by: str, live: str) -> PendingEntry:  # noqa: A002
        """Keep what the person `by` said of an entry, and return it; the last word counts.

        `live` is the sha256 of the file that is live now. Raises `NotPending` as `get` does, and for the
        approval of a stale one.
        """
        with document.locked(self._folder):
            entry = self.get(id)
            why = entry.stale(live)
            if approved and why:
                raise NotPending(why)
            decided = msgspec.structs.replace(entry, decision=Decision(approved, by, _now(), entry.digest))
            self._write(decided)
            self._forget()
            return decided

    def remove(self, id: str) -> bool:  # noqa: A002
        """Take an entry away, also a corrupt one: after its installation. Returns whether there was one."""
        with document.locked(self._folder):
            there = _ID.fullmatch(id) is not None and self._path(id).exists()
            if there:
                self._path(id).unlink()
            return there

    def list(self) -> Listing:
        """Return all entries; what cannot be read is named and left out."""
        entries: list[PendingEntry] = []
        problems: list[str] = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                entries.append(_read(path))
            except FileNotFoundError:
                continue  # taken away since the folder was listed
            except NotPending as error:
                problems.append(str(error))
        return Listing(sorted(entries, key=lambda entry: (entry.time, entry.id)), problems)

    def _forget(self) -> None:
        rejected = [entry for entry in self.list().entries if entry.state == "rejected"]
        by_age = sorted(rejected, key=lambda entry: entry.decision.time if entry.decision else 0)
        for entry in by_age[: -self._most]:
            self._path(entry.id).unlink(missing_ok=True)

    def _free(self) -> str:
        # Not made of the content: whoever writes that could let two of them meet in one short id.
        while self._path(found := secrets.token_hex(4)).exists():
            pass
        return found

    def _path(self, id: str) -> Path:  # noqa: A002
        return self._folder / f"{id}.json"

    def _write(self, entry: PendingEntry) -> None:
        document.atomic_write(self._path(entry.id), _encode(entry), 0o600)


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
        ]
        return sha256(msgspec.json.encode(bound))
    except UnicodeEncodeError as error:
        raise NotPending(f"{proposal.file}: its text cannot be written as UTF-8 ({error.reason})") from None


def report(entry: PendingEntry) -> str:
    """Return all that a person must see to decide, as text in which nothing hides or moves the cursor."""
    asked = entry.proposal
    cause = [f"{name} {value}" for name, value in msgspec.structs.asdict(asked.cause).items() if value]
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.time / 1000))
    lines = [f"{entry.id}  {asked.file}  {entry.state}  {when}"]
    lines += [f"proposed by: {', '.join(cause)}"] if cause else []
    if entry.decision:
        lines.append(f"{entry.state} by {entry.decision.by}")
    lines += ["it would reach more:", *(f"- {sentence}" for sentence in asked.raised)]
    if asked.prediction is not None:
        lines.append(f"it predicts: {msgspec.json.encode(asked.prediction).decode()}")
    said = [_visible(line.replace("\n", " ")) for line in lines]
    parts = [("diff", asked.diff), ("test", asked.test), ("replay", asked.replay)]
    parts += [(f"new file {path}", text) for path, text in sorted(asked.also.items())]
    return "\n".join([*said, *(f"\n{_visible(name)}:\n{_visible(text)}" for name, text in parts if text)])


def _read(path: Path) -> PendingEntry:
    try:
        entry = msgspec.json.decode(document.read_text(path), type=PendingEntry)
    except FileNotFoundError:
        raise
    except (OSError, document.DocumentError, msgspec.DecodeError, RecursionError) as error:
        raise _corrupt(path, str(error)) from None
    if entry.id != path.stem or entry.digest != digest(entry.proposal):
        raise _corrupt(path, "its text is not the one that it was made for")
    if entry.decision is not None and entry.decision.digest != entry.digest:
        raise _corrupt(path, "its decision was made on another text")
    return entry


def _encode(entry: PendingEntry) -> bytes:
    file = entry.proposal.file
    try:
        data = msgspec.json.encode(entry)
    except (UnicodeEncodeError, TypeError, OverflowError) as error:
        raise NotPending(f"{file}: the candidate cannot be kept for a person ({error})") from None
    if len(data) > LARGEST:
        raise NotPending(f"{file}: {len(data)} bytes are more than may wait for a person ({LARGEST})")
    return data


def _corrupt(path: Path, why: str) -> NotPending:
    return NotPending(
        f"{path} is corrupt and left out ({why}): delete it, and let its candidate be proposed again"
    )


def _same_text(one: Proposal, other: Proposal) -> bool:
    return (one.file, one.content, one.also) == (other.file, other.content, other.also)


def _cut(proposal: Proposal) -> Proposal:
    shown = {name: _ends(getattr(proposal, name)) for name in ("test", "replay")}
    return msgspec.structs.replace(proposal, **shown)


def _ends(text: str) -> str:
    if len(text) <= SHOWN:
        return text
    half = SHOWN // 2
    return f"{text[:half]}\n… ({len(text) - 2 * half} characters are left out)\n{text[-half:]}"


def _visible(text: str) -> str:
    """The text with what commands a terminal, or is not seen, as an escape; line feeds and tabs stay."""
    return "".join(char if _is_seen(char) else char.encode("unicode_escape").decode() for char in text)


def _is_seen(char: str) -> bool:
    return char in "\n\t" or char.isprintable() or unicodedata.category(char) == "Zs"


def _now() -> int:
    return time.time_ns() // 1_000_000
