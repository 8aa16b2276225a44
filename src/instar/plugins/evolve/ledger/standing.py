"""What stands in the guarded folders of a workspace: listed by `lstat`, read and hashed without trust, and written.

Nothing here follows a link, waits for a pipe or reads a file of any length: whoever changed the workspace may have put
anything in a file's place. A file is written beside its place, synced and renamed; each folder on the way is opened on
its own, so that a link that was put in its place meanwhile stops the write. Strings and `os` functions on purpose:
2,000 files are listed before a hook script is called.
"""

import contextlib
import hashlib
import os
import stat
import time
from pathlib import Path, PurePath
from typing import Final, NamedTuple

import msgspec

from instar.plugin import document
from instar.plugins.evolve.workspace import FOLDERS

LARGEST: Final = 64 << 20
"""Bytes of a file that may be accepted."""

MOST: Final = 20_000
"""Files and folders that are looked at; a workspace that holds more has departed."""

_CACHE: Final = "__pycache__"
_CHUNK: Final = 1 << 20
_SETTLED_NS: Final = 50_000_000
_COARSE_NS: Final = 2_000_000_000

Signature = tuple[int, int, int, int, int]
"""What tells one version of a file from the next: inode, size, mode, mtime and ctime in ns."""


class NotPlain(Exception):
    """What stands there cannot be read as a file; the text says what it is."""


class GuardedFile(NamedTuple):
    """One thing that stands in a guarded folder. `kind`: file, link, or why it is neither, in words."""

    kind: str
    signature: Signature


class Version(msgspec.Struct, frozen=True):
    """One version of a guarded file: git's id of its content, and its mode (0o755 or 0o644).

    `link`: the file is a symbolic link with this text, and the rest is about what it leads to.
    """

    blob: str
    mode: int
    link: str | None = None

    def same_mode(self, mode: int) -> bool:
        """Whether `mode` lets the same be run: its run bit, as git keeps it, and no set-id bit."""
        return plain_mode(mode) == self.mode and not mode & 0o7000


class Content(NamedTuple):
    """What git calls a file's content, its permission bits, and its bytes; None where they were not asked for."""

    blob: str
    mode: int
    signature: Signature
    data: bytes | None


def plain_mode(mode: int) -> int:
    """Return what git keeps of permission bits."""
    return 0o755 if mode & 0o111 else 0o644


def scan(root: Path, *, caches: bool = False) -> dict[str, GuardedFile]:
    """Return all in the guarded folders but plain folders, by path in the workspace.

    Python's ``__pycache__`` is passed over unless `caches`: interpreters write there whenever they please.
    """
    found: dict[str, GuardedFile] = {}
    folders = list(FOLDERS)
    for folder in FOLDERS:
        with contextlib.suppress(OSError):
            info = os.lstat(os.path.join(root, folder))
            if not stat.S_ISDIR(info.st_mode):
                found[folder] = GuardedFile(_kind(info, "a guarded folder must be a folder"), sign(info))
                folders.remove(folder)
    while folders:
        _list(str(root), folders.pop(), folders, found, caches)
        if len(found) + len(folders) > MOST:
            found[FOLDERS[0]] = GuardedFile(f"the guarded folders hold more than {MOST} entries", _NOWHERE)
            break
    return found


def sign(info: os.stat_result) -> Signature:
    """Return the signature of what `info` is about."""
    return (info.st_ino, info.st_size, info.st_mode, info.st_mtime_ns, info.st_ctime_ns)


def settled(signature: Signature) -> bool:
    """Whether a later change would show in the signature: not while its clock may still stand at the same tick.

    A file system that counts in whole seconds gets two of them.
    """
    changed = signature[4]
    tick = _COARSE_NS if changed % 1_000_000_000 == 0 else _SETTLED_NS
    return time.time_ns() - changed > tick


def read(root: Path, path: str, *, keep: bool = False, follow: bool = False) -> Content:
    """Hash the file at `path` below `root`, and return its bytes too if `keep`.

    A link is not followed unless `follow`. Raises `NotPlain` for all but a regular file of at most `LARGEST` bytes
    that nobody writes to meanwhile, and `OSError`.
    """
    full = os.path.join(root, path)
    for _ in range(3):
        found = _read(full, keep, follow)
        if found is not None:
            return found
    raise NotPlain("it is being written to")


_NOWHERE: Final = (0, 0, 0, 0, 0)


