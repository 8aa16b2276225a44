"""One step: one model call, streamed into one assistant message, and the tool calls that it asked for."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal

import msgspec

from instar.event import Busy, Retry
from instar.limits.budget import ReachedLimit, cost
from instar.message import (
    AnswerTime,
    APIError,
    APIErrorData,
    Assistant,
    Created,
    ErrorText,
    MessageAbortedError,
    MessageError,
    MessagePath,
    ModelRef,
    Part,
    ReasoningPart,
    RetryPart,
    Span,
    StepFinishPart,
    StepStartPart,
    SubtaskPart,
    TextPart,
    Tokens,
    ToolError,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolSpan,
    User,
    WithParts,
)
from instar.plugin import Tool, points, wire
from instar.provider.protocol import (
    Delta,
    Finish,
    ModelRequest,
    ProviderError,
    ReasoningDelta,
    ReasoningStart,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    UsageUpdate,
    bounded_answer,
)
from instar.session import changes
from instar.session.instance import Instance
from instar.session.sessions import Saving, message_updated, place_in
from instar.session.state import SessionState, now
from instar.store import StoreError
from instar.store.rows import INTERRUPTED
from instar.turn import calls, structured
from instar.turn.context import Turn, TurnStopped, available, prepare
from instar.turn.model_call import (
    CallMeter,
    LimitForbids,
    ModelCall,
    announce,
    message_error,
    metered,
)
from instar.wire import ids

log = logging.getLogger("instar.step")

Outcome = Literal["calls", "final", "stopped", "failed", "overflow"]
"""What a step came to: tools ran; the answer is final; a person or a limit ended it; it failed; it did not fit."""

RETRIES: Final = 5
_FIRST_WAIT, _LONGEST_WAIT = 2.0, 30.0
TASK_TOOL = "task"


class AnswerWriter:
    """Writes one attempt of a model call into its message.

    A part is saved and published when it opens and when it is whole; in between only its deltas are published. `calls`
    are the tool calls in the order asked; `finish` is set once the answer is whole, `outcome` where it failed.
    """

    def __init__(self, instance: Instance, holder: WithParts) -> None:
        self._instance = instance
        self.holder = holder
        self._open: TextPart | ReasoningPart | None = None
        self._buffer: list[str] = []
        self._written: list[Part] = []
        self._arguments: dict[int, list[str]] = {}
        self._calls: dict[int, ToolPart] = {}
        self._saves: list[asyncio.Future[int]] = []
        self.finish: Finish | None = None
        self.outcome: Outcome | None = None

    @property
    def calls(self) -> list[ToolPart]:
        """The tool calls so far, in the order asked."""
        return list(self._calls.values())

    async def take(self, delta: Delta) -> None:
        """Write one delta. The first one opens the step: a call that fails before it leaves no parts."""
        if not self._written:
            self._save(StepStartPart(**place_in(self.holder.info)))
        await self._write(delta)

    async def saved(self) -> None:
        """Wait until all that was written so far is durable. Raises `StoreError`."""
        saves, self._saves = self._saves, []
        for one in saves:
            await one

    async def _write(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text):
                await self._grow(TextPart, text)
            case ReasoningStart(metadata=metadata):
                await self._begin(ReasoningPart)
                if metadata and self._open is not None:
                    self._open.metadata = dict(metadata)
            case ReasoningDelta(text=text, metadata=metadata):
                if text:
                    await self._grow(ReasoningPart, text)
                if metadata and isinstance(self._open, ReasoningPart):
                    self._open.metadata = {**(self._open.metadata or {}), **metadata}
            case ToolCallStart():
                await self._begin_call(delta)
            case ToolCallDelta(index=index, text=text):
                self._arguments[index].append(text)
            case Finish():
                await self._end(delta)

    async def close(self, *, whole: bool = True) -> None:
        """Save the open part, after `text.complete` when it is `whole`; nothing happens when none is open.

        `saved` says when it is durable; whatever is saved after it is later.
        """
        if self._open is None:
            return
        part, self._open = self._open, None
        # Before a plugin is asked: an abort in the middle of that must not lose what was streamed.
        part.text, self._buffer = "".join(self._buffer), []
        try:
            if whole:
                part.text = await self._complete(part, part.text)
        finally:
            part.time = Span(start=part.time.start if part.time else now(), end=now())
            self._saves.append(self._instance.sessions.save_part(self.holder, part))

    async def discard(self) -> None:
        """Take back every part of this attempt: it will be tried again."""
        self._open, self._buffer = None, []
        for part in self._written:
            await self._instance.sessions.drop_part(self.holder, part)
        self._written, self._arguments, self._calls = [], {}, {}

    async def _grow(self, kind: type[TextPart] | type[ReasoningPart], text: str) -> None:
        if not isinstance(self._open, kind):
            if not text:
                await self.close()
                return
            await self._begin(kind)
        assert self._open is not None
        self._buffer.append(text)
        self._instance.sessions.delta(self._open, text)

    async def _begin(self, kind: type[TextPart] | type[ReasoningPart]) -> None:
        await self.close()
        self._open = kind(text="", time=Span(start=now()), **place_in(self.holder.info))
        self._save(self._open)

    async def _begin_call(self, start: ToolCallStart) -> None:
        await self.close()
        state = ToolPending(input={}, raw="")
        part = ToolPart(
            call_id=start.call_id,
            tool=start.name,
            state=state,
            metadata=start.metadata,
            **place_in(self.holder.info),
        )
        self._calls[start.index], self._arguments[start.index] = part, []
        self._save(part)

    async def _end(self, finish: Finish) -> None:
        await self.close()
        for index, part in self._calls.items():
            part.state = ToolPending(input={}, raw="".join(self._arguments[index]))
        self.finish = finish

    async def _complete(self, part: TextPart | ReasoningPart, text: str) -> str:
        if not isinstance(part, TextPart) or not self._instance.plugins.listens(points.TEXT_COMPLETE):
            return text
        given = points.TextInput(session_id=part.session_id, message_id=part.message_id, part_id=part.id)
        output = await self._instance.plugins.trigger(
            points.TEXT_COMPLETE, given, points.TextOutput(text=text)
        )
        # What is no text is not kept: an observer fails open.
        return output.text if isinstance(output.text, str) else text

    def _save(self, part: Part) -> None:
        self._written.append(part)
        self._saves.append(self._instance.sessions.save_part(self.holder, part))


async def run(instance: Instance, turn: Turn) -> Outcome:
    """Make one step of a turn. Raises `asyncio.CancelledError` after an abort, with everything saved."""
    async with metered(instance, call_for(turn, "task" if turn.live.session.parent_id else "turn")) as meter:
        if isinstance(meter, ReachedLimit):
            return limited(instance, turn, meter)
        return await _run(instance, turn, meter)


async def _run(instance: Instance, turn: Turn, meter: CallMeter) -> Outcome:
    going_on = False
    async with answering(instance, turn, meter) as writer:
        prepared = await prepare(instance, turn)
        await stream(instance, turn, prepared.request, writer, meter)
        finish = finished(writer)
        booked = asyncio.gather(
            meter.done(finish.tokens, writer.holder.info.id),
            prepared.trace.settle(instance, prepared.request),
        )
        if writer.calls:
            await booked
        # Without calls it shares the transaction of the step's end: each wait for the store is one for its thread.
        going_on = not writer.calls or await calls.run(
            instance, turn, writer.holder, writer.calls, prepared.tools
        )
        finish = structured.take(turn.user, turn.live.history, writer.holder, finish)
        await end(instance, turn, writer.holder, finish)
        await booked
        await writer.saved()
    return writer.outcome or _outcome(instance, turn, _answer(writer.holder), going_on)


def _outcome(instance: Instance, turn: Turn, answer: Assistant, going_on: bool) -> Outcome:
    if answer.error is not None:
        instance.sessions.fail(turn.live, answer.error)
        return "failed"
    if not going_on:
        return "stopped"
    return "calls" if answer.finish == "tool-calls" or structured.is_missing(turn.user, answer) else "final"


def call_for(turn: Turn, cause: str) -> ModelCall:
    """Return the turn's next model call, as limits and accounting see it."""
    live, asked = turn.live, turn.user.id
    origin = live.origin_of(asked)
    return ModelCall(turn.model, cause, origin, live, turn.agent.name, asked, turn.step, turn.agent.steps)


