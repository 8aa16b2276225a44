"""Sessions, prompts and messages as opencode's newer routes show them: made of what is stored, never stored."""

import mimetypes
from collections.abc import Sequence

import msgspec

from instar.api.v2_message import (
    AssistantContent,
    CompactionReason,
    LLMToolContent,
    Prompt,
    PromptAgentAttachment,
    PromptFileAttachment,
    PromptSource,
    RevertState,
    SessionErrorUnknown,
    SessionMessage,
    SessionMessageAssistant,
    SessionMessageAssistantReasoning,
    SessionMessageAssistantText,
    SessionMessageAssistantTool,
    SessionMessageCompaction,
    SessionMessageShell,
    SessionMessageSynthetic,
    SessionMessageToolState,
    SessionMessageToolStateCompleted,
    SessionMessageToolStateError,
    SessionMessageToolStatePending,
    SessionMessageToolStateRunning,
    SessionMessageUser,
    SnapshotSpan,
    SpokenTime,
    TokenCount,
    ToolFileContent,
    ToolProvider,
    ToolTextContent,
    ToolTime,
)
from instar.api.v2_session import KnownTimes, LocationRef, PromptInput, SessionV2Info
from instar.message import (
    AgentPart,
    Assistant,
    CompactionPart,
    FilePart,
    Part,
    PatchPart,
    ReasoningPart,
    Revert,
    Session,
    SessionModel,
    StepFinishPart,
    StepStartPart,
    SubtaskPart,
    TextPart,
    Tokens,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolState,
    User,
    WithParts,
    error_text,
    mark_of,
    text_of,
)
from instar.turn.shell import SAID
from instar.wire import Plain


def session_info(session: Session) -> SessionV2Info:
    """Return a session in the newer form."""
    time = session.time
    return SessionV2Info(
        id=session.id,
        parent_id=session.parent_id,
        project_id=session.project_id,
        agent=session.agent,
        model=session.model,
        cost=session.cost,
        tokens=token_count(session.tokens),
        time=KnownTimes(created=time.created, updated=time.updated, archived=time.archived),
        title=session.title,
        location=LocationRef(directory=session.directory, workspace_id=session.workspace_id),
        subpath=session.path or None,
        revert=None if session.revert is None else revert_state(session.revert),
    )


def revert_state(revert: Revert) -> RevertState:
    """Return where a session was taken back to in the newer form."""
    return RevertState(**msgspec.structs.asdict(revert))


def token_count(tokens: Tokens) -> TokenCount:
    """Return tokens without their total, which the newer form does not have."""
    return TokenCount(
        input=tokens.input, output=tokens.output, reasoning=tokens.reasoning, cache=tokens.cache
    )


def prompt_of(parts: Sequence[Part]) -> Prompt:
    """Return what a person said in a user message: what the runtime added and what is not sent is left out.

    A task for a sub-agent is told as its text.
    """
    said = [
        part.text for part in parts if isinstance(part, TextPart) and not part.synthetic and not part.ignored
    ]
    said += [part.prompt for part in parts if isinstance(part, SubtaskPart)]
    return Prompt(
        text="\n".join(said),
        files=[attachment(part) for part in parts if isinstance(part, FilePart)] or None,
        agents=[
            PromptAgentAttachment(name=part.name, source=_source(part.source))
            for part in parts
            if isinstance(part, AgentPart)
        ]
        or None,
    )


def attachment(part: FilePart) -> PromptFileAttachment:
    """Return an attached file in the newer form."""
    text = (part.source or {}).get("text")
    return PromptFileAttachment(
        uri=part.url,
        mime=part.mime,
        name=part.filename,
        source=_source(text if isinstance(text, dict) else None),
    )


def mime_of(uri: str, name: str | None) -> str:
    """Return a file's type by its URL or name: text where neither says it."""
    if uri.startswith("data:"):
        return uri[5:].partition(",")[0].partition(";")[0] or "text/plain"
    return mimetypes.guess_type(uri)[0] or mimetypes.guess_type(name or "")[0] or "text/plain"


