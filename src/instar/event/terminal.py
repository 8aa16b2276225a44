"""The events of terminals: programs that a person runs in a pseudo terminal (opencode's ``pty.*``)."""

from typing import Literal

from instar.event.kind import declare
from instar.wire import Wire


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
