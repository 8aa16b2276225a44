"""``instar run --attach``: the turn runs in a server; its events are shown here, and its questions answered."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import click
import msgspec

from instar.api.session import AnswersBody, ChangeBody, PermissionBody
from instar.approval.permissions import PermissionAnswer
from instar.cli import person
from instar.cli.door import Context, Failure
from instar.cli.follow import Follower, ticking
from instar.cli.person import INTERRUPTED, Interrupts, RunRequest
from instar.cli.text import note, short
from instar.client import (
    ApiError,
    AsyncClient,
    CommandBody,
    Invalid,
    NotFound,
    PromptBody,
    Request,
    SessionBody,
    Unreachable,
)
from instar.event import (
    Event,
    PermissionAsked,
    PermissionReplied,
    QuestionAsked,
    QuestionRejected,
    QuestionReplied,
    SessionIdle,
)
from instar.message import ModelRef, Session, WithParts
from instar.wire import Plain
from instar.wire.secret import Secret

_LOCAL: Final = ("127.0.0.1", "localhost", "::1")
_LARGEST_FILE: Final = 10 * 1024 * 1024
"""Bytes of a file that is sent along to a server elsewhere."""
_LAST_EVENTS: Final = 2.0
"""Seconds that the events of a turn may take to arrive once its answer has."""


class Attached(msgspec.Struct, frozen=True):
    """Which server: `url` is ``http://HOST:PORT`` or ``unix:PATH``; `folder` is a directory there, None for its own."""

    url: str
    folder: str | None

    @property
    def is_here(self) -> bool:
        """Whether the server is on this machine, and sees the same files."""
        return self.url.startswith("unix:") or urlsplit(self.url).hostname in _LOCAL


async def attached(context: Context, server: Attached, wanted: RunRequest) -> int:
    """Run a turn in a server. Returns the exit code; raises `Failure` for what the server cannot do."""
    with Interrupts() as stop:
        try:
            async with client_to(context, server) as client:
                return await _turn(client, server, wanted, stop)
        except asyncio.CancelledError:
            if not stop.count:
                raise
            return INTERRUPTED
        except (ApiError, Invalid, NotFound, Unreachable) as error:
            raise Failure(_advice(error)) from error


