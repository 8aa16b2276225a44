"""What was kept of a session as opencode's newer routes tell it: its durable events, in the order of their numbers.

Named as in opencode 1.18's document. Of its types these are the ones that instar has an occasion for.
"""

from instar import ids
from instar.api.session_message import (
    CompactionReason,
    Delivery,
    Durable,
    LLMToolContent,
    Prompt,
    RevertState,
    SessionErrorUnknown,
    TokenCount,
    ToolProvider,
)
from instar.message import SessionModel
from instar.wire import Plain, Wire


class DurableEvent(Wire, tag_field="type"):
    """What every event has: its id, and its place."""

    id: str
    durable: Durable | None = None


class SessionEventData(Wire):
    """What every event tells: when it happened (ms) and in which session."""

    timestamp: float
    session_id: ids.SessionID


class PromptedData(SessionEventData):
    """What `SessionNextPrompted` tells."""

    message_id: ids.MessageID
    prompt: Prompt
    delivery: Delivery


class SessionNextPrompted(DurableEvent, tag="session.next.prompted"):
    """A person's prompt was taken into the conversation."""

    data: PromptedData


class SyntheticData(SessionEventData):
    """What `SessionNextSynthetic` tells."""

    message_id: ids.MessageID
    text: str


class SessionNextSynthetic(DurableEvent, tag="session.next.synthetic"):
    """The runtime said something in a person's place."""

    data: SyntheticData


class ShellStartedData(SessionEventData):
    """What `SessionNextShellStarted` tells."""

    message_id: ids.MessageID
    call_id: str
    command: str


class SessionNextShellStarted(DurableEvent, tag="session.next.shell.started"):
    """A person's own shell command runs."""

    data: ShellStartedData


class ShellEndedData(SessionEventData):
    """What `SessionNextShellEnded` tells."""

    call_id: str
    output: str


class SessionNextShellEnded(DurableEvent, tag="session.next.shell.ended"):
    """A person's own shell command ended."""

    data: ShellEndedData


class StepStartedData(SessionEventData):
    """What `SessionNextStepStarted` tells."""

    assistant_message_id: ids.MessageID
    agent: str
    model: SessionModel
    snapshot: str | None = None


class SessionNextStepStarted(DurableEvent, tag="session.next.step.started"):
    """A model is asked."""

    data: StepStartedData


class StepEndedData(SessionEventData):
    """What `SessionNextStepEnded` tells."""

    assistant_message_id: ids.MessageID
    finish: str
    cost: float
    tokens: TokenCount


class SessionNextStepEnded(DurableEvent, tag="session.next.step.ended"):
    """An answer is whole."""

    data: StepEndedData


class StepFailedData(SessionEventData):
    """What `SessionNextStepFailed` tells."""

    assistant_message_id: ids.MessageID
    error: SessionErrorUnknown


class SessionNextStepFailed(DurableEvent, tag="session.next.step.failed"):
    """An answer failed, or was ended."""

    data: StepFailedData


class TextStartedData(SessionEventData):
    """What `SessionNextTextStarted` tells."""

    assistant_message_id: ids.MessageID
    text_id: str


class SessionNextTextStarted(DurableEvent, tag="session.next.text.started"):
    """The model began to write."""

    data: TextStartedData


class TextEndedData(SessionEventData):
    """What `SessionNextTextEnded` tells."""

    assistant_message_id: ids.MessageID
    text_id: str
    text: str


class SessionNextTextEnded(DurableEvent, tag="session.next.text.ended"):
    """A text of the model is whole."""

    data: TextEndedData


class ReasoningStartedData(SessionEventData):
    """What `SessionNextReasoningStarted` tells."""

    assistant_message_id: ids.MessageID
    reasoning_id: str


class SessionNextReasoningStarted(DurableEvent, tag="session.next.reasoning.started"):
    """The model began to think."""

    data: ReasoningStartedData


class ReasoningEndedData(SessionEventData):
    """What `SessionNextReasoningEnded` tells."""

    assistant_message_id: ids.MessageID
    reasoning_id: str
    text: str


