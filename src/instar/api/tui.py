"""What a client asks of attached terminal interfaces, in the API."""

from typing import Annotated, Any

import msgspec

from instar.event import TuiCommandExecute, TuiPromptAppend, TuiSessionSelect, TuiToastShow
from instar.event.tui import Variant
from instar.wire import Wire


class TuiCommandBody(Wire):
    """A command's name, today's (``session.new``) or an older one (``session_new``)."""

    command: str


class TuiToastBody(Wire):
    """A notice to show for `duration` milliseconds."""

    title: str | None = None
    message: str
    variant: Variant
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
