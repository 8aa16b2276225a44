"""Questions of the model to a person: those that wait, and their answers.

A door that can ask hands over a `Questioner`. Where there is none, nothing waits: asking is refused at once.
A question may also be answered through the client, by whoever comes first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from instar.approval.permissions import QUESTION, first
from instar.event import AskedBy, Question, QuestionAsked, QuestionRejected, QuestionReplied, make
from instar.event.bus import Bus
from instar.plugin import Invalid, NotFound
from instar.wire import ids

Answers = list[list[str]]
"""For each question the labels chosen, or what was typed."""
Questioner = Callable[[QuestionAsked], Awaitable[Answers | None]]
"""Puts questions to a person and returns the answers; None when they would not answer."""


async def relayed(question: QuestionAsked) -> Answers | None:
    """Wait for ever: for a door whose clients answer through `Questions.reply` and `Questions.reject`."""
    await asyncio.Event().wait()
    return None


class Questions:
    """The questions of one instance (`QuestionClient`); they wait in memory, as the calls that ask them do."""

    def __init__(self, bus: Bus, questioner: Questioner | None) -> None:
        """`questioner` is None for a door without a person."""
        self._bus = bus
        self._questioner = questioner
        self._waiting: dict[str, tuple[QuestionAsked, asyncio.Future[Answers | None]]] = {}

    async def ask(
        self, session_id: str, questions: Sequence[Question], caller: AskedBy | None = None
    ) -> Answers | None:
        """Put questions to a person and wait. Raises `Invalid` when there is nobody, or a question is unsound.

        Publishes ``question.asked``, then ``question.replied`` or ``question.rejected``, also when cancelled.
        """
        if self._questioner is None:
            raise Invalid("nobody is here to answer a question; decide yourself, or end with the question")
        _check(questions)
        asked = QuestionAsked(
            id=ids.new(QUESTION), session_id=session_id, questions=list(questions), tool=caller
        )
        reply: asyncio.Future[Answers | None] = asyncio.get_running_loop().create_future()
        self._waiting[asked.id] = (asked, reply)
        answers: Answers | None = None
        try:
            await self._begin(asked)
            answers = _sound(asked, await first(self._questioner(asked), reply))
        finally:
            reply.cancel()  # from here on nobody may answer
            place = {"session_id": session_id, "request_id": asked.id}
            said = QuestionRejected(**place) if answers is None else QuestionReplied(**place, answers=answers)
            try:
                await self._end(said)
            finally:
                del self._waiting[asked.id]
        return answers

    async def list(self) -> Sequence[QuestionAsked]:
        """Return what waits for an answer, oldest first."""
        return [asked for asked, reply in self._waiting.values() if not reply.done()]

    async def reply(self, request_id: str, answers: Sequence[Sequence[str]]) -> None:
        """Answer. Raises `NotFound`, and `Invalid` unless there is a list of labels for each question."""
        asked, reply = self._find(request_id)
        reply.set_result(_sound(asked, [list(labels) for labels in answers]))

    async def reject(self, request_id: str) -> None:
        """Say that nobody will answer. Raises `NotFound`."""
        _, reply = self._find(request_id)
        reply.set_result(None)

    def sound(self, asked: QuestionAsked, answers: Answers | None) -> Answers | None:
        """Return answers that fit what was asked. Raises `Invalid`."""
        return _sound(asked, answers)

    def _find(self, request_id: str) -> tuple[QuestionAsked, "asyncio.Future[Answers | None]"]:
        found = self._waiting.get(request_id)
        if found is None or found[1].done():
            raise NotFound(f"Question not found: {request_id}; it was answered, or its call has ended")
        return found

    async def _begin(self, asked: QuestionAsked) -> None:
        self._bus.publish(make(asked))

    async def _end(self, said: QuestionRejected | QuestionReplied) -> None:
        self._bus.publish(make(said))


def _check(questions: Sequence[Question]) -> None:
    if not questions:
        raise Invalid("there is no question; give at least one")
    for question in questions:
        if not question.question.strip():
            raise Invalid("a question has no text")
        labels = [option.label for option in question.options]
        if len(set(labels)) < len(labels):
            raise Invalid(f"two options of {question.question!r} have the same label")


def _sound(asked: QuestionAsked, answers: Answers | None) -> Answers | None:
    if answers is not None and len(answers) != len(asked.questions):
        raise Invalid(f"{len(asked.questions)} questions were asked, and {len(answers)} answers came")
    for question, labels in zip(asked.questions, answers or (), strict=False):
        if len(labels) > 1 and not question.multiple:
            raise Invalid(f"{question.question!r} takes one answer, not {len(labels)}")
    return answers
