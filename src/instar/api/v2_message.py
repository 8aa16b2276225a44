"""A conversation as opencode's newer routes show it: one message for each thing that happened.

Named as in opencode 1.18's document. Times are milliseconds since the epoch.
"""

from typing import Literal

import msgspec

from instar.message import CacheTokens, Created, Revert, SessionModel
from instar.wire import Plain, Wire, ids


class PromptSource(Wire):
    """Where in a prompt's text something is named: characters from `start` to before `end`."""

    start: float
    end: float
    text: str


class PromptFileAttachment(Wire):
    """A file of a prompt, or of a tool's answer."""

    uri: str
    mime: str
    name: str | None = None
    description: str | None = None
    source: PromptSource | None = None


class PromptAgentAttachment(Wire):
    """An agent that a prompt names."""

    name: str
    source: PromptSource | None = None


class Prompt(Wire):
    """What a person said."""

    text: str
    files: list[PromptFileAttachment] | None = None
    agents: list[PromptAgentAttachment] | None = None


class TokenCount(Wire):
    """Tokens of a model call: `input` excludes cached ones, `output` excludes `reasoning`."""

    input: int
    output: int
    reasoning: int
    cache: CacheTokens


class SessionErrorUnknown(Wire):
    """What went wrong, as a sentence."""

    type: Literal["unknown"] = msgspec.field(default_factory=lambda: "unknown")
    message: str


class SpokenTime(Wire):
    """When something was begun and, once it is whole, completed."""

    created: float
    completed: float | None = None


class SessionMessageAssistantText(Wire, tag_field="type", tag="text"):
    """Text of the model."""

    id: str
    text: str


class SessionMessageAssistantReasoning(Wire, tag_field="type", tag="reasoning"):
    """The model's thinking."""

    id: str
    text: str
    time: SpokenTime | None = None


class ToolTextContent(Wire, tag_field="type", tag="text"):
    """Text that a tool answered."""

    text: str


class ToolFileContent(Wire, tag_field="type", tag="file"):
    """A file that a tool answered."""

    uri: str
    mime: str
    name: str | None = None


LLMToolContent = ToolTextContent | ToolFileContent


class SessionMessageToolStatePending(Wire, tag_field="status", tag="pending"):
    """The model has begun to ask; `input` is the text of the arguments so far."""

    input: str


class SessionMessageToolStateRunning(Wire, tag_field="status", tag="running"):
    """The tool runs; `structured` is what people are shown of it."""

    input: Plain
    structured: Plain
    content: list[LLMToolContent]


class SessionMessageToolStateCompleted(Wire, tag_field="status", tag="completed"):
    """The tool answered `content`."""

    input: Plain
    content: list[LLMToolContent]
    output_paths: list[str] | None = None
    structured: Plain


class SessionMessageToolStateError(Wire, tag_field="status", tag="error"):
    """The call failed or was refused."""

    input: Plain
    content: list[LLMToolContent]
    structured: Plain
    error: SessionErrorUnknown


SessionMessageToolState = (
    SessionMessageToolStatePending
    | SessionMessageToolStateRunning
    | SessionMessageToolStateCompleted
    | SessionMessageToolStateError
)


class ToolProvider(Wire):
    """Whether the provider itself carried a call out."""

    executed: bool


class ToolTime(Wire):
    """When a call was asked for, ran, ended, and (perhaps) when its output was cleared from the model's view."""

    created: float
    ran: float | None = None
    completed: float | None = None
    pruned: float | None = None


class SessionMessageAssistantTool(Wire, tag_field="type", tag="tool"):
    """A tool call; `id` is that of the call."""

    id: str
    name: str
    provider: ToolProvider | None = None
    state: SessionMessageToolState
    time: ToolTime


AssistantContent = (
    SessionMessageAssistantText | SessionMessageAssistantReasoning | SessionMessageAssistantTool
)


class SnapshotSpan(Wire):
    """The files' states around a model call, and which of them it changed."""

    start: str | None = None
    end: str | None = None
    files: list[str] | None = None


class SessionMessageUser(Wire, tag_field="type", tag="user"):
    """What a person said."""

    id: ids.MessageID
    time: Created
    text: str
    files: list[PromptFileAttachment] | None = None
    agents: list[PromptAgentAttachment] | None = None


class SessionMessageSynthetic(Wire, tag_field="type", tag="synthetic"):
    """What the runtime said in a person's place."""

    id: ids.MessageID
    time: Created
    session_id: ids.SessionID
    text: str


class SessionMessageShell(Wire, tag_field="type", tag="shell"):
    """A person's own shell command and what it printed."""

    id: ids.MessageID
    time: SpokenTime
    call_id: str
    command: str
    output: str


class SessionMessageAssistant(Wire, tag_field="type", tag="assistant"):
    """A model call's answer."""

    id: ids.MessageID
    time: SpokenTime
    agent: str
    model: SessionModel
    content: list[AssistantContent]
    snapshot: SnapshotSpan | None = None
    finish: str | None = None
    cost: float | None = None
    tokens: TokenCount | None = None
    error: SessionErrorUnknown | None = None


CompactionReason = Literal["auto", "manual"]
Delivery = Literal["steer", "queue"]
"""Whether a prompt is said into the turn that runs, or waits for its end."""


class Durable(Wire):
    """The place of an event in its session."""

    aggregate_id: str
    seq: int
    version: int


class RevertState(Revert):
    """Where a session was taken back to."""


class SessionMessageCompaction(Wire, tag_field="type", tag="compaction"):
    """What went before was summarised; `recent` is what was kept beside the summary."""

    id: ids.MessageID
    time: Created
    reason: CompactionReason
    summary: str
    recent: str


SessionMessage = (
    SessionMessageUser
    | SessionMessageSynthetic
    | SessionMessageShell
    | SessionMessageAssistant
    | SessionMessageCompaction
)
"""opencode's document has messages for switches of agent and model, and system messages, too: here none are made."""


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
    """A session was reverted."""

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