@asynccontextmanager
async def answering(
    instance: Instance,
    turn: Turn,
    meter: CallMeter | None = None,
    *,
    summary: bool | None = None,
    begun: WithParts | None = None,
) -> AsyncIterator[AnswerWriter]:
    """Begin an answer to the turn's message. What ends its writing early is saved in it: see `AnswerWriter.outcome`.

    One that was `begun` elsewhere is gone on with.

    An overflow is published only of a summary: a summary may still help. Raises `asyncio.CancelledError` after an
    abort, with everything saved.
    """
    writer = AnswerWriter(instance, begun or await _begin(instance, turn, summary))
    try:
        yield writer
    except LimitForbids as refused:
        writer.outcome = await _stopped(instance, turn, writer.holder, refused.reached)
    except TurnStopped as ended:
        reached = ReachedLimit("step.before", call_for(turn, "").origin.name, str(ended), "")
        writer.outcome = await _stopped(instance, turn, writer.holder, reached)
    except Exception as error:
        if meter is not None:
            meter.failed(error)
        writer.outcome = await _failed(instance, turn, writer, error, announced=summary is not None)
    except BaseException:
        await writer.close(whole=False)
        # An answer that was whole before stays as it is: only what plugins were told of it was cut short.
        if _answer(writer.holder).time.completed is None:
            await _fail(instance, turn, writer.holder, _abort_error(turn))
        raise


