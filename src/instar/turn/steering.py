"""What was changed of guarded places: told from what is harmless, put to a person, else put aside and said."""

import logging
import os
import re
import stat
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from instar.approval.permissions import KEEP
from instar.event import AskedBy, TuiToastShow, make
from instar.git import GitError
from instar.git.steering import Entry, edited, steering
from instar.plugin import Ask
from instar.process import ProcessError
from instar.sandbox.aside import AsideFile, PutAside, digest, move_out, put
from instar.sandbox.guarded_places import FileState, GuardedChange, state_of
from instar.sandbox.startup_files import PATH
from instar.session.instance import Instance

log = logging.getLogger("instar.steering")

_SYSTEM: Final = ("/usr/bin", "/bin", "/usr/sbin", "/sbin")
_MACHINE: Final = "machine"
_SHOWN: Final = 4_000
"""Characters of a file that a person is shown."""


class _Finding(msgspec.Struct, frozen=True):
    """A change that counts. `added` and `removed` are entries of a configuration that is edited, not moved."""

    change: GuardedChange
    shown: str
    digests: list[str]
    added: list[Entry] | None = None
    removed: Sequence[Entry] = ()


async def settle(instance: Instance, session_id: str = "", caller: AskedBy | None = None) -> str:
    """Decide about all that changed; return what was put aside, a text for the model and the person, "" for nothing.

    A person is asked where there is one and the change is a call's.
    """
    places = instance.children.steering
    if places is None:
        return ""
    aside = PutAside(instance.paths.aside)
    found = []
    for change in places.take():
        finding = None if _is_left(instance, change) else await _weighed(instance, change)
        if finding is not None and not aside.is_kept(_owner(instance, change), finding.digests):
            found.append(finding)
    if not found:
        return ""
    if caller is not None and await _agreed(instance, found, session_id, caller):
        for one in found:
            aside.keep(_owner(instance, one.change), one.digests)
        return ""
    text = await _put_aside(instance, aside, found)
    log.warning("put aside session=%s: %s", session_id, text)
    instance.bus.publish(make(TuiToastShow(title="put aside", message=text, variant="warning")))
    return text


async def _weighed(instance: Instance, change: GuardedChange) -> _Finding | None:
    """Return what counts of a change; None when nothing does."""
    kind, former, now = change.place.kind, change.former, change.now
    shown = _shown(instance, change.path)
    if kind == "pointer" and now is not None and _is_ordinary(change):
        return None
    if change.former is None and _is_inert(change, instance.environment.get("PATH", "")):
        return None
    if kind != "config" or (now is not None and not stat.S_ISREG(now.mode)):
        return _Finding(change, f"{shown} ({change.place.reason})", [_digest(change)])
    submodule = "/modules/" in change.path
    config = [(state.data if state is not None else None) or b"" for state in (former, now)]
    before = await steering(instance.processes, config[0], submodule=submodule)
    after = await steering(instance.processes, config[1], submodule=submodule)
    if after is None or (now is not None and now.data is None):
        return _Finding(change, f"{shown} (git cannot read it)", [_digest(change)])
    added = [one for one in after if one not in (before or ())]
    removed = [one for one in before or () if one not in after] if change.place.guards else []
    if not added and not removed:
        return None
    words = [f"{key} = {value}" for key, value in added] + [f"{key} taken out" for key, _ in removed]
    digests = [digest("entry", *one) for one in added] + [digest("entry taken out", *one) for one in removed]
    return _Finding(
        change, f"{shown}: {_line(', '.join(words))} ({change.place.reason})", digests, added, removed
    )


def _is_inert(change: GuardedChange, folders: str) -> bool:
    """Whether a new file is what package managers make: a program of a new name, paths for Python to look in."""
    name = os.path.basename(change.path)  # noqa: PTH119
    if change.place.reason == PATH:
        places = {os.path.realpath(one) for one in (*folders.split(os.pathsep), *_SYSTEM)}
        others = places - {os.path.realpath(change.place.base)}
        return not any(os.path.lexists(os.path.join(one, name)) for one in others)  # noqa: PTH118
    data = None if change.now is None else change.now.data
    is_paths = data is not None and not any(line.lstrip().startswith(b"import") for line in data.splitlines())
    return name.endswith(".pth") and is_paths


def _is_left(instance: Instance, change: GuardedChange) -> bool:
    """Whether the person's settings leave a start-up file as it is."""
    home = f"{instance.paths.home}/"
    patterns = instance.config.shield.startup_files if _owner(instance, change) == _MACHINE else ()
    return any(fnmatchcase(change.path, re.sub("^~/", lambda _: home, one)) for one in patterns)


