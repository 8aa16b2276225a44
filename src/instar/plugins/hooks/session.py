"""What the plugin holds for each session, and the transcripts that ``transcript_path`` names.

A transcript is a session's messages as lines of JSON, in the shape that Claude Code's scripts read.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from instar.plugin import Client, message, wire
from instar.plugins.hooks.outcome import HookDecision
from instar.plugins.hooks.payload import views
from instar.plugins.hooks.rule import ToolUse

log = logging.getLogger("instar.hooks")


class AllowedCall(msgspec.Struct):
    """A tool call that was allowed: its arguments, the decision, and when it started."""

    tool: str
    args: Mapping[str, Any]
    decision: HookDecision
    since: float

    @property
    def duration(self) -> int:
        """Milliseconds since it started."""
        return round((time.monotonic() - self.since) * 1000)


class HookSession(msgspec.Struct):
    """One session. `agent_id` names a sub-agent's; `pending` are contexts for its next prompt.

    `ending` is why its turn must end, `refused` why it takes no prompt, "" for neither. `stops` counts how often in a
    row a rule let the turn go on; `expected` are prompts to come that no person wrote; `in_task`: a sub-agent at work.
    `deciding` is the decision about the newest call.
    """

    id: str
    agent_id: str
    agent: str = ""
    transcript: str = ""
    ending: str = ""
    refused: str = ""
    pending: list[str] = []
    stops: int = 0
    in_task: bool = False
    deciding: asyncio.Task[HookDecision] | None = None
    calls: dict[str, AllowedCall] = {}
    expected: list[str] = []

    def begin(self) -> None:
        """Forget what an aborted turn left behind."""
        self.ending = ""
        self.calls.clear()

    def end_by(self, decision: HookDecision) -> None:
        """End the turn before the next model call if a decision stops it."""
        if decision.stop:
            why = decision.stop_reason or decision.text or "A hook ended the turn."
            self.ending = self.ending or why

    def call(self, call_id: str, tool: str, args: Mapping[str, Any], decision: HookDecision) -> None:
        """Remember an allowed call."""
        self.calls[call_id] = AllowedCall(tool, args, decision, time.monotonic())

    def called(self, call_id: str, tool: str) -> AllowedCall | None:
        """Return the call that asks for a permission: itself, or one that its tool made, of which ids begin with it.

        Of several of the same tool the most severely judged one, since it cannot be told which of them asks.
        """
        found = [
            one
            for key, one in self.calls.items()
            if one.tool == tool and (key == call_id or key.startswith(f"{call_id}."))
        ]
        rank = {"ask": 0, "allow": 2}
        return min(found, key=lambda one: rank.get(one.decision.action, 1), default=None)

    def is_expected(self, texts: Iterable[str]) -> bool:
        """Return whether one of a prompt's texts was expected, and stop expecting it."""
        found = next((text for text in texts if text in self.expected), None)
        if found is not None:
            self.expected.remove(found)
        return found is not None


class Transcripts:
    """The transcripts of one instance. A failed write is logged."""

    def __init__(self, client: Client, directory: Path) -> None:
        self._client = client
        self._directory = directory
        self._folder: TemporaryDirectory[str] | None = None

    async def begin(self, session_id: str) -> str:
        """Write the messages of a session, and return the file's path, "" when it cannot be written."""
        try:
            if self._folder is None:
                self._folder = TemporaryDirectory(prefix="instar-transcripts-", ignore_cleanup_errors=True)
            path = Path(self._folder.name) / f"{session_id}.jsonl"
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
        head = {
            "sessionId": info.session_id,
            "uuid": info.id,
            "cwd": str(self._directory),
            "timestamp": datetime.fromtimestamp(info.time.created / 1000, UTC).isoformat(),
        }
        lines = [
            {"type": told["role"], **head, "message": told} for told in self._messages(info, list(parts))
        ]
        try:
            with Path(path).open("ab") as file:
                file.write(b"".join(wire.encode(line) + b"\n" for line in lines))
        except OSError as error:
            log.error("the transcript %s is not whole: %s", path, error)

    def close(self) -> None:
        """Remove all transcripts."""
        if self._folder is not None:
            self._folder.cleanup()

    def _messages(self, info: message.Message, parts: list[Any]) -> Iterable[wire.Plain]:
        if isinstance(info, message.User):
            text = "\n".join(part.text for part in parts if isinstance(part, message.TextPart))
            yield {"role": "user", "content": text}
            return
        content: list[wire.Plain] = []
        results: list[wire.Plain] = []
        for part in parts:
            if isinstance(part, message.TextPart):
                content.append({"type": "text", "text": part.text})
            if not isinstance(part, message.ToolPart):
                continue
            view = views(ToolUse(part.tool, part.state.input or {}), "claude", self._directory)[0]
            content.append({"type": "tool_use", "id": part.call_id, "name": view.name, "input": view.input})
            result = {"type": "tool_result", "tool_use_id": part.call_id}
            if isinstance(part.state, message.ToolCompleted):
                results.append({**result, "content": part.state.output})
            elif isinstance(part.state, message.ToolError):
                results.append({**result, "content": part.state.error, "is_error": True})
        yield {"role": "assistant", "model": info.model_id, "content": content}
        if results:
            yield {"role": "user", "content": results}
