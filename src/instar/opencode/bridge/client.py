"""opencode as a plugin's client: `instar.plugin.Client` over its HTTP interface.

What opencode has no operation for raises `Invalid` with its name, and is no capability of the host.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any, Final

import msgspec

from instar.api.session import ChangeBody, ChangedTime, ForkBody, PermissionBody, SummarizeBody
from instar.client import (
    ApiError,
    AsyncClient,
    Invalid,
    NotFound,
    PromptBody,
    Request,
    SessionBody,
    Unreachable,
)
from instar.event import Event
from instar.event.bus import Bus
from instar.message import Assistant, ModelRef, Origin, Rule, Session, WithParts
from instar.plugin.client import Messages
from instar.wire import Plain

HOST: Final = "opencode"
_SAME: Final = ("get", "list", "children", "message", "command", "shell", "delete", "abort", "status")
"""Methods of `SessionClient` that opencode's interface has as they are."""


class OpencodeConnection(AsyncClient):
    """opencode's interface; a request that fails raises `NotFound` or `Invalid`, as plugins expect."""

    async def ask(self, request: Request, kind: Any) -> Any:
        """Ask opencode. Raises `NotFound` and `Invalid`."""
        try:
            return await super().ask(request, kind)
        except (ApiError, Unreachable) as error:
            raise Invalid(str(error)) from error


class _Offered:
    """A part of `instar.plugin.Client`: its own methods, and those of opencode's interface that do the same.

    `path` is its name in error messages, `calls` opencode's interface, `same` the names of such methods. Any other
    method raises `Invalid` when it is called.
    """

    def __init__(self, path: str, calls: object = None, same: Collection[str] = ()) -> None:
        self._path = path
        self._calls = calls
        self._same = same

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._same:
            method: Callable[..., Awaitable[Any]] = getattr(self._calls, name)
            return method

        async def refuse(*_args: Any, **_more: Any) -> Any:
            raise Invalid(f"{HOST} offers plugins no `{self._path}{name}`")

        return refuse


class OpencodeSessions(_Offered):
    """OpencodeSessions of opencode. It knows no origin of prompts: that is kept here while a prompt's turn runs."""

    def __init__(self, http: AsyncClient) -> None:
        super().__init__("client.session.", http.session, _SAME)
        self._http = http
        self._origins: dict[str, Origin] = {}

    async def create(self, body: SessionBody | None = None, session_id: str | None = None) -> Session:
        """Make a session. Raises `Invalid` for an id that is given: opencode makes its own."""
        if session_id is not None:
            raise Invalid(f"{HOST} gives sessions their ids itself")
        return await self._http.session.create(body)

    async def update(self, session_id: str, *, title: str | None = None, **more: Any) -> Session:
        """Change a session's title, metadata or permissions, or put it away. Raises `NotFound`."""
        archived = more.pop("archived", None)
        said: Plain = {name: value for name, value in more.items() if value}
        if archived is not None:
            said["time"] = ChangedTime(archived=archived)
        return await self._http.session.update(session_id, ChangeBody(title=title, **said))

    async def messages(self, session_id: str, limit: int | None = None) -> Messages:
        """Return a session's messages, oldest first. Raises `NotFound`."""
        return await self._http.session.messages(session_id, limit=limit)

    async def prompt(self, session_id: str, body: PromptBody, origin: Origin | None = None) -> WithParts:
        """Send a prompt and return its last answer. Raises as `PromptBody` is refused."""
        if origin is not None:
            self._origins[session_id] = origin
        try:
            return await self._http.session.prompt(session_id, body)
        finally:
            if not body.no_reply:
                self.rests(session_id)

    async def prompt_async(self, session_id: str, body: PromptBody, origin: Origin | None = None) -> None:
        """Send a prompt and do not wait for its turn."""
        if origin is not None:
            self._origins[session_id] = origin
        await self._http.session.prompt_async(session_id, body)

    async def follow_up(
        self, session_id: str, body: PromptBody, source: str, origin: Origin | None = None
    ) -> None:
        """Send a prompt: opencode takes it up when it has answered what stands before it."""
        await self.prompt_async(session_id, body, origin)

    async def fork(self, session_id: str, message_id: str | None = None) -> Session:
        """Make a session of copies of another one's messages."""
        return await self._http.session.fork(session_id, ForkBody(message_id=message_id))

    async def summarize(
        self, session_id: str, model: ModelRef | None = None, origin: Origin | None = None
    ) -> None:
        """Summarise a session, with the model that answered last where none is given. Raises `Invalid`."""
        chosen = model
        if chosen is None:
            said = [
                one.info for one in await self.messages(session_id, 20) if isinstance(one.info, Assistant)
            ]
            if not said:
                raise Invalid(f"session {session_id} has no answer that could be summarised")
            chosen = ModelRef(provider_id=said[-1].provider_id, model_id=said[-1].model_id)
        body = SummarizeBody(provider_id=chosen.provider_id, model_id=chosen.model_id)
        await self._http.session.summarize(session_id, body)

    async def origin(self, session_id: str) -> Origin:
        """Return where the prompt comes from that a session answers; a person's where nobody said otherwise."""
        return self._origins.get(session_id, Origin())

    def rests(self, session_id: str) -> None:
        """The session's turn is over."""
        self._origins.pop(session_id, None)


