"""opencode as a plugin's client: `instar.plugin.Client` over its HTTP interface.

What opencode has no operation for raises `Invalid` with its name, and is no capability of the host.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

from instar.api.session import (
    ChangeBody,
    ChangedTime,
    ForkBody,
    PermissionBody,
    ShellBody,
    SummarizeBody,
)
from instar.bus import Bus
from instar.client import (
    ApiError,
    AsyncClient,
    CommandBody,
    Invalid,
    PromptBody,
    Request,
    SessionBody,
    Unreachable,
)
from instar.event import Event, PermissionAsked
from instar.message import Assistant, ModelRef, Origin, Session, WithParts
from instar.plugin.client import Messages
from instar.wire import Plain

HOST: Final = "opencode"


class Asking(AsyncClient):
    """Raises `Invalid` for whatever opencode does not carry out: a plugin knows no other way for a request to fail."""

    async def ask(self, request: Request, kind: Any) -> Any:
        """Ask opencode. Raises `NotFound` and `Invalid`."""
        try:
            return await super().ask(request, kind)
        except (ApiError, Unreachable) as error:
            raise Invalid(str(error)) from error


class _Lacking:
    """Answers for what opencode does not offer: it raises `Invalid` when it is called."""

    _what = ""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("__"):
            raise AttributeError(name)
        what = f"{self._what}{name}"

        async def refuse(*_args: Any, **_more: Any) -> Any:
            raise Invalid(f"{HOST} offers plugins no `{what}`")

        return refuse


class Sessions(_Lacking):
    """Sessions of opencode. Of prompts it knows no origin: that is kept here, for as long as a prompt's turn runs."""

    _what = "client.session."

    def __init__(self, http: AsyncClient) -> None:
        self._http = http
        self._origins: dict[str, Origin] = {}

    async def create(self, body: SessionBody | None = None, session_id: str | None = None) -> Session:
        """Make a session. Raises `Invalid` for an id that is given: opencode makes its own."""
        if session_id is not None:
            raise Invalid(f"{HOST} gives sessions their ids itself")
        return await self._http.session.create(body)

    async def get(self, session_id: str) -> Session:
        """Return a session. Raises `NotFound`."""
        return await self._http.session.get(session_id)

    async def list(self) -> list[Session]:
        """Return the directory's sessions, last updated first."""
        return list(await self._http.session.list())

    async def children(self, session_id: str) -> Sequence[Session]:
        """Return the sessions whose parent this is."""
        return await self._http.session.children(session_id)

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

    async def message(self, session_id: str, message_id: str) -> WithParts:
        """Return one message. Raises `NotFound`."""
        return await self._http.session.message(session_id, message_id)

    async def prompt(self, session_id: str, body: PromptBody, origin: Origin | None = None) -> WithParts:
        """Send a prompt and return its last answer. Raises as `PromptBody` is refused."""
        self._note(session_id, origin)
        try:
            return await self._http.session.prompt(session_id, body)
        finally:
            if not body.no_reply:
                self.rests(session_id)

    async def prompt_async(self, session_id: str, body: PromptBody, origin: Origin | None = None) -> None:
        """Send a prompt and do not wait for its turn."""
        self._note(session_id, origin)
        await self._http.session.prompt_async(session_id, body)

    async def follow_up(
        self, session_id: str, body: PromptBody, source: str, origin: Origin | None = None
    ) -> None:
        """Send a prompt: opencode takes it up when it has answered what stands before it."""
        await self.prompt_async(session_id, body, origin)

    async def command(self, session_id: str, body: CommandBody) -> WithParts:
        """Run a command and return its last answer."""
        return await self._http.session.command(session_id, body)

    async def shell(self, session_id: str, body: ShellBody) -> WithParts:
        """Run a person's own shell command."""
        return await self._http.session.shell(session_id, body)

    async def fork(self, session_id: str, message_id: str | None = None) -> Session:
        """Make a session of copies of another one's messages."""
        return await self._http.session.fork(session_id, ForkBody(message_id=message_id))

    async def delete(self, session_id: str) -> None:
        """Delete a session."""
        await self._http.session.delete(session_id)

    async def abort(self, session_id: str) -> bool:
        """End a session's turn."""
        return await self._http.session.abort(session_id)

    async def status(self) -> dict[str, Any]:
        """Return what each session does that is not idle."""
        return dict(await self._http.session.status())

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

    def _note(self, session_id: str, origin: Origin | None) -> None:
        if origin is not None:
            self._origins[session_id] = origin


class Permissions(_Lacking):
    """Questions of opencode to a person."""

    _what = "client.permission."

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    async def list(self) -> Sequence[PermissionAsked]:
        """Return what waits for an answer."""
        return await self._http.permission.list()

    async def reply(self, request_id: str, reply: str, message: str | None = None) -> None:
        """Answer ``once``, ``always`` or ``reject``."""
        await self._http.permission.reply(request_id, PermissionBody(reply=reply, message=message))  # type: ignore[arg-type]


class _Questions(_Lacking):
    _what = "client.question."


class _Workspaces(_Lacking):
    _what = "client.workspace."


class Opencode(_Lacking):
    """opencode itself. Events that a plugin publishes reach the other plugins of the bridge, and not opencode."""

    _what = "client."

    def __init__(self, http: AsyncClient, bus: Bus) -> None:
        self._http = http
        self._bus = bus
        self.session = Sessions(http)
        self.permission = Permissions(http)
        self.question = _Questions()
        self.workspace = _Workspaces()

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

    async def tools(self) -> list[str]:
        """Return the names of opencode's tools."""
        found: list[str] = await self._http.ask(Request("GET", "/experimental/tool/ids"), list[str])
        return found
