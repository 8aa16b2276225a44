"""Debts: changes whose commit could not be made yet, each with the message that its commit is to have.

The law: a change is one commit of its own, also a late one. A file that a newer change claims belongs to that one;
a debt that has lost all its files this way is named in the newer one's message (``Makes-up``). Debts outlive the
process where a folder was named for them.
"""

import logging
from collections.abc import Collection
from pathlib import Path

import msgspec

from instar.plugin import document
from instar.plugins.evolve.history import trailers

log = logging.getLogger("instar.evolve")


class Debt(msgspec.Struct, frozen=True):
    """A change that is owed its commit: paths relative to the workspace, and the commit's message."""

    files: list[str]
    message: str


class Debts:
    """What is owed, the oldest first."""

    def __init__(self) -> None:
        self._all: list[Debt] = []
        self._file: Path | None = None
        self._kept: list[Debt] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def all(self) -> list[Debt]:
        """Return every debt."""
        return list(self._all)

    def keep_in(self, file: Path) -> None:
        """Keep debts in `file` from now on, and take up those that an earlier process left there."""
        self._file = file
        left = _read(file)
        newer, self._all = self._all, left
        self._kept = list(left)
        for debt in newer:
            self.add(debt.files, debt.message)

    def add(self, files: Collection[str], message: str) -> None:
        """Owe the commit of these files."""
        claimed = set(files)
        if not claimed:
            return
        older, overtaken = list[Debt](), list[str]()
        for debt in self._all:
            left = [path for path in debt.files if path not in claimed]
            if left:
                older.append(msgspec.structs.replace(debt, files=left))
            else:
                overtaken += _named(debt.message)
        self._all = [*older, Debt(sorted(claimed), _naming(message, overtaken))]

    def left(self, debt: Debt, files: Collection[str]) -> None:
        """Only these files of a debt are owed still; none: it is paid."""
        kept = msgspec.structs.replace(debt, files=sorted(files)) if files else None
        self._all = [now for one in self._all if (now := kept if one == debt else one) is not None]

    def save(self) -> None:
        """Write down what is owed, where that has changed; a disk that refuses is logged."""
        if self._file is None or self._kept == self._all:
            return
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            document.atomic_write(self._file, msgspec.json.encode(self._all), mode=0o600)
        except (OSError, UnicodeEncodeError) as error:
            log.warning("git=owed problem=%r", str(error))
        else:
            self._kept = list(self._all)


def _read(file: Path) -> list[Debt]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Debt])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("git=owed file=%s problem=%r", file, str(error))
        return []


def _named(message: str) -> list[str]:
    """The changes that a message is about, a line each."""
    subject, said = trailers.read(message)
    whence = [f"session {said.session}" if said.session else "", f"call {said.call}" if said.call else ""]
    known = ", ".join(text for text in whence if text)
    return [*said.makes_up, f"{subject} ({known})" if known else subject]


def _naming(message: str, overtaken: list[str]) -> str:
    if not overtaken:
        return message
    subject, said = trailers.read(message)
    return trailers.write(subject, msgspec.structs.replace(said, makes_up=[*said.makes_up, *overtaken]))