async def _begin(instance: Instance, turn: Turn, summary: bool | None) -> WithParts:
    model = ModelRef(provider_id=turn.model.provider_id, model_id=turn.model.id)
    answer = empty_answer(instance, turn.live, turn.user, turn.agent.name, model)
    answer.summary = summary
    try:
        return await instance.sessions.save_message(turn.live, answer)
    except asyncio.CancelledError:
        # What was begun has been saved all the same: it must not stay without an end.
        if (holder := turn.live.find(answer.id)) is not None:
            await _fail(instance, turn, holder, _abort_error(turn))
        raise


def empty_answer(
    instance: Instance, live: SessionState, asked: User, agent: str, model: ModelRef
) -> Assistant:
    """Return a new, empty answer to a message."""
    return Assistant(
        id=ids.new("msg"),
        session_id=live.id,
        time=AnswerTime(created=live.next_time()),
        parent_id=asked.id,
        model_id=model.model_id,
        provider_id=model.provider_id,
        mode=agent,
        agent=agent,
        path=MessagePath(cwd=str(instance.directory), root=str(instance.project.worktree)),
        cost=0.0,
        tokens=Tokens.zero(),
        variant=asked.model.variant,
    )


async def stream(
    instance: Instance, turn: Turn, request: ModelRequest, writer: AnswerWriter, meter: CallMeter
) -> None:
    """Make the call and write its deltas, trying again where the provider's error and the limits allow it.

    Waits as the provider says, else 2 s doubling up to 30 s with a quarter of chance, at most 5 times, or in the
    retry mode ``persistent`` until the turn is ended; ``session.status`` says so, and a retry part of the answer.
    Raises `ProviderError` and `LimitForbids`.
    """
    attempt = 0
    instance.sessions.set_status(turn.live, Busy())
    while True:
        instance.stops.check(turn.live.id)
        await meter.begin(writer.holder.info.id)
        try:
            async for delta in bounded_answer(instance.models.provider(request.model), request):
                if isinstance(delta, UsageUpdate | Finish):
                    meter.used(delta.tokens, writer.holder.info.id)
                if not isinstance(delta, UsageUpdate):
                    await writer.take(delta)
            await writer.close()
            return
        except ProviderError as error:
            attempt += 1
            if not error.retryable or error.kind == "overflow" or _gives_up(instance, turn, attempt):
                raise
            meter.ended(error)
            await writer.discard()
            await _note_retry(instance, turn, writer.holder, error, attempt)
            await meter.close()
            await _wait(instance, turn, error, attempt)


async def end(instance: Instance, turn: Turn, holder: WithParts, finish: Finish) -> None:
    """Save the end of a step: its step-finish part, its message, the session's sums; then call the plugins."""
    answer = _answer(holder)
    price = cost(finish.tokens, turn.model.cost) or 0.0
    files = await changes.after(instance, holder)
    part = StepFinishPart(
        reason=finish.reason,
        snapshot=files.snapshot,
        cost=price,
        tokens=finish.tokens,
        **place_in(answer),
    )
    saving = Saving().part(holder, part)
    answer.finish, answer.cost, answer.tokens = finish.reason, price, finish.tokens
    # The answer is published twice, with a patch between the two, as opencode does: clients show it in that order.
    saving.publish(message_updated(answer))
    changes.note(saving, holder, files)
    answer.time.completed = turn.live.end_time(answer.time.created)
    saving.message(answer)
    _add(turn, finish.tokens, price)
    await instance.sessions.update(turn.live, saving)
    if instance.plugins.listens(points.MESSAGE_COMPLETED):
        seen = holder.copy()
        given = points.CompletedInput(session_id=turn.live.id, message=_answer(seen), parts=seen.parts)
        await instance.plugins.trigger(points.MESSAGE_COMPLETED, given, points.Empty())


