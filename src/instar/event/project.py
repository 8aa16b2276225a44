"""The events around conversations: the server, files, the repository, the installation, plugins."""

from typing import Any, Literal

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


@declare("evolve.installed", own=True)
class EvolveInstalled(Wire):
    """A change of an evolve workspace went live; `epoch` rises with each (our own event)."""

    files: list[str]
    epoch: int
    session_id: str | None = None


@declare("evolve.refused", own=True)
class EvolveRefused(Wire):
    """A candidate was refused at a stage of the gate, or waits for a person (our own event)."""

    file: str
    stage: str
    message: str
    session_id: str | None = None


@declare("evolve.rolledback", own=True)
class EvolveRolledback(Wire):
    """A change of an evolve workspace was taken back (our own event)."""

    files: list[str]
    epoch: int
    message: str


@declare("hooks.armed", own=True)
class HooksArmed(Wire):
    """A session is used from now on under these rules; `problems` say what is not armed (our own event)."""

    session_id: str
    rules: list[str]
    problems: list[str]


@declare("hooks.ran", own=True)
class HooksRan(Wire):
    """A rule was put to an event of a session: what it decided, in how many ms, at what cost (our own event)."""

    session_id: str
    event: str
    rule: str
    place: str
    evaluator: str
    dialect: str
    action: str
    undecided: bool
    reason: str
    error: str
    messages: list[str]
    duration: int
    code: int | None = None
    output: str = ""
    tool: str = ""
    call_id: str = ""
    tokens: int = 0
    cost: float | None = None
    model: str = ""
    child_id: str = ""


@declare("self.modified", own=True)
class SelfModified(Wire):
    """The agent changed its own runtime at `path`; without a call the watchdog did (our own event)."""

    session_id: str
    call_id: str
    path: str
    old: Any
    new: Any


@declare("plugin.error", own=True)
class PluginError(Wire):
    """A plugin's hook failed and its half-made changes were discarded (our own event)."""

    plugin: str
    hook: str
    message: str


@declare("file.watcher.updated")
class FileWatcherUpdated(Wire):
    """A file changed on disk."""

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


@declare("instance.reloaded", own=True)
class InstanceReloaded(Wire):
    """Files changed and were reloaded: `what` (`agents`, `plugin:x` …), or not, with `problems`. Our own event."""

    what: list[str]
    problems: list[str]


@declare("server.instance.disposed")
class ServerInstanceDisposed(Wire):
    """A directory's instance ended."""

    directory: str


@declare("global.disposed")
class GlobalDisposed(Nothing):
    """Every directory's instance ended, since the person's own settings changed or a client asked for it."""


@declare(
    "installation.updated", never="instar does not upgrade itself: the package manager that installed it does"
)
class InstallationUpdated(Wire):
    """The program itself was brought to another version."""

    version: str


@declare("lsp.updated", never="instar starts no language servers")
class LspUpdated(Nothing):
    """A language server's state changed."""


class Pty(Wire):
    """A terminal as clients see it. `exit_code` is set once its program has exited; a signal's is 128 more."""

    id: str
    title: str
    command: str
    args: list[str]
    cwd: str
    status: Literal["running", "exited"]
    pid: int
    exit_code: int | None = None


@declare("pty.created")
class PtyCreated(Wire):
    """A terminal was opened."""

    info: Pty


@declare("pty.updated")
class PtyUpdated(Wire):
    """A terminal's title or size was set."""

    info: Pty


@declare("pty.exited")
class PtyExited(Wire):
    """A terminal's program has exited."""

    id: str
    exit_code: int


@declare("pty.deleted")
class PtyDeleted(Wire):
    """A terminal was closed."""

    id: str


Variant = Literal["info", "success", "warning", "error"]


@declare("tui.prompt.append")
class TuiPromptAppend(Wire):
    """Text is to be put behind what stands in the prompt."""

    text: str


@declare("tui.command.execute")
class TuiCommandExecute(Wire):
    """A command of the interface is to be carried out, as `session.list` or `prompt.submit`."""

    command: str


@declare("tui.toast.show")
class TuiToastShow(Wire):
    """A notice is to be shown for `duration` milliseconds."""

    title: str | None = None
    message: str
    variant: Variant
    duration: int | None = None


@declare("tui.session.select")
class TuiSessionSelect(Wire):
    """A session is to be opened."""

    session_id: str
