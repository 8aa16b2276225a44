"""Spans of what happens in one instance.

``invoke_agent {agent}`` is the answer to one prompt. It holds a ``step`` for each message of the answer, and that the
model's call, ``chat {model}``, and its tools, ``execute_tool {tool}``. Runs of hooks, waiting for a person and evolve's
gate stand where they belong. A sub-agent's answer stands below the tool call that started it.

Events say when each began and ended, so a span is made when its first child needs it, or at its end: by then the model
was called, and it is known in which trace the prompt came.
"""

import hashlib
import json
import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags, Tracer

from instar.plugin import event, message, points
from instar.plugins.telemetry.export import PromptIds
from instar.plugins.telemetry.names import chat_attributes

Attributes = Mapping[str, Any]

_KEPT: Final = 1_000
"""Things of one kind that are kept until what they belong to is heard of, which may never come."""
_EARLY: Final = 100
"""Runs of hooks in a session before its turn that are kept for it."""


K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """A dict of the newest `_KEPT` keys."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > _KEPT:
            self.popitem(last=False)


class StepSpans:
    """A message of an answer: a model call and its tools."""

    def __init__(self, info: message.Assistant) -> None:
        self.info = info
        self.span: Span | None = None


class TurnSpans:
    """The answer to one prompt, while it is made."""

    def __init__(self, session_id: str, info: message.Assistant) -> None:
        self.session_id = session_id
        self.asked_id = info.parent_id
        self.agent = info.agent
        self.started = self.ended = info.time.created
        self.span: Span | None = None
        self.error: message.MessageError | None = None
        self.steps: dict[str, StepSpans] = {}
        self.tools: dict[str, Span | None] = {}
        self.by_call: dict[str, Span] = {}


class Spans:
    """Makes the spans of one instance. `content` adds what people, models and tools say."""

    def __init__(self, tracer: Tracer, ids: PromptIds, *, content: bool) -> None:
        self._tracer = tracer
        self._ids = ids
        self._content = content
        self._turns: dict[str, TurnSpans] = {}
        # A title may be ready after its turn.
        self._ended: Recent[str, SpanContext] = Recent()
        self._calls: Recent[str, list[points.ModelCallInput]] = Recent()
        self._early: Recent[str, deque[tuple[event.HooksRan, int]]] = Recent()
        self._callers: Recent[str, SpanContext] = Recent()
        self._waiting: Recent[str, Span] = Recent()
        self._texts: Recent[str, dict[str, str]] = Recent()

    def called(self, made: points.ModelCallInput) -> None:
        """A model call ended. One of a turn that runs waits for the span of its step."""
        if made.asked_id and made.asked_id not in self._ended:
            self._calls.setdefault(made.asked_id, []).append(made)
        else:
            self._chat(made, self._ended.get(made.asked_id))

    def heard(self, happened: Any) -> None:
        """An event happened, of which these are the properties."""
        match happened:
            case event.MessageUpdated(info=message.Assistant() as info):
                self._answered(info)
            case event.PartUpdated(part=message.ToolPart() as part):
                self._tool(part)
            case event.PartUpdated(part=message.TextPart() as part) if self._content:
                self._texts.setdefault(part.message_id, {})[part.id] = part.text
            case event.HooksRan():
                self._hook(happened)
            case event.EvolveInstalled():
                self._judged(happened, {"instar.outcome": "installed", "instar.files": happened.files})
            case event.EvolveRefused():
                self._judged(happened, {"instar.outcome": "refused", "instar.files": [happened.file]})
            case event.PermissionAsked() | event.QuestionAsked():
                self._asked(happened)
            case event.PermissionReplied() | event.QuestionReplied() | event.QuestionRejected():
                self._replied(happened)
            case event.SessionIdle() | event.SessionDeleted():
                self._idle(happened.session_id)

    def close(self) -> None:
        """The instance is closed: what is still open ends here."""
        for session_id in list(self._turns):
            self._idle(session_id)
        for span in self._waiting.values():
            span.end()

    # -- turns and steps ------------------------------------------------------------------------------------

    def _answered(self, info: message.Assistant) -> None:
        turn = self._turns.get(info.session_id)
        if turn is not None and turn.asked_id != info.parent_id:
            self._end(turn)
            turn = None
        if turn is None:
            if info.time.completed is not None:
                return  # changed after its turn
            turn = self._turns[info.session_id] = TurnSpans(info.session_id, info)
        turn.steps.setdefault(info.id, StepSpans(info)).info = info
        # Its model call, if it was answered, may be told later than its end. One that failed ends with the turn.
        if info.time.completed is not None and any(not made.error for made in self._calls_of(turn, info)):
            self._end_step(turn, turn.steps.pop(info.id))

    def _idle(self, session_id: str) -> None:
        if (turn := self._turns.pop(session_id, None)) is not None:
            self._end(turn)
        self._early.pop(session_id, None)
        self._callers.pop(session_id, None)

    def _end(self, turn: TurnSpans) -> None:
        context = self._open(turn)
        for step in turn.steps.values():
            self._end_step(turn, step)
        for tool in turn.tools.values():
            if tool is not None:
                tool.end()
        for made in self._calls.pop(turn.asked_id, ()):
            self._chat(made, context)
        assert turn.span is not None
        if turn.error is not None:
            _fail(turn.span, type(turn.error).__name__)
        turn.span.end(_ns(turn.ended))
        self._ended[turn.asked_id] = context

    def _open(self, turn: TurnSpans) -> SpanContext:
        """Return the place of a turn; its span is made now if it has none yet."""
        if turn.span is None:
            called = self._calls.get(turn.asked_id)
            parent = (
                self._callers.get(turn.session_id) or (called and _parent(called[0].origin.trace)) or None
            )
            said = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": turn.agent,
                "gen_ai.conversation.id": turn.session_id,
                "instar.message.id": turn.asked_id,
                "instar.origin": called[0].origin.name if called else None,
                **self._said("gen_ai.input.messages", "user", turn.asked_id),
            }
            self._ids.trace = _trace_of(turn.asked_id)
            turn.span = self._begin(f"invoke_agent {turn.agent}", parent, _ns(turn.started), said)
            self._ids.trace = 0
            for ran, at in self._early.pop(turn.session_id, ()):
                self._ran(ran, at, turn.span.get_span_context())
        return turn.span.get_span_context()

    def _open_step(self, turn: TurnSpans, step: StepSpans) -> SpanContext:
        if step.span is None:
            said = {"instar.message.id": step.info.id, "gen_ai.conversation.id": turn.session_id}
            step.span = self._begin("step", self._open(turn), _ns(step.info.time.created), said)
        return step.span.get_span_context()

    def _calls_of(self, turn: TurnSpans, info: message.Assistant) -> list[points.ModelCallInput]:
        return [made for made in self._calls.get(turn.asked_id, ()) if made.message_id == info.id]

    def _end_step(self, turn: TurnSpans, step: StepSpans) -> None:
        """End a step with its model calls."""
        info, context = step.info, self._open_step(turn, step)
        ended = info.time.completed or info.time.created
        for made in self._calls_of(turn, info):
            self._calls[turn.asked_id].remove(made)
            self._chat(made, context, info)
            # It is told beside the end of the step.
            ended = max(ended, made.ended)
        assert step.span is not None
        if info.error is not None:
            _fail(step.span, type(info.error).__name__)
        turn.ended, turn.error = max(turn.ended, ended), info.error
        step.span.end(_ns(ended))

    def _chat(
        self, made: points.ModelCallInput, parent: SpanContext | None, info: message.Assistant | None = None
    ) -> None:
        tokens = made.tokens
        said: dict[str, Any] = {
            **chat_attributes(made.model.provider_id, made.model.model_id),
            "gen_ai.conversation.id": made.session_id or None,
            "gen_ai.agent.name": made.agent or None,
            "gen_ai.usage.input_tokens": tokens.input + tokens.cache.read + tokens.cache.write,
            "gen_ai.usage.output_tokens": tokens.output + tokens.reasoning,
            "gen_ai.usage.cache_read.input_tokens": tokens.cache.read or None,
            "gen_ai.usage.cache_creation.input_tokens": tokens.cache.write or None,
            "gen_ai.usage.reasoning.output_tokens": tokens.reasoning or None,
            "instar.cause": made.cause,
            "instar.cost.dollars": made.cost,
        }
        if info is not None and not made.error:
            said["gen_ai.response.finish_reasons"] = [info.finish] if info.finish else None
            said |= self._said("gen_ai.output.messages", "assistant", info.id)
        name = f"chat {made.model.model_id}"
        span = self._begin(name, parent, _ns(made.started), said, SpanKind.CLIENT)
        if made.error:
            _fail(span, made.error)
        span.end(_ns(max(made.started, made.ended)))

    # -- what happens in a step -----------------------------------------------------------------------------

    def _tool(self, part: message.ToolPart) -> None:
        turn, state = self._turns.get(part.session_id), part.state
        if turn is None:
            return
        if isinstance(state, message.ToolPending):
            turn.tools[part.id] = None
        elif part.id in turn.tools or isinstance(state, message.ToolRunning):
            span = turn.tools.get(part.id) or self._begin_tool(turn, part, state)
            if isinstance(state, message.ToolRunning):
                turn.tools[part.id] = turn.by_call[part.call_id] = span
                if child := (state.metadata or {}).get("sessionId"):
                    self._callers[child] = span.get_span_context()
                return
            # What is published of a call afterwards, as when its output is dropped, has no span any more.
            del turn.tools[part.id]
            if isinstance(state, message.ToolError):
                _fail(span, "tool_error")
            if self._content:
                result = state.error if isinstance(state, message.ToolError) else state.output
                span.set_attribute("gen_ai.tool.call.arguments", json.dumps(state.input))
                span.set_attribute("gen_ai.tool.call.result", result)
            span.end(_ns(state.time.end))

    def _begin_tool(
        self,
        turn: TurnSpans,
        part: message.ToolPart,
        state: message.ToolRunning | message.ToolCompleted | message.ToolError,
    ) -> Span:
        step = turn.steps.get(part.message_id)
        said = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": part.tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": part.call_id,
            "gen_ai.conversation.id": turn.session_id,
        }
        place = self._open(turn) if step is None else self._open_step(turn, step)
        return self._begin(f"execute_tool {part.tool}", place, _ns(state.time.start), said)

    def _hook(self, ran: event.HooksRan) -> None:
        at = time.time_ns()
        if (place := self._place(ran.session_id, ran.call_id)) is not None:
            self._ran(ran, at, place)
        else:
            self._early.setdefault(ran.session_id, deque(maxlen=_EARLY)).append((ran, at))

    def _ran(self, ran: event.HooksRan, at: int, place: SpanContext) -> None:
        said = {
            "instar.hook.event": ran.event,
            "instar.hook.rule": ran.rule,
            "instar.hook.evaluator": ran.evaluator,
            "instar.hook.action": ran.action,
            "gen_ai.tool.name": ran.tool or None,
            "gen_ai.tool.call.id": ran.call_id or None,
        }
        span = self._begin(f"hook {ran.event}", place, at - ran.duration * 1_000_000, said)
        if ran.error:
            _fail(span, "hook_error")
        span.end(at)

    def _asked(self, asked: event.PermissionAsked | event.QuestionAsked) -> None:
        name = "question" if isinstance(asked, event.QuestionAsked) else f"permission {asked.permission}"
        place = self._place(asked.session_id, asked.tool.call_id if asked.tool else "")
        said = {"gen_ai.conversation.id": asked.session_id}
        self._waiting[asked.id] = self._begin(name, place, time.time_ns(), said)

    def _replied(
        self, replied: event.PermissionReplied | event.QuestionReplied | event.QuestionRejected
    ) -> None:
        if (span := self._waiting.pop(replied.request_id, None)) is not None:
            if isinstance(replied, event.PermissionReplied):
                span.set_attribute("instar.reply", replied.reply)
            span.end()

    def _judged(self, judged: event.EvolveInstalled | event.EvolveRefused, said: Attributes) -> None:
        """A candidate of evolve's went through the gate, stage after stage until now."""
        at = time.time_ns() - sum(judged.gate.values()) * 1_000_000
        span = self._begin("gate", self._place(judged.session_id or "", ""), at, said)
        for stage, ms in judged.gate.items():
            self._begin(f"gate {stage}", span.get_span_context(), at, {}).end(at := at + ms * 1_000_000)
        if isinstance(judged, event.EvolveRefused):
            _fail(span, judged.stage)
        span.end()

    def _place(self, session_id: str, call_id: str) -> SpanContext | None:
        """Where something belongs that happens in a session now: its tool call, its step, its turn.

        What names no call is the work of the only tool that runs, if it is one.
        """
        turn = self._turns.get(session_id)
        if turn is None:
            return None
        running = [tool for tool in turn.tools.values() if tool is not None]
        tool = turn.by_call.get(call_id) or (running[0] if len(running) == 1 and not call_id else None)
        if tool is not None:
            return tool.get_span_context()
        if turn.span is None and turn.asked_id not in self._calls:
            return None
        step = next(reversed(turn.steps.values()), None)
        return self._open(turn) if step is None else self._open_step(turn, step)

    # -- spans ----------------------------------------------------------------------------------------------

    def _begin(
        self,
        name: str,
        parent: SpanContext | None,
        at: int,
        said: Attributes,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        context = None if parent is None else trace.set_span_in_context(NonRecordingSpan(parent))
        known = {key: value for key, value in said.items() if value is not None}
        return self._tracer.start_span(name, context, kind, known, start_time=at)

    def _said(self, name: str, role: str, message_id: str) -> Attributes:
        """The words of a message as the conventions have them, where they are asked for."""
        texts = self._texts.pop(message_id, None)
        if not texts:
            return {}
        parts = [{"type": "text", "content": text} for text in texts.values()]
        return {name: json.dumps([{"role": role, "parts": parts}])}


def _fail(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(trace.StatusCode.ERROR)


def _ns(ms: int) -> int:
    return ms * 1_000_000


def _trace_of(message_id: str) -> int:
    return int.from_bytes(hashlib.sha256(message_id.encode()).digest()[:16])


def _parent(traceparent: str) -> SpanContext | None:
    if not traceparent:
        return None
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
    )
