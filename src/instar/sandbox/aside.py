"""What was put aside: files of guarded places that nobody agreed to, kept in instar's data, and what was agreed to.

Each time something is put aside gets a folder, `<data>/aside/<date>`, with the files by their paths, and `aside.json`,
which says where each belongs. `kept.json` has the digests of what a person agreed to, by repository.
"""

import contextlib
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from instar.sandbox.guarded_places import FileState
from instar.wire.document import (
    DocumentError,
    atomic_write,
    locked,
    opened_folder,
    private_folder,
    read_jsonc,
)

_INDEX: Final = "aside.json"
_KEPT: Final = "kept.json"


class AsideFile(msgspec.Struct, frozen=True):
    """A file that was put aside: where it belongs, and where it lies in its folder.

    For a configuration of git the file holds only the `entries` that were taken out of it.
    """

    path: str
    file: str
    reason: str
    repository: str
    digests: list[str]
    mode: int
    entries: list[tuple[str, str]] = []


class PutAside:
    """What was put aside in `folder`, and what was agreed to. What writes raises `OSError`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new(self) -> str:
        """Make a folder for what is put aside now, and return its name."""
        name = base = time.strftime("%Y-%m-%dT%H-%M-%S")
        for number in range(2, 10_000):
            with contextlib.suppress(FileExistsError):
                private_folder(self._folder)
                (self._folder / name).mkdir(mode=0o700)
                break
            name = f"{base}-{number}"
        return name

    def place(self, name: str, path: str) -> Path:
        """Return where a file of this path is kept in the folder `name`, with the folders above it made."""
        kept = self._folder / name / path.lstrip("/")
        private_folder(kept.parent)
        return kept

    def note(self, name: str, files: Sequence[AsideFile]) -> None:
        """Write down what a folder holds."""
        atomic_write(
            self._folder / name / _INDEX, msgspec.json.format(msgspec.json.encode(files)), mode=0o600
        )

    def all(self) -> dict[str, list[AsideFile]]:
        """Return what was put aside, by the name of its folder, oldest first. What cannot be read is left out."""
        found = {}
        for index in sorted(self._folder.glob(f"*/{_INDEX}")):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                found[index.parent.name] = msgspec.json.decode(index.read_bytes(), type=list[AsideFile])
        return found

    def forget(self, name: str) -> None:
        """Delete a folder whose files are back in place."""
        shutil.rmtree(self._folder / name)

    def is_kept(self, repository: str, digests: Iterable[str]) -> bool:
        """Whether a person agreed to all of this in the repository."""
        return set(digests) <= set(self._kept().get(repository, ()))

    def keep(self, repository: str, digests: Iterable[str]) -> None:
        """Remember that a person agreed to this in the repository."""
        private_folder(self._folder)
        with locked(self._folder):
            kept = self._kept()
            kept[repository] = sorted({*kept.get(repository, ()), *digests})
            atomic_write(self._folder / _KEPT, json.dumps(kept, indent=1).encode(), mode=0o600)

    def _kept(self) -> dict[str, list[str]]:
        try:
            kept = read_jsonc(self._folder / _KEPT)
        except (OSError, DocumentError):
            return {}
        return kept if isinstance(kept, dict) else {}


def digest(*words: str | bytes) -> str:
    """Return the digest of something that a person can agree to."""
    encoded = [word if isinstance(word, bytes) else os.fsencode(word) for word in words]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(one), one) for one in encoded)).hexdigest()


def move_out(path: str, target: Path) -> None:
    """Move a file, or what stands in its place, to `target`. Raises `OSError`."""
    with opened_folder(Path("/"), path.strip("/")) as (here, name):
        status = os.stat(name, dir_fd=here, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            target.symlink_to(os.readlink(name, dir_fd=here))
        elif stat.S_ISREG(status.st_mode):
            descriptor = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here
            )
            with os.fdopen(descriptor, "rb") as source, target.open("xb") as copy:
                shutil.copyfileobj(source, copy)
            # Neither owner nor setuid bit: in instar's data it is only kept.
            target.chmod(0o600)
        os.unlink(name, dir_fd=here)


def put(path: str, state: FileState) -> None:
    """Put a file in place whole, its folders made. Raises `OSError`."""
    with opened_folder(Path("/"), path.strip("/"), make=True) as (here, name):
        beside = f".{name}.instar-{os.getpid()}"
        if stat.S_ISLNK(state.mode):
            os.symlink(os.fsdecode(state.data or b""), beside, dir_fd=here)
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(beside, flags, 0o600, dir_fd=here), "wb") as file:
                file.write(state.data or b"")
                os.fchmod(file.fileno(), stat.S_IMODE(state.mode))
        os.rename(beside, name, src_dir_fd=here, dst_dir_fd=here)
