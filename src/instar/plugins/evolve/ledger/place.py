"""Writing a file into a workspace: beside its place, synced, renamed; never through a link.

Each folder on the way is opened on its own, so that a link that was put in its place meanwhile stops the write.
"""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from instar.plugins.evolve.ledger import standing
from instar.plugins.evolve.ledger.journal import JournalPiece
from instar.plugins.evolve.ledger.standing import Version


def missing(root: Path, paths: Iterable[str]) -> list[str]:
    """Return the folders that do not exist and that files at `paths` need, outer ones first."""
    found = dict[str, None]()
    for path in paths:
        folders = [str(folder) for folder in Path(path).parents][:-1]
        found.update((folder, None) for folder in reversed(folders) if not os.path.lexists(root / folder))
    return list(found)


def write(root: Path, piece: JournalPiece, data: bytes) -> None:
    """Write the new version of a piece beside its place, durably. Raises `OSError`."""
    assert piece.new is not None
    with _folder(root, piece.beside, make=True) as (folder, name):
        _discard(folder, name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), piece.new.mode)
            os.fsync(file.fileno())


def swap(root: Path, piece: JournalPiece) -> None:
    """Rename what `write` wrote into its place, or delete the file that the piece deletes. Raises `OSError`."""
    with _folder(root, piece.path) as (folder, name):
        if piece.new is None:
            _discard(folder, name)
        else:
            with contextlib.suppress(OSError):  # only an empty folder goes; any other stops the rename
                os.rmdir(name, dir_fd=folder)
            _, _, beside = piece.beside.rpartition("/")
            os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def put(root: Path, piece: JournalPiece, data: bytes) -> None:
    """Do both: bring the new version of a piece into place, or delete the file. Raises `OSError`."""
    if piece.new is not None:
        write(root, piece, data)
    swap(root, piece)


def clear(root: Path, path: str) -> None:
    """Delete a file that may be gone, or whose folder is gone or no folder any more."""
    with contextlib.suppress(OSError), _folder(root, path) as (folder, name):
        _discard(folder, name)


def remove_empty(root: Path, folders: Sequence[str]) -> None:
    """Remove those of these folders that are empty, inner ones first."""
    for path in reversed(folders):
        with contextlib.suppress(OSError), _folder(root, path) as (folder, name):
            os.rmdir(name, dir_fd=folder)


def stands(root: Path, path: str, version: Version | None) -> bool:
    """Whether just this version (None: nothing) stands at `path`."""
    try:
        found = standing.read(root, path)
    except (FileNotFoundError, NotADirectoryError):
        return version is None
    except (OSError, standing.NotPlain):
        return False
    return version is not None and found.sha == version.sha and version.same_mode(found.mode)


def read(root: Path, path: str, version: Version) -> bytes | None:
    """Return the content at `path` if it is that of `version`."""
    try:
        found = standing.read(root, path, keep=True, follow=version.link is not None)
    except (OSError, standing.NotPlain):
        return None
    return found.data if found.sha == version.sha else None


@contextlib.contextmanager
def _folder(root: Path, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder that `path` lies in, and give its name there."""
    *folders, name = path.split("/")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    handle = os.open(root, flags)
    try:
        for folder in folders:
            try:
                inner = os.open(folder, flags | os.O_NOFOLLOW, dir_fd=handle)
            except FileNotFoundError:
                if not make:
                    raise
                os.mkdir(folder, 0o777, dir_fd=handle)
                os.fsync(handle)
                inner = os.open(folder, flags | os.O_NOFOLLOW, dir_fd=handle)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise NotADirectoryError(
                        errno.ENOTDIR, f"{folder} on the way to it is no folder", path
                    ) from None
                raise
            os.close(handle)
            handle = inner
        yield handle, name
    finally:
        os.close(handle)


def _discard(folder: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
