"""``instar run --attach``: the turn runs in a server; its events are shown here, and its questions answered."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import click
import msgspec

from instar.api.session import AnswersBody, ChangeBody, PermissionBody
from instar.approval.permissions import PermissionAnswer, Person, always_once
from instar.approval.questions import Questioner
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
    asking, idle = _asking(client, wanted), asyncio.Event()

    async def listen(events: AsyncIterator[Event]) -> None:
        async for event in events:
            if event.session_id in follower.depths:
                asking.take(event.properties)
            if isinstance(event.properties, SessionIdle) and event.session_id == session.id:
                idle.set()
            follower.take(event)

    async with heard(client) as events:
        listening = asyncio.create_task(listen(events))
        ticks = asyncio.create_task(ticking(follower))
        try:
            answer = await _answered(work(), listening, session.id)
            with suppress(TimeoutError):
                await asyncio.wait_for(idle.wait(), _LAST_EVENTS)
        finally:
            ticks.cancel()
            listening.cancel()
            await asyncio.gather(listening, ticks, return_exceptions=True)
            await asking.close()
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


class Asking:
    """Puts what is asked in a server to a person here, and sends their answers, unless another client is faster."""

    def __init__(self, client: AsyncClient, permit: Person, answer: Questioner) -> None:
        self._client, self._permit, self._answer = client, permit, answer
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def take(self, happened: object) -> None:
        """Ask what an event asks; what was answered elsewhere is not asked any more."""
        match happened:
            case PermissionAsked() | QuestionAsked() as asked:
                self._tasks[asked.id] = asyncio.create_task(self._put(asked))
            case (
                PermissionReplied(request_id=asked_id)
                | QuestionReplied(request_id=asked_id)
                | QuestionRejected(request_id=asked_id)
            ) if asked_id in self._tasks:
                self._tasks.pop(asked_id).cancel()

    async def close(self) -> None:
        """Ask nothing any more."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _put(self, asked: PermissionAsked | QuestionAsked) -> None:
        # Another client may have been faster, and a person who is gone is asked nothing.
        with suppress(NotFound, ConnectionError):
            if isinstance(asked, PermissionAsked):
                given = await self._permit(asked)
                answer = given if isinstance(given, PermissionAnswer) else PermissionAnswer(given)
                body = PermissionBody(reply=answer.reply, message=answer.message)
                await self._client.permission.reply(asked.id, body)
            elif (found := await self._answer(asked)) is None:
                await self._client.question.reject(asked.id)
            else:
                await self._client.question.reply(asked.id, AnswersBody(answers=[list(one) for one in found]))


def _asking(client: AsyncClient, wanted: RunRequest) -> Asking:
    """Ask the person at the terminal, if there is one; else permissions and questions are rejected."""

    async def reject(asked: object) -> Any:
        return PermissionAnswer("reject") if isinstance(asked, PermissionAsked) else None

    terminal = person.AtTerminal(wanted.view) if person.is_there() else None
    permit = always_once if wanted.auto else terminal.permit if terminal else reject
    answer = terminal.answer if terminal and wanted.format != "json" else reject
    return Asking(client, permit, answer)


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
