"""``instar chat``, and ``instar`` alone on a terminal."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

import click
from rich.text import Text

from instar.approval import permissions, questions
from instar.cli import person
from instar.cli.attach import Attached, client_to, heard, session_for
from instar.cli.chat.conversation import REFUSALS, Conversation
from instar.cli.chat.models import explained
from instar.cli.chat.orders import Orders
from instar.cli.chat.screen import Screen
from instar.cli.chat.view import ChatView
from instar.cli.door import Context, Failure, door
from instar.cli.run import session_options, trusted_runtime
from instar.cli.text import short
from instar.client import AsyncClient
from instar.event import PermissionAsked
from instar.message import Session
from instar.runtime import Options
from instar.server.within import client_of

_FOUND: Final = 20
"""Files that complete a word."""
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 4.0
"""Seconds until a server that is gone is asked again, from the first time on twice as many each time."""


@click.command()
@session_options
@click.option("--dir", "folder", metavar="PATH", help="Chat in this folder.")
@click.option("--attach", "url", metavar="URL", help="Chat with the server there (http://… or unix:PATH).")
@click.option("--thinking", is_flag=True, help="Show the model's reasoning whole.")
@door
async def command(
    context: Context, folder: str | None, url: str | None, thinking: bool, **asked: Any
) -> None:
    """Talk with the agent. What was said stays in the terminal's scrollback; /help says what can be typed."""
    if not person.is_there():
        raise Failure('a chat needs a terminal; without one: instar run "…"')
    if context.environment.get("TERM") in ("dumb", ""):
        raise Failure('a chat moves the cursor, which TERM=dumb cannot; there: instar run "…"')
    opened = _here(context, folder) if url is None else client_to(context, Attached(url, folder))
    try:
        async with opened as client:
            await Chat(context, client, thinking=thinking, **asked).run()
    except REFUSALS as error:
        raise Failure(str(error)) from error


@asynccontextmanager
async def _here(context: Context, folder: str | None) -> AsyncIterator[AsyncClient]:
    """A client of this process: what is asked is answered through it, by the person at the terminal."""

    async def permit(asked: PermissionAsked) -> permissions.Reply:
        # As for a server's clients, but that who answers here is known to be a person.
        return await permissions.relayed(asked)

    options = Options(
        context.folder(folder), context.environment, person=permit, questioner=questions.relayed
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
        *,
        model: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        continued: bool = False,
        thinking: bool = False,
    ) -> None:
        self._context, self._client = context, client
        self._model, self._agent, self._thinking = model, agent, thinking
        self._wanted, self._continued = session, continued
        history = context.paths.state / "chat-history"
        history.parent.mkdir(parents=True, exist_ok=True)
        history.touch(mode=0o600)
        self._screen = Screen(
            submit=self._submit,
            rows=self._rows,
            facts=lambda width: self._talk.facts(width),
            prompt=lambda: self._talk.prompt(),
            words=self._words,
            escape=self._escape,
            interrupt=self._interrupt,
            history=history,
        )
        self._orders = Orders(
            lambda: self._talk, self._turn_to, self._screen.leave, self._screen.pick, self._screen.take_back
        )
        self._talk: Conversation

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
            if self._model:
                await self._orders.run(f"/model {self._model}")
            await self._greet()
            listening = asyncio.create_task(self._listen(events))
            try:
                await self._screen.run()
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
        click.echo(f"go on: instar chat -s {self._talk.session.id}", err=True)

    async def _listen(self, events: AsyncIterator[Any]) -> None:
        async with AsyncExitStack() as stack:
            while True:
                with suppress(*REFUSALS):
                    async for event in events:
                        self._talk.take(event)
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
            self._talk.chat.show(*(Text(line) for line in await explained(self._context.environment)))
        self._talk.chat.note("instar; /help says what can be typed, Ctrl-D leaves")

    async def _turn_to(self, session: Session) -> None:
        """Show another session."""
        before = getattr(self, "_talk", None)
        view = ChatView(self._screen.print, thinking=self._thinking)
        self._talk = Conversation(self._client, session, view)
        if before is not None:
            self._talk.model, self._talk.agent = before.model, session.agent or before.agent
        elif self._agent:
            self._talk.agent = self._agent
        await self._talk.read()

    # -- the keys ------------------------------------------------------------------------------------

    def _submit(self, text: str) -> None:
        talk = self._talk
        if (
            not talk.asks
            and text.startswith("/")
            and text[1:].partition(" ")[0].strip() in self._orders.names
        ):
            talk.do(self._orders.run(text.strip()))
        else:
            talk.send(text)

    def _escape(self) -> None:
        talk = self._talk
        if (text := talk.take_back()) is not None:
            self._screen.take_back(text)
        elif talk.busy:
            talk.do(talk.abort())

    def _interrupt(self) -> None:
        if self._talk.busy:
            self._talk.do(self._talk.abort())
        else:
            self._talk.chat.note("Ctrl-D leaves")

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
