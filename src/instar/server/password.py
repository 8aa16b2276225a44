"""The server's password: the person's own from the environment, else one that is made and kept in a file."""

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from instar.wire.secret import Secret

VARIABLES: Final = ("INSTAR_SERVER_PASSWORD", "OPENCODE_SERVER_PASSWORD")


class Password(msgspec.Struct, frozen=True):
    """A password and where it comes from: a variable's name, or a file's path."""

    value: Secret
    origin: str


def find_password(environment: Mapping[str, str], path: Path) -> Password:
    """Return the password of the environment, else the one in the file at `path`, making it if need be.

    The file is the person's own, mode 0600; one that others can read, or an empty one, is replaced. Raises
    `OSError` when it cannot be written.
    """
    return known_password(environment, path) or Password(Secret(_make(path)), str(path))


def known_password(environment: Mapping[str, str], path: Path) -> Password | None:
    """Return the password as `find_password` does, or None where it would make one."""
    for name in VARIABLES:
        if environment.get(name):
            return Password(Secret(environment[name]), f"${name}")
    kept = _kept(path)
    return None if kept is None else Password(Secret(kept), str(path))


def _kept(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid != os.geteuid():
                return None
            return file.read(4096).decode("ascii", "ignore").strip() or None
    except FileNotFoundError:
        return None


def _make(path: Path) -> str:
    value = secrets.token_urlsafe(24)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(value + "\n")
    return value
