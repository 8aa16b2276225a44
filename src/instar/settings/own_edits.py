"""The person's own edits of what steers: those made while nothing of a model's lived, where they say that these count.

All instars of a person share one file in their data. Who runs something of a model's (a turn, a command in the
background, a hook script) holds its lock, shared. Who finds nobody else as that begins and ends notes, of each folder
of which the person said it, what is not as accepted. What is not so at the next start, and was so then, was changed in
between. An instar that was killed leaves a note without an end: nothing is taken.

The kernel's time of change has to say the same of a file: what the model made, and only steers now since the person
names it, is not theirs.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

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


class _Noted(msgspec.Struct):
    """What was `pending` as the model's in a folder when its time `ended` (ns; 0: it has not), and the person's edits.

    `mine` are those made before that time began, each with the id of its content.
    """

    ended: int = 0
    pending: list[str] = []
    mine: dict[str, str] = {}


_Notes = dict[str, _Noted]


def begin(trust: Trust, lock: int, *, alone: bool) -> None:
    """Note in the open file that a model's time begins, and if nobody else lives what the person did before."""
    notes = _read(lock)
    for folder, noted in notes.items():
        if noted.ended:
            edits = _edits(trust, Path(folder), noted) if alone else ()
            notes[folder] = _Noted(mine={change.name: _id(file) for change, file in edits})
    _write(lock, notes)
    # After a crash of the machine the older note would stand for a time that goes on.
    os.fsync(lock)


def end(trust: Trust, lock: int) -> None:
    """Note in the open file what differs now: what is not the person's is the model's. Nobody else lives."""
    _write(lock, {one: _ended(trust, Path(one), noted) for one, noted in _read(lock).items()})


def say(trust: Trust, paths: Paths, folder: Path, mine: bool) -> None:
    """Remember whether edits in a folder are the person's. Raises `OSError`."""
    if not mine and not is_said(paths, folder):
        return
    with _opened(paths) as (lock, alone):
        notes = {one: noted for one, noted in _read(lock).items() if one != str(folder)}
        # While something of a model's lives, its end notes what differs.
        noted = _ended(trust, folder, _Noted()) if alone else _Noted()
        _write(lock, {**notes, **({str(folder): noted} if mine else {})})


def is_said(paths: Paths, folder: Path) -> bool:
    """Whether the person said that edits in a folder are theirs."""
    return str(folder) in _decoded(content_of(paths.own_edits))


def take(trust: Trust, paths: Paths, folders: Sequence[Path]) -> Iterator[str]:
    """Accept the person's edits in `folders`, and yield a sentence for each folder of which something was taken.

    What may loosen a rule is left for the person to be asked about.
    """
    for folder in [one for one in folders if is_said(paths, one)]:
        with _opened(paths) as (lock, alone), contextlib.suppress(TrustError):
            view = trust.view(folder)
            noted = _read(lock).get(str(folder), _Noted()) if alone else _Noted()
            fit = {
                change: file
                for change, file in _edits(trust, folder, noted)
                if not _may_loosen(folder, path := folder / change.name, content_of(view.served(path)), file)
            }
            if fit:
                changed = {folder / change.name: file for change, file in fit.items()}
                files = {**trust.steering.kept(view), **changed}
                trust.accept(folder, {path: file for path, file in files.items() if file is not None})
                names = ", ".join(f"{change.name} ({change.how})" for change in fit)
                yield f"taken as your own edits of {folder}: {names}"


def _edits(trust: Trust, folder: Path, noted: _Noted) -> Iterator[tuple[SteeringChange, SteeringFile | None]]:
    """Yield what differs and is the person's, with the file as it stands."""
    for change, file, changed in _differing(trust, folder) if noted.ended else ():
        is_between = change.name not in noted.pending and changed > noted.ended
        is_read = (file is None) == (change.how == "gone")
        if is_read and (is_between or noted.mine.get(change.name) == _id(file)):
            yield change, file


def _ended(trust: Trust, folder: Path, noted: _Noted) -> _Noted:
    pending = [
        change.name
        for change, file, _ in _differing(trust, folder)
        if noted.mine.get(change.name) != _id(file)
    ]
    return _Noted(time.time_ns(), pending, noted.mine)


def _differing(trust: Trust, folder: Path) -> Iterator[tuple[SteeringChange, SteeringFile | None, float]]:
    """Yield what is not as accepted, with the file and its time of change; what is gone changed at any time."""
    for change in trust.view(folder).changes:
        try:
            yield change, file_at(folder / change.name), (folder / change.name).stat().st_ctime_ns
        except OSError:
            yield change, None, float("inf")


def _may_loosen(folder: Path, path: Path, before: bytes, now: SteeringFile | None) -> bool:
    """Whether an edit may loosen a rule or bring in a program: any of settings but what a stranger's may say too.

    What code does cannot be told; the person wrote it.
    """
    if is_code(path, folder):
        return False
    try:
        old, new = _said(path, before), _said(path, now.data if now else b"")
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
    said = parse_jsonc(data.decode(), str(path)) if data.strip() else {}
    Config.from_data(said, str(path))
    return dict(said)


def is_alone(lock: int) -> bool:
    """Whether nobody else holds the lock of the open file; it is held alone then, and not at all otherwise."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _id(file: SteeringFile | None) -> str:
    return "" if file is None else blob_id(file.data)


@contextlib.contextmanager
def _opened(paths: Paths) -> Iterator[tuple[int, bool]]:
    """Give the open file, and whether nothing of a model's lives."""
    lock = os.open(paths.own_edits, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield lock, is_alone(lock)
    finally:
        os.close(lock)


def _read(lock: int) -> _Notes:
    return _decoded(os.pread(lock, os.fstat(lock).st_size, 0))


def _decoded(data: bytes) -> _Notes:
    try:
        return msgspec.json.decode(data, type=_Notes)
    except msgspec.MsgspecError:
        return {}


def _write(lock: int, notes: _Notes) -> None:
    # The file that is locked, in one call that covers what stood there.
    os.pwrite(lock, msgspec.json.encode(notes).ljust(os.fstat(lock).st_size) if notes else b"", 0)
    if not notes:
        os.ftruncate(lock, 0)
