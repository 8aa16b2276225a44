"""Instructions: the texts that a project and a person give to every agent.

``AGENTS.md`` (else ``CLAUDE.md``) of the home configuration and of each folder from the worktree down to the
directory, then the files that the config's ``instructions`` name. What a folder brings that is not trusted stays
inside its project, also through links: a link elsewhere would show the model a private file.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from instar.git.project import Project
from instar.settings.load import folder_chain
from instar.settings.paths import Paths

log = logging.getLogger("instar.context")

NAMES = ("AGENTS.md", "CLAUDE.md")
LONGEST = 256 * 1024
"""Bytes of one file that are read."""
MOST = 200
"""Files that one pattern may name."""


class Pattern(msgspec.Struct, frozen=True):
    """An entry of the config's ``instructions``, and True in `trusted` if the person wrote it."""

    text: str
    trusted: bool = True


class Instructions:
    """The instructions of one instance. `problems` are one-line sentences about entries that name nothing readable."""

    def __init__(
        self, project: Project, paths: Paths, patterns: Iterable[Pattern], trusted: Callable[[Path], bool]
    ) -> None:
        """Keep where to look; files are read by `read`. `trusted` says if a folder is trusted."""
        self._folders = folder_chain(project.directory, project)
        self._root = project.worktree if project.vcs else project.directory
        self._paths = paths
        self._trusted = trusted
        self._patterns = list(patterns)
        self.problems = [
            f"instructions: {one.text} was left out: only files are read, not addresses"
            for one in self._patterns
            if "://" in one.text
        ]

    def read(self) -> list[str]:
        """Return each instruction file as ``Instructions from: PATH`` and its text, without repeats.

        A file that cannot be read is logged and left out.
        """
        found = dict.fromkeys(path.resolve() for path in self._candidates())
        texts = ((path, _text(path)) for path in found)
        return [f"Instructions from: {path}\n{text}" for path, text in texts if text]

    def _candidates(self) -> Iterator[Path]:
        yield from self._home()
        for folder in self._folders:
            yield from (path for path in _first(folder) if self._trusted(folder) or self._is_inside(path))
        for pattern in self._patterns:
            for path in self._named(pattern):
                if pattern.trusted or self._is_inside(path):
                    yield path

    def _home(self) -> Sequence[Path]:
        own = [path for home in self._paths.config_homes for path in _first(home)]
        return own or _first(self._paths.home / ".claude")

    def _named(self, pattern: Pattern) -> Iterator[Path]:
        """The files that a pattern means: of a relative one, in each folder from the worktree down."""
        if "://" in pattern.text:
            return
        text = pattern.text
        if text.startswith("~/"):
            text = str(self._paths.home) + text[1:]
        path = Path(text)
        if path.is_absolute():
            yield from _globbed(Path(path.anchor), str(path.relative_to(path.anchor)))
            return
        for folder in self._folders:
            yield from _globbed(folder, text)

    def _is_inside(self, path: Path) -> bool:
        inside = path.resolve().is_relative_to(self._root.resolve())
        if not inside:
            log.warning("instructions not read file=%s: it leads out of a project that is not trusted", path)
        return inside


def _first(folder: Path) -> list[Path]:
    return [folder / name for name in NAMES if (folder / name).is_file()][:1]


def _globbed(root: Path, relative: str) -> list[Path]:
    try:
        return sorted(file for file in root.glob(relative) if file.is_file())[:MOST]
    except (ValueError, IndexError, NotImplementedError, OSError) as error:
        log.warning("instructions not read pattern=%s error=%s", relative, error)
        return []


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(LONGEST).decode("utf-8", "replace").strip()
    except OSError as error:
        log.warning("instructions not read file=%s error=%s", path, error)
        return ""
