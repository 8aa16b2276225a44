"""A Unix socket in the file system: for its owner alone, put where nobody else can take its place."""

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec


class BindError(Exception):
    """An address cannot be listened on; the text says why and what to do."""


class SocketFile(msgspec.Struct, frozen=True):
    """A listening socket and its file, told apart from another file of that name by device and inode."""

    socket: socket.socket
    path: Path
    device: int
    inode: int

    def remove(self) -> None:
        """Remove the file, unless another program has put its own there."""
        with contextlib.suppress(OSError):
            found = self.path.lstat()
            if (found.st_dev, found.st_ino) == (self.device, self.inode):
                self.path.unlink()


def listen_at(path: Path) -> SocketFile:
    """Return a socket that listens at `path`, mode 0600; its folder is made, mode 0700, if it is not there.

    A socket that nobody listens at any more is replaced. Raises `BindError`: when somebody listens there, when
    something else lies there, or when others could put their own socket in its place.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone_in(path.parent):
            _make_way(path)
            return _bound(path)
    except OSError as error:
        raise BindError(f"cannot listen at {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other servers from looking at the same file at the same time. Raises `BindError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        found = os.fstat(descriptor)
        others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
        if others or found.st_uid not in (os.geteuid(), 0):
            raise BindError(
                f"cannot listen in {folder}: others may put their own files there; take a folder that is yours alone"
            )
        yield
    finally:
        os.close(descriptor)


def _make_way(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise BindError(
            f"cannot listen at {path}: something that is no socket lies there; take another --socket"
        )
    if found.st_uid != os.geteuid():
        raise BindError(f"cannot listen at {path}: the socket there is another user's; take another --socket")
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(str(path))
        except OSError as error:
            if error.errno != errno.ECONNREFUSED:
                raise
            path.unlink()
            return
    raise BindError(f"cannot listen at {path}: another program does already; take another --socket")


def _bound(path: Path) -> SocketFile:
    bound = socket.socket(socket.AF_UNIX)
    try:
        bound.bind(str(path))
        # Nobody can connect before it listens.
        path.chmod(0o600)
        bound.listen(2048)
        found = path.lstat()
    except BaseException:
        bound.close()
        raise
    return SocketFile(bound, path, found.st_dev, found.st_ino)
