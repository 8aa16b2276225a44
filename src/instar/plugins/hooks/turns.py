"""Prompts and turns on the hook points: SessionStart and End, UserPromptSubmit, Stop, sub-agents, compaction.

What a hook says of a prompt becomes synthetic parts of its message: saved with it, so its bytes stay and a provider's
cache goes on to serve them.

``transcript_path`` names a session's messages as lines of JSON, in the shape that Claude Code's scripts read.
"""

import logging
import shutil
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from instar.plugin import Client, PluginInput, message, points, wire
from instar.plugins.hooks.outcome import HookDecision
from instar.plugins.hooks.payload import views
from instar.plugins.hooks.rule import ToolUse
from instar.plugins.hooks.runner import Denied, Runner
from instar.plugins.hooks.sessions import HookSessions

log = logging.getLogger("instar.hooks")


class Transcripts:
    """The transcripts of one instance. A failed write is logged."""

    def __init__(self, client: Client, directory: Path) -> None:
        self._client = client
        self._directory = directory
        self._folder: Path | None = None

    async def begin(self, session_id: str) -> str:
        """Write the messages of a session, and return the file's path, "" when it cannot be written."""
        try:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="instar-transcripts-"))
            path = self._folder / f"{session_id}.jsonl"
            path.write_bytes(b"")
        except OSError as error:
            log.error("no transcripts are written: %s", error)
            return ""
        for one in await self._client.session.messages(session_id):
            self.add(str(path), one.info, one.parts)
        return str(path)

    def add(self, path: str, info: message.Message, parts: Iterable[Any]) -> None:
        """Append a complete message. The results of an answer's calls follow as a user message, as in Claude Code."""
        if not path:
            return
        lines = list(self._lines(info, list(parts)))
        try:
            with Path(path).open("ab") as file:
                file.write(b"".join(wire.encode(line) + b"\n" for line in lines))
        except OSError as error:
            log.error("the transcript %s is not whole: %s", path, error)

    def close(self) -> None:
        """Remove all transcripts."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _lines(self, info: message.Message, parts: list[Any]) -> Iterable[wire.Plain]:
        head = {
            "sessionId": info.session_id,
            "uuid": info.id,
            "cwd": str(self._directory),
            "timestamp": datetime.fromtimestamp(info.time.created / 1000, UTC).isoformat(),
        }
        if isinstance(info, message.User):
            text = "\n".join(part.text for part in parts if isinstance(part, message.TextPart))
            yield {"type": "user", **head, "message": {"role": "user", "content": text}}
            return
        content = [block for part in parts if (block := self._block(part)) is not None]
        said = {"role": "assistant", "model": info.model_id, "content": content}
        yield {"type": "assistant", **head, "message": said}
        results = [result for part in parts if (result := _result(part)) is not None]
        if results:
            yield {"type": "user", **head, "message": {"role": "user", "content": results}}

    def _block(self, part: Any) -> wire.Plain | None:
        if isinstance(part, message.TextPart):
            return {"type": "text", "text": part.text}
        if isinstance(part, message.ToolPart):
            view = views(ToolUse(part.tool, part.state.input or {}), "claude", self._directory)[0]
            return {"type": "tool_use", "id": part.call_id, "name": view.name, "input": view.input}
        return None


def _result(part: Any) -> wire.Plain | None:
    match part:
        case message.ToolPart(state=message.ToolCompleted() as state):
            return {"type": "tool_result", "tool_use_id": part.call_id, "content": state.output}
        case message.ToolPart(state=message.ToolError() as state):
            failed = {"content": state.error, "is_error": True}
            return {"type": "tool_result", "tool_use_id": part.call_id, **failed}
    return None


SOURCE: Final = "hooks"
"""The source of a Stop rule's follow-ups. The core accepts 8 in a row, and reports when it accepts no more."""

_STARTS: Final = {"new": "startup", "resume": "resume"}