def _is_ordinary(change: GuardedChange) -> bool:
    """Whether a worktree's file leads to the folder that it lies in, as git itself writes it."""
    folder = os.path.dirname(change.path)  # noqa: PTH120
    data = change.now.data if change.now and stat.S_ISREG(change.now.mode) else None
    return (
        os.path.basename(os.path.dirname(folder)) == "worktrees"  # noqa: PTH119, PTH120
        and (data or b"").strip() == b"../.."
    )


async def _agreed(instance: Instance, found: Sequence[_Finding], session_id: str, caller: AskedBy) -> bool:
    """Ask a person whether to keep all of it."""
    texts = []
    for one in found:
        now = one.change.now
        data = now.data if now is not None and one.added is None else None
        content = "" if now is None or one.added is not None else "\n(a file that is no text)"
        if data is not None:
            content = "\n" + data.decode(errors="replace")[:_SHOWN].rstrip("\n")
        texts.append(f"{one.shown}{'; it was deleted' if now is None else content}")
    ask = Ask(KEEP, [one.shown for one in found], [], {"diff": "\n\n".join(texts)})
    return await instance.approvals.confirm(ask, session_id, caller)


async def _put_aside(instance: Instance, aside: PutAside, found: Sequence[_Finding]) -> str:
    """Put all of it aside, what stood there before back in place, and return the line that says so."""
    name, kept, lines = "", list[AsideFile](), list[str]()
    for one in found:
        try:
            name = name or aside.new()
            file = await _put_one_aside(instance, aside, name, one)
        except (OSError, GitError, ProcessError) as error:
            lines.append(
                f"{one.shown} runs later and nobody agreed to it; it cannot be put aside ({error}): look at it"
            )
            continue
        finally:
            if instance.children.steering is not None:
                instance.children.steering.know(one.change)
        if file is None:
            lines.append(f"{one.shown} was deleted and is back in place")
        else:
            kept.append(file)
            lost = one.change.former is not None and one.change.former.data is None
            lines.append(
                f"{one.shown} was put aside{', and what stood there before was too large to keep' if lost else ''}"
            )
    if kept:
        aside.note(name, kept)
        where = instance.paths.aside / name
        lines.append(
            f"it would run later, and nobody agreed to it; it is in {where}, and a person keeps it with:"
            f" instar aside restore {name}"
        )
    elif name:
        aside.forget(name)
    return f"instar: {'; '.join(lines)}"


async def _put_one_aside(instance: Instance, aside: PutAside, name: str, one: _Finding) -> AsideFile | None:
    """Put one file aside, or take entries out of it; None where it only had to be put back."""
    change, places = one.change, instance.children.steering
    assert places is not None
    path = places.real(change.path)
    now = state_of(change.path)
    if one.added is not None:
        config = (now and now.data) or b""
        mode = now.mode if now else (change.former or FileState(stat.S_IFREG | 0o644, b"")).mode
        entries = await edited(instance.processes, b"", [], one.added)
        if one.added:
            aside.place(name, change.path).write_bytes(entries)
        put(path, FileState(mode, await edited(instance.processes, config, one.added, one.removed)))
        if not one.added:
            return None
    else:
        if now is not None:
            move_out(path, aside.place(name, change.path))
        if change.former is not None and change.former.data is not None:
            put(path, change.former)
        if now is None:
            return None
    return AsideFile(
        path=change.path,
        file=change.path.lstrip("/"),
        reason=change.place.reason,
        repository=_owner(instance, change),
        digests=one.digests,
        mode=stat.S_IMODE(now.mode) if now else 0o644,
        entries=list(one.added or ()),
    )


def _owner(instance: Instance, change: GuardedChange) -> str:
    """For what a person's answer holds: the repository, or the machine."""
    places = instance.children.steering
    is_machines = change.place.kind == "startup" or (
        change.place.kind == "config" and not change.place.guards
    )
    return _MACHINE if is_machines or places is None else places.repository


def _digest(change: GuardedChange) -> str:
    """The digest of a file's name, kind and content; of one that is too large to read it is never the same."""
    now = change.now
    if now is None:
        return digest("gone", change.path)
    data = os.urandom(16) if now.data is None else now.data
    return digest("file", change.path, str(stat.S_IFMT(now.mode)), str(now.mode & 0o6111), data)


def _shown(instance: Instance, path: str) -> str:
    worktree, home = str(instance.project.worktree), str(instance.paths.home)
    if instance.project.vcs and path.startswith(f"{worktree}/"):
        path = path[len(worktree) + 1 :]
    elif path.startswith(f"{home}/"):
        path = f"~{path[len(home) :]}"
    return _line(path)


def _line(text: str) -> str:
    """A text that a model chose, on one line and without what steers a terminal."""
    plain = "".join(char if char.isprintable() else "?" for char in text)
    return plain if len(plain) <= 200 else f"{plain[:200]}…"
