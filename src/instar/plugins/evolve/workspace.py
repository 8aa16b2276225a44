"""The workspace: which folder it is, its layout, and which files in it a name may mean."""

import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugin import document

log = logging.getLogger("instar.evolve")

STAGES: Final = ("preamble", "chat", "heartbeat", "compaction", "recover")
"""The prompts that the protocol knows, each ``prompts/<stage>.md``."""

PROMPTS: Final = tuple(f"{stage}.md" for stage in STAGES)
"""The files of the stages."""

FOLDERS: Final = ("hooks", "prompts", "tests", "evals", "config")
"""The folders whose files are code or decide how code is judged; all that is in them is guarded."""

GUARDED: Final = (*FOLDERS, ".git")
"""The folders of a workspace that no child for the model may change."""

SCRIPTS_OWN: Final = ("traits", "notes", "state")
"""The folders of a workspace that its scripts may write, shielded ones too."""

VARIABLES: Final = ("INSTAR_WORKSPACE", "OPENCODE_EVOLVE_WORKSPACE")
"""Environment variables that name the workspace, the first one that is set wins."""


class OutsideWorkspace(ValueError):
    """A file name that means, or might mean, something outside the folder it belongs in."""


class LocatedWorkspace(msgspec.Struct, frozen=True):
    """A workspace's folder, what named it, and whether the person did so for this very run."""

    root: Path
    source: str
    by_person: bool


def locate(
    environment: Mapping[str, str], flags: Mapping[str, Any], options: Mapping[str, Any]
) -> LocatedWorkspace:
    """Return which folder is the workspace; it need not exist.

    In this order: the ``--workspace`` flag, `VARIABLES`, the plugin's own ``workspace`` option, and
    ``~/workspace``. Only the first two count as named by the person.
    """
    home = Path(environment.get("HOME") or Path.home())
    named = [(flags.get("workspace"), "--workspace", True)]
    named += [(environment.get(name), name, True) for name in VARIABLES]
    named += [(options.get("workspace"), "the plugin's workspace option", False)]
    for value, source, by_person in named:
        if value:
            return LocatedWorkspace(_absolute(str(value), home), source, by_person)
    return LocatedWorkspace(_absolute(str(home / "workspace"), home), "the default", False)


class HookFile(msgspec.Struct, frozen=True):
    """A file of ``hooks/`` or ``prompts/``: `problem` says why it cannot be run, when it cannot."""

    name: str
    path: Path
    signature: tuple[int, int, int, int]
    executable: bool

    @property
    def problem(self) -> str | None:
        """What keeps the file from being a hook script."""
        return None if self.executable else f"{self.name} is missing its run bit: chmod +x {self.path}"


class Workspace:
    """The folder, resolved, and its parts, laid out as in opencode-evolve's README.

    `files`: only these paths of the guarded folders are looked at; None: all that stand there.
    """

    def __init__(self, root: Path, files: frozenset[str] | None = None) -> None:
        self.root = root.resolve()
        self._files = files
        self.hooks = self.root / "hooks"
        self.prompts = self.root / "prompts"
        self.tests = self.root / "tests"
        self.config = self.root / "config" / "evolve.jsonc"

    def hook_files(self) -> list[HookFile]:
        """Return the files of ``hooks/`` in alphabetical order, without hidden and ``__`` ones."""
        return self._entries(self.hooks)

    def prompt_files(self) -> list[str]:
        """Return the names of the files in ``prompts/``: those of the stages, then others."""
        there = [entry.name for entry in self._entries(self.prompts)]
        return [name for name in PROMPTS if name in there] + [name for name in there if name not in PROMPTS]

    def holds(self, path: str) -> bool:
        """Whether the file at `path` may be looked at."""
        return self._files is None or path in self._files

    def _entries(self, folder: Path) -> list[HookFile]:
        return [one for one in _entries(folder) if self.holds(f"{folder.name}/{one.name}")]

    def resolve(self, folder: Path, name: str) -> Path:
        """Return the path of the file `name` in `folder`; the file need not exist.

        Raises `OutsideWorkspace` for a path, a hidden name, and a symbolic link: a link would let a rule
        about one name change another file, or one outside the workspace.
        """
        if not name or name != Path(name).name or "\\" in name or "\0" in name:
            raise OutsideWorkspace(f"{name!r} is not a bare file name in {folder.name}/")
        if not visible(name):
            raise OutsideWorkspace(f"{name!r} is not a file that evolve looks at (names with . or __ first)")
        path = folder / name
        if path.is_symlink() or folder.resolve() != folder:
            raise OutsideWorkspace(f"{folder.name}/{name} is a symbolic link; evolve changes only real files")
        return path


def visible(name: str) -> bool:
    """Whether evolve looks at a file of this name."""
    return not name.startswith((".", "__"))


def signature(path: Path) -> tuple[int, int, int, int]:
    """Return what tells one version of a file from the next: inode, size, mode, mtime in ns."""
    found = path.stat()
    return (found.st_ino, found.st_size, found.st_mode, found.st_mtime_ns)


def _entries(folder: Path) -> list[HookFile]:
    try:
        names = sorted(name for name in os.listdir(folder) if visible(name))  # noqa: PTH208 - names only
    except OSError:
        return []
    return [entry for name in names if (entry := _entry(folder / name)) is not None]


class WorkspacePrompts:
    """The text of ``prompts/<stage>.md``; a file is read again when it changed."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._read: dict[str, tuple[tuple[int, int, int, int], str]] = {}

    def all(self) -> dict[str, str]:
        """Return every stage's text; a stage without a file has an empty one."""
        return {stage: self.text(stage) for stage in STAGES}

    def text(self, stage: str) -> str:
        """Return the text of one stage, empty when it has no file that can be read."""
        name = f"{stage}.md"
        if not self._workspace.holds(f"prompts/{name}"):
            return ""
        try:
            path = self._workspace.resolve(self._workspace.prompts, name)
            version = signature(path)
        except (OSError, OutsideWorkspace) as error:
            self._say(name, error)
            return ""
        known = self._read.get(name)
        if known is None or known[0] != version:
            known = self._read[name] = (version, _text(path))
        return known[1]

    def default(self, stage: str) -> list[str]:
        """Return the system prompt of a stage for which no script gave one: the preamble and its file."""
        text = self.text(stage)
        return [part for part in (self.text("preamble"), text) if part] if text else []

    def _say(self, name: str, error: Exception) -> None:
        if not isinstance(error, FileNotFoundError):
            log.warning("prompt=%s problem=%r", name, str(error))


def _entry(path: Path) -> HookFile | None:
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    version = (found.st_ino, found.st_size, found.st_mode, found.st_mtime_ns)
    return HookFile(path.name, path, version, bool(found.st_mode & 0o111))


def _absolute(value: str, home: Path) -> Path:
    expanded = home / value[2:] if value.startswith("~/") else home if value == "~" else Path(value)
    return Path(os.path.abspath(expanded))  # noqa: PTH100 - links are resolved when the folder is used


def _text(path: Path) -> str:
    try:
        return document.read_bytes(path).decode("utf-8", errors="replace")
    except (OSError, document.DocumentError) as error:
        log.warning("prompt=%s problem=%r", path.name, str(error))
        return ""
