"""Putting files back as they were: only what the newest snapshot holds is overwritten or deleted.

The names come from stored parts, which an imported session may have brought: nothing outside the worktree,
behind a symbolic link or in a ``.git`` folder is touched.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from instar.snapshot.shadow import Shadow


class Restored(msgspec.Struct):
    """What was done: the trees `before` and `after`, and names relative to the worktree.

    `files` are as they were then; `kept` were left alone, since no snapshot holds what they would have lost,
    or since the system refused; `gone` names snapshots that exist no more.
    """

    before: str
    after: str
    files: list[str] = msgspec.field(default_factory=list)
    kept: list[str] = msgspec.field(default_factory=list)
    gone: list[str] = msgspec.field(default_factory=list)


Entries = Mapping[str, str]
"""File names with their mode and object: ``100644 <hash>``."""


def parse_tree(records: Iterable[bytes]) -> dict[str, str]:
    """Return the entries of ``ls-tree -r -z`` (mode, kind, hash, tab, name), files and links only."""
    found = {}
    for record in records:
        head, _, name = record.partition(b"\t")
        mode, kind, oid = head.split(b" ")[:3]
        if kind == b"blob":
            found[name.decode(errors="surrogateescape")] = f"{mode.decode()} {oid.decode()}"
    return found


def inside(worktree: Path, file: str) -> str | None:
    """Return a file's name relative to the worktree, or None where it lies outside or in a ``.git``."""
    path = PurePosixPath(file)
    if "\0" in file or ".." in path.parts:
        return None
    if path.is_absolute():
        if not path.is_relative_to(worktree):
            return None
        path = path.relative_to(worktree)
    if not path.parts or any(part.lower() == ".git" for part in path.parts):
        return None
    return str(path)


async def put_back(
    shadow: Shadow, wanted: Mapping[str, str | None], present: Entries, restored: Restored
) -> None:
    """Give each file the entry that is wanted, or delete it (None); `present` is what the newest snapshot holds.

    Fills in `restored.files` and `restored.kept`.
    """
    writes: dict[str, str] = {}
    deletes: list[str] = []
    for name, entry in wanted.items():
        if present.get(name) == entry and (entry is not None or not _exists(shadow.worktree, name)):
            restored.files.append(name)
        elif not _is_safe(shadow.worktree, name, present):
            restored.kept.append(name)
        elif entry is not None:
            writes[name] = entry
        else:
            deletes.append(name)
    ignored = await _ignored_then(shadow, writes, deletes)
    for name in deletes:
        if name in ignored:
            restored.kept.append(name)
        else:
            _delete(shadow.worktree, name, restored)
    if writes:
        await _write(shadow, writes)
        restored.files.extend(writes)


async def _ignored_then(shadow: Shadow, writes: Entries, deletes: Collection[str]) -> set[str]:
    """Which of the files to delete were ignored before an ignore file changed: no snapshot held them then.

    They may have been there, so that their absence from the snapshot says nothing. The ignore files are put back.
    """
    rules = {name: entry for name, entry in writes.items() if PurePosixPath(name).name == ".gitignore"}
    if not rules or not deletes:
        return set()
    await _write(shadow, rules)
    lines = b"".join(f"{name}\0".encode() for name in deletes)
    args = ("check-ignore", "--no-index", "-z", "--stdin")
    found = await shadow.run(*args, stdin=lines, check=False)
    return {name.decode() for name in found.split(b"\0") if name}


def _exists(worktree: Path, name: str) -> bool:
    return os.path.lexists(worktree / name)


def _is_safe(worktree: Path, name: str, present: Entries) -> bool:
    """Whether what stands at this name, or in the way of it, is held by the newest snapshot."""
    parts = PurePosixPath(name).parts
    for depth in range(1, len(parts)):
        above = worktree.joinpath(*parts[:depth])
        if above.is_symlink() or (above.exists() and not above.is_dir()):
            return "/".join(parts[:depth]) in present
    path = worktree / name
    if path.is_dir() and not path.is_symlink():
        return all(below in present for below in _below(worktree, path))
    return name in present or not os.path.lexists(path)


def _below(worktree: Path, folder: Path) -> Iterable[str]:
    for root, folders, files in os.walk(folder):
        found = [Path(root, one) for one in (*folders, *files)]
        yield from (str(one.relative_to(worktree)) for one in found if one.is_symlink() or not one.is_dir())


def _delete(worktree: Path, name: str, restored: Restored) -> None:
    """Delete a file that did not exist then, and the folders that are empty without it."""
    path = worktree / name
    if _stands_behind_link(worktree, name) or (path.is_dir() and not path.is_symlink()):
        restored.files.append(name)  # nothing stands at this name itself
        return
    try:
        path.unlink(missing_ok=True)
        for above in path.parents:
            if above == worktree:
                break
            above.rmdir()
    except OSError:
        # A folder with more in it stays. Whether the file went is what counts.
        pass
    (restored.kept if os.path.lexists(path) else restored.files).append(name)


def _stands_behind_link(worktree: Path, name: str) -> bool:
    parts = PurePosixPath(name).parts
    return any(worktree.joinpath(*parts[:depth]).is_symlink() for depth in range(1, len(parts)))


async def _write(shadow: Shadow, writes: Entries) -> None:
    """Write files through an index of their own; git replaces a link that stands in the way, never follows it."""
    index = shadow.folder / "restore-index"
    index.unlink(missing_ok=True)
    try:
        lines = b"".join(f"{entry}\t{name}\0".encode() for name, entry in writes.items())
        await shadow.run("update-index", "-z", "--index-info", stdin=lines, index=index)
        # One file that the system refuses must not keep the others from being written.
        await shadow.run("checkout-index", "--force", "--all", "--quiet", index=index, check=False)
    finally:
        index.unlink(missing_ok=True)
