"""Where the session works."""

from typing import Any

from instar.instance import Instance
from instar.plugin import Value, View


def view(instance: Instance) -> View:
    """Return the view of the folder and its project."""

    def told(doc: str, found: Any) -> Value:
        return Value(doc=doc, read=lambda session_id: found, scope="instance")

    values = {
        "directory": told("The folder that the runtime works in.", str(instance.directory)),
        "worktree": told("The project's folder.", str(instance.project.worktree)),
        "project": told("The project's id.", instance.project.id),
        "vcs": told("The version control of the project: git, or nothing.", instance.project.vcs or None),
    }
    return View("workspace", "Where the session works.", values)
