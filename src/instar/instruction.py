"""Instructions: the texts that a project and a person give to every agent.

``AGENTS.md`` (else ``CLAUDE.md``) of the home configuration and of each folder from the worktree down to the
directory, then the files that the config's ``instructions`` name.
"""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

log = logging.getLogger("instar.context")

NAMES = ("AGENTS.md", "CLAUDE.md")
LONGEST = 256 * 1024
"""Bytes of one file that are read."""


def read(directory: Path, worktree: Path, homes: Iterable[Path], patterns: Iterable[str]) -> list[str]:
    """Return each instruction file as ``Instructions from: PATH`` and its text, without repeats.

    A file that cannot be read is logged and left out.
    """
    found: dict[Path, None] = {}
    for path in _candidates(directory, worktree, homes, patterns):
        found.setdefault(path.resolve())
    texts = ((path, _text(path)) for path in found)
    return [f"Instructions from: {path}\n{text}" for path, text in texts if text]


def _candidates(
    directory: Path, worktree: Path, homes: Iterable[Path], patterns: Iterable[str]
) -> Iterator[Path]:
    for home in homes:
        yield from _first(home)
    for folder in reversed(_chain(directory, worktree)):
        yield from _first(folder)
    for pattern in patterns:
        yield from _globbed(directory, pattern)


def _chain(directory: Path, worktree: Path) -> list[Path]:
    """The directory and its parents up to the worktree; only the directory where it is not inside."""
    if not directory.is_relative_to(worktree) or worktree == Path(worktree.anchor):
        return [directory]
    parents = [folder for folder in directory.parents if folder.is_relative_to(worktree)]
    return [directory, *parents]


def _first(folder: Path) -> Iterator[Path]:
    for name in NAMES:
        if (folder / name).is_file():
            yield folder / name
            return


def _globbed(directory: Path, pattern: str) -> list[Path]:
    path = Path(pattern).expanduser()
    root, relative = (
        (Path(path.anchor), str(path.relative_to(path.anchor)))
        if path.is_absolute()
        else (directory, pattern)
    )
    return sorted(file for file in root.glob(relative) if file.is_file())


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(LONGEST).decode("utf-8", "replace").strip()
    except OSError as error:
        log.warning("instructions not read file=%s error=%s", path, error)
        return ""
