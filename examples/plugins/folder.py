"""A workspace adapter: a plain copy of the project's folder, for projects without git.

``instar workspace create --type folder NAME`` makes one, ``instar run --worktree NAME`` works in it. Option ``into``
names the folder that the copies go to (default: beside the project).
"""

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from instar.plugin import Hooks, Invalid, LocalTarget, PluginInput, WorkspaceInfo, wire


class Folders:
    """Copies of `source`, each in a folder of its own below `into`."""

    name = "Folder"
    description = "A copy of the project's folder."

    def __init__(self, source: Path, into: Path) -> None:
        self._source = source
        self._into = Path(os.path.normpath(into))

    async def configure(self, info: WorkspaceInfo) -> WorkspaceInfo:
        """Say where the copy will be."""
        directory = self._into / f"{self._source.name}-{info.name}"
        if directory.exists():
            raise Invalid(f"{directory} is there already: choose another name")
        return wire.replace(info, directory=str(directory))

    async def create(
        self, info: WorkspaceInfo, env: Mapping[str, str], from_: WorkspaceInfo | None = None
    ) -> None:
        """Copy the project, or another copy of it; links stay links."""
        source = Path(from_.directory) if from_ is not None and from_.directory else self._source
        await asyncio.to_thread(shutil.copytree, source, str(info.directory), symlinks=True)

    async def remove(self, info: WorkspaceInfo) -> None:
        """Delete the copy, whole or half made."""
        await asyncio.to_thread(shutil.rmtree, str(info.directory), ignore_errors=True)

    async def target(self, info: WorkspaceInfo) -> LocalTarget:
        """Return where the copy is."""
        return LocalTarget(Path(str(info.directory)))


async def folder(input: PluginInput, options: dict[str, Any]) -> Hooks | None:
    """Register the type ``folder``."""
    into = input.directory / options.get("into", "..")
    input.experimental_workspace.register("folder", Folders(input.directory, into))
    return None