def prompt_body(given: PromptInput) -> list[Plain]:
    """Return the parts of a prompt that came in the newer form."""
    files, agents = given.files or [], given.agents or []
    parts: list[Plain] = []
    if given.text or not (files or agents):
        parts.append({"type": "text", "text": given.text})
    for file in files:
        name = {} if file.name is None else {"filename": file.name}
        parts.append({"type": "file", "mime": mime_of(file.uri, file.name), "url": file.uri, **name})
    parts += [{"type": "agent", "name": agent.name} for agent in agents]
    return parts


def given_prompt(given: PromptInput) -> Prompt:
    """Return a prompt as it came, with the types of its files."""
    files = [
        PromptFileAttachment(
            uri=one.uri,
            mime=mime_of(one.uri, one.name),
            name=one.name,
            description=one.description,
            source=one.source,
        )
        for one in given.files or []
    ]
    return Prompt(text=given.text, files=files or None, agents=given.agents or None)


def _source(given: Plain | None) -> PromptSource | None:
    if given is None:
        return None
    start, end, text = given.get("start"), given.get("end"), given.get("value")
    if not isinstance(start, int | float) or not isinstance(end, int | float) or not isinstance(text, str):
        return None
    return PromptSource(start=start, end=end, text=text)


BY_PROVIDER = ToolProvider(executed=False)
"""No provider carries a tool out: all run here."""


def session_messages(history: Sequence[WithParts]) -> list[SessionMessage]:
    """Return a history in the newer form, in its order.

    A summary is one message, under the id of what asked for it; so is a person's own shell command, under that of
    its answer. A summary that failed or is still being written is left out.
    """
    summaries = {
        message.info.parent_id: message
        for message in history
        if isinstance(message.info, Assistant) and message.info.summary
    }
    commands = {message.info.id for message in history if is_command(message.parts)}
    return [
        made
        for message in history
        if (made := _user(message, summaries, commands) or _answer(message, summaries, commands)) is not None
    ]


def is_command(parts: Sequence[Part]) -> bool:
    """Whether a user message only says that a person ran a shell command."""
    return len(parts) == 1 and is_said(parts[0])


def is_said(part: Part) -> bool:
    """Whether a part is the text by which a person's own shell command is known."""
    return isinstance(part, TextPart) and bool(part.synthetic) and part.text == SAID


def reason_of(mark: CompactionPart) -> CompactionReason:
    """Return who wanted a summary."""
    return "auto" if mark.auto else "manual"


def model_of(answer: Assistant) -> SessionModel:
    """Return the model of an answer."""
    return SessionModel(id=answer.model_id, provider_id=answer.provider_id, variant=answer.variant)


def failure_of(answer: Assistant) -> SessionErrorUnknown | None:
    """Return why an answer failed; None if it did not."""
    return None if answer.error is None else SessionErrorUnknown(message=error_text(answer.error))


def content_of(state: ToolCompleted) -> list[LLMToolContent]:
    """Return what a tool answered, its files behind its text."""
    files = [
        ToolFileContent(uri=one.url, mime=one.mime, name=one.filename) for one in state.attachments or []
    ]
    return [ToolTextContent(text=state.output), *files]


def paths_of(state: ToolCompleted) -> list[str] | None:
    """Return where the whole of an answer lies that was cut; None if it was not."""
    path = state.metadata.get("outputPath")
    return [path] if isinstance(path, str) else None


def _user(message: WithParts, summaries: dict[str, WithParts], commands: set[str]) -> SessionMessage | None:
    info, parts = message.info, message.parts
    if not isinstance(info, User) or info.id in commands:
        return None
    if (mark := mark_of(message)) is not None:
        summary = summaries.get(info.id)
        whole = summary is not None and getattr(summary.info.time, "completed", None) is not None
        if summary is None or not whole or getattr(summary.info, "error", None) is not None:
            return None
        return SessionMessageCompaction(
            id=info.id, time=info.time, reason=reason_of(mark), summary=text_of(summary), recent=""
        )
    if parts and all(isinstance(part, TextPart) and part.synthetic for part in parts):
        return SessionMessageSynthetic(
            id=info.id, time=info.time, session_id=info.session_id, text=text_of(message)
        )
    prompt = prompt_of(parts)
    return SessionMessageUser(
        id=info.id, time=info.time, text=prompt.text, files=prompt.files, agents=prompt.agents
    )