def limited(instance: Instance, turn: Turn, reached: ReachedLimit) -> Outcome:
    """Publish that a limit ended the turn."""
    log.warning("limit reached session=%s limit=%s cause=%s", turn.live.id, reached.limit, reached.cause)
    announce(instance, turn.live.id, reached)
    return "stopped"


async def _stopped(instance: Instance, turn: Turn, holder: WithParts, reached: ReachedLimit) -> Outcome:
    # After the answer had begun: other calls used up the rest.
    error = MessageAbortedError(data=ErrorText(message=f"{reached.message}. {reached.advice}".rstrip()))
    await _fail(instance, turn, holder, error, announced=False)
    return limited(instance, turn, reached)


def finished(writer: AnswerWriter) -> Finish:
    """Return the end of the answer, with a reason that fits its content: providers may report another."""
    if writer.finish is None:
        raise ProviderError("the provider ended its answer without saying that it was whole", retryable=False)
    if writer.calls:
        return Finish("tool-calls", writer.finish.tokens)
    reason = "stop" if writer.finish.reason == "tool-calls" else writer.finish.reason
    return Finish(reason, writer.finish.tokens)


async def _note_retry(
    instance: Instance, turn: Turn, holder: WithParts, error: ProviderError, attempt: int
) -> None:
    """Save a failed attempt for people; the model never sees it."""
    failure = message_error(error, turn.model.provider_id)
    if not isinstance(failure, APIError):
        failure = APIError(data=APIErrorData(message=str(error), is_retryable=True))
    part = RetryPart(attempt=attempt, error=failure, time=Created(created=now()), **place_in(holder.info))
    await instance.sessions.save_part(holder, part)


def _gives_up(instance: Instance, turn: Turn, attempt: int) -> bool:
    mode = turn.live.overrides.retry_mode or instance.config.provider_retry_mode
    return attempt > RETRIES and mode != "persistent"


async def _wait(instance: Instance, turn: Turn, error: ProviderError, attempt: int) -> None:
    # Start-up time: most calls succeed.
    import random

    chance = 1 + 0.25 * random.random()  # noqa: S311 - spreads retries, guards nothing
    delay = min(_FIRST_WAIT * 2 ** min(attempt - 1, RETRIES) * chance, _LONGEST_WAIT)
    message, most = str(error), instance.config.provider_retry_wait_seconds
    if error.retry_after is not None:
        delay = min(max(0.0, error.retry_after), most)
        if error.retry_after > most:
            asked = f"{error.retry_after:.0f} s"
            message += f"; it asks to wait {asked}, and provider_retry_wait_seconds allows {most} s"
    log.info("retry session=%s attempt=%d in=%.1fs error=%s", turn.live.id, attempt, delay, message)
    status = Retry(attempt=attempt, message=message, next=now() + int(delay * 1000))
    instance.sessions.set_status(turn.live, status)
    await asyncio.sleep(delay)
    instance.sessions.set_status(turn.live, Busy())


async def _failed(
    instance: Instance, turn: Turn, writer: AnswerWriter, error: Exception, *, announced: bool
) -> Outcome:
    if isinstance(error, StoreError) and instance.sessions.resumes:
        raise error  # some worker goes on with the turn once the store works again
    if not isinstance(error, ProviderError):
        log.error("step failed session=%s", turn.live.id, exc_info=error)
    # First of all: an answer that cannot be saved either still says why.
    said = _answer(writer.holder).error = message_error(error, turn.model.provider_id)
    await writer.close()
    overflow = isinstance(error, ProviderError) and error.kind == "overflow"
    await _fail(instance, turn, writer.holder, said, announced=announced or not overflow)
    return "overflow" if overflow else "failed"


def _abort_error(turn: Turn) -> MessageAbortedError:
    return MessageAbortedError(data=ErrorText(message=turn.live.why or "Aborted"))


