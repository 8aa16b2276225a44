"""A runtime under test: what a client may ask of it, in one line each, and all that it published."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from instar.event import Event
from instar.message import Assistant, ToolPart, User, WithParts, text_of
from instar.plugin import PromptBody, SessionBody
from instar.runtime import Runtime
from instar.session.state import SessionState

Found = TypeVar("Found")

TIMEOUT: Final = 30.0
"""Seconds after which the kit gives up on what hangs, with `TimeoutError`."""
_PAUSE: Final = 0.01


async def until(condition: Callable[[], Found | Awaitable[Found]]) -> Found:
    """Return what `condition`, a function or a coroutine function, gives once that is true.

    For what another task or process brings about. Raises `TimeoutError` after `TIMEOUT` seconds.
    """
    async with asyncio.timeout(TIMEOUT):
        while True:
            given = condition()
            found = await given if inspect.isawaitable(given) else given
            if found:
                return found
            await asyncio.sleep(_PAUSE)


class RuntimeUnderTest:
    """An open runtime, `runtime`; `client` are its sessions, `heard` all events that it published, in order."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.client = runtime.session
        self.heard: list[Event] = []
        runtime.instance.bus.observe(self.heard.append)

    async def session(self, title: str | None = "named", **body: Any) -> str:
        """Make a session and return its id. It has a title, so that the model is not asked for one; None: it is."""
        return (await self.client.create(SessionBody(title=title, **body))).id

    async def ask(self, session_id: str, text: str, **fields: Any) -> WithParts:
        """Prompt, wait until the session is idle, and return the last answer. `fields` are those of `PromptBody`.

        Raises `AssertionError` when nobody answered, and `TimeoutError`.
        """
        prompt = self.client.prompt(session_id, PromptBody.text(text, **fields))
        found = await asyncio.wait_for(prompt, TIMEOUT)
        assert isinstance(found.info, Assistant), f"nobody answered {text_of(found)!r}"
        return found

    async def start(self, session_id: str, text: str, **fields: Any) -> None:
        """Prompt, and return at once; `idle` waits for the end."""
        await self.client.prompt_async(session_id, PromptBody.text(text, **fields))

    async def idle(self, session_id: str) -> None:
        """Wait until no turn runs in the session."""
        await asyncio.wait_for(self.runtime.turns.wait(await self.live(session_id)), TIMEOUT)

    async def live(self, session_id: str) -> SessionState:
        """Return the session as the runtime holds it."""
        return await self.runtime.instance.sessions.open(session_id)

    async def stored(self, session_id: str) -> list[WithParts]:
        """Return the session's messages as the database has them."""
        return await self.runtime.instance.store.messages(session_id)

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """Return the first event that is wanted, whether it was published or will be. Raises `TimeoutError`."""
        found: asyncio.Future[Event] = asyncio.get_running_loop().create_future()

        def look(event: Event) -> None:
            if not found.done() and wanted(event):
                found.set_result(event)

        for event in self.heard:
            look(event)
        stop = self.runtime.instance.bus.observe(look)
        try:
            return await asyncio.wait_for(found, TIMEOUT)
        finally:
            stop()

    async def running(self, tool: str = "bash") -> ToolPart:
        """Wait until a call of `tool` runs, and return its part as it was then published."""
        event = await self.until(lambda event: _is_running(event, tool))
        part = event.properties.part  # type: ignore[attr-defined]
        assert isinstance(part, ToolPart)
        return part

    def plugin(self, hooks: Mapping[str, Any], name: str = "test") -> None:
        """Subscribe functions to hook points, by the points' names, as a plugin called `name` would."""
        self.runtime.instance.plugins.add(name, hooks)

    def types(self) -> list[str]:
        """Return the types of the events so far."""
        return [event.type for event in self.heard]

    def of(self, kind: str) -> list[Any]:
        """Return the properties of the events of a type."""
        return [event.properties for event in self.heard if event.type == kind]


def answer_of(message: WithParts) -> Assistant:
    """Return what is known of an answer. Raises `AssertionError` when the message is a user's."""
    assert isinstance(message.info, Assistant), message.info
    return message.info


def said(message: WithParts) -> str:
    """Return a message's text."""
    return text_of(message)


def calls_of(message: WithParts) -> list[ToolPart]:
    """Return an answer's tool calls."""
    return [part for part in message.parts if isinstance(part, ToolPart)]


def results(history: Sequence[WithParts]) -> list[str]:
    """Return what the model read of every tool call of a session, in order: outputs and errors."""
    return [
        str(getattr(call.state, "output", None) or getattr(call.state, "error", ""))
        for message in history
        for call in calls_of(message)
    ]


def users(history: Sequence[WithParts]) -> list[str]:
    """Return the texts of a session's user messages."""
    return [text_of(message) for message in history if isinstance(message.info, User)]


def _is_running(event: Event, tool: str) -> bool:
    part = getattr(event.properties, "part", None)
    return isinstance(part, ToolPart) and part.tool == tool and part.state.__struct_config__.tag == "running"
