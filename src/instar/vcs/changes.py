"""What of a worktree differs from a commit, files that git does not know yet included, as clients are shown it.

Nothing is written into the repository: new files are noted in a copy of its index.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from instar.api.vcs import Status, VcsFileDiff, VcsFileStatus
from instar.git import GitError, common_folder, git_folder
from instar.vcs.repository import Repository

LONGEST: Final = 1 << 20
"""Bytes of one file's patch; a longer one is left out, its counts stay."""
LONGEST_ALL: Final = 16 << 20
"""Bytes of all patches of an answer."""
MOST_CONTEXT: Final = 10_000_000
"""Lines around a change: the whole file, for what git is asked."""

_LETTERS: Final[dict[str, Status]] = {"A": "added", "D": "deleted"}
# A submodule's own files are never looked at: git would be started there, with that one's settings.
_PLAIN: Final = (
    "diff", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty",
    "--src-prefix=a/", "--dst-prefix=b/", "--no-relative", "--diff-algorithm=myers",
)  # fmt: skip


class _Changed(NamedTuple):
    file: str
    letter: str
    added: int
    deleted: int


async def status(repository: Repository, below: Path) -> list[VcsFileStatus]:
    """Return the files at or below a folder that differ from the last commit, in the order of their names."""
    async with _noted(repository, below) as env:
        changed = await _changed(repository, env, await _head(repository), below)
    return [
        VcsFileStatus(file=one.file, additions=one.added, deletions=one.deleted, status=_status(one.letter))
        for one in changed
    ]


async def diff(
    repository: Repository, below: Path, since: str | None = None, context: int | None = None
) -> list[VcsFileDiff]:
    """Return the files at or below a folder that differ from a commit (None: the last one), with their patches."""
    lines = () if context is None else (f"--unified={min(context, MOST_CONTEXT)}",)
    async with _noted(repository, below) as env:
        base = since or await _head(repository)
        changed = await _changed(repository, env, base, below)
        patches = await _patches(repository, env, [*lines, base], below) if changed else b""
    chunks = _chunks(patches, changed)
    return [
        VcsFileDiff(
            file=one.file,
            patch=chunk,
            additions=one.added,
            deletions=one.deleted,
            status=_status(one.letter),
        )
        for one, chunk in zip(changed, chunks, strict=True)
    ]


async def raw(repository: Repository, below: Path) -> bytes:
    """Return all that differs from the last commit as one patch, which `git apply` takes; files that are no text too.

    Raises `GitError` when it is longer than git's output may be.
    """
    async with _noted(repository, below) as env:
        args = ("--binary", "--full-index", await _head(repository))
        return await repository.run(*_PLAIN, "-p", *args, "--", _spec(repository, below), env=env)


async def _head(repository: Repository) -> str:
    """The last commit; before the first one the tree that holds nothing."""
    known = await repository.commit("HEAD")
    if known is not None:
        return known
    return (await repository.run("hash-object", "-t", "tree", "--stdin")).decode().strip()


async def _changed(repository: Repository, env: Mapping[str, str], base: str, below: Path) -> list[_Changed]:
    args = (*_PLAIN, "--raw", "--numstat", "-z", base, "--", _spec(repository, below))
    return list(_listed((await repository.run(*args, env=env)).split(b"\0")[:-1]))


async def _patches(repository: Repository, env: Mapping[str, str], args: Sequence[str], below: Path) -> bytes:
    try:
        return await repository.run(*_PLAIN, "-p", *args, "--", _spec(repository, below), env=env)
    except GitError:  # longer than git's output may be: the counts are there
        return b""


def _listed(records: Sequence[bytes]) -> Iterator[_Changed]:
    """The files of ``--raw --numstat -z``: first each one's letter, then each one's counts."""
    letters: dict[bytes, str] = {}
    counts: dict[bytes, tuple[int, int]] = {}
    given = iter(records)
    for record in given:
        if record.startswith(b":"):
            letters[next(given)] = record.rpartition(b" ")[2][:1].decode()
        else:
            added, deleted, name = record.split(b"\t", 2)
            counts[name] = (_count(added), _count(deleted))
    for name, letter in letters.items():
        yield _Changed(name.decode(errors="replace"), letter, *counts.get(name, (0, 0)))


def _count(number: bytes) -> int:
    """Lines of a text; for what is none git prints a dash."""
    return int(number) if number.isdigit() else 0


def _chunks(patches: bytes, changed: Sequence[_Changed]) -> list[str | None]:
    """Each file's patch, None for one that is too long or where the patches before it were."""
    # A line of content begins with a blank, a sign or a backslash: only a header begins with this word.
    chunks = (b"\n" + patches).split(b"\ndiff --git ")[1:]
    found: list[str | None] = []
    room = LONGEST_ALL
    for one in changed:
        # A file that became a link is one file deleted and one added: two chunks.
        count = 2 if one.letter == "T" else 1
        taken, chunks = chunks[:count], chunks[count:]
        patch = b"".join(b"diff --git " + chunk.removesuffix(b"\n") + b"\n" for chunk in taken)
        fits = bool(taken) and len(patch) <= min(LONGEST, room)
        room -= len(patch) if fits else 0
        found.append(patch.decode(errors="replace") if fits else None)
    return found


def _status(letter: str) -> Status:
    return _LETTERS.get(letter, "modified")


def _spec(repository: Repository, below: Path) -> str:
    return os.path.relpath(below, repository.worktree)


@asynccontextmanager
async def _noted(repository: Repository, below: Path) -> AsyncIterator[Mapping[str, str]]:
    """An index in which the files that git does not know are noted, as git's variables."""
    args = ("ls-files", "--others", "--exclude-standard", "-z", "--", _spec(repository, below))
    # A repository inside this one is listed as a folder: it is another's.
    new = [name for name in (await repository.run(*args)).split(b"\0") if name and not name.endswith(b"/")]
    with tempfile.TemporaryDirectory(prefix="instar-vcs-") as made:
        env = await asyncio.to_thread(_index, repository.worktree, Path(made))
        if new:
            note = ("add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul")
            await repository.run(*note, env=env, stdin=b"\0".join(new))
        yield env


def _index(worktree: Path, made: Path) -> dict[str, str]:
    """Copy the index. What git writes when it notes a file (an empty object) goes beside the copy."""
    folder, common = git_folder(worktree), common_folder(worktree)
    if folder is None or common is None:
        raise GitError(f"{worktree} is no git worktree any more")
    index = made / "index"
    if (folder / "index").is_file():
        shutil.copyfile(folder / "index", index)
    (made / "objects").mkdir()
    kept = str(common / "objects").replace("\\", "\\\\").replace('"', '\\"')
    return {
        "GIT_INDEX_FILE": str(index),
        "GIT_OBJECT_DIRECTORY": str(made / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{kept}"',
    }
