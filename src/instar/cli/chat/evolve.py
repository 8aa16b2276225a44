"""``/evolve``: what the agent changed of itself, what waits for the person, and what they decide about it."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from rich.text import Text

from instar.cli.chat.conversation import REFUSALS, Conversation
from instar.cli.chat.picker import Entry, Pick, Picker
from instar.cli.render import diff_lines
from instar.cli.text import local_time, short
from instar.client import Invalid
from instar.message import Assistant, TextPart

_SHOWN: Final = 50
"""Changes of the list, the newest."""
_COLORS: Final = {"+": "green", "-": "red", "@": "cyan"}
_KEYS: Final = {"s": "show", "r": "rollback", "p": "pin", "a": "approve", "x": "reject"}


class _Listed(NamedTuple):
    """A change of the list, or one that waits for the person."""

    ref: str
    files: list[str]
    waits: bool
    change: Any = None


class EvolveOrders:
    """The orders that begin with ``/evolve``. `typed` puts a text into the input, for the person to go on with."""

    def __init__(self, talk: Callable[[], Conversation], pick: Pick, typed: Callable[[str], None]) -> None:
        self._talk, self._pick, self._typed = talk, pick, typed
        self._orders: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "show": self._show,
            "rollback": self._roll_back,
            "approve": self._approve,
            "reject": self._reject,
            "pin": self._pin,
        }

    async def run(self, rest: str) -> None:
        """Do what the words after ``/evolve`` say; without any let the person pick a change and a key."""
        order, _, what = rest.partition(" ")
        if not order:
            await self._list()
        elif order in self._orders:
            await self._orders[order](what.strip())
        else:
            raise Invalid(f"/evolve knows no {order!r}: {', '.join(self._orders)}")
        await self._talk().look_at_evolve()

    @property
    def _evolve(self) -> Any:
        return self._talk().client.instar.evolve

    def _say(self, *lines: str) -> None:
        self._talk().chat.show("", *(Text(line) for line in lines))

    async def _list(self) -> None:
        chosen: _Listed | None = None
        while choices := await self._choices():
            entries = [one.value for one in choices]
            at = entries.index(chosen) if chosen in entries else 0
            picked = await self._pick(Picker("evolve", choices, enter="show", keys=_KEYS, at=at))
            if picked is None:
                return
            chosen = picked.value
            order = _KEYS.get(picked.key, "show")
            if order == "reject" and chosen.waits:
                self._typed(f"/evolve reject {chosen.ref} ")
                return
            try:
                await self._act(order, chosen)
            except REFUSALS as error:
                self._talk().chat.note(str(error), "red")
        self._say("nothing was changed yet")

    async def _choices(self) -> list[Entry[_Listed]]:
        listed, waiting = await self._evolve.log(limit=_SHOWN), (await self._evolve.candidates()).entries
        status = await self._evolve.status()
        found = [
            Entry(
                _Listed(one.id, [one.proposal.file], waits=True),
                f"{one.id} waits for you: {one.proposal.file}",
                "; ".join(one.proposal.raised),
            )
            for one in waiting
        ]
        trials = dict(status.probation)
        for one in listed.changes:
            # A file's trial is that of its newest version.
            said = [trials.pop(file).partition(":")[0] for file in one.files if one.commit and file in trials]
            what = ", ".join(one.files) or one.subject or one.text
            kind = f"{one.kind} at {one.stage}" if one.stage else one.kind
            name = f"{one.commit[:7] or '-'} {local_time(one.time)[5:]} {one.by} {kind}: {what}"
            found.append(
                Entry(_Listed(one.commit, one.files, waits=False, change=one), name, "; ".join(said))
            )
        return found

    async def _act(self, order: str, entry: _Listed) -> None:
        if order == "show" and not entry.ref:
            self._say(entry.change.line(), *entry.change.details())
        elif order == "pin":
            for file in entry.files:
                await self._pin(file)
        elif order != "show" and (order in ("approve", "reject")) != entry.waits:
            raise Invalid("it waits: a approves, x rejects it" if entry.waits else "it does not wait for you")
        elif not entry.ref:
            raise Invalid("nothing of this was installed")
        else:
            await self._orders[order](entry.ref)

    async def _show(self, ref: str) -> None:
        if any(one.id == ref for one in (await self._evolve.candidates()).entries):
            # What a person must see to decide: its diff, what it would reach, its test and its replay.
            lines = (await self._evolve.candidate(ref)).text().splitlines()
            self._talk().chat.show("", *(Text(line, _COLORS.get(line[:1], "")) for line in lines))
            return
        shown = await self._evolve.show(ref or "HEAD")
        probation = (await self._evolve.status()).probation
        trials = [f"{file} is {probation[file]}" for file in shown.change.files if file in probation]
        events = [f"event: {one.line()}" for one in shown.events]
        asked = await self._asked(shown.change)
        self._say(shown.change.line(), *shown.change.details(), *asked, *trials, *events)
        self._talk().chat.show(*diff_lines(shown.diff))

    async def _asked(self, change: Any) -> list[str]:
        """What the person had said in the turn that made a change."""
        session = self._talk().client.session
        if not change.message:
            return []
        # The session may be gone, or another project's.
        with suppress(*REFUSALS):
            answer = await session.message(change.session, change.message)
            if isinstance(answer.info, Assistant):
                asked = await session.message(change.session, answer.info.parent_id)
                return [f"asked: {short(one.text)}" for one in asked.parts if isinstance(one, TextPart)][:1]
        return []

    async def _roll_back(self, ref: str) -> None:
        self._say((await self._evolve.rollback({"ref": ref})).text("taken back:"))

    async def _approve(self, name: str) -> None:
        self._say((await self._evolve.approve(name)).text("approved and installed:"))

    async def _reject(self, rest: str) -> None:
        name, _, why = rest.partition(" ")
        await self._evolve.reject(name, {"reason": why.strip()})
        self._say(f"rejected: {name}")

    async def _pin(self, file: str) -> None:
        await self._evolve.pin({"file": file})
        self._say(f"pinned: {file}; the agent may not change it")