async def _fail(
    instance: Instance, turn: Turn, holder: WithParts, error: MessageError, *, announced: bool = True
) -> None:
    answer = _answer(holder)
    answer.error = error
    answer.time.completed = turn.live.end_time(answer.time.created)
    for part in holder.parts:
        await _close_call(instance, holder, part)
    await changes.close(instance, holder)
    await instance.sessions.save_message(turn.live, answer)
    if announced:
        instance.sessions.fail(turn.live, error)


async def _close_call(instance: Instance, holder: WithParts, part: Part) -> None:
    # An orphan call poisons the session for providers: one that never ran must not stay open.
    if isinstance(part, ToolPart) and isinstance(part.state, ToolPending | ToolRunning):
        span = ToolSpan(start=now(), end=now())
        part.state = ToolError(input=part.state.input, error=calls.ABORTED, time=span)
        await instance.sessions.save_part(holder, part)


def _answer(holder: WithParts) -> Assistant:
    assert isinstance(holder.info, Assistant)
    return holder.info


def _add(turn: Turn, tokens: Tokens, price: float) -> None:
    session = turn.live.session
    total = session.tokens
    session.cost += price
    total.input += tokens.input
    total.output += tokens.output
    total.reasoning += tokens.reasoning
    total.cache.read += tokens.cache.read
    total.cache.write += tokens.cache.write


def waiting_subtasks(history: list[WithParts], asked: User) -> list[SubtaskPart]:
    """Return the subtasks of a message for which no call was made yet."""
    made: set[str] = set()
    for message in reversed(history):
        made |= {part.call_id for part in message.parts if isinstance(part, ToolPart)}
        if message.info.id == asked.id:
            return [
                part for part in message.parts if isinstance(part, SubtaskPart) and part.call_id not in made
            ]
    return []


def lost_calls(instance: Instance, turn: Turn) -> tuple[WithParts, list[ToolPart]] | None:
    """Return the newest answer and the calls in it that were lost with another process and may be made again."""
    answers = (one for one in reversed(turn.live.history) if isinstance(one.info, Assistant))
    holder = next(answers, None)
    if holder is None or _answer(holder).error is not None:
        return None
    lost = [part for part in holder.parts if isinstance(part, ToolPart) and _is_lost(part)]
    tools = available(instance, turn) if lost else {}
    lost = [part for part in lost if _is_idempotent(part, tools)]
    return (holder, lost) if lost else None


def _is_lost(part: ToolPart) -> bool:
    state = part.state
    return isinstance(state, ToolError) and state.error == INTERRUPTED and "began" in (state.metadata or {})


def _is_idempotent(part: ToolPart, tools: Mapping[str, Tool]) -> bool:
    return any(tool.idempotent and part.tool in (name, *tool.aliases) for name, tool in tools.items())


async def run_again(instance: Instance, turn: Turn, holder: WithParts, lost: Sequence[ToolPart]) -> Outcome:
    """Make calls of an answer again that were lost. Raises `asyncio.CancelledError` as `run`."""
    going_on = False
    async with answering(instance, turn, begun=holder) as writer:
        _answer(holder).time.completed = None
        await instance.sessions.save_message(turn.live, holder.info)
        for part in lost:
            part.state = ToolPending(input={}, raw=wire.encode(part.state.input).decode())
        going_on = await calls.run(instance, turn, holder, lost, available(instance, turn))
        await end(instance, turn, holder, Finish("tool-calls", Tokens.zero()))
    return writer.outcome or ("calls" if going_on else "stopped")


async def run_subtasks(instance: Instance, turn: Turn, parts: list[SubtaskPart]) -> Outcome:
    """Run subtasks in an answer of their own; the next step reads their results.

    Raises `asyncio.CancelledError` after an abort, with everything saved.
    """
    going_on = False
    async with answering(instance, turn) as writer:
        asked = [_subtask_call(writer.holder, part) for part in parts]
        for call in asked:
            await instance.sessions.save_part(writer.holder, call)
        going_on = await calls.run(instance, turn, writer.holder, asked, available(instance, turn))
        await end(instance, turn, writer.holder, Finish("tool-calls", Tokens.zero()))
    return writer.outcome or ("calls" if going_on else "stopped")


def _subtask_call(holder: WithParts, part: SubtaskPart) -> ToolPart:
    given = {"description": part.description, "prompt": part.prompt, "subagent_type": part.agent}
    if part.command:
        given["command"] = part.command
    return ToolPart(
        call_id=part.call_id,
        tool=TASK_TOOL,
        state=ToolPending(input=given, raw=msgspec.json.encode(given).decode()),
        **place_in(holder.info),
    )
