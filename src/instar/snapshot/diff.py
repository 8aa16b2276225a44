"""How two snapshots differ, file by file, in opencode's shape (`SnapshotFileDiff`)."""

from collections.abc import Collection
from typing import Final, Literal

from instar.git import GitError
from instar.message import FileDiff
from instar.snapshot.shadow import Shadow

LONGEST: Final = 256 * 1024
"""Characters of one file's patch; a longer one is left out, its counts stay."""

_COMPARE: Final = ("diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv")
_STATUS: Final[dict[str, Literal["added", "deleted", "modified"]]] = {"A": "added", "D": "deleted"}


async def names(shadow: Shadow, before: str, after: str) -> list[str]:
    """Return the names of the files that differ, relative to the worktree, in git's order."""
    if before == after:
        return []
    found = await shadow.names(*_COMPARE, "--name-only", "-z", before, after)
    return [name.decode() for name in found]


async def text(shadow: Shadow, before: str, after: str) -> str:
    """Return the whole difference as a unified diff."""
    return (await shadow.run(*_COMPARE, "-p", before, after)).decode(errors="replace")


async def full(
    shadow: Shadow, before: str, after: str, only: Collection[str] | None = None
) -> list[FileDiff]:
    """Return each file that differs, with its counts and its patch; `only` names the files wanted."""
    if before == after:
        return []
    listed = _listed(await shadow.names(*_COMPARE, "--raw", "--numstat", "-z", before, after))
    wanted = [one for one in listed if only is None or one[0] in only]
    if not wanted:
        return []
    patches = await _patches(shadow, before, after, listed)
    return [
        FileDiff(
            file=name, patch=patches.get(name), additions=added, deletions=deleted, status=_status(letter)
        )
        for name, letter, added, deleted in wanted
    ]


def _status(letter: str) -> Literal["added", "deleted", "modified"]:
    return _STATUS.get(letter, "modified")


def _listed(records: list[bytes]) -> list[tuple[str, str, int, int]]:
    """Name, status letter, lines added and deleted of each file, from ``--raw --numstat -z``."""
    letters: dict[str, str] = {}
    counts: dict[str, tuple[int, int]] = {}
    given = iter(records)
    for record in given:
        if record.startswith(b":"):
            letters[next(given).decode()] = record.rpartition(b" ")[2][:1].decode()
        else:
            added, deleted, name = record.split(b"\t", 2)
            counts[name.decode()] = (_count(added), _count(deleted))
    return [(name, letter, *counts.get(name, (0, 0))) for name, letter in letters.items()]


def _count(number: bytes) -> int:
    """Lines of a text; of a binary file git prints a dash."""
    return int(number) if number.isdigit() else 0


async def _patches(
    shadow: Shadow, before: str, after: str, listed: list[tuple[str, str, int, int]]
) -> dict[str, str]:
    """Each file's patch by its name; empty where they are too long together."""
    try:
        whole = await text(shadow, before, after)
    except GitError:
        return {}
    # A line of content begins with a blank, a sign or a backslash: only a header begins with this word.
    chunks = ("\n" + whole).split("\ndiff --git ")[1:]
    found: dict[str, str] = {}
    for name, letter, _, _ in listed:
        # A file that became a link is one file deleted and one added: two chunks.
        count = 2 if letter == "T" else 1
        taken, chunks = chunks[:count], chunks[count:]
        patch = "".join(f"diff --git {chunk}\n" for chunk in (one.removesuffix("\n") for one in taken))
        if len(patch) <= LONGEST:
            found[name] = patch
    return found
