"""What a bridge does, for ``instar doctor``: which opencode it stands in, and what it answers there."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from instar import __version__
from instar.server.browser import began
from instar.wire.document import atomic_write, private_folder


class BridgeRecord(msgspec.Struct):
    """The bridge that was started last in a directory. The time of its file is that of opencode's last word."""

    opencode: str
    hooks: list[str]
    tools: int
    pid: int = msgspec.field(default_factory=os.getpid)
    began: str = msgspec.field(default_factory=lambda: began(os.getpid()))
    instar: str = __version__

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        with suppress(OSError):
            os.kill(self.pid, 0)
            return self.began == began(self.pid)
        return False


def place(data: Path, directory: Path) -> Path:
    """Return where the record of a directory stands, in instar's data folder."""
    return data / "bridges" / f"{hashlib.sha256(bytes(directory.resolve())).hexdigest()[:32]}.json"


def write(path: Path, record: BridgeRecord) -> None:
    """Keep a record."""
    private_folder(path.parent)
    atomic_write(path, msgspec.json.encode(record))


def heard(path: Path) -> None:
    """opencode said something."""
    # The record may be gone with the data folder: what is told by it is for people alone.
    with suppress(OSError):
        os.utime(path)


def read(path: Path) -> tuple[BridgeRecord, float] | None:
    """Return a record and the time of the last word, in seconds since the epoch; None where there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=BridgeRecord), path.stat().st_mtime
    except (OSError, msgspec.DecodeError):
        return None
