"""From a session's events to what a view shows: which parts are an answer's, and when they are whole."""

from typing import Protocol

from instar.account import STOPPED
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
)
from instar.message import (
    Assistant,
    MessageAbortedError,
    MessageError,
    Part,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolPart,
    ToolPending,
    ToolRunning,
    User,
)


class View(Protocol):
    """Shows a turn to somebody."""

    streams: bool
    """Whether parts are wanted as they grow; else a part is handed over once, whole, and never taken back."""

    def delta(self, part: Part, text: str) -> None:
        """Show what was added to a text or reasoning part."""
        ...

    def part(self, part: Part) -> None:
        """Show a part: each change of it when the view streams, else the whole one."""
        ...

    def retry(self, status: Retry) -> None:
        """Show that a model call will be tried again."""
        ...

    def note(self, text: str) -> None:
        """Show something else that happened."""
        ...

    def error(self, error: MessageError) -> None:
        """Show that the turn failed."""
        ...

    def limit(self, text: str) -> None:
        """Show that a limit stopped the turn."""
        ...

    def tick(self) -> None:
        """Show that time goes by; called once a second while nothing is asked of the person."""
        ...


class Follower:
    """Hands one session's events to a view. `limited` tells whether a limit stopped the turn.

    While a question stands at the terminal nothing is shown: it would be written over. It is shown afterwards.
    """

    def __init__(self, session_id: str, view: View) -> None:
        self.limited = False
        self._session_id = session_id
        self._view = view
        self._answers: set[str] = set()
        self._asked: list[str] = []
        self._questions: set[str] = set()
        self._held: list[Event] = []
        self._growing: dict[str, Part] = {}
        self._waiting: dict[str, Part] = {}
        self._limits: list[str] = []

    def tick(self) -> None:
        """Let the view show that time goes by, unless a question stands."""
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
        self._held.append(event)
        while self._held and not self._questions:
            self._show(self._held.pop(0))

    def _show(self, event: Event) -> None:
        if event.session_id not in (self._session_id, None):
            return
        match event.properties:
            case PartDelta(part_id=part_id, delta=text):
                self._grow(part_id, text)
            case PartUpdated(part=part):
                self._part(part)
            case PartRemoved(part_id=part_id):
                self._waiting.pop(part_id, None)
            case MessageUpdated(info=info):
                self._message(info)
            case SessionStatusChanged(status=Retry() as status):
                self._view.retry(status)
            case other:
                self._rest(other)

    def _rest(self, properties: object) -> None:
        match properties:
            case SessionError(error=MessageAbortedError(data=data)) if data.message.startswith(STOPPED):
                self._hand_over()
                self._limit(data.message)
            case SessionError(error=error) if error is not None:
                self._hand_over()
                self._view.error(error)
            case LimitReached(message=text, ends=ends):
                self.limited = self.limited or ends
                self._limit(text)
            case SessionCompacted():
                self._view.note("earlier messages were summarised")
            case HooksRan(event=name, messages=texts):
                for text in texts:
                    self._view.note(f"{name} hook: {text}")
            case SelfModified(call_id="", path=path, old=old, new=new):
                # What a call of the tool changed stands in the call's own line.
                self._view.note(f"self: {path} = {new!r} (was {old!r})")
            case PluginError(plugin=plugin, hook=hook, message=text):
                self._view.note(f"plugin {plugin} failed in {hook}: {text}")

    def _limit(self, text: str) -> None:
        """Show a limit once: the answer's error says it too, before the event or after it."""
        if not any(text.startswith(said) or said.startswith(text) for said in self._limits):
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
            self._waiting[part.id] = part
        if isinstance(part, ToolPart) and not isinstance(part.state, ToolPending):
            # Tools run once the model's answer is whole: nothing of it is taken back any more.
            self._hand_over()

    def _grow(self, part_id: str, text: str) -> None:
        part = self._growing.get(part_id)
        if part is not None:
            self._view.delta(part, text)

    def _hand_over(self) -> None:
        """Show the parts that are whole, in order. A failed attempt's were dropped before this."""
        waiting, self._waiting = self._waiting, {}
        for part in waiting.values():
            self._view.part(part)


def _is_whole(part: Part) -> bool:
    match part:
        case TextPart(time=time) | ReasoningPart(time=time):
            return time is not None and time.end is not None
        case ToolPart(state=state):
            return not isinstance(state, ToolPending | ToolRunning)
        case _:
            return isinstance(part, StepStartPart | StepFinishPart)