def client_to(context: Context, server: Attached) -> AsyncClient:
    """Return the client of a server. Raises `click.UsageError` for an invalid address."""
    folder = server.folder
    if folder is None and server.is_here:
        folder = str(context.directory)
    elif folder is not None and server.is_here:
        folder = str((context.directory / Path(folder).expanduser()).resolve())
    how: dict[str, Any] = {"password": _password(context, server), "directory": folder}
    how["username"] = context.environment.get("OPENCODE_SERVER_USERNAME") or "opencode"
    if server.url.startswith("unix:"):
        socket = str(context.directory / server.url.removeprefix("unix:").removeprefix("//"))
        return AsyncClient("http://localhost", socket=socket, **how)
    parts = urlsplit(server.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError(f"--attach {server.url} is no address: say http://HOST:PORT or unix:PATH")
    if parts.username or parts.password:
        raise click.UsageError("--attach takes no password in the address: set INSTAR_SERVER_PASSWORD")
    return AsyncClient(f"{parts.scheme}://{parts.netloc}{parts.path}", **how)


def _password(context: Context, server: Attached) -> Secret | None:
    """The password of the environment; for a server of this machine, else the one that it keeps in its file."""
    for name in ("INSTAR_SERVER_PASSWORD", "OPENCODE_SERVER_PASSWORD"):
        if context.environment.get(name):
            return Secret(context.environment[name])
    if not server.is_here:
        return None
    with suppress(OSError):
        return Secret(context.paths.password_file.read_text("ascii", "ignore").strip()) or None
    return None


async def _turn(client: AsyncClient, server: Attached, wanted: RunRequest, stop: Interrupts) -> int:
    session = await _session(client, wanted)
    view = wanted.view
    follower = Follower(session.id, view)
    stop.abort = lambda: client.session.abort(session.id)
    work = await _work(client, server, wanted, session.id)
    async with heard(client) as events:
        listener = _Listener(client, wanted, session.id, follower)
        listening = asyncio.create_task(listener.listen(events))
        ticks = asyncio.create_task(ticking(follower))
        try:
            answer = await _answered(work(), listening, session.id)
            await listener.rest()
        finally:
            ticks.cancel()
            listening.cancel()
            await asyncio.gather(listening, ticks, return_exceptions=True)
            await listener.close()
            view.pause()
    view.close(session.id)
    return follower.exit_code(answer, interrupted=bool(stop.count))


async def _answered(
    work: Awaitable[WithParts], listening: "asyncio.Task[None]", session_id: str
) -> WithParts:
    """The answer of a turn. Raises `Failure` when its events end before: the turn goes on without being seen."""
    asked = asyncio.ensure_future(work)
    try:
        await asyncio.wait([asked, listening], return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            listening.result()
            raise Failure(
                f"the server ended the stream of events; session {session_id} may still be at work there"
            )
        return await asked
    finally:
        asked.cancel()


@asynccontextmanager
async def heard(client: AsyncClient) -> AsyncIterator[AsyncIterator[Event]]:
    """The server's events: instar's own stream, which tells more, or opencode's where the server has no other."""
    async with AsyncExitStack() as stack:
        try:
            heard = await stack.enter_async_context(client.listening(Request("GET", "/instar/event")))
        except (NotFound, ApiError):
            heard = await stack.enter_async_context(client.listening(Request("GET", "/event")))
        yield heard


class _Listener:
    """Shows a session's events, and puts what is asked in it, or in its sub-agents' sessions, to the person."""

    def __init__(self, client: AsyncClient, wanted: RunRequest, session_id: str, follower: Follower) -> None:
        self._client = client
        self._auto = wanted.auto
        self._follower = follower
        self._session_id = session_id
        self._person = person.AtTerminal(wanted.view) if person.is_there() else None
        self._may_answer = self._person is not None and wanted.format != "json"
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._idle = asyncio.Event()

    async def listen(self, events: AsyncIterator[Event]) -> None:
        """Take events until there are no more."""
        async for event in events:
            self._take(event)

    async def rest(self) -> None:
        """Wait until the turn's last event was shown, a moment at most."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), _LAST_EVENTS)

    async def close(self) -> None:
        """Ask nothing any more."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, event: Event) -> None:
        match event.properties:
            case PermissionAsked() as asked if asked.session_id in self._follower.depths:
                self._ask(asked.id, self._permit(asked))
            case QuestionAsked() as asked if asked.session_id in self._follower.depths:
                self._ask(asked.id, self._answer(asked))
            case PermissionReplied(request_id=asked_id) | QuestionReplied(request_id=asked_id):
                self._answered(asked_id)
            case QuestionRejected(request_id=asked_id):
                self._answered(asked_id)
            case SessionIdle(session_id=self._session_id):
                self._idle.set()
        self._follower.take(event)

    def _ask(self, asked_id: str, work: Coroutine[Any, Any, None]) -> None:
        self._asking[asked_id] = asyncio.create_task(work)

    def _answered(self, asked_id: str) -> None:
        """Somebody answered, perhaps at another client: the question here is over."""
        task = self._asking.pop(asked_id, None)
        if task is not None:
            task.cancel()

    async def _permit(self, asked: PermissionAsked) -> None:
        if self._auto:
            verdict = PermissionAnswer("once")
        elif self._person is not None:
            verdict = await self._person.permit(asked)
        else:
            verdict = PermissionAnswer("reject")
        # Another client may have been faster.
        with suppress(NotFound):
            body = PermissionBody(reply=verdict.reply, message=verdict.message)
            await self._client.permission.reply(asked.id, body)

    async def _answer(self, asked: QuestionAsked) -> None:
        found = await self._person.answer(asked) if self._person is not None and self._may_answer else None
        with suppress(NotFound):
            if found is None:
                await self._client.question.reject(asked.id)
            else:
                await self._client.question.reply(asked.id, AnswersBody(answers=[list(one) for one in found]))


async def session_for(
    client: AsyncClient, *, named: str | None, continued: bool, agent: str | None, title: str | None = None
) -> Session:
    """The session to go on with, or a new one. Raises `Failure` for an id that the server does not know."""
    # Start-up time: as for a run of one's own.
    from instar.cli.session import named_one

    found: Session | None = None
    if named:
        try:
            found = named_one(await client.session.list(), named) or await client.session.get(named)
        except (NotFound, Invalid) as error:
            raise Failure(f"{error}; `instar session list` lists those of this machine") from error
    elif continued:
        roots = await client.session.list(roots=True)
        found = next((one for one in roots if one.time.archived is None), None)
        if found is not None:
            note(f"going on with {found.id}: {short(found.title, 72)}")
        else:
            note("there is no session to go on with there, so this is a new one")
    return found or await client.session.create(SessionBody(title=title, agent=agent))


async def _session(client: AsyncClient, wanted: RunRequest) -> Session:
    found = await session_for(
        client, named=wanted.session, continued=wanted.continued, agent=wanted.agent, title=wanted.title
    )
    if wanted.fork:
        found = await client.session.fork(found.id)
    changed = wanted.title is not None and found.title != wanted.title
    return await client.session.update(found.id, ChangeBody(title=wanted.title)) if changed else found


async def _work(
    client: AsyncClient, server: Attached, wanted: RunRequest, session_id: str
) -> Callable[[], Awaitable[WithParts]]:
    """What the message asks for: a command of the server's, or a prompt."""
    parts = [_carried(part, server) for part in wanted.parts]
    text = str(parts[0].get("text", "")) if parts else ""
    first, _, rest = text.partition(" ")
    name, arguments = wanted.command, text
    if name is None and first.startswith("/"):
        known = {one.name for one in await client.command.list()}
        name, arguments = (first[1:], rest) if first[1:] in known else (None, text)
    if name is not None:
        files = [part for part in parts if part["type"] != "text"] or None
        command = CommandBody(
            command=name.removeprefix("/"),
            arguments=arguments,
            agent=wanted.agent,
            model=wanted.model,
            variant=wanted.variant,
            parts=files,
        )
        return lambda: client.session.command(session_id, command)
    prompt = PromptBody(parts=parts, agent=wanted.agent, model=_model(wanted), variant=wanted.variant)
    return lambda: client.session.prompt(session_id, prompt)


def _model(wanted: RunRequest) -> ModelRef | None:
    if not wanted.model:
        return None
    provider, slash, model = wanted.model.partition("/")
    if not slash or not provider or not model:
        raise click.UsageError(f"--model {wanted.model}: beside --attach it is PROVIDER/MODEL")
    return ModelRef(provider_id=provider, model_id=model)


def _carried(part: Plain, server: Attached) -> Plain:
    """A file's part for a server elsewhere holds the file. Raises `click.UsageError` for a folder or a large file."""
    url = str(part.get("url", ""))
    if server.is_here or not url.startswith("file:"):
        return part
    path = Path(unquote(urlsplit(url).path))
    if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
        raise click.UsageError(
            f"{path} cannot be sent along: it is a folder, or larger than {_LARGEST_FILE} bytes"
        )
    data = base64.b64encode(path.read_bytes()).decode()
    return {**part, "url": f"data:{part['mime']};base64,{data}"}


def _advice(error: Exception) -> str:
    if isinstance(error, ApiError) and error.status == 401:
        return "the server wants a password: set INSTAR_SERVER_PASSWORD to it (`instar serve` says where it keeps it)"
    return str(error)
