"""Orders of a chat with which the person picks from a list: a session, a model, an agent, a message to go back to."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from rich.text import Text

from instar.api.provider import Model
from instar.api.session import RevertBody
from instar.cli.chat.conversation import Conversation
from instar.cli.chat.picker import Entry, Picker
from instar.cli.chat.screen import Screen
from instar.cli.chat.state import ChatState, Theme
from instar.cli.text import counted, local_time, short
from instar.client import Invalid
from instar.message import FileDiff, ModelRef, Session, TextPart, User, UserSummary, WithParts

T = TypeVar("T")

_THEMES: Final[dict[Theme, str]] = {
    "auto": "as the terminal says ($COLORFGBG), else as for a dark one",
    "dark": "for light text on a dark background",
    "light": "for dark text on a light background",
    "plain": "no colours",
}


class PickOrders:
    """What the orders do. `turned` shows another session."""

    def __init__(
        self,
        talk: Callable[[], Conversation],
        turned: Callable[[Session], Awaitable[None]],
        screen: Screen,
        state: ChatState,
    ) -> None:
        self._talk, self._turned, self._screen, self._state = talk, turned, screen, state

    async def sessions(self, words: str) -> None:
        """Go on with another session."""
        talk = self._talk()
        entries = await self._sessions("")
        picked = await self._pick(Picker("sessions", entries, search=self._sessions, typed=words))
        if picked is None:
            return
        if picked.directory != talk.session.directory:
            raise Invalid(
                f"that session is one of another folder: leave, and go on with --dir {picked.directory} -s {picked.id}"
            )
        await self._turned(picked)

    async def model(self, name: str) -> None:
        """Say which model answers from now on."""
        if await self.use(name):
            return
        known = await self._talk().client.provider.list()
        models = {f"{one.provider_id}/{one.id}": one for each in known.all for one in each.models.values()}
        names = dict.fromkeys([*self._state.models, *models])
        ready = [one for one in names if one.partition("/")[0] in known.connected]
        entries = [Entry(one, one, _described(models.get(one))) for one in ready]
        rest = [one for one in models if models[one].provider_id not in known.connected]
        entries += [Entry(one, one, f"{_described(models[one])} · no key") for one in rest]
        name = await self._pick(Picker("model", entries, typed=name)) or ""
        if name and not await self.use(name):
            provider = name.partition("/")[0]
            raise Invalid(f"{provider} has no key here: instar auth login {provider}")

    async def use(self, name: str) -> bool:
        """Let a model answer from now on; False if its provider cannot be called."""
        talk = self._talk()
        provider, _, model = name.partition("/")
        if not model or provider not in (await talk.client.provider.list()).connected:
            return False
        talk.model = ModelRef(provider_id=provider, model_id=model)
        self._state.use(name)
        self._say(f"{name} answers from now on")
        return True

    async def agent(self, name: str) -> None:
        """Say which agent answers from now on."""
        talk = self._talk()
        agents = [one for one in await talk.client.app.agents() if one.mode != "subagent" and not one.hidden]
        if name not in {one.name for one in agents}:
            entries = [Entry(one.name, one.name, one.description or "") for one in agents]
            name = await self._pick(Picker("agent", entries, typed=name)) or ""
        if name:
            talk.agent = name
            self._say(f"{name} answers from now on")

    async def theme(self, name: str) -> None:
        """Say for which background the colours are."""
        if name not in _THEMES:
            entries: list[Entry[str]] = [Entry(one, one, meaning) for one, meaning in _THEMES.items()]
            at = list(_THEMES).index(self._state.theme)
            name = await self._pick(Picker("theme", entries, at=at, typed=name)) or ""
        for theme in _THEMES:
            if theme == name:
                self._state.look(theme)
                self._say(f"the colours are {theme} from now on")

    # -- messages to go back to ----------------------------------------------------------------------

    async def undo(self, rest: str) -> None:
        """Go back to before the last message."""
        said = await self._said()
        if not said:
            raise Invalid("there is nothing to undo")
        await self._back_to(said[-1])

    async def rewind(self, number: str) -> None:
        """Go back to before one of the person's messages."""
        said = await self._said()
        if number.isdecimal() and 0 < int(number) <= len(said):
            await self._back_to(said[int(number) - 1])
            return
        if not said:
            raise Invalid("there is nothing to go back to")
        entries = [Entry(one, short(_text(one), 200), _changed(said[at:])) for at, one in enumerate(said)]
        keys = {"c": "takes back the conversation alone"}
        picker = Picker(
            "back to before", entries, enter="takes back files too", keys=keys, at=len(entries) - 1
        )
        if picked := await self._screen.pick(picker):
            await self._back_to(picked.value, files=picked.key == "enter")

    async def _back_to(self, message: WithParts, *, files: bool = True) -> None:
        talk = self._talk()
        body = RevertBody(message_id=message.info.id, files=files)
        talk.session = await talk.client.session.revert(talk.session.id, body)
        self._screen.take_back(_text(message))
        self._say(f"back to before: {short(_text(message), 60)}; /redo brings it back")

    async def _said(self) -> list[WithParts]:
        """The person's messages that are not undone."""
        talk = self._talk()
        mark = talk.session.revert
        return [
            one
            for one in await talk.client.session.messages(talk.session.id)
            if isinstance(one.info, User) and _text(one) and (mark is None or one.info.id < mark.message_id)
        ]

    # -- lists ---------------------------------------------------------------------------------------

    async def _sessions(self, words: str) -> Sequence[Entry[Session]]:
        talk = self._talk()
        client, here = talk.client, talk.session.directory
        found = await client.session.list(roots=True, scope="project", search=words)
        asks = [*await client.permission.list(), *await client.question.list()]
        state = dict.fromkeys(await client.session.status(), "works · ")
        state |= dict.fromkeys((one.session_id for one in asks), "waits for you · ")
        return [
            Entry(
                one,
                short(one.title, 200),
                f"{state.get(one.id, '')}{local_time(one.time.updated)}"
                + ("" if one.directory == here else f" · {one.directory}"),
            )
            for one in found
            if one.time.archived is None and one.id != talk.session.id
        ]

    async def _pick(self, picker: Picker[T]) -> T | None:
        picked = await self._screen.pick(picker)
        return picked.value if picked else None

    def _say(self, text: str) -> None:
        self._talk().chat.show("", Text(text, "dim"))


def _described(model: Model | None) -> str:
    if model is None:
        return ""
    cost, window = model.cost, model.limit.context
    price = f"${cost.input:g} in, ${cost.output:g} out" if cost.input or cost.output else ""
    return " · ".join(one for one in (price, f"{window // 1000}k" if window else "") if one)


def _text(message: WithParts) -> str:
    return next(
        (part.text for part in message.parts if isinstance(part, TextPart) and not part.synthetic), ""
    )


def _changed(taken: Iterable[WithParts]) -> str:
    """What going back would take from files: all that was done since."""
    diffs: list[FileDiff] = []
    for message in taken:
        if isinstance(message.info, User) and isinstance(message.info.summary, UserSummary):
            diffs += message.info.summary.diffs
    if not diffs:
        return "no files"
    files = counted(len({one.file for one in diffs}), "file")
    return f"{files}: +{sum(one.additions for one in diffs)} -{sum(one.deletions for one in diffs)}"
