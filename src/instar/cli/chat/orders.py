"""What lines that begin with a slash do in a chat: ``/undo``, ``/model``, ``/evolve`` and others."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from rich.text import Text

from instar.api.session import ForkBody, SessionBody, SummarizeBody
from instar.cli.chat.choices import PickOrders
from instar.cli.chat.conversation import Conversation
from instar.cli.chat.evolve import EvolveOrders
from instar.cli.chat.reports import context_lines, doctor_lines, export
from instar.cli.chat.screen import Screen
from instar.cli.render import diff_lines
from instar.cli.text import money
from instar.client import Invalid
from instar.message import ModelRef, Session


class Orders:
    """The lines that begin with a slash. `turned` shows another session, `left` ends the chat."""

    def __init__(
        self,
        talk: Callable[[], Conversation],
        turned: Callable[[Session], Awaitable[None]],
        screen: Screen,
        choices: PickOrders,
        left: Callable[[], None],
    ) -> None:
        self._talk, self._turned, self._screen, self._left = talk, turned, screen, left
        self.names: Mapping[str, tuple[str, Callable[[str], Awaitable[None]]]] = MappingProxyType(
            {
                "help": ("what can be typed here", self._help),
                "new": ("begin another session", self._new),
                "sessions": ("go on with another session; with words one that holds them", choices.sessions),
                "model": ("say which model answers", choices.model),
                "agent": ("say which agent answers", choices.agent),
                "undo": ("take back your last message with its changes to files", choices.undo),
                "redo": ("bring back what was undone", self._redo),
                "rewind": (
                    "go back to before one of your messages, with its changes to files",
                    choices.rewind,
                ),
                "theme": ("say for which background the colours are", choices.theme),
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
                    EvolveOrders(talk, screen.pick, screen.take_back).run,
                ),
                "quit": ("leave; the session is kept", self._quit),
            }
        )

    async def run(self, text: str) -> bool:
        """Do what a line says; False for one that begins with no order."""
        name, _, rest = text.removeprefix("/").partition(" ")
        if not text.startswith("/") or name not in self.names:
            return False
        await self.names[name][1](rest.strip())
        await self._talk().look()
        return True

    def _lines(self, *lines: str, style: str = "") -> None:
        self._talk().chat.show("", *(Text(line, style) for line in lines))

    async def _help(self, rest: str) -> None:
        orders = [f"/{name:<10} {meaning}" for name, (meaning, _) in self.names.items()]
        keys = (
            "@ a file or agent, / an order, a command or a skill, ! a shell command of your own",
            "Alt-Enter or \\ Enter a new line, Ctrl-G your editor, Up and Ctrl-R what you said before, Tab completes",
            "an image: drop it, paste its path, @a.png, or Ctrl-V for one in the clipboard",
            "Esc ends the turn, or takes back a text that waits; at rest Esc Esc is /rewind; Ctrl-D leaves",
        )
        self._lines(*orders, "", *keys)

    async def _new(self, rest: str) -> None:
        talk = self._talk()
        await self._turned(await talk.client.session.create(SessionBody(agent=talk.agent)))

    async def _redo(self, rest: str) -> None:
        talk = self._talk()
        talk.session = await talk.client.session.unrevert(talk.session.id)
        self._lines("what was undone is back", style="dim")

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
        talk.chat.show(
            "", *context_lines(await talk.client.instar.context(talk.session.id, model=talk.chosen))
        )

    async def _doctor(self, rest: str) -> None:
        talk = self._talk()
        talk.chat.show("", *doctor_lines(await talk.client.instar.doctor()))

    async def _export(self, rest: str) -> None:
        self._lines(f"written: {await export(self._talk(), rest)}")

    async def _quit(self, rest: str) -> None:
        self._left()
