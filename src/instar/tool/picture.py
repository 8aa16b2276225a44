"""Images for the `read` tool: attached to the answer, for the model to look at."""

import asyncio
import base64
from pathlib import Path
from typing import Final

from instar import ids
from instar.message import FilePart
from instar.plugin.tool import ToolContext, ToolFailure, ToolResult
from instar.tool import place, textfile

LARGEST: Final = 5 << 20
"""Bytes of an image that is attached: providers refuse larger ones."""

_KINDS: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def kind(path: Path) -> str | None:
    """Return the MIME type of a file that is an image by its first bytes (PNG, JPEG, GIF, WebP), else None."""
    try:
        with textfile.opened(path) as file:
            head = file.read(12)
    except ToolFailure:
        return None
    return of(head)


def of(head: bytes) -> str | None:
    """Return the MIME type of an image that begins with `head`, else None."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for magic, mime in _KINDS.items() if head.startswith(magic)), None)


async def read(path: Path, mime: str, ctx: ToolContext) -> ToolResult:
    """Return an image as an attachment. Raises `ToolFailure` when it is too large."""

    def load() -> bytes:
        with textfile.opened(path) as file:
            return file.read(LARGEST + 1)

    data = await asyncio.to_thread(load)
    if len(data) > LARGEST:
        raise ToolFailure(
            f"{path} is larger than {LARGEST >> 20} MiB; make a smaller copy with a program, through bash"
        )
    name = place.shown(path, ctx)
    return ToolResult(
        f"{name} is an image ({mime}, {len(data)} bytes); it is attached.",
        name,
        {"preview": f"{mime}, {len(data)} bytes", "truncated": False},
        attachments=[attached(data, mime, path.name, ctx)],
        truncate=False,
    )


def attached(data: bytes, mime: str, name: str, ctx: ToolContext) -> FilePart:
    """Return a file as a part of the call's message: its bytes travel with it."""
    return FilePart(
        id=ids.new("prt"),
        session_id=ctx.session_id,
        message_id=ctx.message_id,
        mime=mime,
        filename=name,
        url=f"data:{mime};base64,{base64.b64encode(data).decode()}",
    )
