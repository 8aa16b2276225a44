"""Accepted content: the files of a folder in the versions that a person, or a gate, has accepted.

It is kept as commits of a bare git repository in instar's data, one for each folder, where no child of the model can
reach it; any git shows it (``git --git-dir=... log accepted``). To accept is to move a branch, which is one rename: a
crash leaves the commit before it or the new one.

Objects are read and written here, not by the git program: a look at them starts no process, a machine without git
accepts and runs as any other, and whatever stands in an object's place (a pipe, a link, other bytes) is never followed,
waited for or trusted. Content counts only when its hash says so.
"""
# ruff: noqa: PTH105

import contextlib
import hashlib
import os
import stat
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from instar.wire.document import open_regular
from instar.wire.pattern import late_pattern

_ID: Final = late_pattern(rb"[0-9a-f]{40}\n")
_FOLDER: Final = 0o40000
_CONFIG: Final = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n[gc]\n\tauto = 0\n"
"""Objects stay as single files: this module reads no packs."""


class Damaged(Exception):
    """The repository cannot be read; the text says where and what is wrong."""


class AcceptedFile(NamedTuple):
    """A file of a commit: its mode, as git has it (0o100644, 0o100755, 0o120000 for a link), and its content's id."""

    mode: int
    blob: str


class AcceptedTree(NamedTuple):
    """What a commit holds: its files by path, and its message."""

    files: dict[str, AcceptedFile]
    message: str


def blob_id(data: bytes) -> str:
    """Return the id that git gives to this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class AcceptedContent:
    """The repository at `place`, made with its first commit. One writer at a time. What writes raises `OSError`."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def tip(self, branch: str) -> str:
        """Return the id of a branch's newest commit; "" where there is no branch. Raises `Damaged`."""
        path = self._branch(branch)
        try:
            data = _read(path)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise Damaged(f"{path} cannot be read: {error.strerror or error}") from None
        if not _ID.fullmatch(data):
            raise Damaged(f"{path} is damaged: it names no commit")
        return data[:-1].decode()

    def read(self, commit: str) -> AcceptedTree:
        """Return what a commit holds. Raises `Damaged`; a file's content is not looked at."""
        tree, _, message = self._commit(commit)
        return AcceptedTree(dict(self._files(tree, "")), message)

    def commits(self, branch: str) -> Iterator[tuple[str, str]]:
        """Give the id and the message of each commit of a branch, newest first. Raises `Damaged`."""
        commit = self.tip(branch)
        while commit:
            _, parent, message = self._commit(commit)
            yield commit, message
            commit = parent

    def versions(self, branch: str) -> Iterator[tuple[str, int]]:
        """Give the tree's id of each commit of a branch, newest first, and its time in seconds since 1970.

        Raises `Damaged`.
        """
        commit = self.tip(branch)
        while commit:
            lines = self._object(commit).decode(errors="replace").split("\n")
            tree, commit, _ = self._commit(commit)
            yield tree, next(int(line.split()[-2]) for line in lines if line.startswith("committer "))

    def content(self, blob: str) -> bytes | None:
        """Return the content with this id; None where it is not kept, or what is kept is not it."""
        try:
            return self._object(blob)
        except Damaged:
            return None

    def holds(self, blob: str) -> bool:
        """Whether the content with this id seems to be kept: there is a file, which is not read."""
        return os.path.isfile(self._path(blob))  # noqa: PTH113 - there may be many

    def put(self, data: bytes, *, durable: bool = True) -> str:
        """Keep a content and return its id. `durable`: on the disk before this returns."""
        return self._put(b"blob", data, durable=durable)

    def commit(
        self,
        branch: str,
        files: Mapping[str, AcceptedFile],
        message: str,
        *,
        durable: bool = True,
        parent: str = "",
    ) -> str:
        """Let a branch hold just these files, whose contents were `put`; return the commit's id."""
        if not (self.place / "HEAD").is_file():
            replace(self.place / "config", _CONFIG)
            replace(self.place / "HEAD", b"ref: refs/heads/accepted\n")
        who = f"instar <instar@localhost> {int(time.time())} +0000"
        tree = self.put_tree(files, durable=durable)
        lines = [f"tree {tree}", *([f"parent {parent}"] if parent else []), f"author {who}"]
        text = "\n".join([*lines, f"committer {who}", "", message])
        made = self._put(b"commit", text.encode(errors="replace"), durable=durable)
        self.point(branch, made, durable=durable)
        return made

    def point(self, branch: str, commit: str, *, durable: bool = True) -> None:
        """Let a branch end with this commit."""
        replace(self._branch(branch), f"{commit}\n".encode(), durable=durable)

    def drop(self, branch: str) -> None:
        """Remove a branch; the contents stay."""
        self._branch(branch).unlink(missing_ok=True)

    def moved(self, branch: str) -> float:
        """Return when a branch was moved last, in seconds since 1970. Raises `OSError`."""
        return self._branch(branch).lstat().st_mtime

    def set_aside(self) -> Path:
        """Rename a repository that cannot be read, so that another can be made, and return where it stands."""
        return put_aside(self.place)

    def _branch(self, branch: str) -> Path:
        return self.place / "refs" / "heads" / branch

    def _path(self, name: str) -> Path:
        return Path(f"{self.place}/objects/{name[:2]}/{name[2:]}")

    def _object(self, name: str) -> bytes:
        path = self._path(name)
        try:
            data = zlib.decompress(_read(path))
        except FileNotFoundError:
            raise Damaged(f"{path} is missing") from None
        except (OSError, zlib.error) as error:
            raise Damaged(f"{path} cannot be read: {error}") from None
        if hashlib.sha1(data, usedforsecurity=False).hexdigest() != name:
            raise Damaged(f"{path} is damaged: its hash does not match")
        return data.partition(b"\0")[2]

    def _put(self, kind: bytes, body: bytes, *, durable: bool) -> str:
        data = b"%s %d\0" % (kind, len(body)) + body
        name = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        if self.content(name) is None:
            # A link in its place would lead what is kept elsewhere, or nowhere.
            make_folder(self.place)
            replace(self._path(name), zlib.compress(data, 1), durable=durable)
        return name

    def _commit(self, name: str) -> tuple[str, str, str]:
        """The tree, the parent ("" for none) and the message of a commit."""
        head, _, message = self._object(name).decode(errors="replace").partition("\n\n")
        tree, parent, *_ = head.split("\n")
        return tree.removeprefix("tree "), parent[7:] if parent.startswith("parent ") else "", message

    def _listed(self, tree: str) -> dict[str, AcceptedFile]:
        data, at, found = self._object(tree), 0, dict[str, AcceptedFile]()
        while at < len(data):
            end = data.index(b"\0", at)
            mode, _, name = data[at:end].partition(b" ")
            at = end + 21
            found[os.fsdecode(name)] = AcceptedFile(int(mode, 8), data[end + 1 : at].hex())
        return found

    def _files(self, tree: str, above: str) -> Iterator[tuple[str, AcceptedFile]]:
        for name, entry in self._listed(tree).items():
            if entry.mode == _FOLDER:
                yield from self._files(entry.blob, f"{above}{name}/")
            else:
                yield f"{above}{name}", entry

    def put_tree(self, files: Mapping[str, AcceptedFile], *, durable: bool) -> str:
        """Keep a tree of just these files, whose contents need not be kept, and return its id."""
        entries, folders = dict[bytes, AcceptedFile](), dict[str, dict[str, AcceptedFile]]()
        for path, entry in files.items():
            name, _, rest = path.partition("/")
            if rest:
                folders.setdefault(name, {})[rest] = entry
            else:
                entries[os.fsencode(name)] = entry
        for name, inner in folders.items():
            # Git sorts a folder as if its name ended with a slash.
            entries[os.fsencode(f"{name}/")] = AcceptedFile(_FOLDER, self.put_tree(inner, durable=durable))
        lines = [
            b"%o %s\0%s" % (entry.mode, name.rstrip(b"/"), bytes.fromhex(entry.blob))
            for name, entry in sorted(entries.items())
        ]
        return self._put(b"tree", b"".join(lines), durable=durable)


