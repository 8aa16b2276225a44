"""The events around conversations: the server, files, the repository, the installation, plugins."""

from typing import Literal

from instar.event.kind import declare
from instar.wire import Plain, Wire


class Nothing(Wire):
    """An event that says only that it happened."""


@declare("server.connected")
class ServerConnected(Nothing):
    """A client's event stream is open."""


@declare("server.heartbeat")
class ServerHeartbeat(Nothing):
    """A client's event stream is alive."""


@declare("file.edited")
class FileEdited(Wire):
    """A tool changed a file."""

    file: str


@declare("plugin.error")
class PluginError(Wire):
    """A plugin's hook failed and its half-made changes were discarded (our own event)."""

    plugin: str
    hook: str
    message: str


@declare("file.watcher.updated")
class FileWatcherUpdated(Wire):
    """A file changed on disk, whoever did it."""

    file: str
    event: Literal["add", "change", "unlink"]


@declare("vcs.branch.updated")
class VcsBranchUpdated(Wire):
    """Another branch is checked out."""

    branch: str | None = None


class ProjectTime(Wire):
    """When a project was first seen, last changed, and initialised."""

    created: int
    updated: int
    initialized: int | None = None


@declare("project.updated")
class ProjectUpdated(Wire):
    """A project's own fields changed."""

    id: str
    worktree: str
    vcs: Literal["git"] | None = None
    name: str | None = None
    icon: Plain | None = None
    commands: Plain | None = None
    time: ProjectTime
    sandboxes: list[str]


@declare("server.instance.disposed")
class ServerInstanceDisposed(Wire):
    """A directory's instance ended."""

    directory: str


@declare(
    "installation.updated", never="instar does not upgrade itself: the package manager that installed it does"
)
class InstallationUpdated(Wire):
    """The program itself was brought to another version."""

    version: str


@declare("lsp.updated", never="instar starts no language servers")
class LspUpdated(Nothing):
    """A language server's state changed."""
