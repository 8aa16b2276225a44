"""From a session's events to what a view shows: which parts are an answer's, and when they are whole."""

import asyncio
import sys

from instar.cli.output import JsonView, TurnView, retry_text
from instar.cli.person import INTERRUPTED
from instar.event import (
    Event,
    HooksRan,
    LimitReached,
    MessageUpdated,
    PartDelta,
    PartRemoved,
    PartUpdated,
    PermissionAsked,
    PermissionReplied,
    PluginError,
    QuestionAsked,
    QuestionRejected,
    QuestionReplied,
    Retry,
    SelfModified,
    SessionCompacted,
    SessionError,
    SessionStatusChanged,
    TuiToastShow,
)
from instar.message import (
    Assistant,
    MessageAbortedError,
    Part,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolPart,
    ToolPending,
    ToolRunning,
    User,
    WithParts,
)
from instar.turn.model_call import STOPPED


async def ticking(follower: "Follower") -> None:
    """Tell the follower each second that time goes by, until cancelled. Raises what printing met meanwhile."""
    while True:
        await asyncio.sleep(1)
        sys.stdout.flush()
        follower.tick()


def view_of(format: str, session_id: str) -> TurnView:
    """Return what shows the turn: lines of JSON, plain text, or a terminal's."""
    if format == "json":
        return JsonView(session_id)
    if not sys.stdout.isatty():
        return TurnView()
    # Start-up time: rich costs 50 ms and only a terminal needs it.
    from instar.cli.terminal import TerminalView

    return TerminalView()


class Follower:
    """Hands one session's events to a view.

    While a question stands at the terminal nothing is shown: it would be written over. It is shown afterwards.
    """

    def __init__(self, session_id: str, view: TurnView) -> None:
        self._limited = False
        self._session_id = session_id
        self._view = view
        self._answers: set[str] = set()
        self._asked: list[str] = []
        self._questions: set[str] = set()
        self._held_back: list[Event] = []
        self._growing: dict[str, Part] = {}
        self._whole: dict[str, Part] = {}
        self._limits: list[str] = []

    def exit_code(self, answer: WithParts, *, interrupted: bool) -> int:
        """Return 0 for an answer, 1 for an error or a limit, `INTERRUPTED` when a person ended the turn."""
        error = answer.info.error if isinstance(answer.info, Assistant) else None
        if interrupted and (error is None or isinstance(error, MessageAbortedError)):
            return INTERRUPTED
        return int(error is not None or not isinstance(answer.info, Assistant) or self._limited)

    def tick(self) -> None:
        """Let the view show the time, unless a question is open."""
        if not self._questions:
            self._view.tick()

    def take(self, event: Event) -> None:
        """Show an event, if it is of the session and means something to a person."""
        match event.properties:
            case PermissionAsked(id=asked) | QuestionAsked(id=asked):
                self._questions.add(asked)
            case (
                PermissionReplied(request_id=asked)
                | QuestionReplied(request_id=asked)
                | QuestionRejected(request_id=asked)
            ):
                self._questions.discard(asked)
        self._held_back.append(event)
        while self._held_back and not self._questions:
            self._show(self._held_back.pop(0))

    def _show(self, event: Event) -> None:
        if event.session_id not in (self._session_id, None):
            return
        match event.properties:
            case PartDelta(part_id=part_id, delta=text):
                if part_id in self._growing:
                    self._view.delta(self._growing[part_id], text)
            case PartUpdated(part=part):
                self._part(part)
            case PartRemoved(part_id=part_id):
                self._whole.pop(part_id, None)
            case MessageUpdated(info=info):
                self._message(info)
            case SessionStatusChanged(status=Retry() as status):
                self._view.note(retry_text(status), "yellow")
            case other:
                self._report(other)

    def _report(self, properties: object) -> None:
        match properties:
            case SessionError(error=MessageAbortedError(data=data)) if data.message.startswith(STOPPED):
                self._hand_over()
                self._limit(data.message)
            case SessionError(error=error) if error is not None:
                self._hand_over()
                self._view.error(error)
            case LimitReached(message=text, ends=ends):
                self._limited = self._limited or ends
                self._limit(text)
            case SessionCompacted():
                self._view.note("earlier messages were summarised")
            case HooksRan(event=name, messages=texts):
                for text in texts:
                    self._view.note(f"{name} hook: {text}")
            case SelfModified(call_id="", path=path, old=old, new=new):
                # What a call of the tool changed stands in the call's own line.
                self._view.note(f"self: {path} = {new!r} (was {old!r})")
            case TuiToastShow(message=text):
                self._view.note(text.removeprefix("instar: "), "yellow")
            case PluginError(plugin=plugin, hook=hook, message=text):
                self._view.note(f"plugin {plugin} failed in {hook}: {text}")

    def _limit(self, text: str) -> None:
        """Show a limit once: the answer's error says it too, before the event or after it."""
        if not any(text.startswith(shown) or shown.startswith(text) for shown in self._limits):
            self._view.limit(text)
        self._limits.append(text)

    def _message(self, info: User | Assistant) -> None:
        if isinstance(info, User):
            if info.id not in self._asked:
                self._asked.append(info.id)
            return
        if not info.summary:
            self._answers.add(info.id)
        if info.time.completed:
            self._hand_over()

    def _part(self, part: Part) -> None:
        if part.message_id in self._asked[1:] and isinstance(part, TextPart):
            # The first message is the person's own; the others were queued: by a plugin, by the runtime.
            self._view.note(f"going on: {part.text}")
        if part.message_id not in self._answers:
            return
        if self._view.streams:
            self._growing[part.id] = part
            self._view.part(part)
            return
        if _is_whole(part):
            self._whole[part.id] = part
        if isinstance(part, ToolPart) and not isinstance(part.state, ToolPending):
            # Tools run once the model's answer is whole: nothing of it is taken back any more.
            self._hand_over()

    def _hand_over(self) -> None:
        """Show the parts that are whole, in order. A failed attempt's were dropped before this."""
        whole, self._whole = self._whole, {}
        for part in whole.values():
            self._view.part(part)


def _is_whole(part: Part) -> bool:
    match part:
        case TextPart(time=span) | ReasoningPart(time=span):
            return span is not None and span.end is not None
        case ToolPart(state=state):
            return not isinstance(state, ToolPending | ToolRunning)
        case _:
            return isinstance(part, StepStartPart | StepFinishPart)
