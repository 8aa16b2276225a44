"""Limits on what a tool may put into the model's context; the rest is kept in a file.

2,000 lines or 50 KiB, whichever comes first, as in opencode.
"""

import os
import re
from pathlib import Path
from typing import Final

from instar.wire import Plain, ids

MAX_LINES: Final = 2000
"""Lines of one output that the model is given."""
MAX_BYTES: Final = 50 * 1024
"""Bytes of UTF-8 of one output that the model is given."""


def truncate(text: str, folder: Path, call_id: str) -> tuple[str, Plain]:
    """Return the part of `text` that the model gets, and metadata: `truncated`, and `outputPath` of the whole.

    A text beyond the limits is saved in `folder` (made if need be, for its owner alone) under a new name that
    ends with the call's id; the model is told where, and how to look into it. When it cannot be saved the
    text is cut all the same, and the model is told why the rest is lost.
    """
    head = cut(text)
    if len(head) == len(text):
        return text, {"truncated": False}
    what = f"The output was cut: {_amount(head)} of {_amount(text)} are shown."
    try:
        path = _save(text, folder, call_id)
    except OSError as error:
        reason = error.strerror or str(error)
        return f"{head}\n\n({what} The rest could not be saved: {reason}.)", {"truncated": True}
    hint = "Search it with grep, or read parts of it with offset and limit."
    return f"{head}\n\n({what} All of it is in {path}. {hint})", {"truncated": True, "outputPath": str(path)}


def cut(text: str) -> str:
    """Return the first whole lines of `text` that fit both limits, or part of a first line that does not."""
    lines = text.split("\n", MAX_LINES)
    head = text if len(lines) <= MAX_LINES else "\n".join(lines[:MAX_LINES])
    if len(head) * 4 <= MAX_BYTES:
        return head
    data = head.encode(errors="surrogatepass")
    if len(data) <= MAX_BYTES:
        return head
    data = data[:MAX_BYTES]
    end = data.rfind(b"\n")
    return (data[:end] if end > 0 else data).decode(errors="ignore")


def _amount(text: str) -> str:
    lines = text.count("\n") + 1
    return f"{lines} line{'' if lines == 1 else 's'} ({len(text.encode(errors='surrogatepass'))} bytes)"


def _save(text: str, folder: Path, call_id: str) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A call's id comes from the provider: only its plain characters may stand in a file's name.
    plain = re.sub(r"[^A-Za-z0-9_-]", "", call_id)[:40]
    path = folder / f"{ids.new('tool')}{'-' if plain else ''}{plain}"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text.encode(errors="surrogatepass"))
    return path
