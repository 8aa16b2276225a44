"""Pins: files of a workspace that the agent may no longer touch, by a person's order.

Kept outside the workspace. A pinned folder holds all below it. Names are compared in one form (no ``./``, Unicode
composed, case folded): on some file systems two spellings are one file, so a pin holds for all of them.
"""

import time
import unicodedata
from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import document

FOLDER: Final = "pins"
FILE: Final = "pins.json"

_LARGEST: Final = 1 << 20


class BadPin(Exception):
    """A name that no file of a workspace can have, or a list of pins that cannot be used; the text says what to do."""


class Pin(msgspec.Struct, frozen=True):
    """One pinned file or folder: its path in the workspace, who pinned it, when (ms since 1970; 0: not known)."""

    file: str
    by: str = ""
    time: int = 0


class Pins:
    """The pins of one workspace in `folder`, where it makes a folder of its own; `also` are pinned by settings."""

    def __init__(self, folder: Path, also: Collection[str] = ()) -> None:
        self._folder = folder / FOLDER
        self._path = self._folder / FILE
        self._also = also

    def all(self) -> list[Pin]:
        """Return the pins, those of the settings last. Raises `BadPin`."""
        return [*self._load(), *(Pin(normal(file), "settings") for file in self._also)]

    def find(self, file: str) -> Pin | None:
        """Return the pin that holds `file`: its own or that of a folder above it. Raises `BadPin`.

        The caller refuses what it is asked for when this raises: a broken list of pins pins everything. Links are not
        followed here; ask for what a path resolves to.
        """
        key = _key(normal(file))
        return next((pin for pin in self.all() if f"{key}/".startswith(f"{_key(pin.file)}/")), None)

    def add(self, file: str, by: str = "person") -> Pin:
        """Pin a file, which need not exist; one that is pinned stays so. Raises `BadPin`, `OSError`."""
        pin = Pin(normal(file), by, int(time.time() * 1000))
        with document.locked(self._folder):
            known = self._load()
            standing = next((one for one in known if _key(one.file) == _key(pin.file)), None)
            if standing is not None:
                return standing
            self._save([*known, pin])
        return pin

    def remove(self, file: str) -> Pin | None:
        """Take the pin of just this file away and return it; None where it has none. Raises `BadPin`, `OSError`."""
        key = _key(normal(file))
        with document.locked(self._folder):
            known = self._load()
            found = next((pin for pin in known if _key(pin.file) == key), None)
            if found is not None:
                self._save([pin for pin in known if pin is not found])
        return found

    def _load(self) -> list[Pin]:
        try:
            with self._path.open("rb") as file:
                found = msgspec.json.decode(file.read(_LARGEST), type=list[Pin])
            return [msgspec.structs.replace(pin, file=normal(pin.file)) for pin in found]
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, BadPin) as error:
            raise BadPin(
                f"the list of pins {self._path} cannot be used ({error}), so every file counts as pinned: mend it, "
                "or delete it and pin again"
            ) from None

    def _save(self, pins: list[Pin]) -> None:
        document.atomic_write(self._path, msgspec.json.format(msgspec.json.encode(pins)) + b"\n", 0o600)


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


def _key(file: str) -> str:
    return unicodedata.normalize("NFC", file.casefold())
