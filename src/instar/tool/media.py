"""Images and PDFs for the `read` and `webfetch` tools.

An image is attached to the answer for the model to look at. A PDF's text is read by `pypdf` (the extra ``pdf``) in a
process of its own: a PDF is untrusted and may be made to keep a reader busy for ever, so the process has a time limit,
and an abort ends it.
"""

import asyncio
import base64
import importlib.util
import sys
from pathlib import Path
from typing import Final

from instar.message import FilePart
from instar.plugin.tool import ToolContext, ToolFailure, ToolResult
from instar.process import ProcessError
from instar.settings.install import installing
from instar.tool import files
from instar.wire import ids

LARGEST_IMAGE: Final = 5 << 20
"""Bytes of an image that is attached: providers refuse larger ones."""

_IMAGE_TYPES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def image_type(path: Path) -> str | None:
    """Return the MIME type of a file that is an image by its first bytes (PNG, JPEG, GIF, WebP), else None."""
    return image_type_of(_first_bytes(path))


def image_type_of(head: bytes) -> str | None:
    """Return the MIME type of an image that begins with `head`, else None."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for magic, mime in _IMAGE_TYPES.items() if head.startswith(magic)), None)


async def read_image(path: Path, mime: str, ctx: ToolContext) -> ToolResult:
    """Return an image as an attachment. Raises `ToolFailure` when it is too large."""

    def load() -> bytes:
        with files.opened(path) as file:
            return file.read(LARGEST_IMAGE + 1)

    data = await asyncio.to_thread(load)
    if len(data) > LARGEST_IMAGE:
        raise ToolFailure(
            f"{path} is larger than {LARGEST_IMAGE >> 20} MiB; make a smaller copy with a program, through bash"
        )
    name = files.shown(path, ctx)
    return ToolResult(
        f"{name} is an image ({mime}, {len(data)} bytes); it is attached.",
        name,
        {"preview": f"{mime}, {len(data)} bytes", "truncated": False, "loaded": []},
        attachments=[attachment(data, mime, path.name, ctx)],
        truncate=False,
    )


def attachment(data: bytes, mime: str, name: str, ctx: ToolContext) -> FilePart:
    """Return a file as a part of the call's message: its bytes travel with it."""
    return FilePart(
        id=ids.new("prt"),
        session_id=ctx.session_id,
        message_id=ctx.message_id,
        mime=mime,
        filename=name,
        url=f"data:{mime};base64,{base64.b64encode(data).decode()}",
    )


PDF_SECONDS: Final = 30.0
"""How long reading one PDF may take."""
LARGEST_PDF_TEXT: Final = 4 << 20
"""Bytes of text that are kept of one PDF."""

_PDF_READER: Final = """
import logging, sys
logging.disable(logging.CRITICAL)
from pypdf import PdfReader
reader = PdfReader(sys.argv[1])
if reader.is_encrypted and not reader.decrypt(""):
    sys.exit("it is protected by a password")
for number, page in enumerate(reader.pages, 1):
    text = page.extract_text().encode(errors="replace")
    sys.stdout.buffer.write(b"--- page %d ---\\n%s\\n" % (number, text.strip()))
"""


def is_pdf(path: Path) -> bool:
    """True if a file is a PDF by its first bytes."""
    return _first_bytes(path).startswith(b"%PDF-")


def _first_bytes(path: Path) -> bytes:
    """The 12 bytes that tell the formats; nothing of a file that cannot be read."""
    try:
        with files.opened(path) as file:
            return file.read(12)
    except ToolFailure:
        return b""


async def pdf_text(path: Path, ctx: ToolContext) -> str:
    """Return a PDF's text, page by page. Raises `ToolFailure` when it cannot be had, saying what to do."""
    if importlib.util.find_spec("pypdf") is None:
        raise ToolFailure(
            f"{path} is a PDF, and no library to read it is installed. The person can install it with"
            f" {installing('pdf')}; or use a program that is there, through bash (pdftotext FILE -)."
        )
    argv = [sys.executable, "-I", "-c", _PDF_READER, str(path)]
    try:
        output = await ctx.process.run(argv, cwd=ctx.directory, timeout=PDF_SECONDS, limit=LARGEST_PDF_TEXT)
    except ProcessError as error:
        raise ToolFailure(f"The PDF cannot be read: {error}") from None
    if output.timed_out:
        raise ToolFailure(f"{path} could not be read within {PDF_SECONDS:g} s; try pdftotext through bash.")
    if output.code != 0:
        lines = output.stderr.decode(errors="replace").strip().splitlines()
        raise ToolFailure(f"{path} cannot be read as a PDF: {lines[-1] if lines else 'the reader ended'}")
    found = output.stdout.decode(errors="replace").rstrip("\n")
    if not any(line.strip() and not line.startswith("--- page ") for line in found.split("\n")):
        raise ToolFailure(f"{path} holds no text (its pages may be pictures of a text).")
    return found
