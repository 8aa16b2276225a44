"""Which programs of the machine and of a project there are: nothing is downloaded, nothing of an untrusted project run.

A formatter or a language server reads a project's own settings, and many run code that stands there. So in a project
that nobody trusted none is started, also not one of the machine.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from instar.plugin import PluginInput, accepted_environment, accepted_words, document

_OWN: Final = ("node_modules/.bin", ".venv/bin", "venv/bin", "vendor/bin")
"""Where a project's own programs are."""
_LARGEST: Final = 1 << 20
"""Bytes of a file of the project that are looked at to see what it uses."""


class Programs:
    """The programs of one instance. `root` is its project's folder: files outside of it concern nobody here."""

    def __init__(self, given: PluginInput) -> None:
        self._given = given
        self.directory = given.directory
        self.root = given.worktree if given.project.vcs else given.directory
        self.children = given.children

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a program, with `more` variables; secrets are left out."""
        variables = self._given.children.environment(self._given.environment)
        return {**accepted_environment(variables, self.root, self._given.served), **more}

    @property
    def trusted(self) -> bool:
        """Whether code of the project may run."""
        return self._given.trusted(self.directory)

    def concerns(self, file: Path, extensions: Sequence[str]) -> bool:
        """Whether a file is the project's and ends with one of `extensions`."""
        return file.name.endswith(tuple(extensions)) and file.is_relative_to(self.root)

    def words(self, command: Sequence[str]) -> list[str]:
        """Return a command of the settings: what it starts of the project is started as it was accepted."""
        return accepted_words(command, self.directory, self._given.served)

    def find(self, name: str) -> str | None:
        """Return where a program is: the project's own, else the machine's."""
        for folder in self.up(self.directory):
            for place in _OWN:
                if found := shutil.which(name, path=str(folder / place)):
                    return found
        return shutil.which(name, path=self.environment({}).get("PATH"))

    def up(self, start: Path) -> Iterator[Path]:
        """Yield `start` and the folders around it, up to the project's."""
        for folder in (start, *start.parents):
            yield folder
            if folder == self.root:
                return

    def texts(self, *names: str) -> Iterator[str]:
        """Yield the texts of files with these names, from the directory up to the project's folder."""
        for name in names:
            for folder in self.up(self.directory):
                try:
                    with document.open_regular(folder / name) as file:
                        yield file.read(_LARGEST).decode(errors="replace")
                except OSError:
                    continue

    def depends(self, name: str, manifest: str, *sections: str) -> bool:
        """Whether a JSON file such as package.json names a package in one of its `sections`."""
        return any(name in _section(text, section) for text in self.texts(manifest) for section in sections)


def _section(text: str, section: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)[section]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
