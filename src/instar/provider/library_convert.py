"""Our messages as pydantic-ai's. `words` is its module of messages, which its caller has imported.

What the library wants back with a part (a signature, Gemini's thought signature of a tool call) is kept in
the part's metadata under `METADATA`, and goes back to the model that gave it.
"""

import base64
import binascii
from typing import Any, Final

from instar.message import (
    Assistant,
    CompactionPart,
    FilePart,
    Part,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolPart,
    WithParts,
)
from instar.provider import convert
from instar.provider.protocol import Request
from instar.wire import Plain

METADATA: Final = "pydanticAI"
_KEYS: Final = ("id", "signature", "provider_name", "provider_details")


def history(words: Any, request: Request) -> list[Any]:
    """Return the conversation as the library's messages, the system prompt at the head of the first."""
    found: list[Any] = []
    for message in request.messages:
        found += _messages(words, message, request)
    system = [words.SystemPromptPart(content=text) for text in request.system if text.strip()]
    if system and found and isinstance(found[0], words.ModelRequest):
        found[0] = words.ModelRequest(parts=[*system, *found[0].parts])
    elif system:
        found.insert(0, words.ModelRequest(parts=system))
    return found


def metadata_of(part: Any) -> Plain | None:
    """Return what must go back with a part of the library, as a part's metadata; None when nothing must."""
    given = {key: getattr(part, key, None) for key in _KEYS}
    if not (given["signature"] or given["provider_details"] or given["id"]):
        return None
    return {METADATA: {key: value for key, value in given.items() if value is not None}}


def _messages(words: Any, message: WithParts, request: Request) -> list[Any]:
    if not isinstance(message.info, Assistant):
        content = _user(words, message.parts, request.model.attachment)
        return [words.ModelRequest(parts=[words.UserPromptPart(content=content)])] if content else []
    if convert.failed_empty(message):
        return []
    same = request.model.ref == f"{message.info.provider_id}/{message.info.model_id}"
    found: list[Any] = []
    for step in convert.cut_steps(message.parts):
        said = [answer for part in step if (answer := _said(words, part, same)) is not None]
        calls = [part for part in step if isinstance(part, ToolPart)]
        if not any(piece.part_kind != "thinking" for piece in said):
            continue
        found.append(words.ModelResponse(parts=said))
        if calls:
            found.append(words.ModelRequest(parts=_results(words, calls, request.model.attachment)))
    return found


def _said(words: Any, part: Part, same: bool) -> Any:
    if isinstance(part, TextPart):
        return words.TextPart(content=part.text) if convert.is_sent(part) else None
    if isinstance(part, ToolPart):
        return words.ToolCallPart(
            tool_name=part.tool, args=part.state.input, tool_call_id=part.call_id, **_given(part, same)
        )
    if isinstance(part, ReasoningPart) and same:
        return words.ThinkingPart(content=part.text, **_given(part, same))
    return None


def _given(part: ReasoningPart | ToolPart, same: bool) -> Plain:
    given = (part.metadata or {}).get(METADATA) if same else None
    if not isinstance(given, dict):
        return {}
    wanted = _KEYS if isinstance(part, ReasoningPart) else ("id", "provider_name", "provider_details")
    return {key: given[key] for key in wanted if key in given}


def _results(words: Any, calls: list[ToolPart], attachment: bool) -> list[Any]:
    """The calls' results; their files follow as a message of a person's, which every model takes."""
    found = [
        words.ToolReturnPart(
            tool_name=part.tool, content=convert.result_text(part), tool_call_id=part.call_id
        )
        for part in calls
    ]
    files = [
        _file(words, file, attachment)
        for part in calls
        if isinstance(part.state, ToolCompleted) and not part.state.time.compacted
        for file in part.state.attachments or ()
    ]
    if files:
        found.append(words.UserPromptPart(content=[convert.RETURNED, *files]))
    return found


def _user(words: Any, parts: list[Part], attachment: bool) -> list[Any]:
    read = any(isinstance(part, TextPart) and part.synthetic for part in parts)
    content: list[Any] = []
    for part in parts:
        if isinstance(part, TextPart) and convert.is_sent(part):
            content.append(part.text)
        elif isinstance(part, FilePart) and not (read and convert.is_read_from_disk(part)):
            content.append(_file(words, part, attachment))
        elif isinstance(part, CompactionPart):
            content.append(convert.SUMMARISED)
        elif isinstance(part, SubtaskPart):
            content.append(part.prompt)
    return content


def _file(words: Any, part: FilePart, attachment: bool) -> Any:
    """An image or a PDF by its bytes; else words. An address is never fetched: the library would do so here."""
    mime = part.mime.partition(";")[0].lower()
    head, _, payload = part.url.partition(",")
    shown = mime.startswith("image/") or mime == "application/pdf"
    if attachment and shown and part.url.startswith("data:") and head.endswith(";base64"):
        try:
            return words.BinaryContent(data=base64.b64decode(payload, validate=True), media_type=mime)
        except (binascii.Error, ValueError):
            return f"[Attached file {part.filename or 'file'} ({mime}): its data: url is damaged]"
    return convert.file_piece(part, attachment=False)["text"]
