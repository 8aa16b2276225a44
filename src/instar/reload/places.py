"""The files that an instance is made of, those too that are not there yet, and the folders in which to hear of them.

They stand near the person and near the project: settings and the folders beside them, instructions, files of rules,
the plugins that settings name, the list of trusted folders. Of a folder nothing else is looked at, however many files
come and go in it.
"""

# Asked for each file that changes anywhere beside them.
# ruff: noqa: PTH112, PTH117, PTH119, PTH120

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from instar import lineup, switch
from instar.definition import AGENT_FOLDERS, COMMAND_FOLDERS
from instar.flagship import FLAGSHIPS
from instar.instruction import NAMES
from instar.paths import Paths
from instar.plugin.custom import FOLDERS as TOOL_FOLDERS
from instar.project import Project
from instar.settings import folder_chain
from instar.watch.tree import Changes

Signature = Mapping[str, tuple[int, int, int] | None]
"""What each file is known by: its inode, size in bytes and time of change in ns; None: there is none."""

MOST: Final = 2_000
"""Files and folders that are looked at in the folders of one place: a stranger's repository may be of any size."""

_SETTINGS: Final = (
    *("config.json", switch.NAME, "opencode.json", "opencode.jsonc", "instar.json", "instar.jsonc"),
)
_DOTTED: Final = (".opencode", ".instar")
_FOLDERS: Final = (
    *AGENT_FOLDERS,
    *COMMAND_FOLDERS,
    *TOOL_FOLDERS,
    *("skill", "skills", "plugin", "plugins"),
)
_SKILLS: Final = (".claude/skills", ".agents/skills")
_VARIABLES: Final = ("OPENCODE_CONFIG", "INSTAR_CONFIG")
_UNREAD: Final = ("__pycache__", "node_modules", ".git")


class Places:
    """The places of one directory's instance. To `Notice` it is a tree whose `root` is never gone.

    Which folders are watched is decided where they are (`read`), in the thread of that.
    """

    root = os.sep

    def __init__(
        self, directory: Path, project: Project, paths: Paths, environment: Mapping[str, str]
    ) -> None:
        chain = folder_chain(directory.resolve(), project)
        bases = [*paths.config_homes, *(folder / name for folder in chain for name in _DOTTED)]
        rules = lineup.places(project, directory, paths.home)
        files = [
            *(folder / name for folder in (*bases, *chain) for name in (*_SETTINGS, *NAMES)),
            *(folder / name for folder in rules for one in FLAGSHIPS.values() for name in one.files),
            *(
                directory / Path(environment[name]).expanduser()
                for name in _VARIABLES
                if environment.get(name)
            ),
            *(paths.home / ".claude" / name for name in NAMES),
        ]
        trees = [
            *(base / name for base in bases for name in _FOLDERS),
            *(folder / name for folder in (paths.home, *chain) for name in _SKILLS),
        ]
        self._files = list(dict.fromkeys(map(str, files)))
        self._trees = list(dict.fromkeys(map(str, trees)))
        self._beside_database = str(paths.trust_file)
        self._more: list[str] = []
        self.grown = False
        """Whether there are more folders to watch than there were the last time that they were found."""
        self._watched: list[str] = []
        self._known: set[str] = set()

    def name(self, plugins: Iterable[str]) -> None:
        """Look at these plugins too: absolute paths of files or folders."""
        more = [path for path in plugins if os.path.isabs(path) and not _is_below(path, self._trees)]
        self.grown = self.grown or more != self._more
        self._more = more

    def signature(self) -> Signature:
        """Look at every file. Takes some ms at most, and raises nothing."""
        return {**self._look()[0], **self.unheard()}

    def unheard(self) -> Signature:
        """Look at the file of which nobody tells: it stands in a folder in which each turn writes."""
        return {self._beside_database: _state(self._beside_database)}

    def _look(self) -> tuple[dict[str, tuple[int, int, int] | None], list[str]]:
        """What every file is known by, and the folders that were looked into."""
        single = [*self._files, *(path for path in self._more if not os.path.isdir(path))]
        found = {path: _state(path) for path in single}
        folders = list[str]()
        for tree in [*self._trees, *(path for path in self._more if os.path.isdir(path))]:
            for path, is_folder in _walk(tree):
                if is_folder:
                    folders.append(path)
                else:
                    found[path] = _state(path)
        return found, folders

    # -- as a tree that is watched ---------------------------------------------------------------------

    @property
    def folders(self) -> list[str]:
        """The folders in which something of it stands, or may come to stand."""
        return list(self._watched)

    def read(self) -> Changes:
        """Find the folders anew; nothing is said to have changed by that."""
        self.grown = False
        found, folders = self._look()
        self._watched, self._known = _heard_in([*found, *self._trees], folders)
        return {}

    def settle(self, paths: Iterable[str]) -> tuple[Changes, bool]:
        """Return those of `paths` that matter here, and whether there may be other folders to watch."""
        found: Changes = {path: "change" for path in paths if self._matters(path)}
        return found, any(os.path.isdir(path) or path in self._watched for path in found)

    def _matters(self, path: str) -> bool:
        if os.path.basename(path) in _UNREAD:
            return False
        return path in self._known or _is_below(path, (*self._trees, *self._more))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder + os.sep) for folder in folders)


def _heard_in(paths: Iterable[str], folders: Iterable[str]) -> tuple[list[str], set[str]]:
    """The folders to watch for `paths` and `folders`, and the paths of which to hear there.

    Of a file that a link stands for, the folder of the file itself as well; of what is not there, the nearest folder
    that is.
    """
    watched = dict.fromkeys(folders)
    known = {*paths, *watched}
    for path in tuple(known):
        real = os.path.realpath(path)
        for one in (path, real) if real != path else (path,):
            known.add(one)
            parent = os.path.dirname(one)
            while not os.path.isdir(parent):
                known.add(parent)
                parent = os.path.dirname(parent)
            watched[parent] = None
    return list(watched), known


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _walk(top: str) -> Iterator[tuple[str, bool]]:
    """Yield what stands below a folder, itself too, and whether it is a folder; links are followed, each one once."""
    waiting, entered, count = [top], set[str](), 0
    while waiting:
        folder = waiting.pop()
        real = os.path.realpath(folder)
        if real in entered:
            continue
        entered.add(real)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        yield folder, True
        for entry in entries:
            count += 1
            if count > MOST:
                return
            if entry.name in _UNREAD:
                continue
            if entry.is_dir():
                waiting.append(entry.path)
            else:
                yield entry.path, False
