"""Permission questions and questions of the model that are answered at any worker.

The worker that asked waits for the answer, saves it and tells everybody, as it does for its own clients; another one
hands an answer over to it and returns when it was taken.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Final, TypeVar

import msgspec

from instar import event, wire
from instar.approval.permissions import QUESTION, REPLIES, Approvals, withdraw
from instar.approval.questions import Answers, Questions
from instar.event import PermissionAsked, QuestionAsked, QuestionRejected, QuestionReplied, make
from instar.plugin import Invalid, NotFound
from instar.store import DropAsk, PutAsk, Stored
from instar.store.relay import Relay
from instar.store.store import Store

_PATIENCE: Final = 5.0
"""Seconds that the worker which asked has to take an answer."""
Asked = TypeVar("Asked", PermissionAsked, QuestionAsked)
_TAKEN: Final = ("permission.replied", "question.replied", "question.rejected")


@event.declare("instar.permission.answer", own=True)
class PermissionAnswered(event.OfSession):
    """An answer to a permission question, for the worker that asked."""

    request_id: str
    reply: str
    message: str | None = None


@event.declare("instar.question.answer", own=True)
class QuestionAnswered(event.OfSession):
    """An answer to a question of the model, for the worker that asked; None rejects it."""

    request_id: str
    answers: Answers | None = None


class SharedApprovals(Approvals):
    """The permission questions of one project, at every worker."""

    def share(self, relay: Relay) -> Callable[[], object]:
        """Take answers that are given at other workers; returns a function that stops it."""
        self._relay = relay
        self._taking: set[asyncio.Task[None]] = set()
        return relay.observe(self._heard)

    async def list(self) -> Sequence[PermissionAsked]:
        """Return what waits for an answer in this folder, oldest first."""
        there = await _elsewhere(self._store, self._waiting, PermissionAsked)
        return sorted([*await super().list(), *there], key=lambda one: one.id)

    async def reply(self, request_id: str, reply: str, message: str | None = None) -> None:
        """Answer a call that waits, at whichever worker. Raises as `Approvals.reply`."""
        asked = next((row for row in await self._store.asks() if row.id == request_id), None)
        if request_id in self._waiting or asked is None or reply not in REPLIES:
            await super().reply(request_id, reply, message)
            return
        answer = PermissionAnswered(
            session_id=asked.session_id, request_id=request_id, reply=reply, message=message
        )
        await _hand_over(self._relay, self._store, answer)

    def _heard(self, happened: Stored) -> None:
        if happened.type != "instar.permission.answer":
            return
        answer = msgspec.json.decode(happened.data, type=PermissionAnswered)
        waiting = self._waiting.get(answer.request_id)
        if waiting is not None and not waiting.verdict.done():
            _spawn(self._taking, super().reply(answer.request_id, answer.reply, answer.message))


class SharedQuestions(Questions):
    """The model's questions of one instance, at every worker."""

    def share(self, relay: Relay, store: Store) -> Callable[[], object]:
        """Keep questions in the store, and take answers from other workers; returns a function that stops that."""
        self._relay, self._store = relay, store
        self._taking: set[asyncio.Task[None]] = set()
        return relay.observe(self._heard)

    async def list(self) -> Sequence[QuestionAsked]:
        """Return what waits for an answer in this folder, oldest first."""
        there = await _elsewhere(self._store, self._waiting, QuestionAsked)
        return sorted([*await super().list(), *there], key=lambda one: one.id)

    async def reply(self, request_id: str, answers: Sequence[Sequence[str]]) -> None:
        """Answer, at whichever worker. Raises as `Questions.reply`."""
        if not await self._hand_over(request_id, [list(labels) for labels in answers]):
            await super().reply(request_id, answers)

    async def reject(self, request_id: str) -> None:
        """Say that nobody will answer. Raises `NotFound`."""
        if not await self._hand_over(request_id, None):
            await super().reject(request_id)

    async def _begin(self, asked: QuestionAsked) -> None:
        row = PutAsk(asked.id, asked.session_id, wire.to_plain(asked))
        await self._store.commit([row], [make(asked)])

    async def _end(self, said: QuestionRejected | QuestionReplied) -> None:
        await self._store.commit([DropAsk(said.request_id)], [make(said)])

    async def _hand_over(self, request_id: str, answers: Answers | None) -> bool:
        """Give an answer to the worker that asked; False unless another one did."""
        waits = [] if request_id in self._waiting else await self._store.asks()
        asked = next((row for row in waits if row.id == request_id), None)
        if asked is None:
            return False
        self.sound(msgspec.convert(asked.properties, QuestionAsked), answers)
        answer = QuestionAnswered(session_id=asked.session_id, request_id=request_id, answers=answers)
        await _hand_over(self._relay, self._store, answer)
        return True

    def _heard(self, happened: Stored) -> None:
        if happened.type == "instar.question.answer":
            answer = msgspec.json.decode(happened.data, type=QuestionAnswered)
            if answer.request_id in self._waiting:
                _spawn(self._taking, self._take(answer))

    async def _take(self, answer: QuestionAnswered) -> None:
        if answer.answers is None:
            await super().reject(answer.request_id)
        else:
            await super().reply(answer.request_id, answer.answers)


async def withdraw_all(store: Store, session_id: str) -> None:
    """Withdraw what was asked in a session whose worker was lost."""
    for row in await store.asks(session_id):
        await withdraw(store, row)


async def _elsewhere(store: Store, here: Collection[str], kind: type[Asked]) -> Sequence[Asked]:
    """Return what the calls of other workers ask in the folder of `store`; `here` are the ids of this one's."""
    found = []
    for row in await store.asks():
        if row.id in here or row.id.startswith(QUESTION) != (kind is QuestionAsked):
            continue
        place = await store.whereabouts(row.session_id)
        if place is not None and place.directory == store.directory and await store.holder(row.session_id):
            found.append(msgspec.convert(row.properties, kind))
    return found


async def _hand_over(relay: Relay, store: Store, answer: PermissionAnswered | QuestionAnswered) -> None:
    """Tell the worker that asked, and wait until it says that the answer was taken. Raises `Invalid`."""
    taken = asyncio.Event()

    def hear(happened: Stored) -> None:
        if happened.type in _TAKEN and answer.request_id in happened.data:
            taken.set()

    stop = relay.observe(hear)
    store.publish(make(answer))
    try:
        await asyncio.wait_for(taken.wait(), _PATIENCE)
    except TimeoutError:
        raise Invalid(
            f"the worker that asked {answer.request_id} does not take the answer; once it is known to be lost,"
            " another one goes on with its turn"
        ) from None
    finally:
        stop()


def _spawn(tasks: "set[asyncio.Task[None]]", work: Coroutine[Any, Any, None]) -> None:
    async def done() -> None:
        with contextlib.suppress(NotFound, Invalid):  # it was answered here meanwhile
            await work

    task = asyncio.create_task(done())
    tasks.add(task)
    task.add_done_callback(tasks.discard)
