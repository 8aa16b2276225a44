"""Made by tests/client/generator.py from the server's operations; change those instead."""

from typing import Any

from instar.api.tui import (
    EventTuiCommandExecute,
    EventTuiPromptAppend,
    EventTuiSessionSelect,
    EventTuiToastShow,
    TuiCommandBody,
    TuiRequest,
    TuiSessionBody,
    TuiToastBody,
)
from instar.client.connection import AsyncConnection
from instar.client.request import Request
from instar.event import TuiPromptAppend


class TuiControlCalls:
    """``tui.control``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def response(self, body: Any) -> bool:
        """Answer a request. Nobody waits for the answer: the request was answered when it was taken."""
        answer: bool = await self._connection.ask(Request("POST", "/tui/control/response", body=body), bool)
        return answer

    async def next(self) -> TuiRequest:
        """Wait for the next of these requests: for an interface that hears no events."""
        answer: TuiRequest = await self._connection.ask(Request("GET", "/tui/control/next"), TuiRequest)
        return answer


class TuiCalls:
    """``tui``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.control = TuiControlCalls(connection)

    async def append_prompt(self, body: TuiPromptAppend) -> bool:
        """Put text behind what stands in the prompt."""
        answer: bool = await self._connection.ask(Request("POST", "/tui/append-prompt", body=body), bool)
        return answer

    async def open_help(self) -> bool:
        """Open the help."""
        answer: bool = await self._connection.ask(Request("POST", "/tui/open-help"), bool)
        return answer

    async def open_sessions(self) -> bool:
        """Open the list of sessions."""
        answer: bool = await self._connection.ask(Request("POST", "/tui/open-sessions"), bool)
        return answer

    async def open_themes(self) -> bool:
        """Open the list of themes."""
        answer: bool = await self._connection.ask(Request("POST", "/tui/open-themes"), bool)
        return answer

    async def open_models(self) -> bool:
        """Open the list of models."""
        answer: bool = await self._connection.ask(Request("POST", "/tui/open-models"), bool)
        return answer

    async def submit_prompt(self) -> bool:
        """Send what stands in the prompt."""
        answer: bool = await self._connection.ask(Request("POST", "/tui/submit-prompt"), bool)
        return answer

    async def clear_prompt(self) -> bool:
        """Clear the prompt."""
        answer: bool = await self._connection.ask(Request("POST", "/tui/clear-prompt"), bool)
        return answer

    async def execute_command(self, body: TuiCommandBody) -> bool:
        """Carry out a command of the interface."""
        answer: bool = await self._connection.ask(Request("POST", "/tui/execute-command", body=body), bool)
        return answer

    async def show_toast(self, body: TuiToastBody) -> bool:
        """Show a notice."""
        answer: bool = await self._connection.ask(Request("POST", "/tui/show-toast", body=body), bool)
        return answer

    async def publish(
        self, body: EventTuiPromptAppend | EventTuiCommandExecute | EventTuiToastShow | EventTuiSessionSelect
    ) -> bool:
        """Publish one of these events."""
        answer: bool = await self._connection.ask(Request("POST", "/tui/publish", body=body), bool)
        return answer

    async def select_session(self, body: TuiSessionBody) -> bool:
        """Open a session."""
        answer: bool = await self._connection.ask(Request("POST", "/tui/select-session", body=body), bool)
        return answer
