"""Pins: files of a workspace that the agent may no longer touch, by a person's order.

Kept outside the workspace. A pinned folder holds all below it. Names are compared in one form (no ``./``, Unicode
composed, case folded): on some file systems two spellings are one file, so a pin holds for all of them.
"""

import time
import unicodedata
from collections.abc import Collection

import msgspec

from instar.plugins.evolve.database import Database


class BadPin(Exception):
    """A name that no file of a workspace can have, or pins that cannot be read; the text says what to do."""


class Pin(msgspec.Struct, frozen=True):
    """One pinned file or folder: its path in the workspace, who pinned it, when (ms since 1970; 0: not known)."""

    file: str
    by: str = ""
    time: int = 0


class Pins:
    """The pins of one workspace; `also` are pinned by settings. Methods raise `BadPin` where they cannot be read."""

    def __init__(self, database: Database, also: Collection[str] = ()) -> None:
        self._database = database
        self._also = also

    def all(self) -> list[Pin]:
        """Return the pins, those of the settings last."""
        try:
            found = self._database.rows("SELECT file, by, time FROM pin ORDER BY rowid")
            kept = [Pin(normal(file), by, time) for file, by, time in found]
        except (OSError, TypeError, BadPin) as error:
            path = self._database.path
            raise BadPin(
                f"{path}: the pins cannot be read, so every file counts as pinned: {error}"
            ) from None
        return [*kept, *(Pin(normal(file), "settings") for file in self._also)]

    def find(self, file: str) -> Pin | None:
        """Return the pin that holds `file`: its own or that of a folder above it.

        The caller refuses what it is asked for when this raises. Links are not followed here; ask for what a path
        resolves to.
        """
        wanted = key(normal(file))
        return next((pin for pin in self.all() if f"{wanted}/".startswith(f"{key(pin.file)}/")), None)

    def add(self, file: str, by: str = "person") -> Pin:
        """Pin a file, which need not exist; one that is pinned stays so. Raises `OSError`."""
        pin = Pin(normal(file), by, int(time.time() * 1000))
        row = (key(pin.file), pin.file, pin.by, pin.time)
        self._database.change(
            lambda connection: connection.execute("INSERT OR IGNORE INTO pin VALUES (?, ?, ?, ?)", row)
        )
        return Pin(*self._database.rows("SELECT file, by, time FROM pin WHERE key = ?", row[0])[0])

    def remove(self, file: str) -> Pin | None:
        """Take the pin of just this file away and return it; None where it has none. Raises `OSError`."""
        wanted = key(normal(file))
        delete = "DELETE FROM pin WHERE key = ? RETURNING file, by, time"
        found = self._database.change(lambda connection: connection.execute(delete, (wanted,)).fetchone())
        return Pin(*found) if found else None


def normal(file: str) -> str:
    """Return the one spelling of a path in the workspace: relative, composed, without ``.`` and doubled slashes.

    Raises `BadPin` for one that leads outside, is empty, or holds what no name may.
    """
    composed = unicodedata.normalize("NFC", file)
    parts = [part for part in composed.split("/") if part not in ("", ".")]
    wrong = any(ord(char) < 32 or 0xD800 <= ord(char) < 0xE000 or ord(char) == 127 for char in composed)
    if wrong or file.startswith("/") or ".." in parts or not parts:
        raise BadPin(
            f"{file!r} is no path in the workspace: name one as it stands there, such as hooks/bot.py"
        )
    return "/".join(parts)


def key(file: str) -> str:
    """Return the form in which a normal name is compared."""
    return unicodedata.normalize("NFC", file.casefold())