def make_folder(folder: Path) -> None:
    """Make a private folder; what stands there and is none is put aside. Raises `OSError`."""
    if _is_folder(folder) and _is_folder(folder.parent):
        return
    for path in (*reversed(folder.parents), folder):
        with contextlib.suppress(FileNotFoundError):
            # Links above are the person's; the folder itself and the one that holds it are ours.
            there = path.lstat() if path in (folder, folder.parent) else path.stat()
            if stat.S_ISDIR(there.st_mode):
                continue
            put_aside(path)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
            sync_folder(path.parent)


def put_aside(path: Path) -> Path:
    """Rename what stands at `path` to a name beside it that is free, and return that. Raises `OSError`."""
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.broken-{number}")):
        number += 1
    os.rename(path, aside)  # noqa: PTH104
    return aside


def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Put a private file in place whole: written beside, synced, renamed. Raises `OSError`.

    A link there is replaced, a folder put aside.
    """
    make_folder(path.parent)
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    if _is_folder(beside):
        # Start-up time: nothing of ours makes such a folder.
        import shutil

        shutil.rmtree(beside)
    beside.unlink(missing_ok=True)
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if _is_folder(path):
            put_aside(path)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable. Raises `OSError`."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _read(path: Path) -> bytes:
    """Return the content of a regular file. Raises `OSError` for all else, and follows no link."""
    with open_regular(path, os.O_NOFOLLOW) as file:
        return file.read()
