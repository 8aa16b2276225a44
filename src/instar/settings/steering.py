"""Steering: the files of a folder that say what instar runs and what it allows, in the version that a person accepted.

A trusted folder's settings, plugins, tools, rules with their programs, and what grants something in Markdown are read
from a copy in instar's data, never from the folder: whoever may write the folder cannot change what steers. The copy
is laid out from a commit of accepted content (`instar.settings.accepted`), a branch for each folder, under the absolute
paths of its files, so that what they import stands where they expect it. Children of the model may read it and not
write it.

What of a file steers is its `part`: two texts with the same part are the same to instar, and Markdown without one may
change freely. The person's own folders, and all folders under ``INSTAR_TRUST=all``, are read as they stand.
"""

import contextlib
import difflib
import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from instar.settings.accepted import AcceptedContent, Damaged, make_folder
from instar.settings.paths import Paths
from instar.settings.steered import (
    Found,
    SteeringError,
    accepted_words,
    collect,
    content_of,
    file_at,
    is_package,
    part,
    usual,
    walk,
)
from instar.wire.document import atomic_write

_NAMED: Final = 12
"""Files that a notice names."""


class SteeringChange(NamedTuple):
    """A file that steers and is not as accepted: its name from the folder, and ``new``, ``changed`` or ``gone``."""

    name: str
    how: str


class SteeringView(msgspec.Struct, frozen=True):
    """Where what steers in a `folder` is read.

    It is below `tree`, as it was accepted for the folder `base`; without a tree it is in its place. So is what lies in
    the person's `own` folders.
    """

    folder: Path
    base: Path
    tree: Path | None = None
    own: tuple[Path, ...] = ()
    changes: tuple[SteeringChange, ...] = ()

    def served(self, path: Path) -> Path:
        """Return what to read in the place of a file or folder that steers; it need not exist."""
        if self.tree is None or any(path.is_relative_to(one) for one in self.own):
            return path
        if path.is_relative_to(self.folder):
            return self.tree / (self.base / path.relative_to(self.folder)).relative_to("/")
        # What is named outside of the folder, and was not accepted with it, is for others to guard.
        outside = self.tree / path.relative_to("/")
        return outside if outside.exists() else path

    def named(self, served: Path) -> Path:
        """Return the path in the folder for one that `served` returned."""
        if self.tree is None or not served.is_relative_to(self.tree):
            return served
        path = Path("/") / served.relative_to(self.tree)
        return self.folder / path.relative_to(self.base) if path.is_relative_to(self.base) else path

    def brought(self, path: Path) -> Path:
        """Return what to read for a file that settings bring in: only those of the folder were accepted with them."""
        return self.served(path) if path.resolve().is_relative_to(self.folder) else path

    def words(self, words: Sequence[str], directory: Path) -> list[str]:
        """Return a command with the files that it starts in `directory` as they were accepted."""
        return accepted_words(words, directory, self.served)

    def definition(self, path: Path) -> bytes | None:
        """Return what is heard of a Markdown file: as it stands where what steers of it was accepted, else as accepted.

        None: nothing is.
        """
        served = self.served(path)
        here, there = content_of(path), content_of(served)
        if path.is_file() and part(path, here) == part(path, there):
            return here
        return there if served.is_file() else None

    def is_accepted(self, path: Path) -> bool:
        """Whether a file of the folder is as it was accepted, or was neither there nor accepted."""
        return all(self.folder / change.name != path.resolve() for change in self.changes)

    def notice(self) -> str:
        """Return one line that names what is not heard, and the command; "" for nothing."""
        if not self.changes:
            return ""
        names = ", ".join(f"{name} ({how})" for name, how in self.changes[:_NAMED])
        names += f", and {len(self.changes) - _NAMED} more" if len(self.changes) > _NAMED else ""
        where = shlex.quote(str(self.folder))
        return (
            f"{names}: not as accepted in {self.folder}, so the accepted version holds, or none; look: instar trust "
            f"diff {where}, then accept: instar trust {where}"
        )