class OpencodePermissions(_Offered):
    """Questions of opencode to a person."""

    def __init__(self, http: AsyncClient) -> None:
        super().__init__("client.permission.", http.permission, ("list",))
        self._http = http

    async def reply(self, request_id: str, reply: str, message: str | None = None) -> None:
        """Answer ``once``, ``always`` or ``reject``."""
        await self._http.permission.reply(request_id, PermissionBody(reply=reply, message=message))  # type: ignore[arg-type]


class Opencode(_Offered):
    """opencode itself. Events that a plugin publishes reach the other plugins of the bridge, and not opencode."""

    def __init__(self, http: AsyncClient, bus: Bus) -> None:
        super().__init__("client.")
        self._http = http
        self._bus = bus
        self.session = OpencodeSessions(http)
        self.permission = OpencodePermissions(http)
        self.question = _Offered("client.question.")
        self.workspace = _Offered("client.workspace.")

    async def events(self) -> AsyncIterator[Event]:
        """Iterate over events, opencode's and those of plugins, from now on."""
        with self._bus.subscribe() as subscription:
            async for event in subscription:
                yield event

    async def publish(self, event: Event) -> None:
        """Tell the other plugins of an event."""
        self._bus.publish(event)

    async def config(self) -> Plain:
        """Return opencode's configuration."""
        found: Plain = await self._http.ask(Request("GET", "/config"), dict[str, Any])
        return found

    async def agents(self) -> list[str]:
        """Return the names of opencode's agents."""
        return [str(one["name"]) for one in await self.agent_list()]

    async def agent_list(self) -> list[Plain]:
        """Return opencode's agents as it describes them."""
        found: list[Plain] = await self._http.ask(Request("GET", "/agent"), list[dict[str, Any]])
        return found

    async def rules(self, agent: str = "", session_id: str = "") -> list[Rule]:
        """Return the rules of one of opencode's agents, then a session's own."""
        known = await self.agent_list()
        chosen = next((one for one in known if one["name"] == agent), known[0] if known else {})
        own: list[Rule] = []
        if session_id:
            with contextlib.suppress(NotFound):
                own = (await self.session.get(session_id)).permission or []
        return [*msgspec.convert(chosen.get("permission") or [], list[Rule]), *own]

    async def tools(self) -> list[str]:
        """Return the names of opencode's tools."""
        found: list[str] = await self._http.ask(Request("GET", "/experimental/tool/ids"), list[str])
        return found
