"""Modified: the files that a hook says it changed."""

from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from instar.plugins.evolve.protocol import as_text, clip

MOST: Final = 1000
"""Files of one answer."""


class ModifiedFiles(NamedTuple):
    """The files, relative to the workspace, and a sentence on each name that is none."""

    files: list[str]
    problems: list[str]


def read(root: Path, names: Any) -> ModifiedFiles:
    """Return what an answer names under ``modified``: files of the workspace `root`, also such as are deleted."""
    given = names if isinstance(names, list) else [names]
    files, problems = dict[str, None](), list[str]()
    for name in given[:MOST]:
        try:
            files[_file(root, name)] = None
        except (ValueError, OSError) as error:
            problems.append(f"{clip(as_text(name), 100)!r}: {error}")
    if len(given) > MOST:
        problems.append(f"{len(given) - MOST} more names were left out: {MOST} at most are read")
    return ModifiedFiles(list(files), problems)


def _file(root: Path, name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or "\0" in name or len(name) > 4096:
        raise ValueError("it is no path of a file")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError("name files by their path inside the workspace")
    if ".git" in path.parts:
        raise ValueError("it is git's own")
    place = root / path
    if not place.parent.resolve().is_relative_to(root.resolve()):
        raise ValueError("its folder lies outside the workspace")
    if place.is_dir() and not place.is_symlink():
        raise ValueError("it is a folder: name the files in it")
    return path.as_posix()
