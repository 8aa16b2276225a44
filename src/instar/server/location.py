"""Where an answer of opencode's newer routes holds."""

from typing import TypeVar

from instar.api.location import Located, LocationInfo, LocationProject
from instar.runtime import Runtime

T = TypeVar("T")


def location_of(runtime: Runtime) -> LocationInfo:
    """Return the location of a runtime: its directory and project."""
    project = runtime.instance.project
    return LocationInfo(
        directory=str(runtime.instance.directory),
        project=LocationProject(id=project.id, directory=str(project.worktree)),
    )


def located(runtime: Runtime, data: T) -> Located[T]:
    """Return an answer with the location for which it holds."""
    return Located(location=location_of(runtime), data=data)
