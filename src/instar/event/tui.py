"""What a client asks of the terminal interfaces that are attached to a directory (opencode's ``tui.*``)."""

from typing import Literal

from instar.event.kind import declare
from instar.wire import Wire

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