class SessionNextReasoningEnded(DurableEvent, tag="session.next.reasoning.ended"):
    """A thought of the model is whole."""

    data: ReasoningEndedData


class ToolInputStartedData(SessionEventData):
    """What `SessionNextToolInputStarted` tells."""

    assistant_message_id: ids.MessageID
    call_id: str
    name: str


class SessionNextToolInputStarted(DurableEvent, tag="session.next.tool.input.started"):
    """The model began to ask for a tool."""

    data: ToolInputStartedData


class ToolCalledData(SessionEventData):
    """What `SessionNextToolCalled` tells."""

    assistant_message_id: ids.MessageID
    call_id: str
    tool: str
    input: Plain
    provider: ToolProvider


class SessionNextToolCalled(DurableEvent, tag="session.next.tool.called"):
    """A tool runs."""

    data: ToolCalledData


class ToolProgressData(SessionEventData):
    """What `SessionNextToolProgress` tells."""

    assistant_message_id: ids.MessageID
    call_id: str
    structured: Plain
    content: list[LLMToolContent]


class SessionNextToolProgress(DurableEvent, tag="session.next.tool.progress"):
    """A tool that runs shows more."""

    data: ToolProgressData


class ToolSuccessData(SessionEventData):
    """What `SessionNextToolSuccess` tells."""

    assistant_message_id: ids.MessageID
    call_id: str
    structured: Plain
    content: list[LLMToolContent]
    output_paths: list[str] | None = None
    provider: ToolProvider


class SessionNextToolSuccess(DurableEvent, tag="session.next.tool.success"):
    """A tool answered."""

    data: ToolSuccessData


class ToolFailedData(SessionEventData):
    """What `SessionNextToolFailed` tells."""

    assistant_message_id: ids.MessageID
    call_id: str
    error: SessionErrorUnknown
    provider: ToolProvider


class SessionNextToolFailed(DurableEvent, tag="session.next.tool.failed"):
    """A call failed or was refused."""

    data: ToolFailedData


class CompactionStartedData(SessionEventData):
    """What `SessionNextCompactionStarted` tells."""

    message_id: ids.MessageID
    reason: CompactionReason


class SessionNextCompactionStarted(DurableEvent, tag="session.next.compaction.started"):
    """The conversation is being summarised."""

    data: CompactionStartedData


class CompactionEndedData(SessionEventData):
    """What `SessionNextCompactionEnded` tells."""

    message_id: ids.MessageID
    reason: CompactionReason
    text: str
    recent: str


class SessionNextCompactionEnded(DurableEvent, tag="session.next.compaction.ended"):
    """The conversation was summarised."""

    data: CompactionEndedData


class RevertStagedData(SessionEventData):
    """What `SessionNextRevertStaged` tells."""

    revert: RevertState


class SessionNextRevertStaged(DurableEvent, tag="session.next.revert.staged"):
    """A session was taken back."""

    data: RevertStagedData


class SessionNextRevertCleared(DurableEvent, tag="session.next.revert.cleared"):
    """A session was taken forth again."""

    data: SessionEventData


class RevertCommittedData(SessionEventData):
    """What `SessionNextRevertCommitted` tells."""

    message_id: ids.MessageID


class SessionNextRevertCommitted(DurableEvent, tag="session.next.revert.committed"):
    """What a session was taken back from was dropped."""

    data: RevertCommittedData


SessionDurableEvent = (
    SessionNextPrompted
    | SessionNextSynthetic
    | SessionNextShellStarted
    | SessionNextShellEnded
    | SessionNextStepStarted
    | SessionNextStepEnded
    | SessionNextStepFailed
    | SessionNextTextStarted
    | SessionNextTextEnded
    | SessionNextReasoningStarted
    | SessionNextReasoningEnded
    | SessionNextToolInputStarted
    | SessionNextToolCalled
    | SessionNextToolProgress
    | SessionNextToolSuccess
    | SessionNextToolFailed
    | SessionNextCompactionStarted
    | SessionNextCompactionEnded
    | SessionNextRevertStaged
    | SessionNextRevertCleared
    | SessionNextRevertCommitted
)
