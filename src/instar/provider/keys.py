"""Providers' keys that ``instar auth login`` keeps: ``auth.json`` in the data folder, mode 0600.

The form is opencode's: ``{"provider": {"type": "api", "key": "…"}}``. Entries of other types stay as they are. A file
that others may read is refused, and so is a damaged one: nothing is overwritten.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from instar.wire.document import DocumentError, atomic_write, locked, read_jsonc
from instar.wire.secret import Secret


class PlacedKey(msgspec.Struct, frozen=True):
    """A provider's key, None without one, and its place, in words for a person."""

    secret: Secret | None
    place: str


class KeysError(ValueError):
    """The file of keys cannot be used; the text says what is wrong with it and what to do."""


class Keys:
    """The keys in a file. `get` reads it once."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def get(self, provider_id: str) -> Secret | None:
        """Return a provider's key, None when there is none. Raises `KeysError`."""
        entry = self._entries.get(provider_id)
        key = entry.get("key") if isinstance(entry, dict) else None
        return Secret(key.strip()) if isinstance(key, str) and key.strip() else None

    def entry(self, provider_id: str) -> dict[str, Any] | None:
        """Return a provider's whole entry as the file holds it now, None without one. Raises `KeysError`."""
        found = self._read().get(provider_id)
        return found if isinstance(found, dict) else None

    def keep(self, provider_id: str, entry: dict[str, Any]) -> None:
        """Replace a provider's entry (``{"type": "oauth", "refresh": …}``). Raises `KeysError`."""
        with self._changing() as entries:
            entries[provider_id] = entry

    def list(self) -> list[str]:
        """Return the providers that have a key or a login here, sorted. Raises `KeysError`."""
        return sorted(name for name, entry in self._read().items() if isinstance(entry, dict))

    def put(self, provider_id: str, key: Secret) -> None:
        """Replace a provider's key. Raises `KeysError`."""
        self.keep(provider_id, {"type": "api", "key": key.reveal()})

    def remove(self, provider_id: str) -> bool:
        """Delete a provider's entry; False if there was none. Raises `KeysError`."""
        with self._changing() as entries:
            return entries.pop(provider_id, None) is not None

    def secrets(self) -> Sequence[Secret]:
        """Return every text in the file, whatever its key is called. Raises `KeysError`."""
        return [Secret(form) for text in _texts(self._read()) for form in {text, text.strip()} if form]

    @cached_property
    def _entries(self) -> dict[str, Any]:
        return self._read()

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """Hold a lock on the file's folder while it is read, changed and written."""
        try:
            with locked(self.file.parent):
                before = self._read()
                entries = dict(before)
                yield entries
                if entries != before:
                    atomic_write(self.file, json.dumps(entries, indent=2).encode() + b"\n", mode=0o600)
        finally:
            self.__dict__.pop("_entries", None)

    def _read(self) -> dict[str, Any]:
        try:
            status = self.file.stat()
            if status.st_mode & 0o077 or status.st_uid not in (os.geteuid(), 0):
                raise KeysError(
                    f"{self.file}: others may read or write it, so no key of it is used; chmod 600 it"
                )
            data = read_jsonc(self.file)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except DocumentError:
            # The document's own error may quote the line, and the line may hold a key.
            raise KeysError(f"{self.file}: this is no JSON; mend it, or delete it and log in again") from None
        except OSError as error:
            raise KeysError(f"{self.file}: cannot be read: {error.strerror}") from None
        if not isinstance(data, dict):
            raise KeysError(f'{self.file}: expected {{"provider": {{"key": "…"}}}}; mend it, or delete it')
        return data


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a login, without its types."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key != "type":
                yield from _texts(item)