class TurnHooks:
    """The callbacks for prompts, turns and sessions."""

    def __init__(self, given: PluginInput, runner: Runner, sessions: HookSessions) -> None:
        self._client = given.client
        self._runner = runner
        self._sessions = sessions
        self.transcripts = Transcripts(given.client, given.directory)

    async def started(self, given: points.SessionStartInput, output: points.Empty) -> None:
        """Run the SessionStart rules, except for sub-agents; the next prompt gets their context."""
        session = await self._sessions.of(given.session_id)
        if self._runner.armed.starts_programs:
            session.transcript = await self.transcripts.begin(given.session_id)
        if session.agent_id:
            return
        decision = await self._runner.fire("SessionStart", session, {"source": _STARTS[given.source]})
        session.pending += decision.blocks("SessionStart")
        if decision.stop:
            why = decision.stop_reason or decision.text
            session.refused = why or "A SessionStart hook ended the session."

    async def ended(self, given: points.SessionEndInput, output: points.Empty) -> None:
        """Run the SessionEnd rules, and forget the session."""
        session = await self._sessions.of(given.session_id)
        if not session.agent_id:
            await self._runner.fire("SessionEnd", session, {"reason": given.reason})
        self._sessions.forget(given.session_id)
        if given.reason == "deleted":
            self._runner.records.forget(given.session_id)

    async def prompted(self, given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        """Run the UserPromptSubmit rules. A refused prompt is not saved."""
        session = await self._sessions.of(given.session_id)
        session.begin()
        session.agent = output.message.agent
        if session.refused:
            raise Denied(session.refused)
        contexts: list[str] = []
        if not session.is_expected(_texts(output.parts)):
            session.stops = 0
            fields = {"prompt": _text(output.parts)}
            decision = await self._runner.gate(
                "UserPromptSubmit", session, fields, "A hook refused the prompt."
            )
            contexts = decision.blocks("UserPromptSubmit")
        contexts, session.pending = [*session.pending, *contexts], []
        output.parts += [{"type": "text", "text": one, "synthetic": True} for one in contexts]
        self.transcripts.add(session.transcript, output.message, output.parts)

    async def completed(self, given: points.CompletedInput, output: points.Empty) -> None:
        """Append a complete answer to the transcript."""
        session = await self._sessions.of(given.session_id)
        self.transcripts.add(session.transcript, given.message, given.parts)

    async def step(self, given: points.StepInput, output: points.StepOutput) -> None:
        """End the turn before the next model call, if a rule said so."""
        session = await self._sessions.of(given.session_id)
        session.agent = given.agent
        if session.ending:
            output.stop, session.ending = session.ending, ""

    async def stopped(self, given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        """Run the Stop rules, except in a sub-agent's task. A refusal continues the turn."""
        session = await self._sessions.of(given.session_id)
        session.agent = given.agent
        if session.in_task:
            return
        decision = await self._runner.fire("Stop", session, _end(given.parts, again=session.stops > 0))
        if decision.refuses and not decision.stop:
            session.stops += 1
            text = _again("Stop", decision)
            session.expect(text)
            prompt = {"parts": [{"type": "text", "text": text, "synthetic": True}]}
            output.follow_ups.append({"source": SOURCE, "prompt": prompt})

    async def subagent_started(
        self, given: points.SubagentStartInput, output: points.SubagentStartOutput
    ) -> None:
        """Run the SubagentStart rules. The sub-agent's task is expected: it is not a person's prompt."""
        session = await self._sessions.of(given.child_id)
        session.agent, session.agent_id, session.in_task = given.agent, given.child_id, True
        fields = {"agent_type": given.agent, "prompt": output.prompt, "description": given.description}
        decision = await self._runner.fire("SubagentStart", session, fields)
        output.context += decision.blocks("SubagentStart")
        session.expect(output.prompt)

    async def subagent_stopped(
        self, given: points.SubagentStopInput, output: points.SubagentStopOutput
    ) -> None:
        """Run the SubagentStop rules. A refusal lets the sub-agent continue."""
        session = await self._sessions.of(given.child_id)
        fields = {"agent_type": given.agent, **_end(given.parts, again=given.continued > 0)}
        decision = await self._runner.fire("SubagentStop", session, fields)
        if decision.refuses and not decision.stop:
            output.prompt = _again("SubagentStop", decision)
            session.expect(output.prompt)
        else:
            session.in_task = False

    async def compacting(self, given: points.CompactingInput, output: points.CompactingOutput) -> None:
        """Run the PreCompact rules. The summary's prompt gets their texts."""
        session = await self._sessions.of(given.session_id)
        trigger = "auto" if await self._is_automatic(given.session_id) else "manual"
        decision = await self._runner.fire(
            "PreCompact", session, {"trigger": trigger, "custom_instructions": ""}
        )
        output.context += [*decision.contexts, *(decision.reasons if decision.action == "deny" else ())]

    async def compacted(self, given: points.CompactedInput, output: points.Empty) -> None:
        """Run the PostCompact rules."""
        session = await self._sessions.of(given.session_id)
        fields = {"trigger": "auto" if given.auto else "manual", "compact_summary": _text(given.parts)}
        await self._runner.fire("PostCompact", session, fields)

    async def _is_automatic(self, session_id: str) -> bool:
        """Return whether the summary is automatic, as the last compaction part says."""
        messages = await self._client.session.messages(session_id)
        parts = (part for one in reversed(messages) for part in one.parts)
        return next((part.auto for part in parts if isinstance(part, message.CompactionPart)), False)


def _end(parts: Iterable[Any], *, again: bool) -> dict[str, Any]:
    return {"stop_hook_active": again, "last_assistant_message": _text(parts)}


def _again(name: str, decision: HookDecision) -> str:
    text = "\n".join([*decision.reasons, *decision.contexts])
    return f"A {name} hook does not let you end here:\n\n{text}"


def _text(parts: Iterable[Any]) -> str:
    """Return the texts that are not synthetic; if all are, the synthetic ones."""
    texts = [part for part in parts if isinstance(part, message.TextPart)]
    own = [part for part in texts if not part.synthetic]
    return "\n".join(_texts(own or texts))


def _texts(parts: Iterable[Any]) -> list[str]:
    return [part.text for part in parts if isinstance(part, message.TextPart)]
