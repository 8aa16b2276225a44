"""The workspace's prompts by stage, as every hook script gets them."""

import logging
from pathlib import Path

from instar.plugins.evolve.workspace import STAGES, OutsideWorkspace, Workspace, signature

log = logging.getLogger("instar.evolve")


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


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        log.warning("prompt=%s problem=%r", path.name, str(error))
        return ""
