"""Files of the ledger that say whether they are whole: a line with the hash of the rest, then JSON."""

from pathlib import Path
from typing import TypeVar

import msgspec

from instar.plugin import accepted
from instar.plugins.evolve.ledger import standing

T = TypeVar("T")


class Broken(Exception):
    """A sealed file that is not what was written; the text says where and what is wrong."""


def write(path: Path, value: msgspec.Struct) -> None:
    """Replace the file durably. Raises `OSError`."""
    body = msgspec.json.encode(value)
    accepted.replace(path, f"{standing.sha256(body)}\n".encode() + body)


def read(path: Path, kind: type[T]) -> T | None:
    """Return the value of a sealed file; None where nothing stands. Raises `Broken`."""
    try:
        data = standing.read(path.parent, path.name, keep=True).data or b""
    except (FileNotFoundError, NotADirectoryError):
        return None
    except standing.NotPlain as error:
        raise Broken(f"{path}: {error}") from None
    except OSError as error:
        raise Broken(f"{path} cannot be read: {error.strerror}") from None
    seal, _, body = data.partition(b"\n")
    if seal != standing.sha256(body).encode():
        raise Broken(f"{path} is damaged: its checksum does not match")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Broken(f"{path} was not written by this version of instar: {error}") from None
