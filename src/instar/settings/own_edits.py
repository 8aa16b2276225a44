"""The person's own edits of what steers: those made while nothing of a model's lived, where they say that these count.

`ModelTime` is when something of a model's lives: a turn, a command in the background, a hook script. All instars of a
person share one file in their data. Who lives holds its lock; who finds nobody else at the begin, and at the end, notes
in it what differs then from what was accepted, of the folders of which the person said it. What differs at the next
start and did not then, was made in between. An instar that was killed leaves a note without an end: nothing is taken.

A file counts as made in between only if its time of change, which the kernel sets, says so: what the model made, and
only steers now since the person names it, does not.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.settings.accepted import blob_id
from instar.settings.config import Config, ConfigError
from instar.settings.paths import Paths
from instar.settings.steered import SteeringFile, content_of, file_at, is_code
from instar.settings.steering import SteeringChange
from instar.settings.trust import Trust, TrustError
from instar.settings.untrusted import is_free
from instar.wire import Plain
from instar.wire.document import DocumentError, parse_jsonc
from instar.wire.front_matter import front_matter

_GONE: Final = ""
"""Stands for the content of a file that is not there."""


class _Note(msgspec.Struct):
    """What is known of a folder: what was not as accepted at `ended` (ns; 0: a model lives), and the person's edits.

    `mine` are those that were made before the model's time began, each with the id of its content.
    """

    ended: int = 0
    pending: list[str] = []
    mine: dict[str, str] = {}


_Notes = dict[str, _Note]


class ModelTime:
    """The time in which something of a model's lives, of one runtime. What begins raises `OSError`."""

    def __init__(self, paths: Paths, environment: Mapping[str, str]) -> None:
        self._trust = Trust(paths, environment)
        self._file = _file(paths)
        self._users = self._lock = 0

    @contextlib.contextmanager
    def lived(self) -> Iterator[None]:
        """Count what changes while the block runs as the model's."""
        if not self._users:
            self._begin()
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._end()

    def _begin(self) -> None:
        self._lock = _opened(self._file)
        if _is_alone(self._lock):
            notes = _read(self._lock)
            mine = {
                str(folder): {change.name: _id(file) for change, file in _edits(self._trust, folder, notes)}
                for folder in self._trust.mine()
            }
            _write(self._lock, {folder: _Note(mine=edits) for folder, edits in mine.items()})
            if notes:
                # After a crash of the machine the older note would stand for a time that goes on.
                os.fsync(self._lock)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            if _is_alone(self._lock):
                notes = _read(self._lock)
                _write(self._lock, {str(one): _note(self._trust, one, notes) for one in self._trust.mine()})
        os.close(self._lock)


def begin(trust: Trust, paths: Paths, folder: Path) -> None:
    """Note what differs in a folder of which the person just said that edits are theirs. Raises `OSError`.

    While something of a model's lives, its end does.
    """
    with _alone(paths) as lock:
        if lock is not None:
            notes = _read(lock)
            _write(lock, {**notes, str(folder): _note(trust, folder, {})})


def take(trust: Trust, paths: Paths, folders: Sequence[Path]) -> Iterator[str]:
    """Accept the person's edits in `folders`, and yield a sentence for each folder of which something was taken.

    What may loosen a rule is left for the person to be asked about.
    """
    wanted = [folder for folder in trust.mine() if folder in folders]
    with _alone(paths) if wanted else contextlib.nullcontext() as lock:
        notes = {} if lock is None else _read(lock)
        for folder in wanted:
            files, view = dict(trust.steering.kept(trust.compared(folder))), trust.compared(folder)
            names = []
            for change, file in _edits(trust, folder, notes):
                path = folder / change.name
                if not _may_loosen(folder, path, content_of(view.served(path)), file):
                    names.append(f"{change.name} ({change.how})")
                    files.pop(path, None)
                    files |= {} if file is None else {path: file}
            with contextlib.suppress(TrustError):
                if names:
                    trust.accept(folder, files)
                    yield f"taken as your own edits of {folder}: {', '.join(names)}"


def _edits(trust: Trust, folder: Path, notes: _Notes) -> Iterator[tuple[SteeringChange, SteeringFile | None]]:
    """Yield what differs and is the person's, with the file as it stands."""
    note = notes.get(str(folder), _Note())
    for change in trust.compared(folder).changes if note.ended else ():
        path = folder / change.name
        file, changed = None, note.ended + 1
        with contextlib.suppress(OSError):
            changed = path.stat().st_ctime_ns
            file = file_at(path)
        is_between = change.name not in note.pending and changed > note.ended
        if (file is None) == (change.how == "gone") and (
            is_between or note.mine.get(change.name) == _id(file)
        ):
            yield change, file


def _note(trust: Trust, folder: Path, notes: _Notes) -> _Note:
    """What differs now, at the end of a model's time: what is not the person's is the model's."""
    mine = notes.get(str(folder), _Note()).mine
    pending = []
    for change in trust.compared(folder).changes:
        file = None
        with contextlib.suppress(OSError):
            file = file_at(folder / change.name)
        if mine.get(change.name) != _id(file):
            pending.append(change.name)
    return _Note(time.time_ns(), pending, mine)


def _may_loosen(folder: Path, path: Path, before: bytes, now: SteeringFile | None) -> bool:
    """Whether an edit may loosen a rule, or choose who answers: any of settings but what a stranger's may say too.

    What code does cannot be told; the person wrote it.
    """
    if is_code(path, folder):
        return False
    try:
        old, new = _said(path, before), _said(path, b"" if now is None else now.data)
    except (DocumentError, ConfigError, UnicodeDecodeError):
        return True
    return any(
        json.dumps(old.get(key)) != json.dumps(new.get(key))
        and not is_free(key, definition=path.suffix == ".md")
        for key in {**old, **new}
    )


def _said(path: Path, data: bytes) -> Plain:
    """What settings or a definition say. Raises what a mistake in them raises."""
    if path.suffix == ".md":
        return front_matter(data.decode(), str(path)).data
    said: Any = parse_jsonc(data.decode(), str(path)) if data.strip() else {}
    Config.from_data(said, str(path))
    return dict(said)


def _id(file: SteeringFile | None) -> str:
    return _GONE if file is None else blob_id(file.data)


# -- the file that all instars share ----------------------------------------------------------------------


def _file(paths: Paths) -> Path:
    return paths.data / "model-time.json"


def _opened(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def _alone(paths: Paths) -> Iterator[int | None]:
    """Give the open file while nothing of a model's lives; None while something does."""
    lock = _opened(_file(paths))
    try:
        yield lock if _is_alone(lock) else None
    finally:
        os.close(lock)


def _is_alone(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(lock: int) -> _Notes:
    """The notes; none where they cannot be read, as after a crash."""
    try:
        return msgspec.json.decode(os.pread(lock, os.fstat(lock).st_size, 0), type=_Notes)
    except msgspec.MsgspecError:
        return {}


def _write(lock: int, notes: _Notes) -> None:
    # In place: the lock is the file's. What a crash leaves half written cannot be read.
    os.ftruncate(lock, 0)
    if notes:
        os.pwrite(lock, msgspec.json.encode(notes), 0)
