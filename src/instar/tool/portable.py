"""The text of PDFs for the `read` tool, by `pypdf` (the extra ``pdf``) in a process of its own.

A PDF is untrusted and may be made to keep a reader busy for ever: the process has a time limit, and an
abort ends it.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Final

from instar.plugin.tool import ToolContext, ToolFailure
from instar.process import ProcessError
from instar.tool import textfile

SECONDS: Final = 30.0
"""How long reading one PDF may take."""
LARGEST: Final = 4 << 20
"""Bytes of text that are kept of one PDF."""

_SCRIPT: Final = """
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
    """Whether a file is a PDF by its first bytes."""
    try:
        with textfile.opened(path) as file:
            return file.read(5) == b"%PDF-"
    except ToolFailure:
        return False


async def text(path: Path, ctx: ToolContext) -> str:
    """Return a PDF's text, page by page. Raises `ToolFailure` when it cannot be had, saying what to do."""
    if importlib.util.find_spec("pypdf") is None:
        raise ToolFailure(
            f"{path} is a PDF, and no library to read it is installed. The person can install it with"
            " pip install 'instar[pdf]'; or use a program that is there, through bash (pdftotext FILE -)."
        )
    argv = [sys.executable, "-I", "-c", _SCRIPT, str(path)]
    try:
        output = await ctx.process.run(argv, cwd=ctx.directory, timeout=SECONDS, limit=LARGEST)
    except ProcessError as error:
        raise ToolFailure(f"The PDF cannot be read: {error}") from None
    if output.timed_out:
        raise ToolFailure(f"{path} could not be read within {SECONDS:g} s; try pdftotext through bash.")
    if output.code != 0:
        lines = output.stderr.decode(errors="replace").strip().splitlines()
        raise ToolFailure(f"{path} cannot be read as a PDF: {lines[-1] if lines else 'the reader ended'}")
    found = output.stdout.decode(errors="replace").rstrip("\n")
    if not any(line.strip() and not line.startswith("--- page ") for line in found.split("\n")):
        raise ToolFailure(f"{path} holds no text (its pages may be pictures of a text).")
    return found
