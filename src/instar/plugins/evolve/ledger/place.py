"""Writing a file into a workspace: beside its place, synced, renamed; never through a link.

Each folder on the way is opened on its own, so that a link that was put in its place meanwhile stops the write.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath

from instar.plugins.evolve.ledger import standing
from instar.plugins.evolve.ledger.standing import Version


def beside(path: str) -> str:
    """Return the path under which new content is written first, in the same folder."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name[:200]}.instar"


def is_beside(path: str) -> bool:
    """Whether a path is one that `beside` gives."""
    name = path.rpartition("/")[2]
    return name.startswith(".") and name.endswith(".instar")


def write(root: Path, path: str, data: bytes, mode: int) -> None:
    """Write new content of a file beside its place, durably. Raises `OSError`.

    Permission bits that say the same as `mode` stay: a private file stays private.
    """
    with _folder(root, beside(path), make=True) as (folder, name):
        _discard(folder, name)
        with contextlib.suppress(OSError):
            here = os.stat(path.rpartition("/")[2], dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISREG(here) and standing.plain_mode(here) == mode:
                mode = here & 0o777
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())


def make_way(root: Path, path: str) -> None:
    """Remove an empty folder that stands in a file's place. Raises `OSError` for one that is not empty."""
    with _folder(root, path) as (folder, name):
        try:
            os.rmdir(name, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return


def swap(root: Path, path: str) -> None:
    """Rename what `write` wrote into its place. Raises `OSError`."""
    with _folder(root, path) as (folder, name):
        os.replace(beside(path).rpartition("/")[2], name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def put(root: Path, path: str, data: bytes, mode: int) -> None:
    """Do all of it: bring new content of a file into its place. Raises `OSError`."""
    write(root, path, data, mode)
    make_way(root, path)
    swap(root, path)


def clear(root: Path, path: str) -> None:
    """Delete a file that may be gone, or whose folder is gone or no folder any more, durably."""
    with contextlib.suppress(OSError), _folder(root, path) as (folder, name):
        _discard(folder, name)
        os.fsync(folder)


def clear_beside(root: Path, path: str) -> None:
    """Delete what stands beside a file, and the folders on the way to it that are empty then."""
    clear(root, beside(path))
    for parent in PurePath(path).parents[:-1]:
        with contextlib.suppress(OSError), _folder(root, str(parent)) as (folder, name):
            os.rmdir(name, dir_fd=folder)


def stands(root: Path, path: str, version: Version | None) -> bool:
    """Whether just this version (None: nothing) stands at `path`."""
    try:
        found = standing.read(root, path)
    except (FileNotFoundError, NotADirectoryError):
        return version is None
    except (OSError, standing.NotPlain):
        return False
    return version is not None and found.blob == version.blob and version.same_mode(found.mode)


def is_file(root: Path, path: str) -> bool:
    """Whether a regular file stands at `path`."""
    try:
        return stat.S_ISREG((root / path).lstat().st_mode)
    except OSError:
        return False


@contextlib.contextmanager
def _folder(root: Path, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder that `path` lies in, and give its name there."""
    *folders, name = path.split("/")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    handle = os.open(root, flags)
    try:
        for folder in folders:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, 0o777, dir_fd=handle)
                    os.fsync(handle)
            try:
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
