"""Permission questions and questions of the model that are answered at any worker.

The worker that asked waits for the answer, saves it and tells everybody, as it does for its own clients; another one
hands an answer over to it and returns when it was taken.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import msgspec

from instar import event
from instar.approval.permissions import REPLIES, Approvals
from instar.approval.questions import Answers, Questions
from instar.event import PermissionAsked, QuestionAsked, make
from instar.plugin import Invalid, NotFound
from instar.store import Stored
from instar.store.relay import Relay
from instar.store.store import Store

_PATIENCE: Final = 5.0
"""Seconds that the worker which asked has to take an answer."""
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
        here = {one.id: one for one in await super().list()}
        for row in await self._store.asks():
            found = await self._store.whereabouts(row.session_id)
            if row.id not in here and found is not None and found.directory == str(self.directory):
                here[row.id] = msgspec.convert(row.properties, PermissionAsked)
        return sorted(here.values(), key=lambda one: one.id)

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
    """The model's questions of one instance, at every worker; those of others are known from when they are asked."""

    def share(self, relay: Relay, store: Store) -> Callable[[], object]:
        """Hear of the questions and answers of other workers; returns a function that stops it."""
        self._relay, self._store = relay, store
        self._elsewhere: dict[str, QuestionAsked] = {}
        self._taking: set[asyncio.Task[None]] = set()
        return relay.observe(self._heard)

    async def list(self) -> Sequence[QuestionAsked]:
        """Return what waits for an answer, oldest first."""
        return sorted([*await super().list(), *self._elsewhere.values()], key=lambda one: one.id)

    async def reply(self, request_id: str, answers: Sequence[Sequence[str]]) -> None:
        """Answer, at whichever worker. Raises as `Questions.reply`."""
        if request_id in self._elsewhere:
            await self._hand_over(request_id, [list(labels) for labels in answers])
        else:
            await super().reply(request_id, answers)

    async def reject(self, request_id: str) -> None:
        """Say that nobody will answer. Raises `NotFound`."""
        if request_id in self._elsewhere:
            await self._hand_over(request_id, None)
        else:
            await super().reject(request_id)

    async def _hand_over(self, request_id: str, answers: Answers | None) -> None:
        asked = self._elsewhere[request_id]
        self.sound(asked, answers)
        answer = QuestionAnswered(session_id=asked.session_id, request_id=request_id, answers=answers)
        try:
            await _hand_over(self._relay, self._store, answer)
        except Invalid:
            # A worker that was lost says no more that its question is over.
            self._elsewhere.pop(request_id, None)
            raise

    def _heard(self, happened: Stored) -> None:
        if happened.type == "question.asked" and happened.directory == self._store.directory:
            asked = msgspec.json.decode(happened.data, type=QuestionAsked)
            self._elsewhere[asked.id] = asked
        elif happened.type in ("question.replied", "question.rejected"):
            self._elsewhere.pop(msgspec.json.decode(happened.data)["requestID"], None)
        elif happened.type == "instar.question.answer":
            answer = msgspec.json.decode(happened.data, type=QuestionAnswered)
            if answer.request_id in self._waiting:
                _spawn(self._taking, self._take(answer))

    async def _take(self, answer: QuestionAnswered) -> None:
        if answer.answers is None:
            await super().reject(answer.request_id)
        else:
            await super().reply(answer.request_id, answer.answers)


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
