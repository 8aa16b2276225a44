"""Words about terminals: a person's programs in pseudo terminals, and attached terminal interfaces."""

from typing import Annotated, Any, Literal

import msgspec

from instar.event import TuiCommandExecute, TuiPromptAppend, TuiSessionSelect, TuiToastShow
from instar.wire import Wire

PtyID = Annotated[str, msgspec.Meta(pattern="^pty")]
_Positive = Annotated[int, msgspec.Meta(gt=0)]


class PtyShell(Wire):
    """A shell of the machine; `acceptable`: it understands the commands that a model writes."""

    path: str
    name: str
    acceptable: bool


class PtyCreateBody(Wire):
    """A program for a new terminal; without `command` the person's shell. `env` is put over everything else."""

    command: str | None = None
    args: list[str] | None = None
    cwd: str | None = None
    title: str | None = None
    env: dict[str, str] | None = None


class PtySize(Wire):
    """The size of a terminal, in characters."""

    rows: _Positive
    cols: _Positive


class PtyUpdateBody(Wire):
    """What to set of a terminal; an empty title sets none."""

    title: str | None = None
    size: PtySize | None = None


class PtyConnectQuery(Wire):
    """Where a terminal is joined.

    `cursor` is the place in what it has printed, in UTF-16 code units: 0 is its beginning and -1 its end. `ticket`
    is what ``connect-token`` gave: it stands for the password, once.
    """

    cursor: str | None = None
    ticket: str | None = None


class PtyTicketConnectToken(Wire):
    """A ticket for one connection to one terminal, good for so many seconds."""

    ticket: str
    expires_in: int = msgspec.field(name="expires_in")


class TuiCommandBody(Wire):
    """A command's name, today's (``session.new``) or an older one (``session_new``)."""

    command: str


class TuiToastBody(Wire):
    """A notice to show for `duration` milliseconds."""

    title: str | None = None
    message: str
    variant: Literal["info", "success", "warning", "error"]
    duration: Annotated[int, msgspec.Meta(gt=0)] = 5000


class TuiSessionBody(Wire):
    """A session to open."""

    session_id: Annotated[str, msgspec.Meta(pattern="^ses")]


class EventTuiPromptAppend(Wire, tag_field="type", tag="tui.prompt.append"):
    """An event to publish, as the three that follow."""

    properties: TuiPromptAppend


class EventTuiCommandExecute(Wire, tag_field="type", tag="tui.command.execute"):
    """A command of the interface is to be carried out."""

    properties: TuiCommandExecute


class EventTuiToastShow(Wire, tag_field="type", tag="tui.toast.show"):
    """A notice is to be shown."""

    properties: TuiToastShow


class EventTuiSessionSelect(Wire, tag_field="type", tag="tui.session.select"):
    """A session is to be opened."""

    properties: TuiSessionSelect


TuiEvent = EventTuiPromptAppend | EventTuiCommandExecute | EventTuiToastShow | EventTuiSessionSelect


class TuiRequest(Wire):
    """A request for an interface that asks for them: the path that a client asked for, and its body."""

    path: str
    body: Any
