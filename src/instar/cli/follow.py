"""From a session's events to what a view shows: which parts are an answer's, and when they are whole."""

import asyncio
import os
import sys
import time

from instar.cli.output import JsonView, PlainView, TurnView, retry_text
from instar.cli.person import INTERRUPTED
from instar.event import (
    Event,
    EvolveInstalled,
    EvolveRefused,
    EvolveRolledback,
    HooksRan,
    HookWaiting,
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
    SessionCreated,
    SessionError,
    SessionStatusChanged,
    TuiToastShow,
)
from instar.message import (
    Assistant,
    MessageAbortedError,
    Part,
    ReasoningPart,
    Session,
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
    """Tell the follower that time goes by, as often as its view wants, until cancelled. Raises what printing met."""
    while True:
        sys.stdout.flush()
        follower.tick()
        await asyncio.sleep(follower.view.interval)


def view_of(format: str, *, plain: bool, thinking: bool) -> TurnView:
    """Return what shows the turn: lines of JSON, plain text, or a terminal's."""
    if format == "json":
        return JsonView(thinking=thinking)
    if plain or (sys.stdout.isatty() and os.environ.get("TERM") in ("dumb", "")):
        return PlainView()
    if not sys.stdout.isatty():
        return TurnView()
    # Start-up time: rich costs 50 ms and only a terminal needs it.
    from instar.cli.terminal import TerminalView

    return TerminalView(thinking=thinking)


class Follower:
    """Hands one session's events to a view.

    While a question stands at the terminal nothing is shown: it would be written over. It is shown afterwards.
    """

    pending = "instar evolve pending"
    """How a person sees the changes that wait for them."""

    def __init__(self, session_id: str, view: TurnView) -> None:
        self._limited = False
        self._session_id = session_id
        self.view = view
        view.begin(session_id)
        self.depths = {session_id: 0}
        """By its id the session, and those of its sub-agents, with how many sessions stand above each."""
        self._asked_at: dict[str, tuple[str, float]] = {}
        self._answers: set[str] = set()
        self._asked: list[str] = []
        self._held_back: list[Event] = []
        self._growing: dict[str, Part] = {}
        self._whole: dict[str, Part] = {}
        self._limits: list[str] = []
        self._said: set[str] = set()

    def exit_code(self, answer: WithParts, *, interrupted: bool) -> int:
        """Return 0 for an answer, 1 for an error or a limit, `INTERRUPTED` when a person ended the turn."""
        error = answer.info.error if isinstance(answer.info, Assistant) else None
        if interrupted and (error is None or isinstance(error, MessageAbortedError)):
            return INTERRUPTED
        return int(error is not None or not isinstance(answer.info, Assistant) or self._limited)

    def say(self, *texts: str) -> None:
        """Show what was not shown before."""
        for text in texts:
            if text not in self._said:
                self._said.add(text)
                self.view.note(text)

    def tick(self) -> None:
        """Let the view show the time, unless a question is open."""
        if not self._asked_at:
            self.view.tick()

    def take(self, event: Event) -> None:
        """Show an event, if it is of the session and means something to a person."""
        self.relate(event)
        match event.properties:
            case PermissionAsked(id=asked, tool=call) | QuestionAsked(id=asked, tool=call):
                self._asked_at[asked] = (call.call_id if call else "", time.monotonic())
                self.view.pause()
            case (
                PermissionReplied(request_id=asked)
                | QuestionReplied(request_id=asked)
                | QuestionRejected(request_id=asked)
            ) if asked in self._asked_at:
                call_id, since = self._asked_at.pop(asked)
                self.view.answered(call_id, time.monotonic() - since)
                if not self._asked_at:
                    self.view.resume()
        self._held_back.append(event)
        while self._held_back and not self._asked_at:
            self._show(self._held_back.pop(0))

    def relate(self, event: Event) -> None:
        """Learn from an event which sessions are its sub-agents', and how deep."""
        match event.properties:
            case SessionCreated(info=Session(id=session_id, parent_id=str(parent))) if parent in self.depths:
                self.depths[session_id] = self.depths[parent] + 1

    def _show(self, event: Event) -> None:
        if isinstance(event.properties, HookWaiting):
            if event.session_id in (*self.depths, None):
                self.view.hook(event.properties)
        elif event.session_id not in (self._session_id, None):
            self._child(event.properties)
            return
        match event.properties:
            case PartDelta(part_id=part_id, delta=text):
                if part_id in self._growing:
                    self.view.delta(self._growing[part_id], text)
            case PartUpdated(part=part):
                self._part(part)
            case PartRemoved(part_id=part_id):
                self._whole.pop(part_id, None)
            case MessageUpdated(info=info):
                self._message(info)
            case SessionStatusChanged(status=Retry() as status):
                self.view.note(retry_text(status), "yellow")
            case other:
                self._report(other)
                self._changed(other)

    def _child(self, properties: object) -> None:
        """Show the finished calls of sub-agents."""
        match properties:
            case PartUpdated(part=ToolPart(session_id=session_id) as part) if session_id in self.depths:
                if _is_whole(part):
                    self.view.child(part, self.depths[session_id])

    def _report(self, properties: object) -> None:
        match properties:
            case SessionError(error=MessageAbortedError(data=data)) if data.message.startswith(STOPPED):
                self._hand_over()
                self._limit(data.message)
            case SessionError(error=error) if error is not None:
                self._hand_over()
                self.view.error(error)
            case LimitReached(message=text, ends=ends):
                self._limited = self._limited or ends
                self._limit(text)
            case SessionCompacted():
                self.view.note("earlier messages were summarised")
            case HooksRan() as ran:
                self._ran(ran)
            case TuiToastShow(message=text):
                self.view.note(text.removeprefix("instar: "), "yellow")
            case PluginError(plugin=plugin, hook=hook, message=text):
                self.view.note(f"plugin {plugin} failed in {hook}: {text}")

    def _changed(self, properties: object) -> None:
        """Show what instar changed of itself, but for what a call's own lines say."""
        match properties:
            case SelfModified(call_id="", path=path, old=old, new=new):
                self.view.evolved(f"self: {path} = {new!r} (was {old!r})")
            case EvolveInstalled(files=files, session_id=None):
                self.view.evolved(f"evolved {', '.join(files)}")
            case EvolveRefused(file=file, stage="authority"):
                self.view.evolved(f"{file} waits for you: {self.pending}")
            case EvolveRefused(file=file, stage=stage):
                # The call's own line says why.
                self.view.evolved(f"refused {file} at the stage {stage}")
            case EvolveRolledback(files=files, message=text):
                self.view.evolved(f"took back a change of {', '.join(files)}: {text}")

    def _ran(self, ran: HooksRan) -> None:
        for text in ran.messages:
            self.view.note(f"{ran.event} hook: {text}")
        if ran.undecided and ran.action != "deny":
            why = f"could not decide, and stands in nobody's way: {ran.error}"
            self.say(f"{ran.event} hook {ran.rule} {why}")

    def _limit(self, text: str) -> None:
        """Show a limit once: the answer's error says it too, before the event or after it."""
        if not any(text.startswith(shown) or shown.startswith(text) for shown in self._limits):
            self.view.limit(text)
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
            self.view.note(f"going on: {part.text}")
        if part.message_id not in self._answers:
            return
        if self.view.streams:
            self._growing[part.id] = part
            self.view.part(part)
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
            self.view.part(part)


def _is_whole(part: Part) -> bool:
    match part:
        case TextPart(time=span) | ReasoningPart(time=span):
            return span is not None and span.end is not None
        case ToolPart(state=state):
            return not isinstance(state, ToolPending | ToolRunning)
        case _:
            return isinstance(part, StepStartPart | StepFinishPart)
