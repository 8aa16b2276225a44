"""Where a request of opencode's newer routes is carried out, as their answers say it."""

from typing import Generic, TypeVar

from instar.wire import Plain, Wire

T = TypeVar("T")


class LocationProject(Wire):
    """The project of a location: its id, and the folder of its repository (``/`` outside one)."""

    id: str
    directory: str


class LocationInfo(Wire):
    """The directory that an answer is about, and its project."""

    directory: str
    workspace_id: str | None = None
    project: LocationProject


class Located(Wire, Generic[T]):
    """What is asked for, and the location that it holds for."""

    location: LocationInfo
    data: T


class ReferenceInfo(Wire):
    """A folder outside of the project that the settings let the model look at; instar has none."""

    name: str
    path: str
    description: str | None = None
    hidden: bool | None = None
    source: Plain
