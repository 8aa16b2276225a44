"""Terminals, and what a terminal client is told to do."""

from typing import Any

from instar.api.terminal import (
    EventTuiCommandExecute,
    EventTuiPromptAppend,
    EventTuiSessionSelect,
    EventTuiToastShow,
    PtyCreateBody,
    PtyShell,
    PtyTicketConnectToken,
    PtyUpdateBody,
    TuiCommandBody,
    TuiRequest,
    TuiSessionBody,
    TuiToastBody,
)
from instar.client.endpoint import C, Calls, endpoint
from instar.event import Pty, TuiPromptAppend


class TuiControlCalls(Calls[C]):
    """``tui.control``."""

    @endpoint("POST", "/tui/control/response")
    def response(self, body: Any) -> bool:
        """Answer a request. Nobody waits for the answer: the request was answered when it was taken."""

    @endpoint("GET", "/tui/control/next")
    def next(self) -> TuiRequest:
        """Wait for the next of these requests: for an interface that hears no events."""


class PtyCalls(Calls[C]):
    """``pty``."""

    @endpoint("GET", "/pty/shells")
    def shells(self) -> list[PtyShell]:
        """List the shells of the machine."""

    @endpoint("POST", "/pty")
    def create(self, body: PtyCreateBody | None = None) -> Pty:
        """Open a terminal and start a program in it."""

    @endpoint("GET", "/pty/{ptyID}")
    def get(self, pty_id: str) -> Pty:
        """Get a terminal."""

    @endpoint("PUT", "/pty/{ptyID}")
    def update(self, pty_id: str, body: PtyUpdateBody | None = None) -> Pty:
        """Set a terminal's title and size."""

    @endpoint("DELETE", "/pty/{ptyID}")
    def remove(self, pty_id: str) -> bool:
        """End a terminal's program and forget the terminal."""

    @endpoint("POST", "/pty/{ptyID}/connect-token")
    def connect_token(self, pty_id: str) -> PtyTicketConnectToken:
        """Get a ticket for a connection; asked for with the header ``x-opencode-ticket: 1``."""

    @endpoint("GET", "/pty")
    def list(self) -> list[Pty]:
        """List the terminals, oldest first."""


class TuiCalls(Calls[C]):
    """``tui``."""

    control: TuiControlCalls[C]

    @endpoint("POST", "/tui/append-prompt")
    def append_prompt(self, body: TuiPromptAppend) -> bool:
        """Put text behind what stands in the prompt."""

    @endpoint("POST", "/tui/open-help")
    def open_help(self) -> bool:
        """Open the help."""

    @endpoint("POST", "/tui/open-sessions")
    def open_sessions(self) -> bool:
        """Open the list of sessions."""

    @endpoint("POST", "/tui/open-themes")
    def open_themes(self) -> bool:
        """Open the list of themes."""

    @endpoint("POST", "/tui/open-models")
    def open_models(self) -> bool:
        """Open the list of models."""

    @endpoint("POST", "/tui/submit-prompt")
    def submit_prompt(self) -> bool:
        """Send what stands in the prompt."""

    @endpoint("POST", "/tui/clear-prompt")
    def clear_prompt(self) -> bool:
        """Clear the prompt."""

    @endpoint("POST", "/tui/execute-command")
    def execute_command(self, body: TuiCommandBody) -> bool:
        """Carry out a command of the interface."""

    @endpoint("POST", "/tui/show-toast")
    def show_toast(self, body: TuiToastBody) -> bool:
        """Show a notice."""

    @endpoint("POST", "/tui/publish")
    def publish(
        self, body: EventTuiPromptAppend | EventTuiCommandExecute | EventTuiToastShow | EventTuiSessionSelect
    ) -> bool:
        """Publish one of these events."""

    @endpoint("POST", "/tui/select-session")
    def select_session(self, body: TuiSessionBody) -> bool:
        """Open a session."""
