"""``instar chat``, and ``instar`` alone on a terminal."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

import click
from rich.text import Text

from instar.approval import permissions, questions
from instar.cli import person, streams
from instar.cli.attach import Attached, client_to, heard, session_for
from instar.cli.chat.choices import PickOrders
from instar.cli.chat.conversation import REFUSALS, Conversation
from instar.cli.chat.images import Images, clipboard
from instar.cli.chat.orders import Orders
from instar.cli.chat.screen import Screen
from instar.cli.chat.state import ChatState
from instar.cli.chat.view import ChatView
from instar.cli.door import Context, Failure, WaitingLines, door, folder_option
from instar.cli.no_model import explained
from instar.cli.person import Interrupts
from instar.cli.run import session_options, trusted_runtime
from instar.cli.text import note, one_line, short
from instar.client import AsyncClient, Invalid, NotFound
from instar.message import Session
from instar.runtime import Options
from instar.server.within import client_of

HUNG_UP: Final = 128 + signal.SIGHUP
"""The exit code of a chat whose terminal is gone."""
_TURNING: Final = ("new", "sessions", "model", "agent", "fork", "undo", "redo", "rewind")
"""Orders after which something else is said to, or said by another."""
_LEAVES: Final = ("exit", "quit", ":q")
"""What people type in other programs to leave."""
_FOUND: Final = 20
"""Files that complete a word."""
_TWICE: Final = 0.5
"""Seconds within which Esc is pressed twice."""
_LAST_EVENTS: Final = 0.8
"""Seconds that the end of a turn may take to be shown when the person leaves."""
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 4.0
"""Seconds until a server that is gone is asked again, from the first time on twice as many each time."""


@click.command()
@session_options
@folder_option("Chat in this folder.")
@click.option("--attach", "url", metavar="URL", help="Chat with the server there (http://… or unix:PATH).")
@click.option("--thinking", is_flag=True, help="Show the model's reasoning whole.")
@door
async def command(context: Context, folder: str | None, url: str | None, thinking: bool, **asked: Any) -> int:
    """Talk with the agent. What was said stays in the terminal's scrollback; /help says what can be typed."""
    if not person.is_there():
        raise Failure('a chat needs a terminal; without one: instar run "…"')
    if context.environment.get("TERM") in ("dumb", ""):
        raise Failure('a chat moves the cursor, which TERM=dumb cannot; there: instar run "…"')
    opened = _here(context, folder) if url is None else client_to(context, Attached(url, folder))
    with Interrupts() as interrupts:
        try:
            async with opened as client:
                await Chat(context, client, interrupts, url=url, thinking=thinking, **asked).run()
        except REFUSALS as error:
            raise Failure(str(error)) from error
        except asyncio.CancelledError:
            if not interrupts.count:
                raise
    return interrupts.code


@asynccontextmanager
async def _here(context: Context, folder: str | None) -> AsyncIterator[AsyncClient]:
    """A client of this process: what is asked is answered through it, by the person at the terminal."""
    options = Options(
        context.folder(folder),
        context.environment,
        person=permissions.relayed_to_person,
        questioner=questions.relayed,
    )
    async with (
        trusted_runtime(context, options) as runtime,
        client_of(runtime, by_person=True) as client,
    ):
        yield client