def _answer(message: WithParts, summaries: dict[str, WithParts], commands: set[str]) -> SessionMessage | None:
    info = message.info
    if not isinstance(info, Assistant) or message is summaries.get(info.parent_id):
        return None
    if info.parent_id in commands:
        return _shell(info, message.parts)
    completed = info.time.completed
    return SessionMessageAssistant(
        id=info.id,
        time=SpokenTime(created=info.time.created, completed=completed),
        agent=info.agent,
        model=model_of(info),
        content=[made for part in message.parts if (made := _content(info, part)) is not None],
        snapshot=_snapshot(message.parts),
        finish="error" if info.error is not None and info.finish is None else info.finish,
        cost=None if completed is None else info.cost,
        tokens=None if completed is None else token_count(info.tokens),
        error=failure_of(info),
    )


def _shell(info: Assistant, parts: Sequence[Part]) -> SessionMessageShell | None:
    call = next((part for part in parts if isinstance(part, ToolPart)), None)
    if call is None:
        return None
    return SessionMessageShell(
        id=info.id,
        time=SpokenTime(created=info.time.created, completed=info.time.completed),
        call_id=call.call_id,
        command=str(call.state.input.get("command", "")),
        output=printed(call.state),
    )


def printed(state: ToolState) -> str:
    """Return what a shell command printed so far."""
    if isinstance(state, ToolCompleted):
        return state.output
    if isinstance(state, ToolError):
        return state.error
    return str((getattr(state, "metadata", None) or {}).get("output", ""))


def _content(info: Assistant, part: Part) -> AssistantContent | None:
    if isinstance(part, TextPart):
        return None if part.ignored else SessionMessageAssistantText(id=part.id, text=part.text)
    if isinstance(part, ReasoningPart):
        time = SpokenTime(created=part.time.start, completed=part.time.end)
        return SessionMessageAssistantReasoning(id=part.id, text=part.text, time=time)
    if isinstance(part, ToolPart):
        return SessionMessageAssistantTool(
            id=part.call_id,
            name=part.tool,
            provider=BY_PROVIDER,
            state=_state(part.state),
            time=_time(info, part.state),
        )
    return None


def _state(state: ToolState) -> SessionMessageToolState:
    if isinstance(state, ToolPending):
        return SessionMessageToolStatePending(input=state.raw)
    if isinstance(state, ToolRunning):
        return SessionMessageToolStateRunning(input=state.input, structured=state.metadata or {}, content=[])
    if isinstance(state, ToolError):
        error = SessionErrorUnknown(message=state.error)
        return SessionMessageToolStateError(
            input=state.input, content=[], structured=state.metadata or {}, error=error
        )
    return SessionMessageToolStateCompleted(
        input=state.input, content=content_of(state), output_paths=paths_of(state), structured=state.metadata
    )


def _time(info: Assistant, state: ToolState) -> ToolTime:
    """When a call was asked for is not kept: when its answer was begun, as long as it does not run."""
    if isinstance(state, ToolPending):
        return ToolTime(created=info.time.created)
    if isinstance(state, ToolRunning):
        return ToolTime(created=state.time.start, ran=state.time.start)
    span = state.time
    return ToolTime(created=span.start, ran=span.start, completed=span.end, pruned=span.compacted)


def _snapshot(parts: Sequence[Part]) -> SnapshotSpan | None:
    start = next((one.snapshot for one in parts if isinstance(one, StepStartPart)), None)
    end = next((one.snapshot for one in parts if isinstance(one, StepFinishPart)), None)
    files = [file for one in parts if isinstance(one, PatchPart) for file in one.files]
    return None if start is None else SnapshotSpan(start=start, end=end, files=files)
