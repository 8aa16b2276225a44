"""One session in a chat: what is sent to it, what is shown of it, and what it asks."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rich.cells import cell_len

from instar.api.session import (
    AnswersBody,
    CommandBody,
    PermissionBody,
    PromptBody,
    ShellBody,
)
from instar.approval.permissions import KEEP
from instar.cli.chat.images import Images, mentioned
from instar.cli.chat.view import ChatView
from instar.cli.follow import Follower
from instar.cli.person import chosen, verdict
from instar.cli.text import counted, harmless, money, short
from instar.client import ApiError, AsyncClient, Busy, Invalid, NotFound, Unreachable
from instar.definitions.command import mentioned_parts
from instar.event import (
    Event,
    EvolveInstalled,
    EvolveRefused,
    EvolveRolledback,
    MessageUpdated,
    PermissionAsked,
    PermissionReplied,
    QuestionAsked,
    QuestionRejected,
    QuestionReplied,
    SessionIdle,
    SessionStatusChanged,
    SessionUpdated,
)
from instar.message import (
    Assistant,
    ModelRef,
    Part,
    Session,
    TextPart,
    User,
    WithParts,
)
from instar.wire import Plain
from instar.wire.pattern import late_pattern

REFUSALS: Final = (ApiError, Busy, Invalid, NotFound, Unreachable)
"""What the client raises."""
_ORDER: Final = late_pattern(r"/[a-z][\w-]*")
"""What is meant as an order, and not as a path."""
_SHOWN: Final = 20
"""Last messages of a session that is gone on with."""


class Conversation(Follower):
    """The session of a chat: it also takes what the person says, and their answers to what is asked.

    `drawn` is called when the line below the input says something else.
    """

    pending = "/evolve"

    def __init__(
        self,
        client: AsyncClient,
        session: Session,
        view: ChatView,
        drawn: Callable[[], None],
        images: Images,
    ) -> None:
        super().__init__(session.id, view)
        self.client = client
        self._images = images
        self.session = session
        self.chat = view
        self._drawn = drawn
        self.model: ModelRef | None = None
        self.agent: str | None = session.agent
        self.answered_by = ""
        self.used = 0
        self.cost = session.cost
        self._learned = 0
        self._room = 0
        self._cached = self._branch = self._shield = ""
        self._waiting = 0
        self.busy = False
        self.queue: deque[str] = deque()
        self.asks: deque[PermissionAsked | QuestionAsked] = deque()
        self._given: list[list[str]] = []
        self._own: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def chosen(self) -> str:
        """The model that the person chose, provider/model."""
        return f"{self.model.provider_id}/{self.model.model_id}" if self.model else ""

    # -- what comes ----------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Show an event of the session; note what is asked in it or in its sub-agents' sessions."""
        self.relate(event)
        match event.properties:
            case SessionStatusChanged(session_id=self._session_id, status=status):
                self.busy = status.type != "idle"
            case SessionIdle(session_id=self._session_id):
                self.busy = False
                self._next()
                self.do(self.look())
            case EvolveInstalled() | EvolveRefused() | EvolveRolledback():
                self.do(self.look_at_evolve())
            case SessionUpdated(info=info) if info.id == self._session_id:
                self.session, self.cost = info, info.cost
            case PermissionAsked() | QuestionAsked() as asked if asked.session_id in self.depths:
                self.asks.append(asked)
                self._asked_at[asked.id] = (asked.tool.call_id if asked.tool else "", time.monotonic())
                if len(self.asks) == 1:
                    self._put(asked)
            case (
                PermissionReplied(request_id=asked_id)
                | QuestionReplied(request_id=asked_id)
                | QuestionRejected(request_id=asked_id)
            ):
                self._over(asked_id)
            case MessageUpdated(info=Assistant() as info) if info.session_id == self._session_id:
                self.answered_by = f"{info.provider_id}/{info.model_id}"
                tokens = info.tokens
                taken = tokens.input + tokens.cache.read + tokens.cache.write
                self.used = taken + tokens.output or self.used
                if taken:
                    self._cached = f"{tokens.cache.read / taken:.0%} cached"
        self._show(event)

    def _part(self, part: Part) -> None:
        if part.message_id not in self._asked:
            super()._part(part)
        elif isinstance(part, TextPart) and not part.synthetic and part.id not in self._own:
            self._own.add(part.id)
            self.chat.said(part.text)

    def _put(self, asked: PermissionAsked | QuestionAsked) -> None:
        if isinstance(asked, PermissionAsked):
            self.chat.ask(asked)
        else:
            self._given = []
            self.chat.question(asked.questions[0])

    def _over(self, asked_id: str) -> None:
        """An ask was answered, perhaps at another client."""
        if asked_id in self._asked_at:
            call_id, since = self._asked_at.pop(asked_id)
            self.view.answered(call_id, time.monotonic() - since)
        first = self.asks[0].id if self.asks else ""
        self.asks = deque(one for one in self.asks if one.id != asked_id)
        if first == asked_id and self.asks:
            self._put(self.asks[0])

    # -- what the person says ------------------------------------------------------------------------

    def prompt(self) -> str:
        """Return what stands before the input: what an answer may be, while something is asked."""
        if not self.asks:
            return "› "
        asked = self.asks[0]
        if isinstance(asked, PermissionAsked) and asked.permission == KEEP:
            return "keep it [y/n]? "
        if isinstance(asked, PermissionAsked):
            return "[o]nce, [a]lways, [r]eject (and why)? "
        many = asked.questions[len(self._given)].multiple
        return "numbers or your own words? " if many else "a number or your own words? "

    def send(self, text: str) -> None:
        """Send a text: at once, or once the turn is over; while something is asked it is the answer."""
        if self.asks:
            self._answer(text.strip())
        elif text.strip() and self.busy:
            self.queue.append(text)
        elif text.strip():
            self._prompt(text)

    def take_back(self) -> str | None:
        """Return the last text that waits, which is sent no more."""
        return self.queue.pop() if self.queue else None

    def do(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        """Do something beside the input; what the server refuses is shown."""
        task = asyncio.create_task(self._done(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def abort(self) -> None:
        """End the turn."""
        await self.client.session.abort(self.session.id)

    async def _done(self, work: Awaitable[Any]) -> None:
        try:
            await work
        except REFUSALS as error:
            self.chat.note(str(error), "red")

    def _next(self) -> None:
        if self.queue and not self.asks:
            self._prompt(self.queue.popleft())

    def _prompt(self, text: str) -> None:
        self.busy = True
        self.do(self._sent(text))

    async def _sent(self, text: str) -> None:
        client, session_id = self.client, self.session.id
        try:
            if text.startswith("!"):
                self.chat.said(text)
                agent = self.agent or "build"
                await client.session.shell(
                    session_id, ShellBody(agent=agent, model=self.model, command=text[1:].strip())
                )
            elif command := await self._command(text):
                await client.session.command(session_id, command)
            else:
                files = await self._mentioned(text) if "@" in text else []
                parts = [{"type": "text", "text": text}, *files, *self._images.marked(text)]
                await client.session.prompt_async(
                    session_id, PromptBody(parts=parts, agent=self.agent, model=self.model)
                )
        except BaseException:
            self.busy = False
            raise

    async def _mentioned(self, text: str) -> list[Plain]:
        here = await self.client.path.get()
        agents = {one.name for one in await self.client.app.agents() if one.mode != "primary"}
        found = mentioned_parts(text, [Path(here.directory), Path(here.worktree)], agents)
        # A server elsewhere has another disk: an image of this one goes along as it is.
        images = mentioned(text)
        return [*images.values(), *(one for one in found if one.get("url") not in images)]

    async def _command(self, text: str) -> CommandBody | None:
        first, _, rest = text.partition(" ")
        if not first.startswith("/"):
            return None
        if first[1:] not in {one.name for one in await self.client.command.list()}:
            if _ORDER.fullmatch(first) and not await asyncio.to_thread(Path(first).exists):
                raise Invalid(
                    f"there is no order, command or skill {first}; a space before it sends it as text"
                )
            return None
        images = self._images.marked(rest) or None
        model = self.chosen or None
        return CommandBody(command=first[1:], arguments=rest, agent=self.agent, model=model, parts=images)

    def _answer(self, typed: str) -> None:
        asked = self.asks[0]
        if isinstance(asked, PermissionAsked):
            if (given := verdict(typed)) is not None:
                body = PermissionBody(reply=given.reply, message=given.message)
                self.do(self.client.permission.reply(asked.id, body))
            return
        question = asked.questions[len(self._given)]
        if not typed:
            self.do(self.client.question.reject(asked.id))
            return
        try:
            self._given.append(chosen(question, typed))
        except ValueError as error:
            self.chat.note(str(error), "red")
            return
        if len(self._given) < len(asked.questions):
            self.chat.question(asked.questions[len(self._given)])
        else:
            self.do(self.client.question.reply(asked.id, AnswersBody(answers=self._given)))

    # -- the session ---------------------------------------------------------------------------------

    async def read(self) -> None:
        """Show the last messages of a session that is gone on with."""
        messages = await self.client.session.messages(self.session.id, limit=_SHOWN)
        if len(messages) == _SHOWN:
            self.chat.note(
                f"the last {counted(_SHOWN, 'message')} of {self.session.id}; all: instar session show"
            )
        await self._take_in(messages)
        self.do(self.look())
        self.do(self.look_at_evolve())

    def lose(self) -> None:
        """The server is gone, and with it what went on there."""
        self.busy = False
        self.chat.break_off()

    async def catch_up(self) -> None:
        """Show what was missed while the server was gone."""
        self.session = await self.client.session.get(self.session.id)
        self.busy = self.session.id in await self.client.session.status()
        self.asks.clear()
        await self._take_in(await self.client.session.messages(self.session.id, limit=_SHOWN))
        if not self.busy:
            self._next()

    async def _take_in(self, messages: list[WithParts]) -> None:
        for message in messages:
            if _is_undone(self.session, message):
                continue
            if isinstance(message.info, User):
                self._asked.append(message.info.id)
            else:
                self._answers.add(message.info.id)
            for part in message.parts:
                self._part(part)
        waiting: list[PermissionAsked | QuestionAsked] = [*await self.client.permission.list()]
        waiting += await self.client.question.list()
        self.asks.extend(one for one in waiting if one.session_id == self.session.id)
        if self.asks:
            self._put(self.asks[0])

    async def look(self) -> None:
        """Read what the line below the input says; what a server does not tell is left out."""
        client = self.client
        with suppress(*REFUSALS):
            context = await client.instar.context(self.session.id, model=self.chosen)
            self.used, self._room = context.used, context.room
        with suppress(*REFUSALS):
            self._branch = (await client.vcs.get()).branch or ""
        with suppress(*REFUSALS):
            self._shield = (await client.instar.shield()).level
        self._drawn()

    async def look_at_evolve(self) -> None:
        """Read what the agent has learned, and what waits for the person."""
        with suppress(*REFUSALS):
            status = await self.client.instar.evolve.status()
            self._learned, self._waiting = status.learned, len(status.waiting)
            self._drawn()

    def facts(self, width: int) -> str:
        """Return the line below the input, with as much of it as has room: what matters most stands first."""
        named = not self.session.title.startswith("New session - ")
        found = [
            f"{counted(len(self.queue), 'text')} waiting (Esc takes it back)" if self.queue else "",
            f"{counted(self._waiting, 'change')} to decide: /evolve" if self._waiting else "",
            self.agent or "build",
            self.chosen or self.answered_by,
            f"{max(0.0, 1 - self.used / self._room):.0%} context left" if self._room else "",
            money(self.cost) if self.cost else "",
            self._branch,
            self._cached,
            f"shield {self._shield}" if self._shield else "",
            f"learned {counted(self._learned, 'thing')}" if self._learned else "",
            short(self.session.title, 40) if named else "",
        ]
        shown = [harmless(one) for one in found if one]
        while len(shown) > 1 and cell_len(" · ".join(shown)) > width:
            shown.pop()
        return " · ".join(shown)


def _is_undone(session: Session, message: WithParts) -> bool:
    return session.revert is not None and message.info.id >= session.revert.message_id