def _read(full: str, keep: bool, follow: bool) -> Content | None:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(full, flags)
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise NotPlain(_kind(info, "it must be a file"))
        if info.st_size > LARGEST:
            raise NotPlain(f"it is larger than {LARGEST >> 20} MiB")
        data, blob = _bytes(handle, info.st_size, keep)
        same = sign(os.fstat(handle)) == sign(info)
    finally:
        os.close(handle)
    if not same:
        return None
    return Content(blob, stat.S_IMODE(info.st_mode), sign(info), data)


def _bytes(handle: int, size: int, keep: bool) -> tuple[bytes | None, str]:
    blob = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    chunks, left = list[bytes](), size + 1
    while left > 0 and (data := os.read(handle, min(_CHUNK, left))):
        blob.update(data)
        left -= len(data)
        if keep:
            chunks.append(data)
    return b"".join(chunks) if keep else None, blob.hexdigest()


def _list(root: str, folder: str, folders: list[str], found: dict[str, GuardedFile], caches: bool) -> None:
    try:
        with os.scandir(os.path.join(root, folder)) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}"
                if not entry.is_dir(follow_symlinks=False):
                    _add(entry, path, found)
                elif caches or entry.name != _CACHE:
                    folders.append(path)
                if len(found) > MOST:
                    return
    except FileNotFoundError:
        return
    except OSError as error:
        found[folder] = GuardedFile(f"the folder cannot be read ({error.strerror})", _NOWHERE)


def _add(entry: "os.DirEntry[str]", path: str, found: dict[str, GuardedFile]) -> None:
    try:
        info = entry.stat(follow_symlinks=False)
    except OSError:
        return  # gone since the folder was listed
    kind = _PLAIN.get(stat.S_IFMT(info.st_mode)) or _kind(info, "it must be a file")
    try:
        path.encode()
    except UnicodeEncodeError:
        kind = "its name is not UTF-8" if kind in ("file", "link") else kind
    found[path] = GuardedFile(kind, sign(info))


_PLAIN: Final = {stat.S_IFREG: "file", stat.S_IFLNK: "link"}
_KINDS: Final = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def _kind(info: os.stat_result, wanted: str) -> str:
    return f"it is {_KINDS.get(stat.S_IFMT(info.st_mode), 'a device')}; {wanted}"


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
    with document.opened_folder(root, beside(path), make=True) as (folder, name):
        _discard(folder, name)
        with contextlib.suppress(OSError):
            here = os.stat(path.rpartition("/")[2], dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISREG(here) and plain_mode(here) == mode:
                mode = here & 0o777
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())


def make_way(root: Path, path: str) -> None:
    """Remove an empty folder that stands in a file's place. Raises `OSError` for one that is not empty."""
    with document.opened_folder(root, path) as (folder, name):
        try:
            os.rmdir(name, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return


def swap(root: Path, path: str) -> None:
    """Rename what `write` wrote into its place. Raises `OSError`."""
    with document.opened_folder(root, path) as (folder, name):
        os.replace(beside(path).rpartition("/")[2], name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def put(root: Path, path: str, data: bytes, mode: int) -> None:
    """Do all of it: bring new content of a file into its place. Raises `OSError`."""
    write(root, path, data, mode)
    make_way(root, path)
    swap(root, path)


def clear(root: Path, path: str) -> None:
    """Delete a file that may be gone, or whose folder is gone or no folder any more, durably."""
    with contextlib.suppress(OSError), document.opened_folder(root, path) as (folder, name):
        _discard(folder, name)
        os.fsync(folder)


def clear_beside(root: Path, path: str) -> None:
    """Delete what stands beside a file, and the folders on the way to it that are empty then."""
    clear(root, beside(path))
    for parent in PurePath(path).parents[:-1]:
        with contextlib.suppress(OSError), document.opened_folder(root, str(parent)) as (folder, name):
            os.rmdir(name, dir_fd=folder)


def stands(root: Path, path: str, version: Version | None) -> bool:
    """Whether just this version (None: nothing) stands at `path`."""
    try:
        found = read(root, path)
    except (FileNotFoundError, NotADirectoryError):
        return version is None
    except (OSError, NotPlain):
        return False
    return version is not None and found.blob == version.blob and version.same_mode(found.mode)


def is_file(root: Path, path: str) -> bool:
    """Whether a regular file stands at `path`."""
    try:
        return stat.S_ISREG((root / path).lstat().st_mode)
    except OSError:
        return False


def _discard(folder: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


# ruff: noqa: PTH118
