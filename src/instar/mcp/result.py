"""What a server answered, as a tool's result: text for the model, media as attachments."""

import json
from collections.abc import Sequence
from typing import Any, Final, Protocol

from instar import ids
from instar.message import FilePart
from instar.plugin import ToolFailure, ToolResult
from instar.wire import Plain

LARGEST_MEDIA: Final = 5 * 1024 * 1024
"""Bytes of base64 of one attachment; larger ones are named, not kept."""


class Place(Protocol):
    """What an attachment belongs to: a message of a session."""

    @property
    def session_id(self) -> str:
        """The session's id."""
        ...

    @property
    def message_id(self) -> str:
        """The message's id."""
        ...


def tool_result(name: str, answer: Any, context: Place) -> ToolResult:
    """Return the result in a server's answer to ``tools/call``.

    Raises `ToolFailure` when the server says that the call failed, or when the answer is none.
    """
    content = answer.get("content") if isinstance(answer, dict) else None
    structured = answer.get("structuredContent") if isinstance(answer, dict) else None
    if not isinstance(content, list) and structured is None:
        raise ToolFailure(f"{name} answered with what is no result of a tool: {_short(answer)}")
    texts, files = _read(content or [], context)
    if not texts and not files and structured is not None:
        texts = [json.dumps(structured, ensure_ascii=False)]
    if answer.get("isError"):
        raise ToolFailure("\n\n".join(texts) or f"{name} failed and did not say why.")
    return ToolResult(output="\n\n".join(texts), attachments=files)


def resource_result(answer: Any, context: Place) -> ToolResult:
    """Return the result in a server's answer to ``resources/read``. Raises `ToolFailure` when it is none."""
    contents = answer.get("contents") if isinstance(answer, dict) else None
    if not isinstance(contents, list):
        raise ToolFailure(f"The server answered with what is no resource: {_short(answer)}")
    blocks = [{"type": "resource", "resource": entry} for entry in contents]
    texts, files = _read(blocks, context)
    return ToolResult(output="\n\n".join(texts), attachments=files)


def prompt_text(messages: Sequence[Any]) -> str:
    """Return the texts of a prompt's messages, one after the other; what is no text is left out."""
    contents = [message.get("content") for message in messages if isinstance(message, dict)]
    return "\n".join(
        str(content.get("text", ""))
        for content in contents
        if isinstance(content, dict) and content.get("type") == "text"
    )


def _read(blocks: list[Any], context: Place) -> tuple[list[str], list[FilePart]]:
    texts: list[str] = []
    files: list[FilePart] = []
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text":
            texts.append(str(block.get("text", "")))
        elif kind in ("image", "audio"):
            _attach(block, block.get("data"), texts, files, context)
        elif kind == "resource":
            _resource(block.get("resource"), texts, files, context)
        elif kind == "resource_link":
            texts.append(f"Resource: {block.get('uri')} {block.get('description') or ''}".strip())
        else:
            texts.append(f"(The server sent something of an unknown kind: {_short(block)})")
    return texts, files


def _resource(resource: Any, texts: list[str], files: list[FilePart], context: Place) -> None:
    if not isinstance(resource, dict):
        texts.append(f"(The server sent a resource that is none: {_short(resource)})")
    elif isinstance(resource.get("text"), str):
        texts.append(resource["text"])
    else:
        _attach(resource, resource.get("blob"), texts, files, context)


def _attach(block: Plain, data: Any, texts: list[str], files: list[FilePart], context: Place) -> None:
    mime = str(block.get("mimeType") or "application/octet-stream")
    if not isinstance(data, str):
        texts.append(f"(The server sent {mime} without its data.)")
    elif len(data) > LARGEST_MEDIA:
        texts.append(f"(The server sent {mime} of {len(data)} bytes: too large, it was left out.)")
    else:
        uri = block.get("uri")
        files.append(
            FilePart(
                id=ids.new("prt"),
                session_id=context.session_id,
                message_id=context.message_id,
                mime=mime,
                filename=str(uri) if uri else None,
                url=f"data:{mime};base64,{data}",
            )
        )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else f"{text[:200]}…"
