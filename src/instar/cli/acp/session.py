"""One session that a client of the protocol has open: what it is told of it, and what it is asked."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

from acp import helpers, schema
from acp.exceptions import RequestError
from acp.interfaces import Client

from instar.api.config import TrustState
from instar.api.instance import McpBody
from instar.approval.permissions import REPLIES, Reply
from instar.approval.questions import Answers
from instar.cli.acp import convert
from instar.cli.attach import Asking
from instar.cli.output import retry_text
from instar.client import ApiError, AsyncClient, CommandBody, Invalid, NotFound, PromptBody
from instar.definitions.command import mentioned_parts
from instar.event import (
    Event,
    EvolveInstalled,
    EvolveRolledback,
    HooksRan,
    LimitReached,
    MessageUpdated,
    PartDelta,
    PartUpdated,
    PermissionAsked,
    Question,
    QuestionAsked,
    Retry,
    SessionIdle,
    SessionStatusChanged,
    SessionUpdated,
    TodoUpdated,
    TuiToastShow,
)
from instar.message import (
    Assistant,
    FilePart,
    ModelRef,
    Part,
    ReasoningPart,
    Session,
    TextPart,
    ToolPart,
    User,
    WithParts,
    error_text,
)
from instar.tool import files
from instar.wire import Plain, ids

_LAST_EVENTS: Final = 2.0
"""Seconds that the events of a turn may take to arrive once its answer has."""
_EDITOR: Final = 2.0
"""Seconds that an editor may take to say what it holds of a file."""
_AGAIN: Final = 0.2
"""Seconds after which a turn that goes on is aborted again: it may not have begun when it was before."""


class OpenSession:
    """A session and its client of the protocol, which is told of what happens in the order in which it does."""

    def __init__(self, editor: Client, client: AsyncClient, session: Session) -> None:
        self.editor, self.client, self.session = editor, client, session
        self.id = session.id
        self.agent = session.agent
        self.model: ModelRef | None = None
        self.notes: list[str] = []
        self.reads = False
        """Whether the client can be asked for unsaved texts of the machine on which the turns run."""
        self.windows: dict[str, int] = {}
        """By their full name the tokens that a model's window holds; 0 where that is not known."""
        self._root = Path(session.directory)
        self._running, self._is_cancelled = 0, False
        self._idle = asyncio.Event()
        self._own: set[str] = set()
        self._asked: set[str] = set()
        self._answers: set[str] = set()
        self._texts: dict[str, tuple[bool, int]] = {}
        self._calls: dict[str, object] = {}
        self._asking = Asking(client, self._permit, self._choose)
        self._commands: list[schema.AvailableCommand] = []
        self._usage: tuple[int, float] = (0, 0.0)

    # -- opening -------------------------------------------------------------------------------------

    async def open(self, servers: list[McpBody]) -> None:
        """Learn what stands around the session, and connect the MCP servers that the client hands over."""
        if self.reads:
            files.EDITORS[self.id] = self.unsaved
        here = await self.client.path.get()
        self._root = Path(here.directory if here.worktree == "/" else here.worktree)
        chosen = self.session.model
        if chosen is not None:
            self.model = ModelRef(provider_id=chosen.provider_id, model_id=chosen.id)
        for server in servers:
            status = (await self.client.mcp.add(server))[server.name]
            if status.error:
                self.notes.append(f"the MCP server {server.name} is left out: {status.error}")
        # A server of opencode knows no trust.
        with suppress(ApiError, NotFound):
            if note := _untrusted(await self.client.instar.trust.get(), self.session.directory):
                self.notes.append(note)
        waiting: list[PermissionAsked | QuestionAsked] = [*await self.client.permission.list()]
        for one in [*waiting, *await self.client.question.list()]:
            if one.session_id == self.id:
                self._asking.take(one)

    async def replay(self) -> None:
        """Tell the client all that was said so far."""
        for message in await self.client.session.messages(self.id):
            self._note(message.info)
            for part in message.parts:
                await self._show(part)
        if todos := await self.client.session.todo(self.id):
            await self.update(convert.plan(todos))

    async def tell_commands(self) -> None:
        """Tell the client which commands there are, unless it knows."""
        commands = [
            schema.AvailableCommand(
                name=one.name,
                description=one.description or one.name,
                input=schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint="arguments"))
                if one.hints
                else None,
            )
            for one in await self.client.command.list()
        ]
        if commands != self._commands:
            self._commands = commands
            await self.update(helpers.update_available_commands(commands))

    async def update(self, update: convert.Update) -> None:
        """Tell the client something."""
        await self.editor.session_update(self.id, update)

    # -- what the client asks for --------------------------------------------------------------------

    async def prompt(self, parts: list[Plain]) -> schema.PromptResponse:
        """Send a prompt, and return why its turn ended. Raises what the client of instar raises."""
        self._running += 1
        self._is_cancelled = False
        self._idle.clear()
        try:
            notes, self.notes = self.notes, []
            if notes:
                text = "\n".join(f"instar: {note}" for note in notes)
                await self.update(helpers.update_agent_message_text(f"{text}\n\n"))
            answer = await self._answer(parts)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), _LAST_EVENTS)
        except Invalid:
            # A prompt that is aborted before its turn is refused.
            if not self._is_cancelled:
                raise
            return schema.PromptResponse(stop_reason="cancelled")
        finally:
            self._running -= 1
        # A server that ends with this turn has no commands to tell of any more.
        with suppress(Invalid):
            await self.tell_commands()
        return schema.PromptResponse(stop_reason=self._reason(answer))

    async def cancel(self) -> None:
        """End the turn; returns when it has ended."""
        self._is_cancelled = True
        while self._running:
            await self.client.session.abort(self.id)
            await asyncio.sleep(_AGAIN)

    async def close(self) -> None:
        """Ask nothing any more, and wait for no more events."""
        self._idle.set()
        files.EDITORS.pop(self.id, None)
        await self._asking.close()

    async def _answer(self, parts: list[Plain]) -> WithParts:
        message_id = ids.new("msg")
        self._own.add(message_id)
        text = str(parts[0].get("text", "")) if parts else ""
        first, _, rest = text.partition(" ")
        if first.startswith("/") and first[1:] in {one.name for one in await self.client.command.list()}:
            model = f"{self.model.provider_id}/{self.model.model_id}" if self.model else None
            command = CommandBody(
                command=first[1:],
                arguments=rest,
                message_id=message_id,
                agent=self.agent,
                model=model,
                variant=self.model.variant if self.model else None,
                parts=[part for part in parts if part["type"] == "file"] or None,
            )
            return await self.client.session.command(self.id, command)
        agents = {one.name for one in await self.client.app.agents() if one.mode != "primary"}
        named = mentioned_parts(text, [Path(self.session.directory), self._root], agents)
        body = PromptBody(parts=[*parts, *named], message_id=message_id, agent=self.agent, model=self.model)
        return await self.client.session.prompt(self.id, body)

    def _reason(self, answer: WithParts) -> schema.StopReason:
        info = answer.info
        if self._is_cancelled or not isinstance(info, Assistant):
            return "cancelled" if self._is_cancelled else "end_turn"
        reason = convert.stop_reason(info)
        if reason is None and info.error is not None:
            raise RequestError(-32603, error_text(info.error))
        return reason or "end_turn"

    # -- what happens --------------------------------------------------------------------------------

    async def take(self, event: Event) -> None:
        """Tell the client what an event of the session means, or ask what a call of it, or of a sub-agent's, asks."""
        self._asking.take(event.properties)
        if event.session_id in (self.id, None):
            await self._tell(event.properties)

    async def _tell(self, properties: object) -> None:
        match properties:
            case MessageUpdated(info=info):
                self._note(info)
                await self._tell_usage(info)
            case PartUpdated(part=part):
                await self._show(part)
            case PartDelta(part_id=part_id, delta=text) if part_id in self._texts:
                await self._say(part_id, text)
            case TodoUpdated(todos=todos):
                await self.update(convert.plan(todos))
            case SessionUpdated(info=info):
                if info.title != self.session.title:
                    await self.update(
                        schema.SessionInfoUpdate(session_update="session_info_update", title=info.title)
                    )
                self.session = info
            case SessionIdle():
                self._idle.set()
            case other:
                await self._notice(other)

    async def _notice(self, properties: object) -> None:
        """Tell what else a person should know: as thoughts, which do not break the answer."""
        match properties:
            case SessionStatusChanged(status=Retry() as status):
                await self._think(retry_text(status))
            case HooksRan(event=event, messages=texts):
                for text in texts:
                    await self._think(f"{event} hook: {text}")
            case TuiToastShow(message=text):
                await self._think(text)
            case EvolveInstalled(files=names, session_id=None):
                await self._think(f"evolved {', '.join(names)}")
            case EvolveRolledback(files=names, message=text):
                await self._think(f"took back a change of {', '.join(names)}: {text}")
            case LimitReached(message=text):
                await self.update(helpers.update_agent_message_text(f"\n\ninstar: {text}"))

    async def _think(self, text: str) -> None:
        await self.update(helpers.update_agent_thought_text(f"{text}\n\n"))

    def _note(self, info: User | Assistant) -> None:
        if isinstance(info, User):
            self._asked.add(info.id)
        elif not info.summary:
            self._answers.add(info.id)

    async def _tell_usage(self, info: User | Assistant) -> None:
        if not isinstance(info, Assistant) or not info.time.completed:
            return
        tokens = info.tokens
        used = tokens.input + tokens.output + tokens.cache.read + tokens.cache.write
        usage = (used, self.session.cost)
        if not used or usage == self._usage:
            return
        self._usage = usage
        if size := self.windows.get(f"{info.provider_id}/{info.model_id}"):
            cost = schema.Cost(amount=self.session.cost, currency="USD")
            await self.update(
                schema.UsageUpdate(session_update="usage_update", used=used, size=size, cost=cost)
            )

    async def _show(self, part: Part) -> None:
        if part.message_id in self._asked:
            if part.message_id not in self._own:
                await self._show_asked(part)
        elif part.message_id in self._answers:
            match part:
                case TextPart(text=text, ignored=ignored) if not ignored:
                    await self._grow(part.id, text, thought=False)
                case ReasoningPart(text=text):
                    await self._grow(part.id, text, thought=True)
                case ToolPart():
                    update = convert.call(part, self._root, known=part.call_id in self._calls)
                    if self._calls.get(part.call_id) != part.state:
                        self._calls[part.call_id] = part.state
                        await self.update(update)

    async def _show_asked(self, part: Part) -> None:
        """Show what was said by others: at another client, by a plugin, or before the session was loaded."""
        block: helpers.ContentBlock | None = None
        if isinstance(part, TextPart) and not part.synthetic and part.id not in self._texts:
            self._texts[part.id] = False, len(part.text)
            block = helpers.text_block(part.text)
        elif isinstance(part, FilePart):
            block = convert.image(part)
        if block is not None:
            await self.update(helpers.update_user_message(block))

    async def _grow(self, part_id: str, text: str, *, thought: bool) -> None:
        _, sent = self._texts.setdefault(part_id, (thought, 0))
        await self._say(part_id, text[sent:])

    async def _say(self, part_id: str, text: str) -> None:
        if text:
            thought, sent = self._texts[part_id]
            self._texts[part_id] = thought, sent + len(text)
            say = helpers.update_agent_thought_text if thought else helpers.update_agent_message_text
            await self.update(say(text))

    # -- what is asked -------------------------------------------------------------------------------

    async def unsaved(self, path: Path) -> str | None:
        """Return a file's text as the client's editor holds it; None where it is saved, and where nobody answers."""
        if not await asyncio.to_thread(path.is_file):
            return None
        try:
            async with asyncio.timeout(_EDITOR):
                held = (await self.editor.read_text_file(session_id=self.id, path=str(path))).content
        except (RequestError, ConnectionError, ValueError, TimeoutError):
            return None
        saved = await asyncio.to_thread(path.read_bytes)
        # An editor may hold the lines without their ends.
        return None if _plain(held) == _plain(saved.decode(errors="replace")) else held

    async def _permit(self, asked: PermissionAsked) -> Reply:
        chosen = await self._chosen(convert.asked_call(asked, self._root), convert.options(asked))
        return next((one for one in REPLIES if one == chosen), "reject")

    async def _choose(self, asked: QuestionAsked) -> Answers | None:
        answers = []
        for number, question in enumerate(asked.questions):
            call, options = _question_call(asked, number, question)
            chosen = await self._chosen(call, options) if question.options else None
            if chosen is None or chosen == "none":
                return None
            answers.append([question.options[int(chosen)].label])
        return answers

    async def _chosen(
        self, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> str | None:
        """The option that the person at the client chose; None for none, and where the client cannot ask."""
        try:
            given = await self.editor.request_permission(session_id=self.id, tool_call=call, options=options)
        except RequestError:
            return None
        chosen = given.outcome.option_id if isinstance(given.outcome, schema.AllowedOutcome) else None
        return chosen if chosen in {one.option_id for one in options} else None


def _question_call(
    asked: QuestionAsked, number: int, question: Question
) -> tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]:
    """A question as the protocol can put it: a choice of one, or of no answer."""
    meanings = "\n".join(f"- {one.label}: {one.description}" for one in question.options)
    call = schema.ToolCallUpdate(
        tool_call_id=asked.tool.call_id if asked.tool else f"{asked.id}-{number}",
        title=question.question,
        kind="other",
        status="pending",
        content=[helpers.tool_content(helpers.text_block(f"{question.question}\n{meanings}"))],
    )
    options = [
        schema.PermissionOption(option_id=str(index), name=one.label, kind="allow_once")
        for index, one in enumerate(question.options)
    ]
    return call, [*options, schema.PermissionOption(option_id="none", name="No answer", kind="reject_once")]


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\n")


def _untrusted(state: TrustState, folder: str) -> str | None:
    if not state.changes:
        return None
    files = ", ".join(sorted({change.file for change in state.changes}))
    why = (
        "changed since you accepted it, and counts as you accepted it"
        if state.trusted
        else "is not trusted: it runs no code and loosens no guard"
    )
    return (
        f"{folder} {why} ({files}). If you know where that comes from, in a terminal: instar trust {folder}"
    )
