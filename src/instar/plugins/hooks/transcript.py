"""``transcript_path``: a session's messages as lines of JSON, in the shape that Claude Code's scripts read.

A file for each session, in a folder of this process that only the person can read and that goes with it. It grows with
the session, so no rule waits until a history is written down; one that goes on is written down once, at its start.
"""

import logging
import shutil
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from instar.plugin import Client, message, wire
from instar.plugins.hooks.event import ToolUse
from instar.plugins.hooks.names import views

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
    if not isinstance(part, message.ToolPart):
        return None
    if isinstance(part.state, message.ToolCompleted):
        return {"type": "tool_result", "tool_use_id": part.call_id, "content": part.state.output}
    if isinstance(part.state, message.ToolError):
        failed = {"content": part.state.error, "is_error": True}
        return {"type": "tool_result", "tool_use_id": part.call_id, **failed}
    return None
