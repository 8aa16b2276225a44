"""What lines that begin with a slash do in a chat: ``/undo``, ``/model``, ``/evolve`` and others."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from rich.text import Text

from instar.api.session import ForkBody, RevertBody, SessionBody, SummarizeBody
from instar.cli.chat.conversation import Conversation
from instar.cli.chat.evolve import EvolveOrders
from instar.cli.chat.picker import Choice, Pick, Picker
from instar.cli.chat.reports import context_lines, doctor_lines, export
from instar.cli.render import diff_lines
from instar.cli.text import counted, local_time, money, short
from instar.client import Invalid
from instar.message import ModelRef, Session, TextPart, User, WithParts

_LISTED: Final = 20
"""Entries of a list that are shown; more words find others."""


class Orders:
    """The lines that begin with a slash.

    `turned` shows another session, `left` ends the chat, `pick` lets the person pick from a list,
    `typed` puts a text into the input.
    """

    def __init__(
        self,
        talk: Callable[[], Conversation],
        turned: Callable[[Session], Awaitable[None]],
        left: Callable[[], None],
        pick: Pick,
        typed: Callable[[str], None],
    ) -> None:
        self._talk, self._turned, self._left, self._pick = talk, turned, left, pick
        self.names: Mapping[str, tuple[str, Callable[[str], Awaitable[None]]]] = MappingProxyType(
            {
                "help": ("what can be typed here", self._help),
                "new": ("begin another session", self._new),
                "sessions": (
                    "list sessions; with words those that hold them, with a number go on with it",
                    self._sessions,
                ),
                "model": ("say which model answers; without a name list them", self._model),
                "agent": ("say which agent answers; without a name list them", self._agent),
                "undo": ("take back your last message with its changes to files", self._undo),
                "redo": ("bring back what was undone", self._redo),
                "rewind": ("list your messages; with a number go back to before it", self._rewind),
                "compact": ("summarise what was said so far", self._compact),
                "fork": ("go on with a copy of this session", self._fork),
                "diff": ("what this session did to files", self._diff),
                "cost": ("what this session used", self._cost),
                "context": ("what fills the model's window", self._context),
                "export": (
                    "write this session to FILE: Markdown, or JSON where it ends with .json",
                    self._export,
                ),
                "doctor": ("what is missing here, and what to do", self._doctor),
                "evolve": (
                    "what instar changed of itself: show REF, rollback REF, approve ID, reject ID WHY, pin FILE",
                    EvolveOrders(talk, pick, typed).run,
                ),
                "quit": ("leave; the session is kept", self._quit),
            }
        )
        self._found: list[Session] = []

    async def run(self, text: str) -> bool:
        """Do what a line says; False for one that begins with no order."""
        name, _, rest = text.removeprefix("/").partition(" ")
        if not text.startswith("/") or name not in self.names:
            return False
        await self.names[name][1](rest.strip())
        return True

    def _lines(self, *lines: str, style: str = "") -> None:
        self._talk().chat.show("", *(Text(line, style) for line in lines))

    async def _help(self, rest: str) -> None:
        orders = [f"/{name:<10} {meaning}" for name, (meaning, _) in self.names.items()]
        keys = (
            "@ a file or agent, / an order, a command or a skill, ! a shell command of your own",
            "Alt-Enter or \\ Enter a new line, Ctrl-G your editor, Up what you said before, Tab completes",
            "Esc ends the turn, or takes back a text that waits; Ctrl-D leaves",
        )
        self._lines(*orders, "", *keys)

    async def _new(self, rest: str) -> None:
        talk = self._talk()
        await self._turned(await talk.client.session.create(SessionBody(agent=talk.agent)))

    async def _sessions(self, rest: str) -> None:
        talk = self._talk()
        if rest.isdecimal() and 0 < int(rest) <= len(self._found):
            await self._turned(self._found[int(rest) - 1])
            return
        roots = await talk.client.session.list(roots=True, search=rest)
        self._found = [one for one in roots if one.time.archived is None][:_LISTED]
        lines = [
            f"{at:>3}  {local_time(one.time.updated)}  {short(one.title, 60)}"
            for at, one in enumerate(self._found, 1)
        ]
        self._lines(*(lines or ["no session holds that"]), "/sessions NUMBER goes on with one")

    async def _model(self, rest: str) -> None:
        talk = self._talk()
        offered = [
            f"{provider.id}/{name}"
            for provider in (await talk.client.config.providers()).providers
            for name in provider.models
        ]
        provider, _, name = rest.partition("/")
        if rest in offered or (name and provider in {one.partition("/")[0] for one in offered}):
            talk.model = ModelRef(provider_id=provider, model_id=name)
            self._lines(f"{rest} answers from now on", style="dim")
            return
        near = [one for one in offered if rest.lower() in one.lower()]
        more = [f"… {counted(len(near) - _LISTED, 'more model')}: /model WORD"] if len(near) > _LISTED else []
        self._lines(*(near[:_LISTED] or [f"no model here holds {rest!r}"]), *more)

    async def _agent(self, rest: str) -> None:
        talk = self._talk()
        agents = [one for one in await talk.client.app.agents() if one.mode != "subagent" and not one.hidden]
        if rest not in {one.name for one in agents}:
            if rest:
                raise Invalid(f"no agent is called {rest!r}; /agent lists them")
            choices = [Choice(one.name, one.name, one.description or "") for one in agents]
            picked = await self._pick(Picker("agent", choices))
            if picked is None:
                return
            rest = picked.value
        talk.agent = rest
        self._lines(f"{rest} answers from now on", style="dim")

    async def _undo(self, rest: str) -> None:
        talk = self._talk()
        said = await self._said()
        if not said:
            raise Invalid("there is nothing to undo")
        await self._back_to(talk, said[-1])

    async def _redo(self, rest: str) -> None:
        talk = self._talk()
        talk.session = await talk.client.session.unrevert(talk.session.id)
        self._lines("what was undone is back", style="dim")

    async def _rewind(self, rest: str) -> None:
        talk = self._talk()
        said = await self._said()
        if rest.isdecimal() and 0 < int(rest) <= len(said):
            await self._back_to(talk, said[int(rest) - 1])
            return
        lines = [f"{at:>3}  {short(_text(one), 80)}" for at, one in enumerate(said, 1)][-_LISTED:]
        self._lines(
            *(lines or ["nothing was said yet"]), "/rewind NUMBER goes back to before one, with its files"
        )

    async def _back_to(self, talk: Conversation, message: WithParts) -> None:
        talk.session = await talk.client.session.revert(
            talk.session.id, RevertBody(message_id=message.info.id)
        )
        self._lines(f"back to before: {short(_text(message), 60)}; /redo brings it back", style="dim")

    async def _said(self) -> list[WithParts]:
        """The person's messages that are not undone."""
        talk = self._talk()
        mark = talk.session.revert
        return [
            one
            for one in await talk.client.session.messages(talk.session.id)
            if isinstance(one.info, User) and _text(one) and (mark is None or one.info.id < mark.message_id)
        ]

    async def _compact(self, rest: str) -> None:
        talk = self._talk()
        model = talk.model
        if model is None and "/" in talk.answered_by:
            provider, _, name = talk.answered_by.partition("/")
            model = ModelRef(provider_id=provider, model_id=name)
        if model is None:
            raise Invalid("there is nothing to summarise yet")
        body = SummarizeBody(provider_id=model.provider_id, model_id=model.model_id)
        await talk.client.session.summarize(talk.session.id, body)

    async def _fork(self, rest: str) -> None:
        talk = self._talk()
        await self._turned(await talk.client.session.fork(talk.session.id, ForkBody()))

    async def _diff(self, rest: str) -> None:
        talk = self._talk()
        found = await talk.client.session.diff(talk.session.id)
        texts = [line for one in found for line in diff_lines(one.patch or "")]
        talk.chat.show("", *(texts or [Text("no file was changed")]))

    async def _cost(self, rest: str) -> None:
        session = await self._talk().client.session.get(self._talk().session.id)
        tokens = session.tokens
        self._lines(
            f"{money(session.cost)}: {tokens.input:,} tokens in, {tokens.output:,} out, {tokens.reasoning:,} thinking, "
            f"{tokens.cache.read:,} read from the cache, {tokens.cache.write:,} written to it"
        )

    async def _context(self, rest: str) -> None:
        talk = self._talk()
        talk.chat.show("", *context_lines(await talk.client.instar.context(talk.session.id)))

    async def _doctor(self, rest: str) -> None:
        talk = self._talk()
        talk.chat.show("", *doctor_lines(await talk.client.instar.doctor()))

    async def _export(self, rest: str) -> None:
        self._lines(f"written: {await export(self._talk(), rest)}")

    async def _quit(self, rest: str) -> None:
        self._left()


def _text(message: WithParts) -> str:
    return next(
        (part.text for part in message.parts if isinstance(part, TextPart) and not part.synthetic), ""
    )
