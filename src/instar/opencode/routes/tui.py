"""The routes that drive terminal interfaces: an attached interface gets each request as an event, or asks for it."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from instar.api.operation import operation
from instar.api.terminal import TuiCommandBody, TuiEvent, TuiRequest, TuiSessionBody, TuiToastBody
from instar.event import TuiCommandExecute, TuiPromptAppend, TuiSessionSelect, TuiToastShow, make
from instar.plugin import NotFound
from instar.server.call import Call
from instar.wire import Wire, to_plain

if TYPE_CHECKING:
    from instar.runtime import Runtime


_OLDER: Final = {
    "session_list": "session.list",
    "session_new": "session.new",
    "session_share": "session.share",
    "session_interrupt": "session.interrupt",
    "session_compact": "session.compact",
    "messages_page_up": "session.page.up",
    "messages_page_down": "session.page.down",
    "messages_line_up": "session.line.up",
    "messages_line_down": "session.line.down",
    "messages_half_page_up": "session.half.page.up",
    "messages_half_page_down": "session.half.page.down",
    "messages_first": "session.first",
    "messages_last": "session.last",
    "agent_cycle": "agent.cycle",
}
"""Older names of commands, by today's."""


class TuiRoutes:
    """What a client asks of the interfaces that are attached to a directory; nobody knows whether there are any."""

    def __init__(self) -> None:
        self._requests: WeakKeyDictionary[Runtime, Requests] = WeakKeyDictionary()

    @operation("POST", "/tui/append-prompt", "tui.appendPrompt")
    async def append(self, call: Call, body: TuiPromptAppend) -> bool:
        """Put text behind what stands in the prompt."""
        return await self._publish(call, TuiPromptAppend(text=body.text))

    @operation("POST", "/tui/open-help", "tui.openHelp")
    async def help(self, call: Call) -> bool:
        """Open the help."""
        return await self._execute(call, "help.show")

    @operation("POST", "/tui/open-sessions", "tui.openSessions")
    async def sessions(self, call: Call) -> bool:
        """Open the list of sessions."""
        return await self._execute(call, "session.list")

    @operation("POST", "/tui/open-themes", "tui.openThemes")
    async def themes(self, call: Call) -> bool:
        """Open the list of themes."""
        return await self._execute(call, "theme.switch")

    @operation("POST", "/tui/open-models", "tui.openModels")
    async def models(self, call: Call) -> bool:
        """Open the list of models."""
        return await self._execute(call, "model.list")

    @operation("POST", "/tui/submit-prompt", "tui.submitPrompt")
    async def submit(self, call: Call) -> bool:
        """Send what stands in the prompt."""
        return await self._execute(call, "prompt.submit")

    @operation("POST", "/tui/clear-prompt", "tui.clearPrompt")
    async def clear(self, call: Call) -> bool:
        """Clear the prompt."""
        return await self._execute(call, "prompt.clear")

    @operation("POST", "/tui/execute-command", "tui.executeCommand")
    async def execute(self, call: Call, body: TuiCommandBody) -> bool:
        """Carry out a command of the interface."""
        return await self._execute(call, _OLDER.get(body.command, body.command), to_plain(body))

    @operation("POST", "/tui/show-toast", "tui.showToast")
    async def toast(self, call: Call, body: TuiToastBody) -> bool:
        """Show a notice."""
        shown = TuiToastShow(
            title=body.title, message=body.message, variant=body.variant, duration=body.duration
        )
        return await self._publish(call, shown)

    @operation("POST", "/tui/publish", "tui.publish")
    async def publish(self, call: Call, body: TuiEvent) -> bool:
        """Publish one of these events."""
        return await self._publish(call, body.properties, to_plain(body))

    @operation("POST", "/tui/select-session", "tui.selectSession", errors=(404,))
    async def select(self, call: Call, body: TuiSessionBody) -> bool:
        """Open a session."""
        runtime = await call.runtime()
        if await runtime.instance.store.session(body.session_id) is None:
            raise NotFound(f"Session not found: {body.session_id}")
        return await self._publish(call, TuiSessionSelect(session_id=body.session_id))

    @operation("GET", "/tui/control/next", "tui.control.next")
    async def next(self, call: Call) -> TuiRequest:
        """Wait for the next of these requests: for an interface that hears no events.

        What is asked for between two calls is kept from the first call on.
        """
        requests = self._requests.setdefault(await call.runtime(), Requests())
        return await call.attended(requests.next())

    @operation("POST", "/tui/control/response", "tui.control.response")
    async def respond(self, call: Call, body: Any) -> bool:
        """Answer a request. Nobody waits for the answer: the request was answered when it was taken."""
        await call.runtime()
        return True

    async def _execute(self, call: Call, command: str, asked: Any = None) -> bool:
        return await self._publish(call, TuiCommandExecute(command=command), asked or {})

    async def _publish(self, call: Call, properties: Wire, asked: Any = None) -> bool:
        runtime = await call.runtime()
        await runtime.publish(make(properties))
        if (requests := self._requests.get(runtime)) is not None:
            body = to_plain(properties) if asked is None else asked
            requests.put(TuiRequest(path=call.request.url.path, body=body))
        return True


MOST: Final = 100
"""Requests that wait; one more and the oldest is let go of."""


class Requests:
    """What waits for the interface, oldest first; each is given out once."""

    def __init__(self) -> None:
        self._waiting: deque[TuiRequest] = deque(maxlen=MOST)
        self._came = asyncio.Event()

    def put(self, request: TuiRequest) -> None:
        """Take a request."""
        self._waiting.append(request)
        self._came.set()

    async def next(self) -> TuiRequest:
        """Wait for a request, take it and return it."""
        while not self._waiting:
            self._came.clear()
            await self._came.wait()
        return self._waiting.popleft()
