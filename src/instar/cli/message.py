"""The message of a run: words of the command line, standard input, files."""

import mimetypes
import os
import select
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click

from instar.cli.context import in_utf8
from instar.wire import Plain

STDIN: Final = "-"
_PATIENCE: Final = 2.0
"""Seconds without input after which the person is told what is being waited for."""


def compose(words: Sequence[str], files: Iterable[str], folder: Path, *, needed: bool = True) -> list[Plain]:
    """Return a prompt's parts: the text first, then a part for each of `files`, relative to `folder`.

    Standard input is read when a word is ``-`` or when it is a pipe or a file; it follows the words.
    Raises `click.UsageError` when there is no message though one is `needed`, or a file is missing.
    """
    said = readable(" ".join(word for word in words if word != STDIN))
    piped = read_stdin() if STDIN in words or _is_piped() else ""
    text = "\n".join(piece for piece in (said, piped) if piece.strip())
    parts = [_file(name, folder) for name in files]
    if not text and needed:
        raise click.UsageError('there is no message; say it as instar run "…", or pipe it in')
    return [{"type": "text", "text": text}, *parts]


def readable(text: str) -> str:
    """Return a word of the command line as text: bytes that are no UTF-8 become U+FFFD."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def read_stdin() -> str:
    """Return what comes on standard input up to its end; bytes that are no UTF-8 become U+FFFD."""
    stream = sys.stdin.buffer
    if not sys.stdin.isatty() and not select.select([stream], [], [], _PATIENCE)[0]:
        click.echo("instar: waiting for the end of standard input (close it with </dev/null)", err=True)
    return stream.read().decode(errors="replace").rstrip("\n")


def _is_piped() -> bool:
    """Whether standard input is a pipe, a socket or a file: something that was given on purpose."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _file(name: str, folder: Path) -> Plain:
    path = in_utf8((folder / Path(name).expanduser()).resolve())
    if not path.exists():
        raise click.UsageError(f"there is no file {path}")
    mime = "application/x-directory" if path.is_dir() else mimetypes.guess_type(path.name)[0] or "text/plain"
    return {"type": "file", "mime": mime, "filename": path.name, "url": path.as_uri()}