class Steering:
    """What steers in a person's trusted folders, as accepted. What writes raises `OSError`."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._content = AcceptedContent(paths.data / "accepted.git")

    def is_accepted(self, base: Path) -> bool:
        """Whether anything was ever accepted for exactly this folder."""
        return bool(self._tip(base))

    def view(self, folder: Path, base: Path) -> SteeringView:
        """Return the view of a trusted `folder`, with what was accepted for `base`, and what is not so there now."""
        tip = self._tip(base)
        view = SteeringView(folder, base, self._tree(base, tip), self._paths.config_homes)
        return msgspec.structs.replace(view, changes=self._changes(view, tip))

    def laid_out(self, base: Path, commit: str) -> SteeringView | None:
        """Return where a commit that was accepted for `base` is read, whatever stands there; None: it is not kept."""
        view = SteeringView(base, base, self._tree(base, commit), self._paths.config_homes)
        return view if view.tree is not None and view.tree.is_dir() else None

    def forget(self, base: Path) -> None:
        """Let nothing be accepted for `base` any more."""
        # Start-up time, here and below: few starts change what is accepted.
        import shutil

        self._content.drop(_key(base))
        shutil.rmtree(self._paths.accepted / _key(base), ignore_errors=True)

    def accept(self, folder: Path, found: Found) -> str:
        """Accept what was found in a folder, and return the commit's id."""
        for file in found.values():
            self._content.put(file.data, durable=False)
        files = {str(path.relative_to("/")): file.entry for path, file in found.items()}
        made = self._content.commit(_key(folder), files, f"{folder}\n", parent=self._tip(folder))
        self._lay_out(folder, made)
        return made

    def kept(self, view: SteeringView) -> Found:
        """Return what was accepted for a folder, by the paths in it."""
        paths = walk(view.tree) if view.tree is not None and view.tree.is_dir() else ()
        return {view.named(path): file_at(path) for path in paths}

    def earlier(self, folder: Path, found: Found) -> date | None:
        """Return when just this was accepted before for a folder, if ever."""
        files = {str(path.relative_to("/")): file.entry for path, file in found.items()}
        wanted = self._content.put_tree(files, durable=False)
        with contextlib.suppress(Damaged):
            for tree, seconds in self._content.versions(_key(folder)):
                if tree == wanted:
                    return date.fromtimestamp(seconds)
        return None

    def diff(self, view: SteeringView, found: Found) -> Iterator[tuple[SteeringChange, str]]:
        """Yield each change that is effective, with its diff."""
        for change, before, after in _compared(view, found):
            yield change, _difference(change.name, before, after)

    def _tip(self, folder: Path) -> str:
        try:
            return self._content.tip(_key(folder))
        except Damaged:
            return ""

    def _tree(self, base: Path, tip: str) -> Path:
        """The folder in which a commit's files stand, laid out where they do not yet."""
        tree = self._paths.accepted / _key(base) / (tip or "none")
        if tip and not tree.is_dir():
            with contextlib.suppress(OSError, Damaged):
                self._lay_out(base, tip)
        return tree

    def _lay_out(self, folder: Path, commit: str) -> None:
        """Put a commit's files into the folder that children may read; older ones but the last go."""
        import shutil

        place = self._paths.accepted / _key(folder)
        beside = place / f".{commit}.{os.getpid()}"
        shutil.rmtree(beside, ignore_errors=True)
        make_folder(beside)
        for name, entry in self._content.read(commit).files.items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = self._content.content(entry.blob)
            if data is None:
                raise Damaged(f"{self._content.place}: the content of {name} is missing")
            path.write_bytes(data)
            path.chmod(0o555 if entry.mode == 0o100755 else 0o444)
        with contextlib.suppress(FileExistsError):
            if not (place / commit).exists():
                beside.rename(place / commit)
        shutil.rmtree(beside, ignore_errors=True)
        known = [one for one in place.iterdir() if not one.name.startswith(".")]
        trees = sorted(known, key=lambda one: (one.name == commit, one.stat().st_mtime))
        for old in trees[:-2]:
            shutil.rmtree(old, ignore_errors=True)

    def _changes(self, view: SteeringView, tip: str) -> tuple[SteeringChange, ...]:
        """What is not as accepted. Files are read only where one looks other than when they were read last."""
        note = self._paths.accepted / f"{_key(view.folder)}.json"
        with contextlib.suppress(OSError, msgspec.DecodeError):
            kept = msgspec.json.decode(note.read_bytes(), type=_Compared)
            if kept.tip == tip and kept.signature == _signature(view.folder, kept.more):
                return tuple(kept.changes)
        by_place = {*usual(view.folder)}
        try:
            first = collect(view.folder, self._paths, packages=False)
            more = [_text(path) for path in first if path not in by_place]
            # Before the files are read: what changes meanwhile looks other than it, and is read again.
            signature = _signature(view.folder, more)
            found = collect(view.folder, self._paths, packages=False)
            changes = [change for change, _, _ in _compared(view, found)]
        except SteeringError as error:
            return (SteeringChange(str(error), "too much"),)
        with contextlib.suppress(OSError):
            make_folder(note.parent)
            atomic_write(note, msgspec.json.encode(_Compared(tip, signature, more, changes)), 0o600)
        return tuple(changes)


class _Compared(msgspec.Struct):
    """What came of the last comparison of a folder.

    `more` are the files that steer beside the usual ones, `changes` what was not as accepted.
    """

    tip: str
    signature: str
    more: list[str]
    changes: list[SteeringChange]


def _text(path: Path) -> str:
    """A path as text that JSON can hold."""
    return os.fsencode(path).decode(errors="replace")


def _key(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]


def _signature(folder: Path, more: Iterable[str]) -> str:
    told = hashlib.sha256(os.fsencode(folder))
    for path in (*map(str, usual(folder)), *more):
        try:
            found = os.stat(path)  # noqa: PTH116 - asked for each file at each start
        except OSError:
            continue
        told.update(
            f"{path}\0{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}\n".encode(
                errors="surrogateescape"
            )
        )
    return told.hexdigest()


def _compared(view: SteeringView, found: Found) -> Iterator[tuple[SteeringChange, bytes, bytes]]:
    """Each effective change, with the content accepted and the content now."""
    accepted = _accepted_paths(view)
    for path in sorted({*found, *accepted}):
        now, before = found[path].data if path in found else b"", content_of(view.served(path))
        if part(path, now) == part(path, before) or (
            path in accepted and path not in found and is_package(path)
        ):
            continue
        how = "new" if path not in accepted else "changed" if path in found else "gone"
        name = path.relative_to(view.folder) if path.is_relative_to(view.folder) else path
        yield SteeringChange(_text(name), how), before, now


def _accepted_paths(view: SteeringView) -> set[Path]:
    tree = view.tree
    if tree is None or not tree.is_dir():
        return set()
    return {view.named(path) for path in walk(tree)}


def _difference(name: str, before: bytes, after: bytes) -> str:
    try:
        texts = [one.decode().splitlines(keepends=True) for one in (before, after)]
    except UnicodeDecodeError:
        return f"{name}: not a text\n"
    lines = difflib.unified_diff(texts[0], texts[1], f"accepted/{name}", name)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