class Chat:
    """A screen, and the conversation that it shows."""

    def __init__(
        self,
        context: Context,
        client: AsyncClient,
        interrupts: Interrupts,
        *,
        url: str | None,
        model: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        continued: bool = False,
        thinking: bool = False,
    ) -> None:
        self._context, self._client, self._interrupts, self._url = context, client, interrupts, url
        self._model, self._agent, self._thinking = model, agent, thinking
        self._wanted, self._continued = session, continued
        self._escaped = 0.0
        self._images = Images()
        self._state = ChatState(context.paths.state / "chat.json")
        history = context.paths.state / "chat-history"
        history.parent.mkdir(parents=True, exist_ok=True)
        history.touch(mode=0o600)
        self._screen = Screen(
            submit=self._submit,
            rows=self._rows,
            facts=lambda width: self._talk.facts(width),
            prompt=lambda: self._talk.prompt(),
            words=self._words,
            waiting=lambda: self._talk.take_back(),
            escape=self._escape,
            interrupt=self._interrupt,
            paste=self._paste,
            clipboard=lambda: self._talk.do(self._paste_image()),
            left=self._leave,
            history=history,
            state=self._state,
        )
        self._choices = PickOrders(lambda: self._talk, self._turn_to, self._screen, self._state)
        self._orders = Orders(lambda: self._talk, self._turn_to, self._screen, self._choices, self._leave)
        self._talk: Conversation
        self._talks: list[Conversation] = []
        self._turning: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[bool] | None = None
        self._rests = asyncio.Event()

    async def run(self) -> None:
        """Chat until the person leaves."""
        session = await session_for(
            self._client, named=self._wanted, continued=self._continued, agent=self._agent
        )
        if self._wanted:
            # Its events and files are those of the folder that it was begun in.
            self._client.directory = session.directory
        async with heard(self._client) as events:
            await self._turn_to(session)
            if self._model and not await self._choices.use(self._model):
                raise Failure(
                    f"no model {self._model} can be called here; instar models --all lists what there is"
                )
            await self._greet()
            listening = asyncio.create_task(self._listen(events))
            WaitingLines.show = lambda text: self._screen.print_now(f"instar: {one_line(text)}")
            self._interrupts.abort = self._end
            self._interrupts.end_children = self._screen.restore
            try:
                await self._screen.run()
            except (EOFError, OSError):
                # The terminal is gone, and SIGHUP is on its way.
                self._interrupts.code = HUNG_UP
                await self._end()
            finally:
                WaitingLines.show = note
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
        session_id = self._talk.session.id
        if self._talk in [talk for talk in self._talks if await self._is_dropped(talk)]:
            return
        if self._url is None:
            click.echo(f"go on: instar chat -s {session_id}", err=True)
        else:
            still = "its turn goes on in the server; " if self._talk.busy else ""
            click.echo(f"{still}go on: instar chat --attach {self._url} -s {session_id}", err=True)

    async def _is_dropped(self, talk: Conversation) -> bool:
        """Delete a session of this chat in which nothing was said; return whether it was one."""
        session = self._client.session
        if self._url is not None or self._wanted:
            return False
        with suppress(NotFound):
            if await session.messages(talk.session.id, limit=1):
                return False
            await session.delete(talk.session.id)
        return True

    def _leave(self) -> None:
        """Leave; when asked for once more, at once."""
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._end())
        else:
            self._screen.leave()

    async def _end(self) -> bool:
        """End the turn, but for one that a server runs, and then the screen, which shows that. True: both are ended."""
        talk = self._talk
        if self._interrupts.code == HUNG_UP:
            streams.drop()
        while (text := talk.take_back()) is not None:
            talk.chat.note(f"not sent: {text}")
        with suppress(*REFUSALS, TimeoutError):
            async with asyncio.timeout(_LAST_EVENTS):
                if self._url is None and talk.busy:
                    self._rests.clear()
                    await talk.abort()
                    if talk.busy:
                        await self._rests.wait()
        self._screen.leave()
        return True

    async def _listen(self, events: AsyncIterator[Any]) -> None:
        async with AsyncExitStack() as stack:
            while True:
                with suppress(*REFUSALS):
                    async for event in events:
                        self._talk.take(event)
                        if not self._talk.busy:
                            self._rests.set()
                        # Many come at once: what is typed has its turn between them.
                        await asyncio.sleep(0)
                self._talk.lose()
                self._talk.chat.note(
                    "the server ended the stream of events; it is asked again until it answers", "red"
                )
                events = await self._heard_again(stack)
                self._talk.chat.note("the server answers again")
                self._talk.do(self._talk.catch_up())

    async def _heard_again(self, stack: AsyncExitStack) -> AsyncIterator[Any]:
        pause = _FIRST_PAUSE
        while True:
            await asyncio.sleep(pause)
            with suppress(*REFUSALS):
                return await stack.enter_async_context(heard(self._client))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _greet(self) -> None:
        providers = await self._client.config.providers()
        if not any(one.id != "scripted" for one in providers.providers) and not self._model:
            lines = await explained(self._context.environment, "/model {}")
            self._talk.chat.show(*(Text(line) for line in lines))
        self._talk.chat.note("instar; /help says what can be typed, Ctrl-D leaves")

    async def _turn_to(self, session: Session) -> None:
        """Show another session."""
        before = getattr(self, "_talk", None)
        view = ChatView(self._screen.print, self._state, thinking=self._thinking)
        self._talk = Conversation(self._client, session, view, self._screen.app.invalidate, self._images)
        self._talks.append(self._talk)
        if before is not None:
            self._talk.model, self._talk.agent = before.model, session.agent or before.agent
        elif self._agent:
            self._talk.agent = self._agent
        await self._talk.read()

    # -- the keys ------------------------------------------------------------------------------------

    def _submit(self, text: str) -> None:
        if text.strip() in _LEAVES and not self._talk.asks:
            self._leave()
            return
        name = text[1:].partition(" ")[0].strip() if text.startswith("/") else ""
        turning = self._turning if self._turning and not self._turning.done() else None
        if self._talk.asks or not (name in self._orders.names or turning):
            self._talk.send(text)
            return
        task = self._talk.do(self._act(text.strip(), turning))
        if name in _TURNING:
            self._turning = task

    async def _act(self, text: str, turning: asyncio.Task[None] | None) -> None:
        if turning:
            # It is for the session, model or agent that the order leads to.
            await asyncio.wait([turning])
        if not await self._orders.run(text):
            self._talk.send(text)

    def _escape(self, text: str) -> None:
        talk, before = self._talk, self._escaped
        self._escaped = 0.0
        if talk.busy:
            talk.do(talk.abort())
        elif time.monotonic() - before < _TWICE and not text and not talk.asks:
            self._submit("/rewind")
        else:
            self._escaped = time.monotonic()

    def _interrupt(self) -> None:
        if self._talk.busy:
            self._talk.do(self._talk.abort())
        else:
            self._talk.chat.note("Ctrl-D leaves")

    def _paste(self, text: str) -> str:
        try:
            return self._images.named(text) or text
        except Invalid as error:
            self._talk.chat.note(str(error), "red")
            return text

    async def _paste_image(self) -> None:
        self._screen.buffer.insert_text(self._images.put("clipboard.png", await clipboard()))

    def _rows(self) -> list[Text]:
        talk = self._talk
        waiting = [Text(f"waits: {short(text)}", "dim") for text in talk.queue]
        # While something is asked, nothing else goes on above the question.
        return waiting if talk.asks else [*talk.chat.rows(busy=talk.busy), *waiting]

    async def _words(self, begun: str) -> Iterable[tuple[str, str]]:
        if begun.startswith("@"):
            files = await self._client.find.files(query=begun[1:], limit=_FOUND) if begun[1:] else []
            agents = [one for one in await self._client.app.agents() if one.mode != "primary"]
            named = [(f"@{one.name}", "agent") for one in agents if one.name.startswith(begun[1:])]
            return [*((f"@{file}", "") for file in files), *named]
        orders = {f"/{name}": meaning for name, (meaning, _) in self._orders.names.items()}
        commands = {
            f"/{one.name}": short(one.description or "", 60) for one in await self._client.command.list()
        }
        return [(name, meaning) for name, meaning in {**commands, **orders}.items() if name.startswith(begun)]
